//! The one door through which tasks are started: so a shutdown can await every task.

use std::future::Future;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::task::TaskTracker;

/// Where tools and hooks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lanes {
    /// On threads of their own, so that one that blocks delays no stop.
    Two,
    /// With the drivers, so that one paused clock rules them all. For tests.
    One,
}

pub(crate) struct Door {
    lanes: Lanes,
    tasks: TaskTracker,
}

impl Door {
    pub(crate) fn new(lanes: Lanes) -> Self {
        Self { lanes, tasks: TaskTracker::new() }
    }

    /// Starts a task where drivers run: in the caller's runtime, or in one of our own if the caller has none.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let caller = Handle::try_current().ok();
        match caller.as_ref().or_else(|| own(&DRIVERS, "andon")) {
            Some(handle) => drop(self.tasks.spawn_on(task, handle)),
            // No thread can be had: the run stays where it is, and its handle says so by never settling.
            None => drop(task),
        }
    }

    /// Starts a task where tools and hooks run.
    pub(crate) fn spawn_aside(&self, task: impl Future<Output = ()> + Send + 'static) {
        match self.lanes {
            Lanes::One => self.spawn(task),
            Lanes::Two => match own(&TOOLS, "andon-tools") {
                Some(handle) => drop(self.tasks.spawn_on(task, handle)),
                None => self.spawn(task),
            },
        }
    }

    /// Waits until every task that came through this door is over.
    pub(crate) async fn all_over(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }

    pub(crate) fn tasks(&self) -> usize {
        self.tasks.len()
    }
}

static DRIVERS: OnceLock<Option<Runtime>> = OnceLock::new();
static TOOLS: OnceLock<Option<Runtime>> = OnceLock::new();

/// A runtime of our own, shared by the whole process and started when it is first needed.
fn own(cell: &'static OnceLock<Option<Runtime>>, name: &str) -> Option<&'static Handle> {
    let runtime = cell.get_or_init(|| {
        Builder::new_multi_thread().thread_name(name).worker_threads(threads()).enable_all().build().ok()
    });
    runtime.as_ref().map(Runtime::handle)
}

/// More threads than cores: a tool that blocks takes one of them away from the others.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(8, |cores| (2 * cores.get()).max(8))
}
