//! The director: counts seams, and steps in at one of them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use andon_runtime::core::cancel::ReplyKind;
use andon_runtime::core::event::Event;
use andon_runtime::core::outcome::Ending;
use andon_runtime::{Cancel, GateCounts, JournalError, Observer, Probe, Reply, Run, RunId, Session, ShownFact};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::mode::{Mode, is_drivers};
use super::panics::PLANTED;
use super::strays::Strays;
use super::watched::ModelCalls;
use super::world::World;
use crate::journal::TestJournal;
use crate::tools::ToolLog;

/// What the director must do, and how the script's runs end when nobody interferes.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    pub(super) stop: Option<(usize, Mode)>,
    pub(super) expected: Vec<Option<Arc<Ending>>>,
}

/// What the world was like when the cord was pulled.
#[derive(Clone)]
pub(super) struct Pull {
    pub(super) run: usize,
    pub(super) reply: Reply,
    pub(super) passed: GateCounts,
    pub(super) model_calls: usize,
    pub(super) tools_started: usize,
}

/// What has passed the gates of all runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Passed {
    gates: Vec<(RunId, GateCounts)>,
    model_calls: usize,
    tools_started: usize,
}

/// How many seams pass between a pull and what follows it.
const LATER: usize = 3;
/// For how many seams a disk stays full: longer than the first retries take.
const FULL_FOR: usize = 12;

#[derive(Default)]
struct Observed {
    on: bool,
    count: usize,
    trace: Vec<&'static str>,
    runs: Vec<Arc<Run>>,
    /// The caller's sessions.
    sessions: Vec<Session>,
    tools: ToolLog,
    journal: Option<TestJournal>,
    pull: Option<Pull>,
    harder: Option<Reply>,
    /// What had passed when the lease was over.
    at_the_fence: Option<Passed>,
    /// The runs that another process has taken over.
    taken: Vec<RunId>,
    taken_at: Option<Instant>,
    /// Whether the request was said to be durable.
    recorded: bool,
    panic_is_due: bool,
    violations: Vec<String>,
}

/// Counts seams, and steps in at one of them.
pub(super) struct Director {
    plan: Plan,
    /// Notified when the caller must go away.
    pub(super) curtain: Notify,
    /// The calls of all models in this world.
    pub(super) model_calls: Arc<ModelCalls>,
    /// The tasks that tools spawn.
    pub(super) strays: Arc<Strays>,
    state: Mutex<Observed>,
}

/// What to do at a seam.
enum Action {
    None,
    Stop(Mode),
    Later(Mode),
    Panic,
}

impl Director {
    pub(super) fn new(plan: Plan) -> Self {
        let state = Observed { on: true, ..Observed::default() };
        let (model_calls, strays) = (Arc::default(), Arc::default());
        Self { plan, curtain: Notify::new(), model_calls, strays, state: Mutex::new(state) }
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(super) fn watch(&self, journal: &TestJournal, tools: &ToolLog) {
        let mut state = self.state.lock();
        state.journal = Some(journal.clone());
        state.tools = tools.clone();
    }

    pub(super) fn add_run(&self, run: &Arc<Run>) {
        self.state.lock().runs.push(Arc::clone(run));
    }

    pub(super) fn add_session(&self, session: &Session) {
        self.state.lock().sessions.push(session.clone());
    }

    /// How often a run has passed the gate.
    pub(super) fn passed(&self, run: &RunId) -> Option<GateCounts> {
        self.state.lock().runs.iter().find(|other| other.id() == run).map(|run| run.passed())
    }

    pub(super) fn runs(&self) -> usize {
        self.state.lock().runs.len()
    }

    /// Ends the counting: what follows is the explorer's own.
    pub(super) fn off(&self) {
        self.state.lock().on = false;
    }

    /// Resumes the counting.
    pub(super) fn on(&self) {
        self.state.lock().on = true;
    }

    pub(super) fn trace(&self) -> Vec<&'static str> {
        self.state.lock().trace.clone()
    }

    pub(super) fn pull(&self) -> Option<Pull> {
        self.state.lock().pull.clone()
    }

    pub(super) fn harder(&self) -> Option<Reply> {
        self.state.lock().harder.clone()
    }

    /// What had passed when the lease was over, and what has passed by now.
    pub(super) fn at_the_fence(&self) -> Option<(Passed, Passed)> {
        let then = self.state.lock().at_the_fence.clone()?;
        let mut now = self.passed_by_now();
        // What a run had passed that was not known then, nobody can say.
        now.gates.retain(|(run, _)| then.gates.iter().any(|(known, _)| known == run));
        Some((then, now))
    }

    fn passed_by_now(&self) -> Passed {
        let (runs, tools) = {
            let state = self.state.lock();
            (state.runs.clone(), state.tools.clone())
        };
        let gates = runs.iter().map(|run| (run.id().clone(), run.passed())).collect();
        Passed { gates, model_calls: self.model_calls.calls(), tools_started: tools.started() }
    }

    /// Whether the caller was told, before anything else happened, that its request was durable.
    pub(super) fn said_recorded(&self) -> bool {
        self.state.lock().recorded
    }

    /// Lets go of everything that a run needs: nothing is played any more.
    pub(super) fn let_go(&self) {
        self.strays.off();
        let (runs, sessions) = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.runs), std::mem::take(&mut state.sessions))
        };
        drop((runs, sessions));
    }

    /// Reports a broken promise, once.
    pub(super) fn broken(&self, text: &str) {
        let mut state = self.state.lock();
        if !state.violations.iter().any(|violation| violation == text) {
            state.violations.push(text.to_owned());
        }
    }

    pub(super) fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().violations)
    }

    fn count(&self, seam: &'static str) -> Action {
        self.strays.look();
        let mut state = self.state.lock();
        if !state.on {
            return Action::None;
        }
        let here = state.count;
        state.count += 1;
        state.trace.push(seam);
        self.look(&mut state);
        match self.plan.stop {
            Some((point, mode)) if point == here => Action::Stop(mode),
            Some((point, mode)) if point + later(mode) == here => Action::Later(mode),
            _ if state.panic_is_due && is_drivers(seam) => {
                state.panic_is_due = false;
                Action::Panic
            }
            _ => Action::None,
        }
    }

    /// P10 at the seam: nothing is shown that is not durable.
    fn look(&self, state: &mut Observed) {
        let Some(journal) = state.journal.clone() else { return };
        for run in &state.runs {
            let (shown, durable) = (run.seq(), journal.facts(run.id()));
            if shown > durable && !journal.is_dead() {
                state.violations.push(format!("P10: event {shown} is shown and only {durable} are durable"));
            }
        }
        self.look_at_session(state, &journal);
        self.look_at_end(state, &journal);
        self.look_at_record(state, &journal);
    }

    /// P8 at the seam: the session is free only when the outcome is durable.
    fn look_at_session(&self, state: &mut Observed, journal: &TestJournal) {
        let ([run], [session]) = (state.runs.as_slice(), state.sessions.as_slice()) else { return };
        if session.current().is_none() && !self.has_settled(run, journal) {
            state.violations.push("P8: the session is free before the outcome is durable".to_owned());
        }
    }

    /// P7 at the seam: no run is reported as settled before its outcome is durable.
    fn look_at_end(&self, state: &mut Observed, journal: &TestJournal) {
        for run in &state.runs {
            if run.try_outcome().is_some() && !self.has_settled(run, journal) {
                state.violations.push("P7: a run is reported as settled before its outcome is durable".to_owned());
            }
        }
    }

    /// Whether a run's outcome is durable, or never has to be: its process is dead, or it could not begin.
    fn has_settled(&self, run: &Run, journal: &TestJournal) -> bool {
        let could_not_begin = self.plan.stop.is_some_and(|(_, mode)| mode.fills_the_disk()) && run.seq() == 0;
        let is_durable = journal.has(run.id(), |event| matches!(event, Event::RunSettled { .. }));
        is_durable || could_not_begin || journal.is_dead()
    }

    /// P10 at the seam: a request is reported as recorded only once it is durable.
    fn look_at_record(&self, state: &mut Observed, journal: &TestJournal) {
        let Some(pull) = &state.pull else { return };
        let is_new = matches!(pull.reply.kind(), ReplyKind::Accepted | ReplyKind::Hardened);
        let said = {
            let mut recorded = pin!(pull.reply.recorded());
            recorded.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        };
        if !is_new || !matches!(said, Poll::Ready(Ok(()))) || journal.is_dead() {
            return;
        }
        state.recorded = true;
        if !journal.has(pull.reply.run_id(), is_explorers) {
            state.violations.push("P10: the request is reported as recorded, but is not durable".to_owned());
        }
    }

    fn stop(&self, mode: Mode) {
        match mode {
            Mode::Graceful | Mode::Harden | Mode::PullThenCrash | Mode::PullThenPanic => {
                self.pull_cord(Cancel::graceful());
            }
            Mode::Now => self.pull_cord(Cancel::now()),
            Mode::AfterTurn => self.pull_cord(Cancel::after_turn()),
            Mode::DropHandles => {
                let (runs, sessions) = {
                    let mut state = self.state.lock();
                    (std::mem::take(&mut state.runs), std::mem::take(&mut state.sessions))
                };
                drop((runs, sessions));
                self.curtain.notify_one();
            }
            Mode::Crash => self.crash(),
            Mode::DiskFull | Mode::DiskFullThenPull => self.fill_disk(),
            Mode::PullOnFullDisk => {
                self.fill_disk();
                self.pull_cord(Cancel::graceful());
            }
            Mode::PanicTool | Mode::PanicHook | Mode::PanicDriver => self.panic(),
            Mode::LeaseOver => self.end_lease(),
            Mode::TakenOver => {
                self.end_lease();
                self.take_over();
            }
        }
    }

    /// What follows a pull a little later.
    fn stop_later(&self, mode: Mode) {
        match mode {
            Mode::Harden => self.pull_harder(),
            Mode::PullThenCrash => self.crash(),
            Mode::PullThenPanic => self.state.lock().panic_is_due = true,
            Mode::DiskFull | Mode::PullOnFullDisk => self.make_room(),
            Mode::DiskFullThenPull => {
                self.pull_cord(Cancel::graceful());
                self.make_room();
            }
            Mode::LeaseOver => self.journal(TestJournal::tell_lease_is_over),
            Mode::TakenOver => {
                let taken = self.taken();
                self.journal(|journal| journal.tell_lost(&taken));
                self.renew_lease();
            }
            _ => {}
        }
    }

    fn end_lease(&self) {
        self.journal(TestJournal::end_lease);
        let passed = self.passed_by_now();
        self.state.lock().at_the_fence = Some(passed);
    }

    fn take_over(&self) {
        let journal = self.state.lock().journal.clone();
        let taken = journal.map_or_else(Vec::new, |journal| World::take_over(&journal));
        let mut state = self.state.lock();
        (state.taken, state.taken_at) = (taken, Some(Instant::now()));
    }

    /// The runs that another process has taken over.
    pub(super) fn taken(&self) -> Vec<RunId> {
        self.state.lock().taken.clone()
    }

    /// When that was.
    pub(super) fn taken_at(&self) -> Option<Instant> {
        self.state.lock().taken_at
    }

    /// How each of the caller's runs has ended, as its handle says.
    pub(super) fn endings(&self) -> Vec<(RunId, Option<Arc<Ending>>)> {
        let runs = self.state.lock().runs.clone();
        let ending = |run: &Run| run.try_outcome().map(|outcome| Arc::clone(&outcome.ending));
        runs.iter().map(|run| (run.id().clone(), ending(run))).collect()
    }

    /// The lease is held again.
    pub(super) fn renew_lease(&self) {
        self.journal(TestJournal::renew_lease);
    }

    /// Does something to the journal, without our own lock.
    fn journal(&self, change: impl FnOnce(&TestJournal)) {
        let journal = self.state.lock().journal.clone();
        if let Some(journal) = &journal {
            change(journal);
        }
    }

    fn crash(&self) {
        self.journal(TestJournal::crash);
        self.curtain.notify_one();
    }

    fn fill_disk(&self) {
        self.journal(|journal| journal.fail(JournalError::Storage("the disk is full".to_owned())));
    }

    /// Makes room on the disk again.
    pub(super) fn make_room(&self) {
        self.journal(TestJournal::heal);
    }

    #[expect(clippy::panic, reason = "panicking is what these modes are for")]
    fn panic(&self) {
        panic!("{PLANTED}");
    }

    /// Pulls the cord of the newest run, and remembers what the world was like when the pull had returned.
    fn pull_cord(&self, cancel: Cancel) {
        let (run, number) = {
            let state = self.state.lock();
            let Some(run) = state.runs.last() else { return };
            (Arc::clone(run), state.runs.len() - 1)
        };
        let reply = run.cancel(cancel.by(EXPLORER));
        let passed = run.passed();
        let (model_calls, tools_started) = (self.model_calls.calls(), self.state.lock().tools.started());
        self.state.lock().pull = Some(Pull { run: number, reply, passed, model_calls, tools_started });
    }

    fn pull_harder(&self) {
        let pull = self.state.lock().pull.clone();
        let Some(run) = pull.and_then(|pull| self.state.lock().runs.get(pull.run).cloned()) else { return };
        let harder = run.cancel(Cancel::now().by(EXPLORER));
        self.state.lock().harder = Some(harder);
    }
}

impl Probe for Director {
    fn hit(&self, seam: &'static str) {
        match self.count(seam) {
            Action::None => {}
            Action::Stop(mode) => self.stop(mode),
            Action::Later(mode) => self.stop_later(mode),
            Action::Panic => self.panic(),
        }
    }
}

/// A run has settled: none of its tools' tasks goes on, unless its process is dead.
impl Observer for Director {
    fn fact(&self, seen: &ShownFact<'_>) {
        if !matches!(seen.record.event, Event::RunSettled { .. }) {
            return;
        }
        let is_dead = self.state.lock().journal.as_ref().is_some_and(TestJournal::is_dead);
        if !is_dead {
            self.strays.of_settled(seen.run).iter().for_each(|stray| self.broken(stray));
        }
        if self.is_missing(seen.run) {
            self.broken(
                "P9: a run whose end nobody could see was not in progress: a cancel would have hit the next one",
            );
        }
    }
}

impl Passed {
    /// Only what these runs have passed.
    pub(super) fn of(&self, runs: &[RunId]) -> Vec<(RunId, GateCounts)> {
        self.gates.iter().filter(|(run, _)| runs.contains(run)).cloned().collect()
    }
}

impl Director {
    /// Whether a run of the caller is not visibly over, and yet not among those in progress.
    fn is_missing(&self, told: &RunId) -> bool {
        let state = self.state.lock();
        let run = state.runs.iter().find(|run| run.id() == told && run.try_outcome().is_none());
        let session = run.and_then(|run| state.sessions.iter().find(|session| session.key() == run.session()));
        session.is_some_and(|session| session.agent().runtime().find_in_progress(told).is_none())
    }
}

/// How many seams lie between the first thing that happens in a mode and what follows it.
fn later(mode: Mode) -> usize {
    if mode.fills_the_disk() { FULL_FOR } else { LATER }
}

/// Whether this records a request of the explorer.
pub(super) fn is_explorers(event: &Event) -> bool {
    matches!(event, Event::CancelRequested { request, .. } if request.by.as_deref() == Some(EXPLORER))
}

/// Who pulled, as receipts name it.
const EXPLORER: &str = "explorer";
