//! The processes of one call, so that its cleanup can end them.

use std::sync::Arc;

use andon_runtime::Remains;
use andon_shim::Status;
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::net::unix::pipe::{Receiver, Sender};

use super::bare::Bare;
use super::pipes::HostEnds;
#[cfg(target_os = "linux")]
use super::shim::Shim;

/// Everything that one call has started. Cheap to clone: one clone starts processes, another one ends them.
///
/// ```no_run
/// # use andon_runtime::{Invocation, ToolOutput, Work};
/// use andon_tools::process::{Command, Tree};
///
/// fn call(invocation: Invocation) -> Work {
///     let tree = Tree::new();
///     let started = tree.clone();
///     Work::task(async move {
///         let progress = invocation.progress.clone();
///         let done = Command::new("make").run(&started, &invocation.cord, |text| progress.show(text)).await?;
///         Ok(done.stdout.into_text().into())
///     })
///     .cleanup(move || async move { tree.end().await })
/// }
/// ```
#[derive(Clone, Default)]
pub struct Tree {
    state: Arc<Mutex<TreeState>>,
}

#[derive(Default)]
struct TreeState {
    processes: Vec<Arc<Process>>,
    /// Whether it has ended, so that nothing may be started.
    ended: bool,
}

impl Tree {
    /// An empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Kills everything that was started and waits for proof that it is dead, bounded by [`CLEANUP`](super::CLEANUP). The answer
    /// names what could not be ended. Nothing can be started in the tree afterwards.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped, the processes are still killed, but nobody learns what remains.
    pub async fn end(&self) -> Remains {
        let processes = {
            let mut state = self.state.lock();
            state.ended = true;
            std::mem::take(&mut state.processes)
        };
        for process in &processes {
            process.kill();
        }
        let mut remains = Remains::default();
        // All at once, so that many take no longer than one.
        for Remains { leaked, notes, .. } in join_all(processes.iter().map(|process| process.end())).await {
            remains.leaked.extend(leaked);
            remains.notes.extend(notes);
        }
        remains
    }

    /// Starts a process and remembers it under one lock, so that `end` cannot come between the two. `None` if the tree has
    /// ended.
    pub(crate) fn add<E>(&self, start: impl FnOnce() -> Result<Process, E>) -> Result<Option<Arc<Process>>, E> {
        let mut state = self.state.lock();
        if state.ended {
            return Ok(None);
        }
        let process = Arc::new(start()?);
        state.processes.push(Arc::clone(&process));
        Ok(Some(process))
    }
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree").field("processes", &self.state.lock().processes.len()).finish_non_exhaustive()
    }
}

/// One process and its descendants.
pub(crate) enum Process {
    #[cfg(target_os = "linux")]
    Shim(Shim),
    Bare(Bare),
}

impl Process {
    fn kill(&self) {
        match self {
            #[cfg(target_os = "linux")]
            Self::Shim(shim) => shim.kill(),
            Self::Bare(bare) => bare.kill(),
        }
    }

    async fn end(&self) -> Remains {
        match self {
            #[cfg(target_os = "linux")]
            Self::Shim(shim) => shim.end().await,
            Self::Bare(bare) => bare.end().await,
        }
    }
}

/// A running process, and the host's ends of its pipes.
///
/// Dropping it stops nothing: its processes belong to its [`Tree`].
pub struct Running {
    process: Arc<Process>,
    /// Its standard input, if it was asked for. Dropping it closes it.
    pub stdin: Option<Sender>,
    /// Its standard output, until it is taken.
    pub stdout: Option<Receiver>,
    /// Its standard error, if it is not merged with the output.
    pub stderr: Option<Receiver>,
}

impl Running {
    pub(crate) fn new(process: Arc<Process>, ends: HostEnds) -> Self {
        let HostEnds { stdin, stdout, stderr } = ends;
        Self { process, stdin, stdout: Some(stdout), stderr }
    }

    /// Waits for the end of the main process. `None` if its status is unknown, because its shim was killed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn exited(&self) -> Option<Status> {
        match &*self.process {
            #[cfg(target_os = "linux")]
            Process::Shim(shim) => shim.exited().await,
            Process::Bare(bare) => bare.exited().await,
        }
    }

    /// How the main process ended, if it has.
    pub fn status(&self) -> Option<Status> {
        match &*self.process {
            #[cfg(target_os = "linux")]
            Process::Shim(shim) => shim.status(),
            Process::Bare(bare) => bare.status(),
        }
    }

    /// Whether the main process was killed by us or its shim, and not by anyone else.
    pub fn was_killed(&self) -> bool {
        match &*self.process {
            #[cfg(target_os = "linux")]
            Process::Shim(shim) => shim.was_killed(),
            Process::Bare(bare) => bare.was_killed(),
        }
    }

    /// Waits until all its processes have ended, or it is known that some cannot be ended: [`Tree::end`] names those.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn over(&self) {
        match &*self.process {
            #[cfg(target_os = "linux")]
            Process::Shim(shim) => drop(shim.over().await),
            Process::Bare(bare) => bare.over().await,
        }
    }

    /// Asks all its processes to end: `SIGTERM`, and `SIGCONT` for those that are stopped. They have until [`kill`](Self::kill).
    pub fn ask_to_end(&self) {
        match &*self.process {
            #[cfg(target_os = "linux")]
            Process::Shim(shim) => shim.ask_to_end(),
            Process::Bare(bare) => bare.ask_to_end(),
        }
    }

    /// Kills all its processes, without waiting for their end.
    pub fn kill(&self) {
        self.process.kill();
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("status", &self.status()).finish_non_exhaustive()
    }
}
