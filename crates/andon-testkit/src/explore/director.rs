//! The director: counts seams, and steps in at one of them.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Once};
use std::task::{Context, Poll, Waker};

use andon::core::cancel::ReplyKind;
use andon::core::event::Event;
use andon::core::outcome::Ending;
use andon::{Agent, Cancel, Passed, Probe, Reply, Run, RunId};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::journal::TestJournal;
use crate::model::ScriptedModel;
use crate::tools::{ON_PURPOSE, ToolLog};

/// How a run is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The cord is pulled gracefully.
    Graceful,
    /// The cord is pulled with no grace.
    Now,
    /// The cord is pulled so that the turn finishes.
    AfterTurn,
    /// The cord is pulled gracefully, and harder a little later.
    Harden,
    /// Every handle that the caller holds is dropped.
    DropHandles,
    /// The process dies; its journal is recovered.
    Crash,
    /// The cord is pulled gracefully, and a little later the process dies.
    PullThenCrash,
    /// The cord is pulled gracefully, and a little later the driver panics.
    PullThenPanic,
    /// A tool panics.
    PanicTool,
    /// A hook panics.
    PanicHook,
    /// The driver, or the model that it polls, panics.
    PanicDriver,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Graceful,
        Self::Now,
        Self::AfterTurn,
        Self::Harden,
        Self::DropHandles,
        Self::Crash,
        Self::PullThenCrash,
        Self::PullThenPanic,
        Self::PanicTool,
        Self::PanicHook,
        Self::PanicDriver,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Graceful => "graceful",
            Self::Now => "now",
            Self::AfterTurn => "after_turn",
            Self::Harden => "harden",
            Self::DropHandles => "drop",
            Self::Crash => "crash",
            Self::PullThenCrash => "pull then crash",
            Self::PullThenPanic => "pull then panic",
            Self::PanicTool => "panic in a tool",
            Self::PanicHook => "panic in a hook",
            Self::PanicDriver => "panic in the driver",
        }
    }

    /// Whether the process dies.
    pub(super) fn is_crash(self) -> bool {
        matches!(self, Self::Crash | Self::PullThenCrash)
    }

    /// Whether the cord is pulled so that work in progress is cut, and the run goes on to its end by itself.
    pub(super) fn cuts(self) -> bool {
        matches!(self, Self::Graceful | Self::Now | Self::Harden)
    }

    /// Whether this can happen at a seam: a tool panics only where a tool is.
    pub fn applies_at(self, seam: &str) -> bool {
        match self {
            Self::PanicTool => seam.starts_with("tool:"),
            Self::PanicHook => seam.starts_with("hook:"),
            Self::PanicDriver => is_drivers(seam),
            _ => true,
        }
    }
}

/// Whether the driver, or the model that it polls, is here.
fn is_drivers(seam: &str) -> bool {
    seam.starts_with("driver:") || seam.starts_with("model:")
}

/// What the director is to do, and how the runs of the script end when nobody interferes.
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
    pub(super) passed: Passed,
    pub(super) model_calls: usize,
    pub(super) tools_started: usize,
}

/// How many seams lie between a pull and what follows it.
const LATER: usize = 3;

#[derive(Default)]
struct State {
    on: bool,
    count: usize,
    trace: Vec<&'static str>,
    runs: Vec<Arc<Run>>,
    /// The caller's agents, which keep its sessions open.
    agents: Vec<Agent>,
    models: Vec<ScriptedModel>,
    tools: ToolLog,
    journal: Option<TestJournal>,
    pull: Option<Pull>,
    harder: Option<Reply>,
    /// The request was said to be durable.
    recorded: bool,
    panic_is_due: bool,
    violations: Vec<String>,
}

/// Counts seams, and steps in at one of them.
pub(super) struct Director {
    plan: Plan,
    /// Told when the caller is to be gone.
    pub(super) curtain: Notify,
    state: Mutex<State>,
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
        let state = State { on: true, ..State::default() };
        Self { plan, curtain: Notify::new(), state: Mutex::new(state) }
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

    pub(super) fn add_agent(&self, agent: &Agent) {
        self.state.lock().agents.push(agent.clone());
    }

    pub(super) fn add_model(&self, model: &ScriptedModel) {
        self.state.lock().models.push(model.clone());
    }

    pub(super) fn model_calls(&self) -> usize {
        self.state.lock().models.iter().map(ScriptedModel::calls).sum()
    }

    pub(super) fn open_answers(&self) -> usize {
        self.state.lock().models.iter().map(ScriptedModel::open).sum()
    }

    /// How often a run has passed the gate.
    pub(super) fn passed(&self, run: &RunId) -> Option<Passed> {
        self.state.lock().runs.iter().find(|other| other.id() == run).map(|run| run.passed())
    }

    pub(super) fn runs(&self) -> usize {
        self.state.lock().runs.len()
    }

    /// Ends the counting: what follows is the explorer's own.
    pub(super) fn off(&self) {
        self.state.lock().on = false;
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

    /// Whether the caller was told, before anything else happened, that its request was durable.
    pub(super) fn said_recorded(&self) -> bool {
        self.state.lock().recorded
    }

    /// A promise was broken in front of a script.
    pub(super) fn broken(&self, text: &str) {
        self.state.lock().violations.push(text.to_owned());
    }

    pub(super) fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().violations)
    }

    fn count(&self, seam: &'static str) -> Action {
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
            Some((point, mode)) if point + LATER == here => Action::Later(mode),
            _ if state.panic_is_due && is_drivers(seam) => {
                state.panic_is_due = false;
                Action::Panic
            }
            _ => Action::None,
        }
    }

    /// P10 at the seam: nothing is shown that is not durable.
    fn look(&self, state: &mut State) {
        let Some(journal) = state.journal.clone() else { return };
        for run in &state.runs {
            let (shown, durable) = (run.seq(), journal.facts(run.id()));
            if shown > durable && !journal.is_dead() {
                state.violations.push(format!("P10: event {shown} is shown and only {durable} are durable"));
            }
        }
        self.look_at_seat(state, &journal);
        self.look_at_record(state, &journal);
    }

    /// P8 at the seam: the session is free only when the outcome is durable.
    fn look_at_seat(&self, state: &mut State, journal: &TestJournal) {
        let ([run], [agent]) = (state.runs.as_slice(), state.agents.as_slice()) else { return };
        let has_settled = journal.has(run.id(), |event| matches!(event, Event::RunSettled { .. }));
        if agent.current().is_none() && !has_settled && !journal.is_dead() {
            state.violations.push("P8: the session is free before the outcome is durable".to_owned());
        }
    }

    /// P10 at the seam: a request is said to be recorded only when it is durable.
    fn look_at_record(&self, state: &mut State, journal: &TestJournal) {
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
            state.violations.push("P10: the request is said to be recorded and is not durable".to_owned());
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
                let (runs, agents) = {
                    let mut state = self.state.lock();
                    (std::mem::take(&mut state.runs), std::mem::take(&mut state.agents))
                };
                drop((runs, agents));
                self.curtain.notify_one();
            }
            Mode::Crash => self.crash(),
            Mode::PanicTool | Mode::PanicHook | Mode::PanicDriver => self.panic(),
        }
    }

    /// What follows a pull a little later.
    fn stop_later(&self, mode: Mode) {
        match mode {
            Mode::Harden => self.pull_harder(),
            Mode::PullThenCrash => self.crash(),
            Mode::PullThenPanic => self.state.lock().panic_is_due = true,
            _ => {}
        }
    }

    fn crash(&self) {
        let journal = self.state.lock().journal.clone();
        if let Some(journal) = journal {
            journal.crash();
        }
        self.curtain.notify_one();
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
        let (model_calls, tools_started) = (self.model_calls(), self.state.lock().tools.started());
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

/// Whether it is the record of a request that the explorer made.
pub(super) fn is_explorers(event: &Event) -> bool {
    matches!(event, Event::CancelRequested { request, .. } if request.by.as_deref() == Some(EXPLORER))
}

/// Who pulls, in the receipts.
const EXPLORER: &str = "explorer";

const PLANTED: &str = "a panic that the explorer planted";

std::thread_local! {
    static UNPLANNED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Panics on this thread that nobody planted, since this was last asked.
pub(super) fn unplanned_panics() -> Vec<String> {
    UNPLANNED.with_borrow_mut(std::mem::take)
}

/// Keeps planted panics from filling the terminal, and remembers the others: a runtime that heals itself after a panic
/// would hide them.
pub(super) fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload_as_str().unwrap_or("no message");
            if [PLANTED, ON_PURPOSE].contains(&text) {
                return;
            }
            let seen_by_explorer = UNPLANNED.try_with(|unplanned| unplanned.borrow_mut().push(text.to_owned()));
            if seen_by_explorer.is_err() || !EXPLORING.get() {
                loud(info);
            }
        }));
    });
    EXPLORING.set(true);
}

std::thread_local! {
    /// Whether this thread explores: then its panics are reported as violations and not on the terminal.
    static EXPLORING: Cell<bool> = const { Cell::new(false) };
}

/// This thread explores no more.
pub(super) fn unwatch_panics() {
    EXPLORING.set(false);
}
