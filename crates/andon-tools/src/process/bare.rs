//! A process without a shim: in its own process group, and stopped on a best-effort basis.

use std::io;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use andon_runtime::Remains;
use andon_shim::{Config, Limits, Part, Refusal, Status};
use parking_lot::Mutex;
use tokio::process::Child;

use super::pipes::ToolEnds;
#[cfg(target_os = "linux")]
use super::scan::Traces;

pub(crate) struct Bare {
    child: tokio::sync::Mutex<Child>,
    status: Mutex<Option<Status>>,
    /// Whether we killed it before it had ended.
    killed: AtomicBool,
    traces: Traces,
    name: String,
    /// Whether its limits could not be set.
    unlimited: bool,
}

/// How the processes of the tree are found where there is no `/proc`: only by their group.
#[cfg(not(target_os = "linux"))]
struct Traces {
    leader: Option<rustix::process::Pid>,
}

impl Bare {
    pub(crate) fn start(config: &Config, mark: String, ends: ToolEnds) -> Result<Self, Refusal> {
        let mut command = tokio::process::Command::new(&config.program);
        command.args(&config.args).env_clear().envs(config.env.iter().map(|(name, value)| (name, value)));
        command.stdin(ends.stdin.map_or_else(Stdio::null, Stdio::from)).process_group(0);
        command.stdout(Stdio::from(ends.stdout)).stderr(Stdio::from(ends.stderr));
        if let Some(folder) = &config.cwd {
            enter(folder).map_err(|error| Refusal::new(Part::Folder, folder, &error))?;
            command.current_dir(folder);
        }
        #[cfg(target_os = "linux")]
        let child = super::adopt::spawn(&mut command);
        #[cfg(not(target_os = "linux"))]
        let child = command.spawn();
        let child = child.map_err(|error| Refusal::new(Part::Command, &config.program, &error))?;
        let traces = Traces::of(&child, config, mark);
        let name = config.program.to_string_lossy().into_owned();
        let unlimited = !cfg!(target_os = "linux") && config.limits != Limits::default();
        let (child, status, killed) = (tokio::sync::Mutex::new(child), Mutex::default(), AtomicBool::new(false));
        Ok(Self { child, status, killed, traces, name, unlimited })
    }

    /// Waits for the end of the main process.
    pub(crate) async fn exited(&self) -> Option<Status> {
        let ended = self.child.lock().await.wait().await.ok()?;
        let status = status(ended);
        *self.status.lock() = status;
        status
    }

    pub(crate) fn status(&self) -> Option<Status> {
        *self.status.lock()
    }

    /// Waits for the end of the main process, and kills the rest.
    pub(crate) async fn over(&self) {
        self.exited().await;
        self.kill();
    }

    pub(crate) fn ask_to_end(&self) {
        self.traces.ask_to_end();
    }

    pub(crate) fn kill(&self) {
        if self.status().is_none() {
            self.killed.store(true, Ordering::Relaxed);
        }
        self.traces.kill();
    }

    /// Whether the main process was killed from here.
    pub(crate) fn was_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }

    /// Kills what can be found, and notes that this was best effort.
    pub(crate) async fn end(&self) -> Remains {
        let leaked = self.traces.end_all(&self.name).await;
        let reaped = tokio::time::timeout(super::PATIENCE, self.exited()).await;
        let mut notes = vec![format!(
            "`{}` ran without a shim and was stopped on a best-effort basis, by its process group{}: a process that left it may \
             still be running; call andon_runtime::init() first in main, or name a helper",
            self.name,
            if cfg!(target_os = "linux") { " and its environment" } else { "" }
        )];
        if reaped.is_err() {
            notes.push(format!("`{}` itself could not be killed within {} s", self.name, super::PATIENCE.as_secs()));
        }
        if self.unlimited {
            notes.push(format!("the limits of `{}` were not set: this system cannot set them from outside", self.name));
        }
        Remains::new().leaked(leaked).notes(notes)
    }
}

/// Checks the folder: the system's own error does not distinguish it from the command.
fn enter(folder: &std::ffi::OsStr) -> io::Result<()> {
    if std::fs::metadata(folder)?.is_dir() { Ok(()) } else { Err(rustix::io::Errno::NOTDIR.into()) }
}

fn status(status: std::process::ExitStatus) -> Option<Status> {
    use std::os::unix::process::ExitStatusExt;
    status.code().map(Status::Code).or(status.signal().map(Status::Signal))
}

#[cfg(target_os = "linux")]
impl Traces {
    fn of(child: &Child, config: &Config, mark: String) -> Self {
        let leader = child.id().and_then(|id| andon_shim::proc::look(id.cast_signed()));
        for (resource, limit) in andon_shim::rlimits(&config.limits) {
            let pid = child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
            // A process that has already ended needs no limit. One that forks at once may have a child without it.
            let _ = pid.map(|pid| rustix::process::prlimit(Some(pid), resource, limit));
        }
        Self { leader: leader.map(|leader| (leader.pid, leader.start)), mark, ..Self::default() }
    }

    async fn end_all(&self, name: &str) -> Vec<String> {
        let survivors = self.end(super::PATIENCE).await;
        survivors.iter().map(|survivor| format!("{survivor} of `{name}`")).collect()
    }
}

#[cfg(not(target_os = "linux"))]
impl Traces {
    fn of(child: &Child, _: &Config, _: String) -> Self {
        Self { leader: child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())) }
    }

    fn ask_to_end(&self) {
        self.signal(rustix::process::Signal::TERM);
        self.signal(rustix::process::Signal::CONT);
    }

    fn kill(&self) {
        self.signal(rustix::process::Signal::KILL);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        // It fails only if the group has no members.
        let _ = self.leader.map(|leader| rustix::process::kill_process_group(leader, signal));
    }

    async fn end_all(&self, _: &str) -> Vec<String> {
        self.kill();
        Vec::new()
    }
}
