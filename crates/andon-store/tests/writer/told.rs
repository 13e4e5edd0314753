//! Runs whose entries a test makes by hand.

use andon_runtime::core::answer::{Kind, Span};
use andon_runtime::core::cancel::CancelRequest;
use andon_runtime::core::event::{Accepted, Entry, Epoch, Record, Seq};
use andon_runtime::core::time::Stamp;
use andon_runtime::{Append, Ending, Event, Force, Message, ModelStop, Reason, RunId, SessionKey};

use super::*;

pub(crate) fn key(session: &str) -> SessionKey {
    SessionKey::new("app", "ada", session).unwrap()
}

pub(crate) fn stamp() -> Stamp {
    Stamp { wall: Wall(1_000), mono_us: 0 }
}

pub(crate) fn request() -> CancelRequest {
    let (reason, force) = (Reason::Requested, Force::Graceful);
    CancelRequest::new(reason, force, stamp()).note("stop")
}

/// A run whose entries a test makes by hand. Each entry continues from the previous one.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) run: RunId,
    pub(crate) session: SessionKey,
    pub(crate) epoch: Epoch,
    seq: Seq,
    span: Span,
}

impl Told {
    pub(crate) fn new(run: &str, session: &str) -> Self {
        Self { run: RunId::new(run).unwrap(), session: key(session), epoch: 1, seq: 0, span: Span::default() }
    }

    fn fact(&mut self, event: Event) -> Entry {
        self.seq += 1;
        self.span = Span::new(self.seq);
        let (seq, epoch, at) = (self.seq, self.epoch, stamp());
        Entry::Fact(Arc::new(Record::new(seq, epoch, at, event)))
    }

    /// The first two events.
    pub(crate) fn begun(&mut self) -> Vec<Entry> {
        let input = Arc::new(Message::user(format!("What about {}?", self.run)));
        let (run, session) = (self.run.clone(), self.session.clone());
        let accepted = Arc::new(Accepted::new(run, session, input));
        vec![self.fact(Event::RunAccepted { accepted }), self.fact(Event::RunStarted)]
    }

    /// An event that is small and may happen at any time.
    pub(crate) fn quieted(&mut self) -> Entry {
        self.fact(Event::RunQuieted)
    }

    pub(crate) fn settled(&mut self) -> Entry {
        self.fact(Event::RunSettled { outcome: Arc::new(Ending::Completed { stop: ModelStop::EndTurn }) })
    }

    /// Text that streams after the last event.
    pub(crate) fn streamed(&mut self, text: &str) -> Entry {
        let (bytes, marks) = (self.span.text.len(), self.span.marks.len());
        self.span.push(&Kind::Text, text);
        Entry::Lump(Arc::new(self.span.lump_from(bytes, marks).unwrap()))
    }

    /// Appends entries; await the result to know whether they are durable.
    pub(crate) fn give(&self, journal: &dyn Journal, entries: impl Into<Vec<Entry>>) -> Append {
        journal.append(Batch::new(self.run.clone(), self.epoch, entries.into()))
    }

    /// Appends entries, which must succeed.
    pub(crate) async fn write(&self, journal: &dyn Journal, entries: impl Into<Vec<Entry>>) {
        assert_eq!(self.give(journal, entries).await, Ok(()), "run {}, epoch {}", self.run, self.epoch);
    }

    /// Appends entries, which must be refused without changing anything.
    pub(crate) async fn is_refused(&self, journal: &dyn Journal, entries: impl Into<Vec<Entry>>, what: &str) {
        let before = self.stored(journal).await;
        let refused = self.give(journal, entries).await;
        assert!(matches!(refused, Err(JournalError::Storage(_))), "{what}: {refused:?}");
        assert_eq!(self.stored(journal).await, before, "{what} was refused but changed something");
    }

    /// All its entries on record, in order.
    pub(crate) async fn stored(&self, journal: &dyn Journal) -> Vec<Entry> {
        journal.read(&self.run).await.unwrap().map_or_else(Vec::new, |stored| stored.entries)
    }
}
