//! The one door through which tasks are started: so a shutdown can await every task.
//!
//! # Invariants
//!
//! 1. Threads belong to one door: they start when they are first needed, and end with the door.
//! 2. They do not end while something runs on them. A driver and a tool's task hold their run, which holds the door; whatever else
//!    is started here holds the threads.

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;

use tokio::runtime::Handle;

use super::tracker::TaskTracker;

use crate::lanes::block::blocking;
use crate::lanes::threads::{Threads, cores};

/// Where tools and hooks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Lanes {
    /// On separate threads, so that one that blocks delays no stop.
    #[default]
    Two,
    /// With the drivers, so that pausing one clock pauses everything. For tests.
    #[cfg(feature = "testing")]
    One,
}

pub(crate) struct Door {
    lanes: Lanes,
    tasks: TaskTracker,
    drivers: Arc<Threads>,
    tools: Arc<Threads>,
}

impl Door {
    pub(crate) fn new(lanes: Lanes) -> Self {
        let drivers = Threads::new("andon", cores, || {});
        // More threads than a run has tools at once, because a tool that blocks takes a thread away from the others.
        let tools = Threads::new("andon-tools", || (2 * cores()).max(16), || IS_TOOLS_THREAD.set(true));
        Self { lanes, tasks: TaskTracker::default(), drivers: Arc::new(drivers), tools: Arc::new(tools) }
    }

    /// Starts a task where drivers run: in the caller's runtime, or in one of our own if the caller has none or is a tool.
    /// A run that a tool starts must not wait for the tools' threads, which other tools may block.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let caller = Handle::try_current().ok();
        let may_drive = |_: &Handle| !self.has_own_threads() || !IS_TOOLS_THREAD.get();
        let own = || self.drivers.handle().cloned();
        // If we cannot start threads, a tool's thread is better than none.
        match caller.clone().filter(may_drive).or_else(own).or(caller) {
            Some(handle) => drop(handle.spawn(self.tasks.track(task))),
            // There is no thread to run it on: the run stays where it is, and never settles.
            None => drop(task),
        }
    }

    /// Starts a task that other runs depend on, and that must not end with the caller's runtime.
    pub(crate) fn spawn_keeper(&self, task: impl Future<Output = ()> + Send + 'static) {
        match self.has_own_threads().then(|| self.drivers.handle()).flatten() {
            Some(handle) => {
                let threads = Arc::clone(&self.drivers);
                let kept = async move {
                    task.await;
                    drop(threads);
                };
                drop(handle.spawn(self.tasks.track(kept)));
            }
            None => self.spawn(task),
        }
    }

    /// Whether a run may be settled on threads that are not its caller's.
    pub(crate) fn has_own_threads(&self) -> bool {
        self.lanes == Lanes::Two
    }

    /// The threads for tools and hooks, if they have their own.
    fn tools(&self) -> Option<&Handle> {
        if self.has_own_threads() { self.tools.handle() } else { None }
    }

    /// Whether threads were started in a process that this one was forked from: there are none here.
    pub(crate) fn has_lost_its_threads(&self) -> bool {
        self.drivers.are_anothers() || self.tools.are_anothers()
    }

    /// Starts a task where tools and hooks run.
    pub(crate) fn spawn_aside(&self, task: impl Future<Output = ()> + Send + 'static) {
        match self.tools() {
            Some(handle) => drop(handle.spawn(self.tasks.track(task))),
            None => self.spawn(task),
        }
    }

    /// Runs a function that may block, on a separate thread.
    pub(crate) fn spawn_thread(&self, function: impl FnOnce() + Send + 'static) {
        let threads = Arc::clone(&self.tools);
        let function = move || {
            blocking(function);
            drop(threads);
        };
        match self.tools().cloned().or_else(|| Handle::try_current().ok()) {
            Some(handle) => drop(handle.spawn_blocking(self.tasks.track_function(function))),
            // There is no thread to run it on: whoever waits for it waits until it is stopped.
            None => drop(function),
        }
    }

    /// Waits until every task that was started here has ended.
    pub(crate) async fn all_over(&self) {
        self.tasks.wait().await;
    }

    pub(crate) fn tasks(&self) -> usize {
        self.tasks.len()
    }
}

thread_local! {
    /// Whether this is a thread for tools, async or blocking.
    static IS_TOOLS_THREAD: Cell<bool> = const { Cell::new(false) };
}
