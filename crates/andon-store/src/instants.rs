//! When runs settled: on its way into the file without a sync of its own.
//!
//! # Invariants
//!
//! 1. What was taken is told by every read: from here until it stands in the file, and from then on by the file.
//! 2. It is written with the next commit, whoever that is for. If none comes, it is written alone, and nobody waits for the disk.
//! 3. It stands before whatever else is in its transaction: a run that is deleted takes its instant with it.

use std::collections::HashMap;
use std::time::Duration;

use andon::core::id::RunId;
use andon::core::time::Stamp;
use andon::{Moved, RunInfo, Stored};
use parking_lot::Mutex;

use crate::transaction::Store;
use crate::writer::{STALL, Writer};

/// How many are written with one commit at most: whoever waits for it did not ask for them.
const MOST: usize = 256;

/// Instants that do not stand in the file yet.
#[derive(Debug, Default)]
pub(crate) struct Instants(Mutex<HashMap<RunId, Stamp>>);

impl Instants {
    pub(crate) fn take(&self, run: &RunId, at: Stamp) {
        self.0.lock().entry(run.clone()).or_insert(at);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// What is not in the file. A read asks before it looks there, so that nothing falls between (invariant 1).
    pub(crate) fn pending(&self) -> Pending {
        Pending(self.0.lock().clone())
    }

    /// As [`pending`](Self::pending), of one run.
    pub(crate) fn pending_of(&self, run: &RunId) -> Pending {
        Pending(self.0.lock().get(run).map(|at| (run.clone(), *at)).into_iter().collect())
    }

    /// Those that are written with the next commit.
    pub(crate) fn next(&self) -> Vec<(RunId, Stamp)> {
        self.first(MOST)
    }

    /// As many of them.
    pub(crate) fn first(&self, most: usize) -> Vec<(RunId, Stamp)> {
        self.0.lock().iter().take(most).map(|(run, at)| (run.clone(), *at)).collect()
    }

    /// These stand in the file.
    pub(crate) fn written(&self, instants: &[(RunId, Stamp)]) {
        let mut pending = self.0.lock();
        for (run, _) in instants {
            pending.remove(run);
        }
    }
}

/// What was not in the file when it was looked at.
#[derive(Debug, Default)]
pub(crate) struct Pending(HashMap<RunId, Stamp>);

impl Pending {
    pub(crate) fn add_to(&self, run: &RunId, stored: &mut Stored) {
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

    pub(crate) fn add_to_copy(&self, mut moved: Moved) -> Moved {
        for (run, stored) in &mut moved.runs {
            self.add_to(run, stored);
        }
        moved
    }
}

impl Writer {
    /// Writes them although nothing else is to be written (invariant 2). What cannot be written now is tried again.
    pub(crate) fn keep_instants(&self) {
        if self.instants.is_empty() {
            return;
        }
        // Without patience: what comes next must not wait for it. Settings that cannot be changed stay as they are.
        let _ = self.store.connection.busy_timeout(Duration::ZERO);
        let _ = without_sync(&self.store, |store| {
            while !self.instants.is_empty() {
                self.keep_some(store)?;
            }
            Ok(())
        });
        let _ = self.store.connection.busy_timeout(STALL);
    }

    fn keep_some(&self, store: &Store) -> rusqlite::Result<()> {
        let instants = self.instants.next();
        let transaction = store.connection.unchecked_transaction()?;
        store.keep_settled(&instants)?;
        transaction.commit()?;
        self.instants.written(&instants);
        Ok(())
    }
}

/// In this kind of database a commit without a sync cannot damage the file: what a crash of the machine takes away is the commit.
/// The next commit with a sync makes it durable, too.
fn without_sync(store: &Store, work: impl FnOnce(&Store) -> rusqlite::Result<()>) -> rusqlite::Result<()> {
    store.connection.pragma_update(None, "synchronous", "normal")?;
    let result = work(store);
    store.connection.pragma_update(None, "synchronous", "full")?;
    result
}
