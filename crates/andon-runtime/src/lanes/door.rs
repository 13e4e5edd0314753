//! The one door through which tasks are started: so a shutdown can await every task.

use std::cell::Cell;
use std::future::Future;
use std::num::NonZero;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};

use super::tracker::TaskTracker;

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
}

impl Door {
    pub(crate) fn new(lanes: Lanes) -> Self {
        Self { lanes, tasks: TaskTracker::default() }
    }

    /// Starts a task where drivers run: in the caller's runtime, or in one of our own if the caller has none or is a tool.
    /// A run that a tool starts must not wait for the tools' threads, which other tools may block.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let caller = Handle::try_current().ok();
        let may_drive = |_: &Handle| !self.has_own_threads() || !IS_TOOLS_THREAD.get();
        let own = || own_drivers().cloned();
        // If we cannot start threads, a tool's thread is better than none.
        match caller.clone().filter(may_drive).or_else(own).or(caller) {
            Some(handle) => drop(handle.spawn(self.tasks.track(task))),
            // There is no thread to run it on: the run stays where it is, and never settles.
            None => drop(task),
        }
    }

    /// Starts a task that other runs depend on, and that must not end with the caller's runtime.
    pub(crate) fn spawn_keeper(&self, task: impl Future<Output = ()> + Send + 'static) {
        match own_drivers().filter(|_| self.has_own_threads()) {
            Some(handle) => drop(handle.spawn(self.tasks.track(task))),
            None => self.spawn(task),
        }
    }

    /// Whether a run may be settled on threads that are not its caller's.
    pub(crate) fn has_own_threads(&self) -> bool {
        self.lanes == Lanes::Two
    }

    /// The threads for tools and hooks, if they have their own.
    fn tools(&self) -> Option<&'static Handle> {
        if self.has_own_threads() { own_tools() } else { None }
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

static DRIVERS: OnceLock<Option<Runtime>> = OnceLock::new();
static TOOLS: OnceLock<Option<Runtime>> = OnceLock::new();

thread_local! {
    /// Whether this is a thread for tools, async or blocking.
    static IS_TOOLS_THREAD: Cell<bool> = const { Cell::new(false) };
}

fn own_drivers() -> Option<&'static Handle> {
    own(&DRIVERS, "andon", cores, || {})
}

fn own_tools() -> Option<&'static Handle> {
    // More threads than a run has tools at once, because a tool that blocks takes a thread away from the others.
    own(&TOOLS, "andon-tools", || (2 * cores()).max(16), || IS_TOOLS_THREAD.set(true))
}

/// A runtime of our own, shared by the whole process and started when it is first needed.
fn own(
    cell: &'static OnceLock<Option<Runtime>>,
    name: &str,
    threads: fn() -> usize,
    on_start: fn(),
) -> Option<&'static Handle> {
    let runtime = cell.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        // The pools of blocking tools set the real bound: several runtimes may share these threads.
        builder.thread_name(name).on_thread_start(on_start).worker_threads(threads()).max_blocking_threads(4096);
        builder.enable_all().build().ok()
    });
    runtime.as_ref().map(Runtime::handle)
}

/// How many cores there are. This asks the system each time, which takes as long as starting a task.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, NonZero::get)
}
