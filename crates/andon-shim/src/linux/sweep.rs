//! Ends all descendants of the shim.
//!
//! # Invariants
//!
//! 1. Only `ECHILD` proves that nothing is left. `/proc` says which processes to signal, never that none is left.
//! 2. A direct child keeps its pid until this process reaps it, so it is signalled by pid. All others are signalled through a
//!    pidfd that was checked against the start time.
//! 3. It is bounded: when its patience is over, it names the processes that are left.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};

use super::cgroup::Cgroup;
use super::proc::{self, Process};
use crate::protocol::{Status, Survivor};

/// How long freezing the tree may take before it is killed anyway.
const FREEZE: Duration = Duration::from_secs(1);
/// How long to wait for processes to die before looking again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How many survivors to name.
const NAMED: usize = 50;

/// Reaps, and remembers how the tool's main process ended.
pub(crate) struct Reaper {
    tool: Pid,
    pub(crate) status: Option<Status>,
}

/// What is left to reap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Children {
    Some,
    /// The kernel says that there are none.
    None,
}

impl Reaper {
    pub(crate) fn new(tool: Pid) -> Self {
        Self { tool, status: None }
    }

    /// Reaps all dead children.
    pub(crate) fn reap(&mut self) -> Children {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.tool => self.status = Some(to_status(status)),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Err(Errno::CHILD) => return Children::None,
                Ok(None) | Err(_) => return Children::Some,
            }
        }
    }
}

fn to_status(status: WaitStatus) -> Status {
    match status.terminating_signal() {
        Some(signal) => Status::Signal(signal),
        None => Status::Code(status.exit_status().unwrap_or(-1)),
    }
}

/// How a sweep ended.
pub(crate) enum Swept {
    Gone,
    GaveUp(Vec<Survivor>),
}

/// Ends every descendant of this process. `deaths` becomes readable when a child dies.
pub(crate) fn sweep(reaper: &mut Reaper, cgroup: Option<&Cgroup>, deaths: BorrowedFd<'_>, patience: Duration) -> Swept {
    // Most tools leave nothing behind, and then there is nothing to look for.
    if reaper.reap() == Children::None {
        return Swept::Gone;
    }
    let begun = now();
    if let Some(cgroup) = cgroup {
        cgroup.kill();
    }
    let mut victims = freeze(begun + FREEZE.min(patience));
    loop {
        for process in &victims {
            // A process that cannot be signalled is named at the end.
            let _ = signal(process, Signal::KILL);
        }
        if reap_until(reaper, deaths, now() + LOOK_AGAIN) == Children::None {
            return Swept::Gone;
        }
        if now() >= begun + patience {
            return Swept::GaveUp(survivors());
        }
        victims = living().collect();
    }
}

/// Reaps children as they die, until none is left or the time is up.
fn reap_until(reaper: &mut Reaper, deaths: BorrowedFd<'_>, end: Instant) -> Children {
    loop {
        if reaper.reap() == Children::None {
            return Children::None;
        }
        let left = end.saturating_duration_since(now());
        if left.is_zero() {
            return Children::Some;
        }
        let pause = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
        // A death or a timeout: both mean to look again.
        let _ = poll(&mut [PollFd::from_borrowed_fd(deaths, PollFlags::IN)], Some(&pause));
        super::supervisor::drain(deaths);
    }
}

/// Asks all processes to end. They are frozen first, so that one that is just being forked is not missed, and a helper that
/// another process starts for its own cleanup is not asked. They get the signal when they continue.
pub(crate) fn ask_to_end() {
    let all = freeze(now() + FREEZE);
    for what in [Signal::TERM, Signal::CONT] {
        for process in &all {
            // It fails if the process has died, or may not be signalled, which the kill will show.
            let _ = signal(process, what);
        }
    }
}

/// Freezes all processes, parents first, until another look finds no new one (a frozen process does not fork), and returns them.
fn freeze(until: Instant) -> Vec<Process> {
    let looks = std::iter::from_fn(|| (now() < until).then(|| living().collect()));
    // A process may have died, and it is killed in any case.
    proc::until_none_is_new(looks, |process| drop(signal(process, Signal::STOP)))
}

fn signal(process: &Process, what: Signal) -> std::io::Result<()> {
    match Pid::from_raw(process.pid) {
        Some(pid) if process.parent == own() => Ok(kill_process(pid, what)?),
        _ => process.signal(what),
    }
}

pub(crate) fn living() -> impl Iterator<Item = Process> {
    proc::descendants(own()).into_iter().filter(|process| !process.is_dead())
}

fn survivors() -> Vec<Survivor> {
    living().take(NAMED).map(|Process { pid, name, .. }| Survivor { pid, name }).collect()
}

fn own() -> i32 {
    getpid().as_raw_nonzero().get()
}

#[expect(clippy::disallowed_methods, reason = "the shim has no runtime and no clock but the system's")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
