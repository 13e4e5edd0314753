//! What a live run has to show: its facts, and between them streamed text.
//!
//! There is no channel. Readers hold a position and copy what comes after it, so a slow reader gets more at a time, a
//! stopped one costs nothing, and none of them can hold up the run.
//!
//! # Invariants
//!
//! 1. `facts[n]` has seq `n + 1`, and is durable.
//! 2. Spans are ordered by the event that they follow; `open` follows the last fact.
//! 3. The part of `open` that is journaled is a prefix of it.
//! 4. `stood[n]` is where the run stood after `facts[n]`. So a reader that begins in the middle need not fold.

use std::sync::Arc;
use std::task::Waker;

use andon_core::answer::{Kind, Lump, MarkKind, Span};
use andon_core::event::{Entry, Event, Record, Seq};
use andon_core::standing::{RunStanding, StandingFold};
use andon_core::time::Stamp;

use crate::live::feed::{Cursor, Delta, FeedFact, FeedItem};

/// How long streamed text may be shown without being durable, in microseconds.
pub(crate) const UNJOURNALED_US: u64 = 50_000;

/// A reader's key, and how to wake it.
pub(crate) type WaitingReader = (u64, Waker);

#[derive(Default)]
pub(crate) struct Log {
    facts: Vec<Arc<Record>>,
    stood: Vec<RunStanding>,
    standing: StandingFold,
    /// What was streamed between facts; empty spans are left out.
    spans: Vec<Span>,
    open: Span,
    /// How much of `open` was handed to the journal.
    journaled: Position,
    /// The index in `spans` where the current answer began.
    answer: usize,
    /// Since when some of the shown text has not been durable.
    unjournaled_since: Option<Stamp>,
    /// Facts are on their way to the journal: what tools show meanwhile comes after them.
    batch_is_open: bool,
    /// What tools want to show and must wait for those facts or for a slow disk.
    held: Vec<(Kind, String)>,
    /// `open` followed by what was held, on its way to the journal before facts: it is shown with them.
    ahead: Option<Box<Span>>,
    /// The waiting reader: usually there is one.
    reader: Option<WaitingReader>,
    /// The other waiting readers.
    readers: Vec<WaitingReader>,
    closed: bool,
}

#[derive(Clone, Copy, Default)]
struct Position {
    bytes: usize,
    marks: usize,
}

/// A lump on its way to the journal, and how far it reaches.
pub(crate) struct Flush {
    pub(crate) lump: Lump,
    to: Position,
    after: Seq,
    at: Stamp,
}

impl Log {
    pub(crate) fn seq(&self) -> Seq {
        // A `usize` fits into a `u64`.
        self.facts.len() as Seq
    }

    pub(crate) fn facts(&self) -> &[Arc<Record>] {
        &self.facts
    }

    /// Where the run stands, according to its facts; `None` before there is one.
    pub(crate) fn standing(&self) -> Option<RunStanding> {
        self.stood.last().copied()
    }

    pub(crate) fn close(&mut self) {
        self.drop_held();
        self.closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Adds streamed bytes; returns whether they are the first that wait for the journal.
    pub(crate) fn push(&mut self, kind: &Kind, text: &str, now: Stamp) -> bool {
        self.open.push(kind, text);
        self.has_unjournaled(now)
    }

    /// Adds what a tool shows of its work, or holds it back; returns whether it is the first that waits for the
    /// journal.
    pub(crate) fn push_output(&mut self, kind: &Kind, text: &str, now: Stamp) -> bool {
        if self.batch_is_open || !self.held.is_empty() || self.must_wait(now) {
            self.held.push((kind.clone(), text.to_owned()));
            return self.held.len() == 1;
        }
        self.push(kind, text, now)
    }

    /// Shows what was held back, unless facts are on their way.
    pub(crate) fn release_held(&mut self, now: Stamp) {
        if self.batch_is_open {
            return;
        }
        for (kind, text) in std::mem::take(&mut self.held) {
            self.push(&kind, &text, now);
        }
    }

    /// Forgets what was held back, because nobody is left to journal it.
    pub(crate) fn drop_held(&mut self) {
        self.held.clear();
        self.ahead = None;
    }

    /// Whether something is held back.
    pub(crate) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// The streamed text that was not handed to the journal yet, to be written before facts. What was held back is part
    /// of it: it may be the last output of a call that these facts end.
    pub(crate) fn begin_batch(&mut self, now: Stamp) -> Option<Flush> {
        self.batch_is_open = true;
        if self.held.is_empty() {
            return self.take_flush(now);
        }
        let mut ahead = self.open.clone();
        for (kind, text) in std::mem::take(&mut self.held) {
            ahead.push(&kind, &text);
        }
        let flush = take_flush(&ahead, &mut self.journaled, now);
        self.ahead = Some(Box::new(ahead));
        flush
    }

    /// Adds a mark to the streamed text; returns whether it is the first thing that waits for the journal.
    pub(crate) fn mark(&mut self, what: MarkKind, now: Stamp) -> bool {
        self.open.mark(what);
        self.has_unjournaled(now)
    }

    fn has_unjournaled(&mut self, now: Stamp) -> bool {
        if !self.has_text_to_flush() {
            return false;
        }
        let first = self.unjournaled_since.is_none();
        self.unjournaled_since.get_or_insert(now);
        first
    }

    /// Whether showing must wait, because text that was shown has not been durable for too long.
    pub(crate) fn must_wait(&self, now: Stamp) -> bool {
        let is_old = |since: Stamp| now.mono_us.saturating_sub(since.mono_us) >= UNJOURNALED_US;
        self.unjournaled_since.is_some_and(is_old)
    }

    /// The streamed text that was not handed to the journal yet.
    pub(crate) fn take_flush(&mut self, now: Stamp) -> Option<Flush> {
        take_flush(&self.open, &mut self.journaled, now)
    }

    /// Whether there is streamed text that was not handed to the journal.
    pub(crate) fn has_text_to_flush(&self) -> bool {
        self.open.text.len() > self.journaled.bytes || self.open.marks.len() > self.journaled.marks
    }

    /// A flush is durable. What came after it has waited at most since the flush was taken.
    pub(crate) fn flushed(&mut self, flush: &Flush) {
        if self.open.after != flush.after {
            // A fact was shown since, and everything before a fact is durable.
            return;
        }
        let is_all = self.open.text.len() == flush.to.bytes && self.open.marks.len() == flush.to.marks;
        self.unjournaled_since = if is_all { None } else { Some(flush.at) };
    }

    /// The part of `open` that is not among these entries of the journal.
    pub(crate) fn missing_text(&self, entries: &[Entry]) -> Option<Lump> {
        let lumps = entries.iter().filter_map(|entry| match entry {
            Entry::Lump(lump) if lump.span.after == self.open.after => Some(&lump.span),
            Entry::Lump(_) | Entry::Fact(_) => None,
        });
        let have = lumps.fold(Position::default(), |have, span| Position {
            bytes: have.bytes + span.text.len(),
            marks: have.marks + span.marks.len(),
        });
        self.open.lump_from(have.bytes, have.marks)
    }

    /// Shows facts that are durable.
    pub(crate) fn publish(&mut self, records: Vec<Arc<Record>>) {
        if let Some(ahead) = self.ahead.take() {
            self.open = *ahead;
        }
        for record in records {
            if !self.open.is_empty() {
                self.spans.push(std::mem::take(&mut self.open));
            }
            if matches!(record.event, Event::ModelStarted { .. }) {
                self.answer = self.spans.len();
            }
            self.open = Span::new(record.seq);
            self.journaled = Position::default();
            self.unjournaled_since = None;
            self.standing.take(&record.event);
            self.stood.push(self.standing.told());
            self.facts.push(record);
        }
        self.batch_is_open = false;
        if let Some(last) = self.facts.last() {
            let (at, is_end) = (last.at, matches!(last.event, Event::RunSettled { .. }));
            // Nothing comes after the end.
            if is_end { self.held.clear() } else { self.release_held(at) }
        }
    }

    /// Everything that was accepted of the current answer.
    pub(crate) fn answer(&self) -> impl Iterator<Item = &Span> {
        self.spans.iter().skip(self.answer).chain(std::iter::once(&self.open))
    }

    /// The next item after the cursor, which moves on.
    pub(crate) fn next(&self, cursor: &mut Cursor) -> Option<FeedItem> {
        if let Some(delta) = self.span_after(cursor.seq).and_then(|span| delta(span, cursor)) {
            return Some(FeedItem::Delta(delta));
        }
        let place = usize::try_from(cursor.seq).unwrap_or(usize::MAX);
        let record = Arc::clone(self.facts.get(place)?);
        *cursor = Cursor { seq: record.seq, byte: 0 };
        Some(FeedItem::Fact(FeedFact { record, standing: self.stood.get(place).copied() }))
    }

    fn span_after(&self, seq: Seq) -> Option<&Span> {
        if self.open.after == seq {
            return Some(&self.open);
        }
        let place = self.spans.binary_search_by_key(&seq, |span| span.after).ok()?;
        self.spans.get(place)
    }

    /// How many bytes were streamed since an event.
    pub(crate) fn bytes_after(&self, seq: Seq) -> usize {
        self.span_after(seq).map_or(0, |span| span.text.len())
    }

    /// Registers a reader, to be woken when there is something new.
    pub(crate) fn register(&mut self, reader: u64, waker: &Waker) {
        let mut waiting = self.reader.iter_mut().chain(&mut self.readers);
        if let Some((_, old)) = waiting.find(|(key, _)| *key == reader) {
            old.clone_from(waker);
            return;
        }
        let waits = (reader, waker.clone());
        match &mut self.reader {
            none @ None => *none = Some(waits),
            Some(_) => self.readers.push(waits),
        }
    }

    pub(crate) fn unregister(&mut self, reader: u64) {
        self.reader.take_if(|(key, _)| *key == reader);
        self.readers.retain(|(key, _)| *key != reader);
    }

    /// The waiting readers, to be woken once the lock is released.
    pub(crate) fn wake_list(&mut self) -> (Option<WaitingReader>, Vec<WaitingReader>) {
        (self.reader.take(), std::mem::take(&mut self.readers))
    }

    /// The log of a run, made from its journal.
    pub(crate) fn from_entries(entries: &[Entry]) -> Self {
        let mut log = Self::default();
        for entry in entries {
            match entry {
                Entry::Fact(record) => log.publish(vec![Arc::clone(record)]),
                // A gap means that a lump was lost; the rest is shown.
                Entry::Lump(lump) => drop(log.open.join(lump)),
            }
        }
        log
    }
}

/// The part of a span that was not handed to the journal yet.
fn take_flush(span: &Span, journaled: &mut Position, now: Stamp) -> Option<Flush> {
    let lump = span.lump_from(journaled.bytes, journaled.marks)?;
    *journaled = Position { bytes: span.text.len(), marks: span.marks.len() };
    Some(Flush { lump, to: *journaled, after: span.after, at: now })
}

/// The bytes of one kind after the cursor.
fn delta(span: &Span, cursor: &mut Cursor) -> Option<Delta> {
    let stretch = span.stretch(cursor.byte)?;
    let from = span.text.floor_char_boundary(cursor.byte);
    cursor.byte = from + stretch.text.len();
    Some(Delta { at: *cursor, kind: stretch.kind.clone(), text: stretch.text.to_owned() })
}
