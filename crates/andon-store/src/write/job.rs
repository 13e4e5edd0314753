//! The jobs in the writer's queue.

use std::sync::Arc;

use andon_runtime::core::event::{Entry, Epoch};
use andon_runtime::core::id::RunId;
use andon_runtime::{AppendDone, Batch, JournalError};

use super::store::{Store, WriteError};
use crate::queue::Queue;
use crate::record::Encoded;

/// Something to do in a transaction.
pub(crate) enum Job {
    Append {
        batch: Encoded,
        done: AppendDone,
    },
    /// A batch that cannot be encoded. It is queued all the same, because the run's later batches must be refused.
    Broken {
        batch: Batch,
        error: JournalError,
        done: AppendDone,
    },
    Other(Box<dyn Work>),
}

/// Any other work in a transaction. It is done again if the transaction is rolled back and retried.
pub(crate) trait Work: Send {
    fn work(&mut self, store: &mut Store) -> Result<(), WriteError>;

    /// Answers the caller, once the result is durable.
    fn done(self: Box<Self>, result: Result<(), JournalError>);

    /// Whether the data that it removes must be gone from the disk at once.
    fn erases(&self) -> bool;
}

impl Job {
    /// How many facts and lumps it has, if it is an append.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Append { batch, .. } => batch.rows.len(),
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

    /// The run and epoch that it continues. `None` if it begins a run, which does not exist if this fails, or takes one over,
    /// which is unchanged if this fails.
    pub(super) fn continues(&self) -> Option<(&RunId, Epoch)> {
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

    /// Answers the caller.
    pub(crate) fn done(self, result: Result<(), JournalError>) {
        match self {
            Self::Append { done, .. } | Self::Broken { done, .. } => done.done(result),
            Self::Other(work) => work.done(result),
        }
    }
}

/// Refuses all queued jobs when the writer exits, even by a panic.
pub(super) struct RefuseOnExit(pub(super) Arc<Queue<Job>>);

impl Drop for RefuseOnExit {
    fn drop(&mut self) {
        self.0.close();
        while let Some(job) = self.0.next() {
            job.done(Err(JournalError::Closed));
        }
    }
}

fn begins(entries: &[Entry]) -> bool {
    entries.first().and_then(Entry::fact).is_some_and(|record| record.seq == 1)
}
