//! Threads of our own: for drivers whose caller has no tokio runtime, and for tools.
//!
//! They belong to one [`Runtime`](crate::Runtime) and not to the process: a child that is forked from it has no threads but the
//! one that forked, so its runs need a runtime of its own, with threads of its own.

use std::mem;
use std::num::NonZero;
use std::process;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};

/// Threads that are started when they are first needed. Dropping this ends them as soon as each is idle; it waits for none.
pub(crate) struct Threads {
    name: &'static str,
    count: fn() -> usize,
    on_start: fn(),
    /// `None` if they could not be started.
    started: OnceLock<Option<Started>>,
}

struct Started {
    runtime: Runtime,
    /// The process that they are threads of.
    process: u32,
}

impl Threads {
    pub(crate) fn new(name: &'static str, count: fn() -> usize, on_start: fn()) -> Self {
        Self { name, count, on_start, started: OnceLock::new() }
    }

    /// A handle on the threads, which are started first if they have not been; `None` if they cannot be.
    pub(crate) fn handle(&self) -> Option<&Handle> {
        self.started.get_or_init(|| self.start()).as_ref().map(|started| started.runtime.handle())
    }

    fn start(&self) -> Option<Started> {
        let mut builder = Builder::new_multi_thread();
        // The pool of blocking tools sets the real bound.
        builder.thread_name(self.name).on_thread_start(self.on_start);
        builder.worker_threads((self.count)()).max_blocking_threads(4096);
        Some(Started { runtime: builder.enable_all().build().ok()?, process: process::id() })
    }

    /// Whether they were started in a process that this one was forked from.
    pub(crate) fn are_anothers(&self) -> bool {
        self.started.get().and_then(Option::as_ref).is_some_and(Started::is_anothers)
    }
}

impl Started {
    fn is_anothers(&self) -> bool {
        self.process != process::id()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let Some(started) = self.started.take().flatten() else { return };
        if started.is_anothers() {
            // The threads that it would tell to end are not in this process.
            mem::forget(started.runtime);
        } else {
            started.runtime.shutdown_background();
        }
    }
}

/// How many cores there are. This asks the system each time, which takes as long as starting a task.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, NonZero::get)
}
