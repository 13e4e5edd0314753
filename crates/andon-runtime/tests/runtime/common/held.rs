//! A disk that holds writes until the test decides about them.

use std::sync::{Arc, Mutex, PoisonError};

use andon_runtime::core::event::{Entry, Epoch, Event};
use andon_runtime::{Append, AppendDone, Batch, BoxFuture, Journal, JournalError, JournalLayer, RunId};
use andon_testkit::TestJournal;
use tokio::sync::oneshot;

use super::{memory, millis};

type Claimed = Result<Option<Epoch>, JournalError>;

/// A journal that holds the first batch with such an entry and everything after it, appends and claims in one queue.
pub(crate) struct HeldJournal {
    pub(crate) durable: TestJournal,
    holds_from: fn(&Entry) -> bool,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    waiting: Vec<Waiting>,
    /// What was held was released, and nothing is held any more.
    is_open: bool,
    /// A batch was refused: later ones would leave a gap, until the run is claimed again.
    refused: Option<JournalError>,
}

enum Waiting {
    Append(Batch, AppendDone),
    Claim(RunId, Epoch, oneshot::Sender<Claimed>),
}

impl HeldJournal {
    pub(crate) fn new(holds_from: fn(&Entry) -> bool) -> Arc<Self> {
        Arc::new(Self { durable: memory(), holds_from, line: Mutex::default() })
    }

    fn with_line<R>(&self, act: impl FnOnce(&mut Line) -> R) -> R {
        act(&mut self.line.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) async fn until_a_batch_is_held(&self) {
        self.until(|waiting| matches!(waiting, Waiting::Append(..))).await;
    }

    pub(crate) async fn until_a_claim_is_held(&self) {
        self.until(|waiting| matches!(waiting, Waiting::Claim(..))).await;
    }

    async fn until(&self, is_it: fn(&Waiting) -> bool) {
        while !self.with_line(|line| line.waiting.iter().any(is_it)) {
            tokio::time::sleep(millis(1)).await;
        }
    }

    /// Releases everything that was held, in order, and holds nothing from now on.
    pub(crate) async fn release(&self) {
        let waiting = self.with_line(|line| {
            line.is_open = true;
            std::mem::take(&mut line.waiting)
        });
        for waiting in waiting {
            match waiting {
                Waiting::Append(batch, done) => done.done(self.durable.append(batch).await),
                // The caller may be gone.
                Waiting::Claim(run, from, sender) => drop(sender.send(self.durable.claim(&run, from).await)),
            }
        }
    }

    /// Refuses everything that was held.
    pub(crate) fn refuse(&self, error: &JournalError) {
        let waiting = self.with_line(|line| {
            line.is_open = true;
            line.refused = Some(error.clone());
            std::mem::take(&mut line.waiting)
        });
        for waiting in waiting {
            match waiting {
                Waiting::Append(_, done) => done.done(Err(error.clone())),
                // The caller may be gone.
                Waiting::Claim(.., sender) => drop(sender.send(Err(error.clone()))),
            }
        }
    }
}

impl JournalLayer for HeldJournal {
    fn inner(&self) -> &dyn Journal {
        &self.durable
    }

    fn append(&self, batch: Batch) -> Append {
        self.with_line(|line| {
            if let Some(error) = &line.refused {
                return Append::ready(Err(error.clone()));
            }
            let is_held = !line.waiting.is_empty() || batch.entries.iter().any(self.holds_from);
            if line.is_open || !is_held {
                return self.durable.append(batch);
            }
            let (append, done) = Append::pending();
            line.waiting.push(Waiting::Append(batch, done));
            append
        })
    }

    fn claim(&self, run: &RunId, from: Epoch) -> BoxFuture<Claimed> {
        self.with_line(|line| {
            if line.waiting.is_empty() {
                line.refused = None;
                return self.durable.claim(run, from);
            }
            let (sender, receiver) = oneshot::channel();
            line.waiting.push(Waiting::Claim(run.clone(), from, sender));
            Box::pin(async move { receiver.await.unwrap_or(Err(JournalError::Closed)) })
        })
    }
}

// ---- what to hold ----

pub(crate) fn is_lump(entry: &Entry) -> bool {
    matches!(entry, Entry::Lump(_))
}

pub(crate) fn is_first(entry: &Entry) -> bool {
    matches!(entry, Entry::Fact(record) if record.seq == 1)
}

pub(crate) fn is_answer(entry: &Entry) -> bool {
    matches!(entry, Entry::Fact(record) if matches!(record.event, Event::Message { .. }))
}

pub(crate) fn is_end(entry: &Entry) -> bool {
    matches!(entry, Entry::Fact(record) if matches!(record.event, Event::RunSettled { .. }))
}
