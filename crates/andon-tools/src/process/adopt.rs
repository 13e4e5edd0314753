//! The backstop of a program that owns all its children: processes that outlive a killed shim become children of this process,
//! and are ended here.
//!
//! # Invariants
//!
//! 1. A child that is not known is the orphan of a dead shim. So each child of ours is spawned and noted under one lock, and the
//!    children are listed under that lock: a child that is being spawned is never seen.
//! 2. A child is identified by pid and start time, so that a process that gets its pid later is not mistaken for it.
//! 3. Orphans are reaped one by one, by pid and under the lock. Known children are left to whoever started them.

use std::collections::HashSet;
use std::io;

use andon_shim::proc::{self, Process};
use parking_lot::Mutex;
use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};
use tokio::process::Child;

/// How many children may be known before those that are gone are forgotten.
const MANY: usize = 256;

/// `None` until this process has become the parent of orphans.
static KNOWN: Mutex<Option<KnownChildren>> = Mutex::new(None);

#[derive(Default)]
struct KnownChildren {
    children: HashSet<(i32, u64)>,
    /// How many children make the next tidying due.
    full: usize,
}

/// All processes at one moment, and which of them are orphans that this process has adopted, including dead ones.
#[derive(Default)]
pub(crate) struct Snapshot {
    pub(crate) all: Vec<Process>,
    pub(crate) orphans: HashSet<i32>,
}

/// Becomes the parent of orphans. If the kernel refuses, nothing changes.
pub(crate) fn begin() {
    let mut known = KNOWN.lock();
    if known.is_some() || set_child_subreaper(Some(getpid())).is_err() {
        return;
    }
    // A program can have children from the start: those of the program that it replaced.
    let own = own();
    let children = proc::all().into_iter().filter(|one| one.parent == own).map(|one| (one.pid, one.start));
    *known = Some(KnownChildren { children: children.collect(), full: MANY });
}

/// Whether this process is the parent of orphans.
pub(crate) fn has_begun() -> bool {
    KNOWN.lock().is_some()
}

/// Spawns a child that is never mistaken for an orphan.
pub(crate) fn spawn(command: &mut tokio::process::Command) -> io::Result<Child> {
    let mut known = KNOWN.lock();
    let Some(known) = known.as_mut() else {
        return command.spawn();
    };
    let child = command.spawn()?;
    // Nobody has reaped it, so it is visible, dead or alive.
    if let Some(process) = child.id().and_then(|id| proc::look(id.cast_signed())) {
        known.children.insert((process.pid, process.start));
    }
    if known.children.len() >= known.full {
        known.tidy();
    }
    Ok(child)
}

/// Looks at all processes.
pub(crate) fn look() -> Snapshot {
    KNOWN.lock().as_ref().map(KnownChildren::look).unwrap_or_default()
}

/// Reaps the orphans that are dead.
pub(crate) fn reap() {
    if let Some(known) = KNOWN.lock().as_mut() {
        known.tidy();
    }
}

impl KnownChildren {
    fn look(&self) -> Snapshot {
        let (own, all) = (own(), proc::all());
        let is_orphan = |one: &&Process| one.parent == own && !self.children.contains(&(one.pid, one.start));
        let orphans = all.iter().filter(is_orphan).map(|one| one.pid).collect();
        Snapshot { all, orphans }
    }

    /// Reaps orphans that are dead, and forgets children that are gone.
    fn tidy(&mut self) {
        let Snapshot { all, orphans } = self.look();
        for orphan in all.iter().filter(|one| one.is_dead() && orphans.contains(&one.pid)) {
            // It is dead and a child of this process, and it is only reaped under the lock.
            let _ = Pid::from_raw(orphan.pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
        }
        let there: HashSet<_> = all.into_iter().map(|one| (one.pid, one.start)).collect();
        self.children.retain(|child| there.contains(child));
        self.full = MANY.max(2 * self.children.len());
    }
}

fn own() -> i32 {
    getpid().as_raw_nonzero().get()
}
