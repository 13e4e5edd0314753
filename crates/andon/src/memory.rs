//! A journal in memory: as strict as one on disk, and gone with the process.

use std::future::ready;
use std::sync::Arc;

use andon_core::event::{Addendum, Entry, Epoch, Event, Learnt, Record, Seq};
use andon_core::id::{RunId, SessionKey};
use andon_core::message::Message;
use andon_core::progress::Progress;
use andon_core::time::Stamp;

use crate::journal::{Append, Batch, Journal, JournalError, Stored};
use crate::sync::{HashMap, Mutex};
use crate::tool::BoxFuture;

/// A journal in memory.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    runs: HashMap<RunId, StoredRun>,
    /// The runs of each session that started, in that order.
    sessions: HashMap<SessionKey, Vec<RunId>>,
    /// Runs in the order in which they came, so that recovery does not depend on a hash.
    order: Vec<RunId>,
}

#[derive(Debug, Default)]
struct StoredRun {
    epoch: Epoch,
    stored: Stored,
    /// The seq of the last event.
    seq: Seq,
    settled: bool,
}

impl MemoryJournal {
    /// An empty journal.
    pub fn new() -> Self {
        Self::default()
    }

    /// All runs that it holds, in the order in which they came.
    pub fn runs(&self) -> Vec<RunId> {
        self.state.lock().order.clone()
    }

    /// All that it holds of a run.
    pub fn stored(&self, run: &RunId) -> Option<Stored> {
        self.state.lock().runs.get(run).map(|run| run.stored.clone())
    }

    /// A copy of all that it holds now, which further appends to this one do not reach.
    pub fn snapshot(&self) -> Self {
        let state = self.state.lock();
        let runs = state.runs.iter().map(|(id, run)| (id.clone(), run.copy())).collect();
        let copy = State { runs, sessions: state.sessions.clone(), order: state.order.clone() };
        Self { state: Mutex::new(copy) }
    }
}

impl StoredRun {
    fn copy(&self) -> Self {
        Self { epoch: self.epoch, stored: self.stored.clone(), seq: self.seq, settled: self.settled }
    }
}

impl State {
    fn append(&mut self, batch: Batch) -> Result<(), JournalError> {
        let Batch { run, epoch, entries } = batch;
        let begins = matches!(entries.first(), Some(Entry::Fact(record)) if record.seq == 1);
        match (self.runs.contains_key(&run), begins) {
            (true, true) => return Err(JournalError::RunExists(run)),
            (true, false) => {}
            (false, _) => self.order.push(run.clone()),
        }
        let stored = self.runs.entry(run.clone()).or_default();
        if stored.epoch > epoch || stored.settled {
            return Err(JournalError::Fenced { ours: epoch, owner: stored.epoch });
        }
        let facts = || entries.iter().filter_map(fact);
        if let Some((expected, record)) = (stored.seq + 1..).zip(facts()).find(|(seq, record)| record.seq != *seq) {
            return Err(JournalError::Storage(format!("event {} stands where {expected} belongs", record.seq)));
        }
        stored.epoch = epoch;
        stored.seq = facts().next_back().map_or(stored.seq, |record| record.seq);
        for record in facts() {
            match &record.event {
                Event::RunStarted => {
                    if let Some(session) = session_of(&stored.stored.entries).or(session_of(&entries)) {
                        self.sessions.entry(session.clone()).or_default().push(run.clone());
                    }
                }
                Event::RunSettled { .. } => stored.settled = true,
                _ => {}
            }
        }
        stored.stored.entries.extend(entries);
        Ok(())
    }
}

fn fact(entry: &Entry) -> Option<&Arc<Record>> {
    match entry {
        Entry::Fact(record) => Some(record),
        Entry::Lump(_) => None,
    }
}

/// The session that a run's journal names in its first entry.
fn session_of(entries: &[Entry]) -> Option<&SessionKey> {
    match &fact(entries.first()?)?.event {
        Event::RunAccepted { accepted } => Some(&accepted.session),
        _ => None,
    }
}

impl Journal for MemoryJournal {
    fn append(&self, batch: Batch) -> Append {
        Append::ready(self.state.lock().append(batch))
    }

    fn append_addendum(&self, run: &RunId, at: Stamp, what: Learnt) -> Append {
        let mut state = self.state.lock();
        let Some(run) = state.runs.get_mut(run) else {
            return Append::ready(Err(JournalError::Storage(format!("run {run} is unknown"))));
        };
        let number = u32::try_from(run.stored.addenda.len()).unwrap_or(u32::MAX).saturating_add(1);
        run.stored.addenda.push(Addendum { v: andon_core::FORMAT_VERSION, number, at, what });
        Append::ready(Ok(()))
    }

    fn read(&self, run: &RunId) -> BoxFuture<Result<Option<Stored>, JournalError>> {
        Box::pin(ready(Ok(self.stored(run))))
    }

    fn history(&self, session: &SessionKey) -> BoxFuture<Result<Vec<Arc<Message>>, JournalError>> {
        let state = self.state.lock();
        let runs = state.sessions.get(session).into_iter().flatten();
        let stored = runs.filter_map(|run| state.runs.get(run)).filter(|run| run.settled);
        let messages = stored.map(|run| Progress::fold(&run.stored.entries).map(|run| run.messages().to_vec()));
        let history = messages.collect::<Result<Vec<_>, _>>().map(|runs| runs.concat());
        Box::pin(ready(history.map_err(|error| JournalError::Unreadable(error.to_string()))))
    }

    fn unsettled(&self) -> BoxFuture<Result<Vec<RunId>, JournalError>> {
        let state = self.state.lock();
        let open = |run: &&RunId| state.runs.get(*run).is_some_and(|run| !run.settled);
        let unsettled = state.order.iter().filter(open).cloned().collect();
        Box::pin(ready(Ok(unsettled)))
    }

    fn claim(&self, run: &RunId) -> BoxFuture<Result<Option<Epoch>, JournalError>> {
        let mut state = self.state.lock();
        let claimed = state.runs.get_mut(run).map(|run| {
            run.epoch += 1;
            run.epoch
        });
        Box::pin(ready(Ok(claimed)))
    }
}
