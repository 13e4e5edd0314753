//! The jobs in a writer's queue.

use std::sync::Arc;

use andon_runtime::core::event::{Entry, Epoch};
use andon_runtime::core::id::RunId;
use andon_runtime::{AppendDone, Batch, JournalError};

use super::encode::Encoded;
use crate::queue::Queue;

/// Something to do in a transaction. `W` is what a store does besides appending.
pub(crate) enum Job<W: ?Sized> {
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
    Other(Box<W>),
}

/// Work whose caller waits for an answer.
pub(crate) trait Answered: Send {
    /// Answers the caller, once the result is durable.
    fn done(self: Box<Self>, result: Result<(), JournalError>);
}

impl<W: ?Sized> Job<W> {
    /// An append of this batch.
    pub(crate) fn append(batch: Batch, done: AppendDone) -> Self {
        match Encoded::new(&batch) {
            Ok(batch) => Self::Append { batch, done },
            Err(error) => Self::Broken { batch, error, done },
        }
    }

    /// How many facts and lumps it has, if it is an append.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Append { batch, .. } => batch.rows.len(),
            Self::Broken { .. } | Self::Other(_) => 1,
        }
    }

    /// The run and epoch that it continues. `None` if it begins a run, which does not exist if this fails, or takes one over,
    /// which is unchanged if this fails.
    pub(crate) fn continues(&self) -> Option<(&RunId, Epoch)> {
        let (run, epoch, goes_on) = match self {
            Self::Append { batch, .. } => (&batch.run, batch.epoch, batch.goes_on()),
            Self::Broken { batch, .. } => {
                (&batch.run, batch.epoch, !begins(&batch.entries) && batch.takes_over.is_none())
            }
            Self::Other(_) => return None,
        };
        goes_on.then_some((run, epoch))
    }
}

impl<W: Answered + ?Sized> Job<W> {
    /// Answers the caller.
    pub(crate) fn done(self, result: Result<(), JournalError>) {
        match self {
            Self::Append { done, .. } | Self::Broken { done, .. } => done.done(result),
            Self::Other(work) => work.done(result),
        }
    }
}

/// Refuses all queued jobs when the writer exits, even by a panic.
pub(crate) struct RefuseOnExit<W: Answered + ?Sized>(pub(crate) Arc<Queue<Job<W>>>);

impl<W: Answered + ?Sized> Drop for RefuseOnExit<W> {
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
