//! A batch as rows. Encoded by the caller's thread, so that the writer only writes.

use andon_runtime::core::event::{Changes, Entry, Epoch, Event, Seq};
use andon_runtime::core::id::{RunId, SessionKey};
use andon_runtime::core::progress::RunProgress;
use andon_runtime::{Batch, BatchStanding, JournalError, SessionCopy, title};

use super::said;
use super::values::{int, json, state_number};

/// A batch as rows.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) run: RunId,
    pub(crate) epoch: Epoch,
    /// The previous owner's epoch, if the run is taken over.
    pub(crate) takes_over: Option<Epoch>,
    /// The seq before the batch.
    pub(crate) after: Seq,
    /// The seq of its last event.
    pub(crate) last: Seq,
    pub(crate) begins: Option<Begins>,
    pub(crate) starts: bool,
    pub(crate) ends: Option<Ends>,
    /// The run's state after it.
    pub(crate) state: NewState,
    pub(crate) rows: Vec<Row>,
}

/// What a batch does to the state in the run's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewState {
    /// It has no facts, so it changes nothing.
    Unchanged,
    /// The state's number in the database; `None` if the writer did not give it.
    Is(Option<i64>),
}

/// What a new run's row is made from.
#[derive(Debug)]
pub(crate) struct Begins {
    pub(crate) session: SessionKey,
    pub(crate) accepted_at: i64,
    pub(crate) title: String,
    /// Changes of the session's state that come with it.
    pub(crate) state: Option<Box<Changes>>,
}

/// What a settled run's row is made from.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) settled_at: i64,
    pub(crate) ending: String,
    /// Its messages, if the writer gave them and they are not too long.
    pub(crate) said: Option<String>,
}

#[derive(Debug)]
pub(crate) enum Row {
    Fact { seq: Seq, kind: &'static str, body: String },
    Lump { after: Seq, body: String },
}

impl Encoded {
    pub(crate) fn new(batch: &Batch) -> Result<Self, JournalError> {
        let Batch { run, epoch, entries, takes_over, standing, .. } = batch;
        let mut encoded = Self {
            run: run.clone(),
            epoch: *epoch,
            takes_over: *takes_over,
            after: first_after(entries),
            last: 0,
            begins: None,
            starts: false,
            ends: None,
            state: NewState::Unchanged,
            rows: Vec::with_capacity(entries.len()),
        };
        encoded.last = encoded.after;
        for entry in entries {
            encoded.add(entry)?;
        }
        if entries.iter().any(|entry| entry.fact().is_some()) {
            encoded.state = NewState::Is(standing.as_ref().and_then(|standing| state_number(standing.state)));
        }
        if let Some(ends) = &mut encoded.ends {
            ends.said = standing.as_ref().and_then(|standing| said::write(standing.said.as_ref()?));
        }
        Ok(encoded)
    }

    /// The epoch that the run must have.
    pub(crate) fn expects(&self) -> Epoch {
        self.takes_over.unwrap_or(self.epoch)
    }

    /// Whether it goes on with a run that its writer owns already.
    pub(crate) fn goes_on(&self) -> bool {
        self.begins.is_none() && self.takes_over.is_none()
    }

    /// The runs of a session that moves in, each as one batch.
    pub(crate) fn all(moved: &SessionCopy) -> Result<Vec<Self>, JournalError> {
        let encoded = moved.runs.iter().map(|(run, stored)| {
            let mut batch = Batch::new(run.clone(), stored.epoch, stored.entries.clone());
            // A run whose record does not fold is stored as it is, with no state.
            batch.standing = RunProgress::fold(&stored.entries).ok().as_ref().map(BatchStanding::of);
            Self::new(&batch)
        });
        encoded.collect()
    }

    fn add(&mut self, entry: &Entry) -> Result<(), JournalError> {
        let is_end = |entry: &Entry| entry.fact().is_some_and(|fact| matches!(fact.event, Event::RunSettled { .. }));
        // A second end is refused by the database instead, which nothing gets past.
        if self.ends.is_some() && !is_end(entry) {
            return Err(JournalError::Storage(format!("run {}: an entry follows its end", self.run)));
        }
        match entry {
            Entry::Lump(lump) => {
                self.check("text after event", lump.span.after, self.last)?;
                self.rows.push(Row::Lump { after: lump.span.after, body: json(lump)? });
            }
            Entry::Fact(record) => {
                self.check("event", record.seq, self.last + 1)?;
                if (record.seq == 1) != matches!(record.event, Event::RunAccepted { .. }) {
                    let why = format!("run {}: run_accepted must be the first event, and only that", self.run);
                    return Err(JournalError::Storage(why));
                }
                self.last = record.seq;
                match &record.event {
                    Event::RunAccepted { accepted } => {
                        self.begins = Some(Begins {
                            session: accepted.session.clone(),
                            accepted_at: int(record.at.wall.0),
                            title: title(&accepted.input),
                            state: accepted.state.clone(),
                        });
                    }
                    Event::RunStarted => self.starts = true,
                    Event::RunSettled { outcome } => {
                        self.ends =
                            Some(Ends { settled_at: int(record.at.wall.0), ending: json(outcome)?, said: None });
                    }
                    _ => {}
                }
                self.rows.push(Row::Fact { seq: record.seq, kind: record.event.kind(), body: json(record)? });
            }
        }
        Ok(())
    }

    fn check(&self, what: &str, is: Seq, belongs: Seq) -> Result<(), JournalError> {
        if is == belongs {
            return Ok(());
        }
        Err(JournalError::Storage(format!("run {}: {what} {is} was given where {belongs} was expected", self.run)))
    }
}

/// The seq before a batch, according to its first entry.
fn first_after(entries: &[Entry]) -> Seq {
    match entries.first() {
        Some(Entry::Fact(record)) => record.seq.saturating_sub(1),
        Some(Entry::Lump(lump)) => lump.span.after,
        None => 0,
    }
}
