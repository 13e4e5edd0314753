//! What stands in the writer's queue.

use std::sync::Arc;

use andon_runtime::core::event::{Entry, Epoch};
use andon_runtime::core::id::RunId;
use andon_runtime::{AppendDone, Batch, JournalError};

use super::encode::Encoded;
use super::store::{Store, WriteError};
use crate::queue::Queue;

/// Something to be done in a transaction.
pub(crate) enum Job {
    Append {
        batch: Encoded,
        done: AppendDone,
    },
    /// A batch that makes no sense. It stands in queue all the same: what comes behind it must be refused.
    Broken {
        batch: Batch,
        error: JournalError,
        done: AppendDone,
    },
    Other(Box<dyn Work>),
}

/// Something else to be done in a transaction. It may be done again if the transaction is rolled back.
pub(crate) trait Work: Send {
    fn work(&mut self, store: &mut Store) -> Result<(), WriteError>;

    /// Tells whoever waits, when what was done is durable.
    fn done(self: Box<Self>, result: Result<(), JournalError>);

    /// Whether what it removes must be gone from the disk at once.
    fn erases(&self) -> bool {
        false
    }
}

impl Job {
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Append { batch, .. } => batch.weight(),
            Self::Broken { .. } | Self::Other(_) => 1,
        }
    }

    pub(super) fn work(&mut self, store: &mut Store) -> Result<(), WriteError> {
        match self {
            Self::Append { batch, .. } => store.append(batch),
            Self::Broken { error, .. } => Err(error.clone().into()),
            Self::Other(work) => work.work(store),
        }
    }

    /// The run and epoch that it goes on with. Nothing if it begins a run, which then is not there if it fails, or takes one
    /// over, which then is as it was.
    pub(super) fn goes_on_with(&self) -> Option<(&RunId, Epoch)> {
        let (run, epoch, goes_on) = match self {
            Self::Append { batch, .. } => {
                (&batch.run, batch.epoch, batch.begins.is_none() && batch.takes_over.is_none())
            }
            Self::Broken { batch, .. } => {
                (&batch.run, batch.epoch, !begins(&batch.entries) && batch.takes_over.is_none())
            }
            Self::Other(_) => return None,
        };
        goes_on.then_some((run, epoch))
    }

    pub(super) fn done(self, result: Result<(), JournalError>) {
        match self {
            Self::Append { done, .. } | Self::Broken { done, .. } => done.done(result),
            Self::Other(work) => work.done(result),
        }
    }

    /// Tells whoever waits that it will not be done.
    pub(crate) fn refuse(self, error: JournalError) {
        self.done(Err(error));
    }
}

/// Turns away whoever waits when the writer is gone, also if it panicked.
pub(super) struct RefuseOnExit(pub(super) Arc<Queue<Job>>);

impl Drop for RefuseOnExit {
    fn drop(&mut self) {
        self.0.close();
        while let Some(job) = self.0.next() {
            job.refuse(JournalError::Closed);
        }
    }
}

fn begins(entries: &[Entry]) -> bool {
    entries.first().and_then(Entry::fact).is_some_and(|record| record.seq == 1)
}
