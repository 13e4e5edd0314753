//! Ends a tree without a shim: finds its processes by their traces. This is best effort, and reported as such.

use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use andon_shim::Survivor;
use andon_shim::cgroup::Cgroup;
use andon_shim::proc::{self, Process};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use super::adopt::{self, Snapshot};

/// How long to wait for processes to die before looking again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How many looks the freezing may take.
const LOOKS: usize = 50;

/// How the processes of a tree can be found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Traces {
    /// The main process, and when it started: it leads a group, and under a shim a session.
    pub(crate) leader: Option<(i32, u64)>,
    /// The value of [`andon_shim::MARK`] in their environment.
    pub(crate) mark: String,
    /// Their cgroup.
    pub(crate) cgroup: Option<OsString>,
    /// A process whose descendants they are, and which is left alone.
    pub(crate) under: Option<i32>,
    /// Whether this process may have adopted them, because their shim is dead.
    pub(crate) orphans: bool,
}

impl Traces {
    /// Asks all processes to end. They are frozen first, so that one that is just being forked is not missed.
    pub(crate) fn ask_to_end(&self) {
        let all = self.freeze();
        for signal in [Signal::TERM, Signal::CONT] {
            for process in &all {
                // It fails only if the process has died.
                let _ = process.signal(signal);
            }
        }
    }

    /// Kills all processes, without waiting for their end.
    pub(crate) fn kill(&self) {
        if let Some(cgroup) = &self.cgroup {
            Cgroup::at(cgroup).kill();
        }
        self.freeze();
        self.signal_all(Signal::KILL);
    }

    /// Ends all processes, and returns those that are left.
    pub(crate) async fn end(&self, patience: Duration) -> Vec<Survivor> {
        self.kill();
        let until = Instant::now() + patience;
        let mut left = self.find_twice();
        while !left.is_empty() && Instant::now() < until {
            self.signal_all(Signal::KILL);
            sleep(LOOK_AGAIN).await;
            left = self.find_twice();
        }
        if self.orphans {
            adopt::reap();
        }
        if let Some(cgroup) = &self.cgroup {
            Cgroup::at(cgroup).remove();
        }
        left.into_iter().map(|Process { pid, name, .. }| Survivor { pid, name }).collect()
    }

    /// Freezes all processes until another look finds no new one, and returns them.
    fn freeze(&self) -> Vec<Process> {
        // A signal fails only if the process has died.
        proc::until_none_is_new((0..LOOKS).map(|_| self.find()), |process| drop(process.signal(Signal::STOP)))
    }

    fn signal_all(&self, signal: Signal) {
        for process in self.find() {
            // A process that cannot be signalled is named at the end.
            let _ = process.signal(signal);
        }
    }

    /// A process that forks and exits can slip through a single look.
    fn find_twice(&self) -> Vec<Process> {
        let found = self.find();
        if found.is_empty() { self.find() } else { found }
    }

    /// All living processes with one of the traces, and their descendants.
    fn find(&self) -> Vec<Process> {
        let Snapshot { all, orphans } = match self.orphans {
            true => adopt::look(),
            false => Snapshot { all: proc::all(), ..Snapshot::default() },
        };
        let in_cgroup = self.cgroup.as_ref().map(|path| Cgroup::at(path).pids()).unwrap_or_default();
        // If another process has got the leader's id, the id means another group and session.
        let leader = self.leader.filter(|&(pid, start)| all.iter().all(|one| one.pid != pid || one.start == start));
        let carries = |one: &Process| {
            leader.is_some_and(|(pid, _)| one.pid == pid || one.group == pid || one.session == pid)
                || in_cgroup.contains(&one.pid)
                || orphans.contains(&one.pid)
                || self.under == Some(one.parent)
                || self.is_marked(one.pid)
        };
        let own = std::process::id().cast_signed();
        let (mut found, mut rest): (Vec<_>, Vec<_>) = all.into_iter().partition(carries);
        let mut next = 0;
        while let Some(pid) = found.get(next).map(|one| one.pid) {
            let (children, others) = rest.into_iter().partition(|one: &Process| one.parent == pid);
            found.extend::<Vec<_>>(children);
            rest = others;
            next += 1;
        }
        found.retain(|one| !one.is_dead() && one.pid != own && Some(one.pid) != self.under);
        found
    }

    fn is_marked(&self, pid: i32) -> bool {
        let entry = format!("{}={}", andon_shim::MARK, self.mark);
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == entry.as_bytes())
    }
}
