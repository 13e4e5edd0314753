//! When runs settled: written to the file without a sync of its own.
//!
//! # Invariants
//!
//! 1. Every read sees an instant that was added: from here until it is in the file, and then from the file.
//! 2. An instant is written with the next commit that has room for it. If none comes, it is written alone, without waiting for
//!    the disk.
//! 3. It is written before anything else in its transaction, so that deleting a run deletes its instant.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use andon_runtime::core::id::RunId;
use andon_runtime::core::time::Stamp;
use andon_runtime::{JournaledRun, RunInfo, SessionCopy};
use parking_lot::Mutex;

use super::HashMap;

/// How many are written in one transaction: what arrives meanwhile has to wait.
pub(crate) const SOME: usize = 64;

/// How many are written in one transaction if there are [too many](MANY).
const MOST: usize = 1_024;

/// How many may wait for a commit that has room for them.
const MANY: usize = 16_384;

/// Instants that are not in the file yet.
#[derive(Debug, Default)]
pub(crate) struct Instants(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    by_run: HashMap<RunId, Stamp>,
    /// In the order in which they came, because runs that settle together are close together in the file.
    order: VecDeque<(RunId, Stamp)>,
}

impl Instants {
    pub(crate) fn add(&self, run: &RunId, at: Stamp) {
        let mut waiting = self.0.lock();
        if let Entry::Vacant(free) = waiting.by_run.entry(run.clone()) {
            free.insert(at);
            waiting.order.push_back((run.clone(), at));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().by_run.is_empty()
    }

    /// The instants that are not in the file. A reader must ask for them before it reads the file, so that it misses none
    /// (invariant 1).
    pub(crate) fn pending(&self) -> Pending {
        Pending(self.0.lock().by_run.clone())
    }

    /// Like [`pending`](Self::pending), for one run.
    pub(crate) fn pending_of(&self, run: &RunId) -> Pending {
        Pending(self.0.lock().by_run.get(run).map(|at| (run.clone(), *at)).into_iter().collect())
    }

    /// Those to write with a commit. A full commit carries none, because its callers would wait for them.
    pub(crate) fn beside(&self, is_full: bool) -> Vec<(RunId, Stamp)> {
        let are_many = self.0.lock().order.len() >= MANY;
        match is_full {
            _ if are_many => self.oldest(MOST),
            true => Vec::new(),
            false => self.oldest(SOME),
        }
    }

    /// Up to `most` of them, the oldest first.
    pub(crate) fn oldest(&self, most: usize) -> Vec<(RunId, Stamp)> {
        self.0.lock().order.iter().take(most).cloned().collect()
    }

    /// Removes those that are in the file now.
    pub(crate) fn written(&self, instants: &[(RunId, Stamp)]) {
        if instants.is_empty() {
            return;
        }
        let Waiting { by_run, order } = &mut *self.0.lock();
        for (run, _) in instants {
            by_run.remove(run);
        }
        // Those that were written were at the front.
        while order.pop_front_if(|(run, _)| !by_run.contains_key(run)).is_some() {}
    }
}

/// The instants that were not in the file when it was read.
#[derive(Debug, Default)]
pub(crate) struct Pending(HashMap<RunId, Stamp>);

impl Pending {
    pub(crate) fn add_to(&self, run: &RunId, stored: &mut JournaledRun) {
        if stored.settled_at.is_none() && stored.end().is_some() {
            stored.settled_at = self.0.get(run).copied();
        }
    }

    pub(crate) fn add_to_list(&self, mut runs: Vec<RunInfo>) -> Vec<RunInfo> {
        for info in runs.iter_mut().filter(|info| info.ending.is_some() && info.settled_at.is_none()) {
            info.settled_at = self.0.get(&info.run).map(|at| at.wall);
        }
        runs
    }

    pub(crate) fn add_to_copy(&self, mut moved: SessionCopy) -> SessionCopy {
        for (run, stored) in &mut moved.runs {
            self.add_to(run, stored);
        }
        moved
    }
}
