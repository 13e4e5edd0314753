//! What runs have in common: the journal, the clock, the registry, the threads.

pub(crate) mod agent;
pub(crate) mod compensate;
pub(crate) mod prompt;

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use andon_core::cancel::{Reason, ReplyKind};
use andon_core::id::{CallId, IdError, RunId, SessionId, SessionKey};
use andon_core::message::Message;
use andon_core::time::Stamp;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::driver::learner::Learner;
use crate::driver::mender::Mender;
use crate::driver::metering::patience_at_shutdown;
use crate::journal::export::{self, ImportError, Imported};
use crate::journal::memory::MemoryJournal;
use crate::journal::sessions::{Kept, Moved, RunFilter, RunInfo, SessionFilter, SessionInfo, StateChange, StateMap};
use crate::journal::shelf::Shelf;
use crate::journal::{Earlier, Journal, JournalError, Requested};
use crate::lanes::blocking::BlockingPool;
use crate::lanes::clock::{Clock, SystemClock};
use crate::lanes::door::{Door, Lanes};
use crate::lanes::probe::{Probe, Probes};
use crate::lanes::sync::{AtomicU64, HashMap, HashSet, Mutex, Ordering};
use crate::live::Live;
use crate::live::cord::{Cancel, Cord, Reply};
use crate::live::feed::{Cursor, Feed};
use crate::live::flusher::Flusher;
use crate::live::log::Log;
use crate::live::observe::{Observer, Observers};
use crate::live::presence::{self, Presence};
use crate::live::run::Run;
use crate::recovery::{self, Recovered};
use crate::runtime::agent::AgentCore;
use crate::session::SessionCore;
use crate::session::registry::{Registry, Tally};
use crate::session::warm::{self, Warm};

/// What runs have in common. Cheap to clone.
///
/// Most programs never name it: agents share one with a journal in memory.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) core: Arc<RuntimeCore>,
}

pub(crate) struct RuntimeCore {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) probes: Probes,
    pub(crate) observers: Observers,
    pub(crate) door: Door,
    pub(crate) registry: Registry,
    pub(crate) presence: Presence,
    pub(crate) flusher: Flusher,
    pub(crate) mender: Mender,
    pub(crate) blocking: BlockingPool,
    sessions: Mutex<Known>,
    pub(crate) warm: Warm,
    ids: Ids,
    pub(crate) seed: Option<u64>,
    agents: AtomicU64,
    /// The agents of each name, the one that was built last at the end. Weak: an agent holds its runtime.
    names: Mutex<HashMap<Arc<str>, Vec<Weak<AgentCore>>>>,
    /// Runs that wait for an agent of their name to be there.
    parked: Mutex<HashSet<RunId>>,
    /// Calls that are being compensated.
    pub(crate) compensating: Mutex<HashSet<(RunId, CallId)>>,
    /// Models whose meter has been given back what was learnt earlier.
    pub(crate) recalled: Mutex<HashSet<Arc<str>>>,
    pub(crate) learner: Learner,
    /// Ends what is still being learnt about calls that were cut.
    give_up: Mutex<CancellationToken>,
    /// Held by whoever recovers.
    pub(crate) recovering: tokio::sync::Mutex<()>,
}

/// Where ids come from.
enum Ids {
    /// Unique in the world and ordered by time.
    Unique,
    /// Counted from 1 under a seed, so that a test can be repeated.
    Counted(u64, AtomicU64),
}

impl Runtime {
    /// The runtime of agents that name none: a journal in memory, the system's clock.
    pub fn shared() -> Self {
        static SHARED: OnceLock<Runtime> = OnceLock::new();
        SHARED.get_or_init(|| Self::builder().build()).clone()
    }

    /// Builds a runtime of one's own.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    /// Takes up every run that a dead process left open in the journal. One that was waiting, for its session or for a
    /// person, goes on with the agent of its name; every other one is settled: open calls are closed as unknown and not
    /// run again, and it ends as `lost`, or as `cancelled` where a request was on record. One that was waiting and is not to go
    /// on without its readers (`on_disconnect`) is cancelled, too, if one had come: they went with the process.
    ///
    /// Build the agents first, and call it before anything runs. It may be called again when more agents are there.
    pub async fn recover(&self) -> Result<Vec<Recovered>, JournalError> {
        recovery::recover_all(&self.core).await
    }

    /// The runs in progress, in the order in which they came.
    pub fn runs(&self) -> Vec<RunId> {
        self.core.registry.all().iter().map(|live| live.id.clone()).collect()
    }

    /// Handles on the runs in progress, in the order in which they came. They are those of one instant: a run that is started
    /// before this is called and has not settled is among them.
    pub fn in_progress(&self) -> Vec<Run> {
        self.core.registry.all().into_iter().map(Run::new).collect()
    }

    /// A run in progress by its id, without a look at the journal.
    pub fn find_in_progress(&self, run: &RunId) -> Option<Run> {
        self.core.registry.find(run).map(Run::new)
    }

    /// How many runs are in progress in all, and how many of them are a user's.
    pub fn count(&self, tenant: &Arc<str>, user: &Arc<str>) -> (usize, usize) {
        self.core.registry.count(tenant, user)
    }

    /// How many runs in progress stand where.
    pub fn tally(&self) -> Tally {
        self.core.registry.tally()
    }

    /// Runs that a dead process left waiting and that wait for an agent of their name to be there.
    pub fn parked(&self) -> Vec<RunId> {
        self.core.parked.lock().iter().cloned().collect()
    }

    /// Whether a run waits for an agent of its name to be there.
    pub fn is_parked(&self, run: &RunId) -> bool {
        self.core.is_parked(run)
    }

    /// Why the journal does not take writes, if it does not: as it says itself, or as the first run says that has
    /// [stalled](Run::stalled) over it.
    pub fn journal_trouble(&self) -> Option<JournalError> {
        let stalled = || self.core.registry.first_stalled().and_then(|live| live.stalled());
        self.core.journal.trouble().or_else(stalled)
    }

    /// What is kept beside runs and sessions.
    pub fn shelf(&self) -> &dyn Shelf {
        self.core.journal.shelf()
    }

    /// The time, as runs are stamped with it.
    pub fn now(&self) -> Stamp {
        self.core.clock.now()
    }

    /// Cancels one run by its id. A run that has settled answers `too_late`, one that no driver of this process runs
    /// `not_running`, an id that is not known `not_found`. One that is [parked](crate::Fate::Parked) is settled as
    /// cancelled, and the reply comes when that is durable.
    pub async fn cancel(&self, run: &RunId, cancel: Cancel) -> Result<Reply, JournalError> {
        if let Some(live) = self.core.registry.find(run) {
            return Ok(Cord::new(live, None).pull(cancel));
        }
        if !self.core.is_parked(run) {
            let known = self.find(run).await?;
            return Ok(known.map_or_else(|| not_found(run), |known| known.cancel(cancel)));
        }
        self.cancel_undriven(run, cancel).await
    }

    /// Cancels a run that has no driver here: the request is on record first, so that it survives a crash before it is
    /// carried out.
    async fn cancel_undriven(&self, run: &RunId, cancel: Cancel) -> Result<Reply, JournalError> {
        let request = cancel.clone().at(self.core.clock.now());
        match self.core.journal.request_cancel(run, request).await? {
            Requested::Unknown => Ok(not_found(run)),
            Requested::TooLate => self.too_late(run, cancel).await,
            Requested::Recorded => self.settle_cancelled(run, cancel).await,
        }
    }

    async fn too_late(&self, run: &RunId, cancel: Cancel) -> Result<Reply, JournalError> {
        let known = self.find(run).await?;
        Ok(known.map_or_else(|| not_found(run), |known| known.cancel(cancel)))
    }

    /// Carries out a request that is on record for a run without a driver.
    async fn settle_cancelled(&self, run: &RunId, cancel: Cancel) -> Result<Reply, JournalError> {
        let brought_back = || self.core.registry.find_taken(run);
        if let Some(live) = brought_back() {
            return Ok(Cord::new(live, None).pull(cancel));
        }
        let settled = recovery::settle_undriven(&self.core, run).await;
        match (settled, brought_back()) {
            (Ok(Some(_)), _) => {
                self.core.unpark(run);
                Ok(Reply::undriven(run.clone(), ReplyKind::Accepted))
            }
            // It was brought back to life meanwhile.
            (Ok(None) | Err(JournalError::Fenced { .. }), Some(live)) => Ok(Cord::new(live, None).pull(cancel)),
            // Whoever else recovered it was quicker.
            (Ok(None) | Err(JournalError::Fenced { .. }), None) => self.too_late(run, cancel).await,
            (Err(error), _) => Err(error),
        }
    }

    /// A run by its id: live, or as the journal tells it. One that is not settled and that this process does not drive has
    /// no outcome until [`recover`](Self::recover) has settled it.
    pub async fn find(&self, run: &RunId) -> Result<Option<Run>, JournalError> {
        if let Some(live) = self.core.registry.find(run) {
            return Ok(Some(Run::new(live)));
        }
        let Some(stored) = self.core.journal.read(run).await? else { return Ok(None) };
        let told = recovery::tell(&stored).map_err(recovery::unreadable)?;
        let log = Log::from_entries(&stored.entries);
        let live = Live::told(run.clone(), told.session, Arc::clone(&self.core), log, told.outcome, stored.addenda);
        Ok(Some(Run::new(Arc::new(live))))
    }

    /// A run's feed from a place in it; nothing if the run is not known.
    pub async fn feed(&self, run: &RunId, from: Cursor) -> Result<Option<Feed>, JournalError> {
        Ok(self.find(run).await?.map(|run| run.feed_from(from)))
    }

    /// What was said in a session: the messages of all its runs that have settled.
    pub async fn history(&self, session: &SessionKey) -> Result<Vec<Arc<Message>>, JournalError> {
        let session = self.core.session(session);
        match session.history() {
            Some(history) => Ok(history.to_vec()),
            None => self.core.journal.history(&session.key).await,
        }
    }

    /// What was said in a run's session before it, by runs that have settled, and which have not; of more than about `most`
    /// bytes, the run's own included, only the latest runs. Nothing if the run is not on record.
    pub async fn said_before(&self, run: &RunId, most: usize) -> Result<Option<Earlier>, JournalError> {
        self.core.journal.said_before(run, most).await
    }

    /// A session's state, with what it shares with others (`app:`, `user:`); nothing if there is no such session.
    pub async fn state(&self, session: &SessionKey) -> Result<Option<StateMap>, JournalError> {
        self.core.journal.sessions().state(session).await
    }

    /// Changes a session's state, all of it or nothing; a key without a value is removed. Keys that begin with `app:` or
    /// `user:` are shared, those with `temp:` are not stored. A session that does not exist is begun.
    pub async fn change_state(&self, session: &SessionKey, change: StateChange) -> Result<(), JournalError> {
        self.core.journal.sessions().change_state(session, self.core.clock.now().wall, change).await
    }

    /// Begins a session with a state; says no, and changes nothing, if there is one of this key.
    pub async fn create_session(&self, session: &SessionKey, state: StateMap) -> Result<bool, JournalError> {
        self.core.journal.sessions().create(session, self.core.clock.now().wall, state).await
    }

    /// Keeps things with a session and changes its state, all of it or nothing; says no, and does nothing, if there is no such
    /// session. What is kept goes with the session.
    pub async fn keep(
        &self,
        session: &SessionKey,
        things: Vec<Kept>,
        change: StateChange,
    ) -> Result<bool, JournalError> {
        self.core.journal.sessions().keep_with(session, self.core.clock.now().wall, things, change).await
    }

    /// All things of a kind that are kept with a session, in the order of their names.
    pub async fn kept(&self, session: &SessionKey, kind: &str) -> Result<Vec<Kept>, JournalError> {
        self.core.journal.sessions().kept_with(session, kind).await
    }

    /// Keeps something with a session no longer; says whether it was there.
    pub async fn discard(&self, session: &SessionKey, kind: &str, name: &str) -> Result<bool, JournalError> {
        self.core.journal.sessions().discard_with(session, kind, name).await
    }

    /// All of a session: its state, its runs with their record, and what is kept with it; nothing if there is no such session.
    pub async fn whole_session(&self, session: &SessionKey) -> Result<Option<Moved>, JournalError> {
        self.core.journal.sessions().take_copy(session).await
    }

    /// As [`whole_session`](Self::whole_session), but of what is kept with it only the things of one kind. What else is kept
    /// there is not read: it may be much.
    pub async fn session_with(&self, session: &SessionKey, kind: &str) -> Result<Option<Moved>, JournalError> {
        self.core.journal.sessions().copy_with(session, kind).await
    }

    /// Puts a session in that was made elsewhere, all of it or nothing. Refused if it, or one of its runs, is here already.
    pub async fn put_session(&self, moved: Moved) -> Result<(), JournalError> {
        let session = moved.session.clone();
        self.core.journal.sessions().put(moved).await?;
        self.core.forget_history(&session);
        Ok(())
    }

    /// The sessions on record, the one that was last used first.
    pub async fn list_sessions(&self, which: SessionFilter) -> Result<Vec<SessionInfo>, JournalError> {
        self.core.journal.sessions().list(which).await
    }

    /// As [`list_sessions`](Self::list_sessions), each with its [state](Self::state).
    pub async fn list_sessions_with_state(
        &self,
        which: SessionFilter,
    ) -> Result<Vec<(SessionInfo, StateMap)>, JournalError> {
        self.core.journal.sessions().list_with_state(which).await
    }

    /// The runs on record, the newest first.
    pub async fn list_runs(&self, which: RunFilter) -> Result<Vec<RunInfo>, JournalError> {
        self.core.journal.sessions().runs(which).await
    }

    /// Deletes a session so that nothing of it remains; says whether there was one. Its runs in progress, and those that
    /// wait for it, are cancelled and settled first.
    pub async fn delete_session(&self, session: &SessionKey, cancel: Cancel) -> Result<bool, JournalError> {
        let closed = self.core.session(session).close();
        let (_closed, inside) = closed.ok_or_else(|| JournalError::SessionClosing(Box::new(session.clone())))?;
        for live in &inside {
            live.pull(cancel.clone().at(live.now()));
        }
        for live in inside {
            Run::new(live).settled().await?;
        }
        let unsettled = RunFilter {
            tenant: Some(session.tenant.to_string()),
            app: Some(session.app.to_string()),
            user: Some(session.user.to_string()),
            session: Some(session.session.to_string()),
            settled: Some(false),
            ..RunFilter::default()
        };
        for left in self.list_runs(unsettled).await? {
            // A dead process left it, or the journal failed under it.
            match self.cancel_undriven(&left.run, cancel.clone()).await {
                Err(JournalError::Unreadable(_)) => recovery::settle_unreadable(&self.core, &left.run).await?,
                other => drop(other?),
            }
        }
        self.core.journal.sessions().delete(session).await
    }

    /// All of a session as JSON Lines, its journal included; nothing if there is no such session.
    pub async fn export(&self, session: &SessionKey) -> Result<Option<String>, JournalError> {
        let moved = self.core.journal.sessions().take_copy(session).await?;
        moved.map(|moved| export::write(&moved)).transpose()
    }

    /// Takes in a session that was [exported](Self::export), all of it or nothing. A run of it that was open is then
    /// recovered, as after a crash: one that was queued starts here, whatever becomes of it where it came from, unless it is
    /// not to go on without its readers.
    pub async fn import(&self, lines: &str) -> Result<Imported, ImportError> {
        let moved = export::read(lines)?;
        let session = moved.session.clone();
        let imported = presence::imported(&moved);
        self.put_session(moved).await?;
        self.core.presence.import(imported);
        Ok(Imported { session, recovered: self.recover().await })
    }

    /// Cancels everything that runs and waits until all is settled. Gives up after `within`, and says how many tasks
    /// are left. What is still being learnt about calls that were cut is given up a little earlier.
    pub async fn shutdown(&self, within: Duration) -> Result<(), usize> {
        for live in self.core.registry.all() {
            let cancel = Cancel::graceful().reason(Reason::Shutdown).by("runtime");
            live.pull(cancel.at(live.now()));
        }
        self.core.learner.finish();
        let all_over = async {
            if timeout(patience_at_shutdown(within), self.core.door.all_over()).await.is_err() {
                std::mem::take(&mut *self.core.give_up.lock()).cancel();
            }
            self.core.door.all_over().await;
            self.core.journal.keep_all().await;
        };
        timeout(within, all_over).await.map_err(|_| self.core.door.tasks())
    }

    /// Waits until nothing runs any more, without stopping anything.
    pub async fn idle(&self) {
        self.core.door.all_over().await;
    }

    /// The observer of this kind that the runtime was built with.
    pub fn observer<T: Observer>(&self) -> Option<Arc<T>> {
        self.core.observers.find()
    }

    /// How often an observer has panicked.
    pub fn observer_panics(&self) -> u64 {
        self.core.observers.panics()
    }

    /// How many tasks of this runtime are alive: drivers, tools, hooks and the flusher.
    pub fn tasks(&self) -> usize {
        self.core.door.tasks()
    }
}

fn not_found(run: &RunId) -> Reply {
    Reply::undriven(run.clone(), ReplyKind::NotFound)
}

impl Default for Runtime {
    fn default() -> Self {
        Self::shared()
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("tasks", &self.tasks()).finish_non_exhaustive()
    }
}

/// The sessions that somebody holds.
#[derive(Default)]
struct Known {
    sessions: HashMap<SessionKey, Weak<SessionCore>>,
    /// At this size the entries of sessions that nobody holds are removed.
    full: usize,
}

impl Known {
    fn add(&mut self, session: &Arc<SessionCore>) {
        if self.sessions.len() >= self.full {
            self.sessions.retain(|_, session| session.strong_count() > 0);
            // Doubling keeps the cost of a new session constant, on average.
            self.full = (2 * self.sessions.len()).max(64);
        }
        self.sessions.insert(session.key.clone(), Arc::downgrade(session));
    }
}

impl RuntimeCore {
    /// A session by its key; the same one as long as anybody holds it.
    pub(crate) fn session(&self, key: &SessionKey) -> Arc<SessionCore> {
        let mut known = self.sessions.lock();
        if let Some(session) = known.sessions.get(key).and_then(Weak::upgrade) {
            return session;
        }
        let session = Arc::new(SessionCore::new(key.clone()));
        known.add(&session);
        session
    }

    /// A session with a name of its own, in which nobody has said anything.
    pub(crate) fn new_session(&self, tenant: &str, app: &Arc<str>, user: &str) -> Result<Arc<SessionCore>, IdError> {
        let key = SessionKey::new(app, user, self.next_id("session"))?;
        let tenant = SessionId::new(tenant)?.as_str().into();
        let session = self.session(&SessionKey { tenant, app: Arc::clone(app), ..key });
        // A counted name may have been there in an earlier process.
        if let Ids::Unique = self.ids {
            session.set_history(Vec::new(), session.forgotten());
        }
        Ok(session)
    }

    /// What was said in a session is to be read again, if it is in memory.
    pub(crate) fn forget_history(&self, session: &SessionKey) {
        let session = self.sessions.lock().sessions.get(session).and_then(Weak::upgrade);
        if let Some(session) = session {
            session.forget_history();
        }
    }

    /// Remembers an agent by its name: a run that outlives its process goes on with the agent of its name.
    pub(crate) fn add_agent(&self, agent: &Arc<AgentCore>) {
        let mut names = self.names.lock();
        let namesakes = names.entry(Arc::clone(&agent.name)).or_default();
        // Places are given back now and then: a program may build an agent for each request.
        if namesakes.len().is_power_of_two() {
            namesakes.retain(|agent| agent.strong_count() > 0);
        }
        namesakes.push(Arc::downgrade(agent));
    }

    pub(crate) fn park(&self, run: &RunId) {
        self.parked.lock().insert(run.clone());
    }

    pub(crate) fn unpark(&self, run: &RunId) {
        self.parked.lock().remove(run);
    }

    fn is_parked(&self, run: &RunId) -> bool {
        self.parked.lock().contains(run)
    }

    pub(crate) fn agent_named(&self, name: &str) -> Option<Arc<AgentCore>> {
        self.names.lock().get(name)?.iter().rev().find_map(Weak::upgrade)
    }

    /// Cancelled when what is still being learnt about calls is to be given up.
    pub(crate) fn give_up(&self) -> CancellationToken {
        self.give_up.lock().clone()
    }

    pub(crate) fn next_agent(&self) -> u64 {
        self.agents.fetch_add(1, Ordering::Relaxed)
    }

    /// A new id, as text that is one by construction.
    pub(crate) fn next_id(&self, kind: &str) -> String {
        match &self.ids {
            Ids::Unique => Uuid::now_v7().to_string(),
            Ids::Counted(seed, next) => format!("{kind}-{seed}-{}", next.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

/// Builds a [`Runtime`].
pub struct RuntimeBuilder {
    journal: Option<Arc<dyn Journal>>,
    clock: Option<Arc<dyn Clock>>,
    probe: Option<Arc<dyn Probe>>,
    observers: Vec<Arc<dyn Observer>>,
    lanes: Lanes,
    seed: Option<u64>,
    blocking: Option<BlockingPool>,
    warm: Option<usize>,
}

impl Default for RuntimeBuilder {
    fn default() -> Self {
        Self {
            journal: None,
            clock: None,
            probe: None,
            observers: Vec::new(),
            lanes: Lanes::Two,
            seed: None,
            blocking: None,
            warm: None,
        }
    }
}

impl RuntimeBuilder {
    /// Where runs are recorded; in memory unless told otherwise.
    #[must_use]
    pub fn journal(mut self, journal: Arc<dyn Journal>) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Where the time comes from.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Is told each time a run passes a seam. For test kits.
    #[must_use]
    pub fn probe(mut self, probe: Arc<dyn Probe>) -> Self {
        self.probe = Some(probe);
        self
    }

    /// Is told of every fact of every run when it is shown. There may be several; each is told in turn.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Tools and hooks run with the drivers, in the caller's runtime, instead of on threads of their own. For tests with
    /// a paused clock: a tool that blocks delays every stop.
    #[doc(hidden)]
    #[must_use]
    pub fn one_lane(mut self) -> Self {
        self.lanes = Lanes::One;
        self
    }

    /// Ids are counted and chance is seeded, so that a test can be repeated.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// How many blocking tools run together, and how many may be abandoned before further calls get an error result; 64
    /// and 64 unless told otherwise.
    #[must_use]
    pub fn blocking_tools(mut self, at_once: usize, abandoned: usize) -> Self {
        self.blocking = Some(BlockingPool::new(at_once, abandoned));
        self
    }

    /// How many bytes of what was said may stay in memory of sessions that nobody is using, so that their next prompt need
    /// not read it again; 64 MiB by default.
    #[must_use]
    pub fn warm_sessions(mut self, bytes: usize) -> Self {
        self.warm = Some(bytes);
        self
    }

    /// The runtime.
    pub fn build(self) -> Runtime {
        let core = RuntimeCore {
            journal: self.journal.unwrap_or_else(|| Arc::new(MemoryJournal::new())),
            clock: self.clock.unwrap_or_else(|| Arc::new(SystemClock::new())),
            door: Door::new(self.lanes),
            probes: Probes(self.probe),
            observers: Observers::new(self.observers),
            registry: Registry::default(),
            presence: Presence::default(),
            flusher: Flusher::default(),
            mender: Mender::default(),
            blocking: self.blocking.unwrap_or_default(),
            sessions: Mutex::default(),
            warm: Warm::new(self.warm.unwrap_or(warm::ROOM)),
            ids: self.seed.map_or(Ids::Unique, |seed| Ids::Counted(seed, AtomicU64::new(1))),
            seed: self.seed,
            agents: AtomicU64::new(0),
            names: Mutex::default(),
            parked: Mutex::default(),
            compensating: Mutex::default(),
            recalled: Mutex::default(),
            learner: Learner::default(),
            give_up: Mutex::default(),
            recovering: tokio::sync::Mutex::default(),
        };
        Runtime { core: Arc::new(core) }
    }
}

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeBuilder").field("lanes", &self.lanes).field("seed", &self.seed).finish_non_exhaustive()
    }
}
