//! Strays: tasks that a tool spawned and that outlive the tool's run.
//!
//! A task that a tool spawns with `tokio::spawn` is not the runtime's, which can neither await nor stop it. So the explorer counts. It
//! plays on one thread, where nothing but the tool runs while the tool is polled: the tasks that are new after a poll are the tool's.
//! All other tasks are either the runtime's own, which it counts itself, or somebody else's: a script's, a model's.
//!
//! # Invariants
//!
//! 1. Each count is the most that may be alive. When a task ends that may be one of several calls', or somebody else's, they all keep their
//!    count. What is reported is what remains of the living when everybody else has been given the most: so it is certain, and a task that
//!    cannot be told from a script's own is not reported.
//! 2. A task is looked for when its run has settled, and when everything has come to rest; by then a task that was told to abort is gone.

use andon_runtime::{CallId, Invocation, OnCancel, RunId, Runtime, ToolSpec};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::journal::TestJournal;

/// Counts the tasks that tools spawn.
#[derive(Default)]
pub(super) struct Strays {
    state: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    ours: Option<(Runtime, TestJournal)>,
    /// How many tasks were alive at the last look, without our own.
    alive: usize,
    /// How many of them may be neither a tool's nor our own: at least as many as there are.
    others: usize,
    calls: Vec<Spawning>,
    /// Which call is being polled.
    polled: Option<usize>,
}

/// A call that may have spawned tasks.
struct Spawning {
    run: RunId,
    call: CallId,
    tool: String,
    may_outlive: bool,
    /// How many of its tasks may be alive.
    tasks: usize,
}

impl Strays {
    /// These tasks are our own.
    pub(super) fn except(&self, runtime: &Runtime, journal: &TestJournal) {
        self.state.lock().ours = Some((runtime.clone(), journal.clone()));
    }

    /// Ends the counting.
    pub(super) fn off(&self) {
        let ours = self.state.lock().ours.take();
        drop(ours);
    }

    /// A call begins. Returns its index.
    pub(super) fn add(&self, invocation: &Invocation, spec: &ToolSpec) -> usize {
        let mut counts = self.state.lock();
        counts.calls.push(Spawning {
            run: invocation.run.clone(),
            call: invocation.call.clone(),
            tool: spec.name.clone(),
            may_outlive: matches!(spec.on_cancel, OnCancel::Detach),
            tasks: 0,
        });
        counts.calls.len() - 1
    }

    /// Looks at what happened since the last look.
    pub(super) fn look(&self) {
        self.state.lock().look();
    }

    /// Runs code of a call. Tasks that are new afterwards are its own.
    pub(super) fn during<T>(&self, call: usize, code: impl FnOnce() -> T) -> T {
        let enter = |polled| {
            let mut counts = self.state.lock();
            counts.look();
            std::mem::replace(&mut counts.polled, polled)
        };
        let before = enter(Some(call));
        let back = Back { strays: self, before };
        let done = code();
        drop(back);
        done
    }

    /// The tasks of a run that are alive although it has settled.
    pub(super) fn of_settled(&self, run: &RunId) -> Vec<String> {
        let mut counts = self.state.lock();
        counts.look();
        counts.take(|call| call.run == *run && !call.may_outlive)
    }

    /// All tasks of tools that are alive although nothing runs.
    pub(super) fn at_rest(&self) -> Vec<String> {
        let mut counts = self.state.lock();
        counts.look();
        counts.take(|_| true)
    }
}

/// Takes the last look while a call is polled, even if the call panics.
struct Back<'a> {
    strays: &'a Strays,
    before: Option<usize>,
}

impl Drop for Back<'_> {
    fn drop(&mut self) {
        let mut counts = self.strays.state.lock();
        counts.look();
        counts.polled = self.before;
    }
}

impl Counts {
    fn look(&mut self) {
        let (Some((runtime, journal)), Ok(handle)) = (&self.ours, Handle::try_current()) else { return };
        let alive = handle.metrics().num_alive_tasks().saturating_sub(runtime.tasks() + journal.tasks());
        let (new, ended) = (alive.saturating_sub(self.alive), self.alive.saturating_sub(alive));
        match self.polled.and_then(|polled| self.calls.get_mut(polled)) {
            Some(call) => call.tasks += new,
            None => self.others += new,
        }
        self.end(ended);
        self.alive = alive;
        self.others = self.others.min(alive);
        for call in &mut self.calls {
            call.tasks = call.tasks.min(alive);
        }
    }

    /// Some tasks have ended. If they may be of several, each of them keeps its count.
    fn end(&mut self, ended: usize) {
        let mut spawning = self.calls.iter_mut().filter(|call| call.tasks > 0);
        match (spawning.next(), spawning.next()) {
            (None, _) => self.others -= ended.min(self.others),
            (Some(call), None) if self.others == 0 => call.tasks -= ended.min(call.tasks),
            _ => {}
        }
    }

    /// How many tasks of these calls are alive for certain, in words, with all calls that they may be of.
    fn take(&mut self, is_it: impl Fn(&Spawning) -> bool) -> Vec<String> {
        let elsewhere: usize = self.calls.iter().filter(|call| !is_it(call)).map(|call| call.tasks).sum();
        let alive = self.alive.saturating_sub(self.others + elsewhere);
        let mut names = Vec::new();
        for call in self.calls.iter_mut().filter(|call| alive > 0 && call.tasks > 0 && is_it(call)) {
            names.push(format!("`{}` ({})", call.tool, call.call));
            // It is reported once.
            self.others += std::mem::take(&mut call.tasks);
        }
        self.others = self.others.min(self.alive);
        if names.is_empty() {
            return Vec::new();
        }
        let (tools, tasks) = (names.join(" or "), if alive == 1 { "a task" } else { "tasks" });
        vec![format!(
            "P12: the tool {tools} spawned {tasks} that outlived the run: await it, and end it when the tool is dropped"
        )]
    }
}
