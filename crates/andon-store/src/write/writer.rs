//! The one thread that writes: whatever is queued when a commit ends goes into the next commit.

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::JournalError;
#[cfg(feature = "testing")]
use andon_runtime::Probe;

use super::job::{self, Job};
use super::room::ERASE;
use super::store::{Store, WriteError};
use super::sweeper::Sweeper;
use super::uses::Uses;
use crate::file::{Location, explain, is_busy, is_disk_failure, is_full};
use crate::queue::{Queue, Taken};
use crate::record::{Instants, RefuseOnExit, Trouble};

/// The most facts in one commit: with more, the first of them would wait too long for the last.
const MOST: usize = 256;

/// How much room a disk that was full must have before it counts as well again: less would be used up by the next run.
const ENOUGH: u64 = 256 << 10;

/// How long an instant waits for a commit to be written with.
const REST: Duration = Duration::from_millis(50);

/// How long to wait before trying again.
const AGAIN: Duration = Duration::from_millis(250);

/// How long another program may lock the database before that is reported as trouble. The commit is still retried.
pub(super) const STALL: Duration = Duration::from_secs(1);

/// How often to test whether the disk accepts writes again, while there is nothing to write.
const TRY_AGAIN: Duration = Duration::from_millis(500);

pub(crate) struct Writer {
    pub(crate) store: Store,
    pub(crate) location: Location,
    pub(crate) sweeper: Sweeper,
    pub(crate) queue: Arc<Queue<Job>>,
    pub(crate) instants: Arc<Instants>,
    pub(crate) uses: Arc<Uses>,
    /// Whether there was nothing to do for a while.
    pub(crate) rested: bool,
    pub(crate) trouble: Arc<Trouble>,
    #[cfg(feature = "testing")]
    pub(crate) probe: Option<Arc<dyn Probe>>,
    /// How many pages the write-ahead log had when the sweeper was last called.
    pub(crate) checkpointed: i32,
    /// Whether deleted data may still be in the write-ahead log.
    pub(crate) erasing: bool,
}

impl Writer {
    /// Writes until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        let _guard = RefuseOnExit(Arc::clone(&self.queue));
        // If the timeout cannot be set, the previous one stays.
        let _ = self.store.connection.busy_timeout(STALL);
        loop {
            let in_trouble = self.trouble.get().is_some();
            match self.queue.take(MOST, Job::weight, || self.patience()) {
                Taken::Jobs(jobs) => {
                    // A disk in trouble gets no writes that nobody waits for.
                    self.commit(jobs, !in_trouble);
                    self.make_room();
                    self.rested = false;
                }
                Taken::Nothing => {
                    self.rested = true;
                    if in_trouble { self.try_the_disk() } else { self.write_the_rest() }
                }
                Taken::Closed => break,
            }
            if self.erasing {
                self.erase(Duration::ZERO);
            }
        }
        self.write_the_rest();
        self.sweeper.close();
        self.checkpoint("TRUNCATE");
    }

    /// How long to wait for jobs. After a commit, the instants of the runs that it settled are about to arrive.
    fn patience(&self) -> Option<Duration> {
        let in_trouble = self.trouble.get().map(|_| TRY_AGAIN);
        let is_left = self.erasing || !self.instants.is_empty() || !self.uses.is_empty();
        match self.rested {
            false if in_trouble.is_none() => Some(REST),
            _ => is_left.then_some(AGAIN).or(in_trouble),
        }
    }

    /// Commits all jobs in one transaction, perhaps with instants. If one violates a constraint, or there is no room for all, each
    /// is tried in its own transaction, so that one failure does not fail the others.
    fn commit(&mut self, mut jobs: Vec<Job>, with_instants: bool) {
        if let Err(error) = self.location.check() {
            self.trouble.set(error.clone());
            return self.refuse(jobs, &error);
        }
        match self.commit_when_free(&mut jobs, with_instants) {
            Ok(results) => {
                self.trouble.clear();
                if jobs.iter().any(|job| matches!(job, Job::Other(work) if work.erases())) {
                    // Deleted data must be gone from the disk when the caller is told. If a reader is in the way, it is retried later.
                    self.erase(ERASE);
                }
                for (job, result) in jobs.into_iter().zip(results) {
                    job.done(result);
                }
                self.hit("store: acknowledged");
            }
            Err(error) if is_disk_failure(&error) || (jobs.len() == 1 && !with_instants) => {
                if is_disk_failure(&error) || is_full(&error) {
                    self.trouble.set(explain(&error));
                }
                self.refuse(jobs, &explain(&error));
            }
            Err(_) => {
                for job in jobs {
                    self.commit(vec![job], false);
                }
            }
        }
    }

    fn refuse(&mut self, jobs: Vec<Job>, error: &JournalError) {
        for job in jobs {
            if let Some((run, epoch)) = job.continues() {
                self.store.note_failure(run, epoch);
            }
            job.done(Err(error.clone()));
        }
    }

    /// While another program has the database locked, the jobs wait: that is a stall, not a failure. Only a journal that is being
    /// closed does not wait.
    fn commit_when_free(
        &mut self,
        jobs: &mut [Job],
        with_instants: bool,
    ) -> rusqlite::Result<Vec<Result<(), JournalError>>> {
        loop {
            match self.try_commit(jobs, with_instants) {
                Err(error) if is_busy(&error) && !self.queue.is_closed() => self.trouble.set(explain(&error)),
                done => return done,
            }
        }
    }

    /// Tests whether the disk accepts a write and has room for more, with a write that changes nothing.
    fn try_the_disk(&self) {
        if let Err(error) = self.location.check() {
            return self.trouble.set(error);
        }
        if self.location.room() < ENOUGH {
            return;
        }
        let version = |row: &rusqlite::Row<'_>| row.get::<_, i32>(0);
        let connection = &self.store.connection;
        let written = connection
            .pragma_query_value(None, "user_version", version)
            .and_then(|version| connection.pragma_update(None, "user_version", version));
        match written {
            Ok(()) => self.trouble.clear(),
            Err(error) => self.trouble.set(explain(&error)),
        }
    }

    fn try_commit(&mut self, jobs: &mut [Job], with_instants: bool) -> rusqlite::Result<Vec<Result<(), JournalError>>> {
        let done = self.transact(jobs, with_instants);
        if done.is_err() {
            self.store.forget();
            if !self.store.connection.is_autocommit() {
                // If this fails as well, the next transaction reports it.
                let _ = self.store.connection.execute_batch("ROLLBACK");
            }
        }
        done
    }

    fn transact(&mut self, jobs: &mut [Job], with_instants: bool) -> rusqlite::Result<Vec<Result<(), JournalError>>> {
        self.store.resume_syncing()?;
        self.store.execute("BEGIN IMMEDIATE", [])?;
        let is_full = jobs.iter().map(Job::weight).sum::<usize>() >= MOST / 2;
        let instants = if with_instants { self.instants.beside(is_full) } else { Vec::new() };
        self.store.write_settled(&instants)?;
        // On a disk that has hardly any room left, this waits as well.
        let uses = if with_instants { self.store.write_excess_uses(&self.uses)? } else { Vec::new() };
        let mut results = Vec::with_capacity(jobs.len());
        for job in jobs.iter_mut() {
            match job::work(job, &mut self.store) {
                Ok(()) => results.push(Ok(())),
                Err(WriteError::Refused(error)) => {
                    if let (Some((run, epoch)), JournalError::Storage(_)) = (job.continues(), &error) {
                        self.store.note_failure(run, epoch);
                    }
                    results.push(Err(error));
                }
                Err(WriteError::Database(error)) => return Err(error),
            }
        }
        self.hit("store: before commit");
        self.store.execute("COMMIT", [])?;
        self.instants.written(&instants);
        self.uses.written(&uses);
        self.uses.apply(self.store.take_effects());
        self.hit("store: after commit");
        Ok(results)
    }

    /// A test may step in here.
    fn hit(&self, seam: &'static str) {
        #[cfg(feature = "testing")]
        if let Some(probe) = &self.probe {
            probe.hit(seam);
        }
        #[cfg(not(feature = "testing"))]
        let _ = seam;
    }
}
