//! A journal in memory: as strict as one on disk, and lost when the process ends.

mod room;
mod sessions;

use std::collections::hash_map::Entry as MapEntry;
use std::collections::{BTreeMap, HashSet};
use std::future::ready;
use std::sync::Arc;

use andon_core::cancel::CancelRequest;
use andon_core::event::{Accepted, Addendum, AddendumKind, Entry, Epoch, Event, Seq};
use andon_core::id::{RunId, SessionKey};
use andon_core::message::Message;
use andon_core::progress::RunProgress;
use andon_core::time::{Stamp, Wall};
use serde_json::Value;

use crate::journal::reported::{LastReported, LookingBack};
use crate::journal::sessions::{Attachment, Sessions, StateMap};
use crate::journal::shelf::Shelf;
use crate::journal::{Append, Batch, HistoryBefore, HistoryGatherer, Journal, JournalError, JournaledRun, RequestFate};
use crate::lanes::BoxFuture;
use crate::lanes::sync::{HashMap, Mutex};
pub use room::MemoryJournalBuilder;
use room::{Occupancy, Resized, Room};

/// A journal in memory.
///
/// It is bounded: when it holds too many sessions, or too much, it forgets whole sessions, those first whose last run
/// settled longest ago. A session with a run in progress is never forgotten, nor is the one that settled last. By default
/// it holds 100,000 sessions and about 1 GiB; [`builder`](Self::builder) sets other bounds. A session that was forgotten is
/// like one that never was: its runs are unknown, and its next run begins a new history, unless the runtime still has the
/// old one [in memory](crate::RuntimeBuilder::warm_sessions).
#[derive(Debug, Default)]
pub struct MemoryJournal {
    state: Mutex<MemoryState>,
}

/// A tenant, an app and, for what a user's sessions share, the user.
type SharedKey = (Arc<str>, Arc<str>, Option<Arc<str>>);

#[derive(Debug, Default, Clone)]
struct MemoryState {
    /// Boxed, because a growing table moves its values.
    runs: HashMap<RunId, Box<StoredRun>>,
    /// Boxed for the same reason.
    sessions: HashMap<SessionKey, Box<StoredSession>>,
    /// State that sessions share.
    shared: BTreeMap<SharedKey, StateMap>,
    /// Values that belong to no session, by kind and name.
    shelf: BTreeMap<(String, String), Value>,
    /// Runs in the order in which they came, so that recovery does not depend on a hash.
    order: Vec<RunId>,
    room: Room,
}

#[derive(Debug, Default, Clone)]
struct StoredRun {
    stored: JournaledRun,
    /// The seq of the last event.
    seq: Seq,
    settled: bool,
    /// A batch of this epoch failed: later ones would leave a gap.
    failed: Option<Epoch>,
}

#[derive(Debug, Default, Clone)]
struct StoredSession {
    created_at: Wall,
    updated_at: Wall,
    state: StateMap,
    /// What is kept with it, by kind and name.
    kept: BTreeMap<(String, String), Attachment>,
    /// Its runs: those that started, in the order in which they started, then the others, in the order in which they came.
    runs: Vec<RunId>,
    /// How many of them started.
    started: usize,
    occupancy: Occupancy,
}

impl StoredRun {
    /// The messages of this run, and about how many bytes they take.
    fn messages(&self) -> Result<(usize, Vec<Arc<Message>>), JournalError> {
        let progress = RunProgress::fold(&self.stored.entries);
        let progress = progress.map_err(|error| JournalError::Unreadable(error.to_string()))?;
        // A message that cannot be serialized counts as 0 bytes.
        let size = |message: &Arc<Message>| serde_json::to_string(message).map_or(0, |text| text.len());
        let messages = match progress.messages() {
            // It has not started, so its prompt is not part of the history yet.
            [] => {
                let Accepted { history, input, .. } = &**progress.accepted();
                return Ok((history.iter().chain([input]).map(size).sum(), Vec::new()));
            }
            messages => messages.to_vec(),
        };
        Ok((messages.iter().map(size).sum(), messages))
    }
}

impl MemoryJournal {
    /// An empty journal.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty journal with other bounds on what it holds.
    pub fn builder() -> MemoryJournalBuilder {
        MemoryJournalBuilder::default()
    }

    /// All runs that it holds, in the order in which they came.
    pub fn run_ids(&self) -> Vec<RunId> {
        self.state.lock().order.clone()
    }

    /// Everything that it holds of a run.
    pub fn stored(&self, run: &RunId) -> Option<JournaledRun> {
        self.state.lock().runs.get(run).map(|run| run.stored.clone())
    }

    /// A copy of everything that it holds now. Later appends to this journal do not change the copy.
    pub fn snapshot(&self) -> Self {
        Self { state: Mutex::new(self.state.lock().clone()) }
    }
}

impl MemoryState {
    fn append(&mut self, batch: Batch) -> Result<(), JournalError> {
        let (run, epoch, takes_over) = (batch.run.clone(), batch.epoch, batch.takes_over.is_some());
        let result = self.try_append(batch);
        let refused_for_good = matches!(result, Err(JournalError::RunExists(_) | JournalError::Fenced { .. }));
        if let (Err(_), false, Some(stored)) = (&result, refused_for_good || takes_over, self.runs.get_mut(&run)) {
            stored.failed = stored.failed.max(Some(epoch));
        }
        result
    }

    fn history_before(&self, run: &RunId, most: usize) -> Result<Option<HistoryBefore>, JournalError> {
        let Some(own) = self.runs.get(run) else { return Ok(None) };
        let Some(session) = session_of(&own.stored) else { return Ok(None) };
        let earlier = self.runs_before(run, session);
        let mut gathering = HistoryGatherer::new(most, own.messages()?.0);
        for (id, stored) in earlier.iter().rev().filter(|(_, stored)| !stored.settled) {
            gathering.unsettled((*id).clone(), stored.messages()?.0);
        }
        // Those that settled without starting said nothing, and are not among `earlier`.
        for (_, stored) in earlier.iter().rev().filter(|(_, stored)| stored.settled) {
            let (size, messages) = stored.messages()?;
            if !gathering.settled(size, || Ok::<_, JournalError>(messages))? {
                break;
            }
        }
        Ok(Some(gathering.done()))
    }

    /// The runs of a session that started before this run, or were accepted before it if it never started: those that
    /// started, then those that wait.
    fn runs_before(&self, run: &RunId, session: &SessionKey) -> Vec<(&RunId, &StoredRun)> {
        let started = self.sessions.get(session).map_or(&[][..], |session| session.started());
        let earlier: Vec<&RunId> = match started.iter().position(|other| other == run) {
            Some(place) => started.iter().take(place).collect(),
            None => {
                let came: Vec<&RunId> = self.order.iter().take_while(|other| *other != run).collect();
                let (came_set, began): (HashSet<&RunId>, HashSet<&RunId>) =
                    (came.iter().copied().collect(), started.iter().collect());
                let waits = came.into_iter().filter(|other| {
                    let stored = self.runs.get(*other).filter(|stored| !stored.settled);
                    !began.contains(other) && stored.is_some_and(|stored| session_of(&stored.stored) == Some(session))
                });
                started.iter().filter(|other| came_set.contains(other)).chain(waits).collect()
            }
        };
        earlier.into_iter().filter_map(|run| Some((run, &**self.runs.get(run)?))).collect()
    }

    fn try_append(&mut self, batch: Batch) -> Result<(), JournalError> {
        let expected = batch.expects();
        let Batch { run, epoch, entries, takes_over, .. } = batch;
        if entries.is_empty() {
            return Ok(());
        }
        let begins = entries.first().and_then(Entry::fact).is_some_and(|record| record.seq == 1);
        let stored = match (self.runs.entry(run), begins) {
            (MapEntry::Occupied(known), true) => return Err(JournalError::RunExists(known.key().clone())),
            (MapEntry::Vacant(unknown), false) => {
                return Err(JournalError::Storage(format!("run {} is unknown", unknown.key())));
            }
            (MapEntry::Occupied(known), false) => {
                let stored = known.into_mut();
                if stored.settled || stored.stored.epoch != expected {
                    return Err(JournalError::Fenced { ours: epoch, owner: stored.stored.epoch });
                }
                if takes_over.is_none() && stored.failed.is_some_and(|failed| failed >= epoch) {
                    return Err(JournalError::Storage("an earlier batch of this run failed".to_owned()));
                }
                check_order(stored.seq, &entries)?;
                stored
            }
            (MapEntry::Vacant(place), true) => {
                check_order(0, &entries)?;
                self.order.push(place.key().clone());
                place.insert(Box::default())
            }
        };
        let touch = stored.put(epoch, entries);
        let Some(accepted) = stored.stored.accepted().cloned() else { return Ok(()) };
        self.touch(&accepted, &touch);
        if touch.accepts || touch.settles.is_some() {
            self.make_room();
        }
        if let Some((started, state)) = touch.started.zip(accepted.state.as_deref()) {
            let change = state.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
            self.change(&accepted.session, started, change);
        }
        Ok(())
    }

    /// Updates the run's session after an append.
    fn touch(&mut self, accepted: &Accepted, Touch { at, started, accepts, settles }: &Touch) {
        if at.is_none() && started.is_none() {
            return;
        }
        let at = at.unwrap_or_default();
        let session = match self.sessions.get_mut(&accepted.session) {
            Some(session) => session,
            None => self.sessions.entry(accepted.session.clone()).or_insert_with(|| Box::new(StoredSession::new(at))),
        };
        session.updated_at = session.updated_at.max(at);
        if *accepts {
            session.runs.push(accepted.run.clone());
            self.room.enter(&mut session.occupancy);
        }
        if started.is_some() {
            session.start(&accepted.run);
        }
        if let Some(bytes) = settles {
            self.room.leave(&accepted.session, &mut session.occupancy, *bytes);
        }
    }
}

/// When a run was accepted or settled, and when it started.
#[derive(Default)]
struct Touch {
    at: Option<Wall>,
    started: Option<Wall>,
    accepts: bool,
    /// The size of a run that settled.
    settles: Option<usize>,
}

impl StoredRun {
    /// Appends entries that were checked.
    fn put(&mut self, epoch: Epoch, entries: Vec<Entry>) -> Touch {
        let mut touch = Touch::default();
        for record in entries.iter().filter_map(Entry::fact) {
            self.seq = record.seq;
            let at = Some(record.at.wall);
            match record.event {
                Event::RunSettled { .. } => (self.settled, touch.at) = (true, at),
                Event::RunAccepted { .. } => (touch.accepts, touch.at) = (true, at),
                Event::RunStarted => touch.started = at,
                _ => {}
            }
        }
        self.stored.epoch = epoch;
        self.stored.entries.extend(entries);
        touch.settles = self.settled.then(|| self.weight());
        touch
    }

    /// About how many bytes it takes.
    fn weight(&self) -> usize {
        let entries = self.stored.entries.iter().map(room::weight);
        let addenda = self.stored.addenda.iter().map(|addendum| room::weight_of_addendum(&addendum.what));
        entries.chain(addenda).sum()
    }
}

impl StoredSession {
    fn new(at: Wall) -> Self {
        Self { created_at: at, updated_at: at, ..Self::default() }
    }

    /// Its runs that started, in the order in which they started.
    fn started(&self) -> &[RunId] {
        self.runs.get(..self.started).unwrap_or_default()
    }

    /// A run of it has started.
    fn start(&mut self, run: &RunId) {
        let waiting = self.runs.get_mut(self.started..).unwrap_or_default();
        let place = waiting.iter().position(|other| other == run);
        if let Some(others) = place.and_then(|place| waiting.get_mut(..=place)) {
            others.rotate_right(1);
            self.started += 1;
        }
    }
}

/// Checks that events are numbered without a gap, that nothing comes after the end, and that each lump follows the
/// event that it names.
fn check_order(mut seq: Seq, entries: &[Entry]) -> Result<(), JournalError> {
    let mut settled = false;
    for entry in entries {
        if settled {
            return Err(JournalError::Storage("an entry comes after the end of the run".to_owned()));
        }
        match entry {
            Entry::Fact(record) if (record.seq == 1) != matches!(record.event, Event::RunAccepted { .. }) => {
                return Err(JournalError::Storage("a run begins with run_accepted, and only there".to_owned()));
            }
            Entry::Fact(record) if record.seq != seq + 1 => {
                return Err(JournalError::Storage(format!(
                    "found event {} where {} was expected",
                    record.seq,
                    seq + 1
                )));
            }
            Entry::Lump(lump) if lump.span.after != seq => {
                return Err(JournalError::Storage(format!(
                    "text after event {} comes after event {seq}",
                    lump.span.after
                )));
            }
            Entry::Fact(record) => {
                seq = record.seq;
                settled = matches!(record.event, Event::RunSettled { .. });
            }
            Entry::Lump(_) => {}
        }
    }
    Ok(())
}

fn session_of(stored: &JournaledRun) -> Option<&SessionKey> {
    stored.accepted().map(|accepted| &accepted.session)
}

impl Journal for MemoryJournal {
    fn append(&self, batch: Batch) -> Append {
        Append::ready(self.state.lock().append(batch))
    }

    fn append_addendum(&self, run: &RunId, at: Stamp, what: AddendumKind) -> Append {
        let mut state = self.state.lock();
        let MemoryState { runs, sessions, room, .. } = &mut *state;
        let Some(run) = runs.get_mut(run) else {
            // No later try can succeed.
            let why = format!("it has no run {run}, whose session was deleted or forgotten");
            return Append::ready(Err(JournalError::Unreadable(why)));
        };
        let number = u32::try_from(run.stored.addenda.len()).unwrap_or(u32::MAX).saturating_add(1);
        let bytes = room::weight_of_addendum(&what);
        run.stored.addenda.push(Addendum::new(number, at, what));
        let session = session_of(&run.stored).filter(|_| run.settled).and_then(|key| sessions.get_mut(key));
        // A run in progress is counted when it settles.
        if let Some(session) = session {
            room.resize(&mut session.occupancy, Resized { more: bytes, less: 0 });
            state.make_room();
        }
        Append::ready(Ok(()))
    }

    fn keep_settled(&self, run: &RunId, at: Stamp) {
        if let Some(run) = self.state.lock().runs.get_mut(run).filter(|run| run.settled) {
            run.stored.settled_at.get_or_insert(at);
        }
    }

    fn read(&self, run: &RunId) -> BoxFuture<Result<Option<JournaledRun>, JournalError>> {
        Box::pin(ready(Ok(self.stored(run))))
    }

    fn history(&self, session: &SessionKey) -> BoxFuture<Result<Vec<Arc<Message>>, JournalError>> {
        let state = self.state.lock();
        let runs = state.sessions.get(session).into_iter().flat_map(|session| session.started());
        let stored = runs.filter_map(|run| state.runs.get(run)).filter(|run| run.settled);
        let messages = stored.map(|run| RunProgress::fold(&run.stored.entries).map(|run| run.messages().to_vec()));
        let history = messages.collect::<Result<Vec<_>, _>>().map(|runs| runs.concat());
        Box::pin(ready(history.map_err(|error| JournalError::Unreadable(error.to_string()))))
    }

    fn last_reported(&self, session: &SessionKey) -> BoxFuture<Result<Option<LastReported>, JournalError>> {
        let state = self.state.lock();
        let runs = state.sessions.get(session).into_iter().flat_map(|session| session.started().iter().rev());
        let settled = runs.filter_map(|run| state.runs.get(run)).filter(|run| run.settled).take(LookingBack::RUNS);
        let mut looking = LookingBack::default();
        let mut last = None;
        for run in settled {
            let mut events =
                run.stored.facts().rev().filter(|fact| LookingBack::looks_at(&fact.event)).take(LookingBack::EVENTS);
            last = events.find_map(|fact| looking.event(&fact.event));
            if last.is_some() || !looking.next_run() {
                break;
            }
        }
        Box::pin(ready(Ok(last)))
    }

    fn history_before(&self, run: &RunId, most: usize) -> BoxFuture<Result<Option<HistoryBefore>, JournalError>> {
        Box::pin(ready(self.state.lock().history_before(run, most)))
    }

    fn unsettled(&self) -> BoxFuture<Result<Vec<RunId>, JournalError>> {
        let state = self.state.lock();
        let open = |run: &&RunId| state.runs.get(*run).is_some_and(|run| !run.settled);
        let unsettled = state.order.iter().filter(open).cloned().collect();
        Box::pin(ready(Ok(unsettled)))
    }

    fn claim(&self, run: &RunId, from: Epoch) -> BoxFuture<Result<Option<Epoch>, JournalError>> {
        let mut state = self.state.lock();
        let claimed = match state.runs.get_mut(run).map(|run| &mut run.stored.epoch) {
            None => Ok(None),
            Some(epoch) if *epoch == from => {
                *epoch = epoch.saturating_add(1);
                Ok(Some(*epoch))
            }
            Some(owner) => Err(JournalError::Fenced { ours: from, owner: *owner }),
        };
        Box::pin(ready(claimed))
    }

    fn request_cancel(&self, run: &RunId, request: CancelRequest) -> BoxFuture<Result<RequestFate, JournalError>> {
        let mut state = self.state.lock();
        let requested = match state.runs.get_mut(run) {
            None => RequestFate::Unknown,
            Some(run) if run.settled => RequestFate::TooLate,
            Some(run) => {
                run.stored.requests.push(Arc::new(request));
                RequestFate::Recorded
            }
        };
        Box::pin(ready(Ok(requested)))
    }

    fn sessions(&self) -> &dyn Sessions {
        self
    }

    fn shelf(&self) -> &dyn Shelf {
        self
    }
}

impl Shelf for MemoryJournal {
    fn keep(&self, kind: &str, name: &str, value: Value) -> Append {
        self.state.lock().shelf.insert((kind.to_owned(), name.to_owned()), value);
        Append::ready(Ok(()))
    }

    fn discard(&self, kind: &str, name: &str) -> Append {
        self.state.lock().shelf.remove(&(kind.to_owned(), name.to_owned()));
        Append::ready(Ok(()))
    }

    fn kept(&self, kind: &str) -> BoxFuture<Result<Vec<(String, Value)>, JournalError>> {
        let state = self.state.lock();
        let of_kind = state.shelf.iter().filter(|((of, _), _)| of == kind);
        let kept = of_kind.map(|((_, name), value)| (name.clone(), value.clone())).collect();
        Box::pin(ready(Ok(kept)))
    }
}
