//! What is done in a transaction.

use super::store::{Store, WriteError};
use crate::record::{self, Answered};

/// Something to do in a transaction.
pub(crate) type Job = record::Job<dyn Work>;

/// Any work besides appending. It is done again if the transaction is rolled back and retried.
pub(crate) trait Work: Answered {
    fn work(&mut self, store: &mut Store) -> Result<(), WriteError>;

    /// Whether the data that it removes must be gone from the disk at once.
    fn erases(&self) -> bool;
}

pub(super) fn work(job: &mut Job, store: &mut Store) -> Result<(), WriteError> {
    match job {
        Job::Append { batch, .. } => store.append(batch),
        Job::Broken { error, .. } => Err(error.clone().into()),
        Job::Other(work) => work.work(store),
    }
}
