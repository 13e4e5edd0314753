//! The one thread that writes: whatever waits when a commit ends is the next commit.

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::core::event::{Entry, Epoch};
use andon_runtime::core::id::RunId;
use andon_runtime::{AppendDone, Batch, JournalError, Probe};
use rusqlite::ErrorCode;

use crate::encode::Encoded;
use crate::instants::Instants;
use crate::line::{Line, Taken};
use crate::place::Place;
use crate::sweeper::{Sweep, Sweeper};
use crate::transaction::{Failed, Store};
use crate::trouble::Trouble;
use crate::uses::Uses;

/// How many facts one commit carries at most: more would make the first of them wait for the last.
const MOST: usize = 256;

/// How many pages are written before they are brought into the file itself: 16 MiB, or less on a disk that has little room. Tests of
/// this crate's own do not write as much.
const CHECKPOINT: i32 = if cfg!(test) { 128 } else { 2048 };
/// From this many pages on the log is made to start over, which holds up readers.
const LARGE: i32 = 4 * CHECKPOINT;
/// Before that many pages it is not asked how much room there is.
const FEW: i32 = 16;
const PAGE: u64 = 8192;

/// How much room there must be before a disk that was full is taken for well again: a little would be gone with the next run.
const ENOUGH: u64 = 256 << 10;

/// How long a reader may be in the way of what is to be gone from the disk before the others go on.
const ERASE: Duration = Duration::from_millis(250);

/// Up to which size a database is written anew when something was deleted: it takes a tenth of a second.
const SMALL: i64 = 16 << 20;

/// How long an instant waits for a commit that it can be written with.
const REST: Duration = Duration::from_millis(50);

/// When to try again.
const AGAIN: Duration = Duration::from_millis(250);

/// How long another program may hold the database before that is told as trouble. The commit is tried again all the same.
pub(crate) const STALL: Duration = Duration::from_secs(1);

/// How often it is tried whether the disk takes writes again, if nobody wants to write.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Something to be done in a transaction.
pub(crate) enum Job {
    Append {
        batch: Encoded,
        done: AppendDone,
    },
    /// A batch that makes no sense. It stands in line all the same: what comes behind it must be refused.
    Broken {
        batch: Batch,
        error: JournalError,
        done: AppendDone,
    },
    Other(Box<dyn Work>),
}

/// Something else to be done in a transaction. It may be done again if the transaction is rolled back.
pub(crate) trait Work: Send {
    fn work(&mut self, store: &mut Store) -> Result<(), Failed>;

    /// Tells whoever waits, when what was done is durable.
    fn done(self: Box<Self>, result: Result<(), JournalError>);

    /// Whether what it removes must be gone from the disk at once.
    fn erases(&self) -> bool {
        false
    }
}

impl Job {
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Append { batch, .. } => batch.weight(),
            Self::Broken { .. } | Self::Other(_) => 1,
        }
    }

    fn work(&mut self, store: &mut Store) -> Result<(), Failed> {
        match self {
            Self::Append { batch, .. } => store.append(batch),
            Self::Broken { error, .. } => Err(error.clone().into()),
            Self::Other(work) => work.work(store),
        }
    }

    /// The run and epoch that it goes on with. Nothing if it begins a run, which then is not there if it fails, or takes one
    /// over, which then is as it was.
    fn goes_on_with(&self) -> Option<(&RunId, Epoch)> {
        let (run, epoch, goes_on) = match self {
            Self::Append { batch, .. } => {
                (&batch.run, batch.epoch, batch.begins.is_none() && batch.takes_over.is_none())
            }
            Self::Broken { batch, .. } => {
                (&batch.run, batch.epoch, !begins(&batch.entries) && batch.takes_over.is_none())
            }
            Self::Other(_) => return None,
        };
        goes_on.then_some((run, epoch))
    }

    fn done(self, result: Result<(), JournalError>) {
        match self {
            Self::Append { done, .. } | Self::Broken { done, .. } => done.done(result),
            Self::Other(work) => work.done(result),
        }
    }

    /// Tells whoever waits that it will not be done.
    pub(crate) fn refuse(self, error: JournalError) {
        self.done(Err(error));
    }
}

/// Turns away whoever waits when the writer is gone, also if it panicked.
struct Guard(Arc<Line<Job>>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.close();
        while let Some(job) = self.0.next() {
            job.refuse(JournalError::Closed);
        }
    }
}

fn begins(entries: &[Entry]) -> bool {
    entries.first().and_then(Entry::fact).is_some_and(|record| record.seq == 1)
}

pub(crate) struct Writer {
    pub(crate) store: Store,
    pub(crate) place: Place,
    pub(crate) sweeper: Sweeper,
    pub(crate) line: Arc<Line<Job>>,
    pub(crate) instants: Arc<Instants>,
    pub(crate) uses: Arc<Uses>,
    /// There was nothing to do for a while.
    pub(crate) rested: bool,
    pub(crate) trouble: Arc<Trouble>,
    pub(crate) probe: Option<Arc<dyn Probe>>,
    /// How many pages the file of what was written last had when room was last asked for.
    pub(crate) checkpointed: i32,
    /// Something was deleted, and may still be in the file of what was written last.
    pub(crate) erasing: bool,
}

impl Writer {
    /// Writes until the line is closed and empty.
    pub(crate) fn run(mut self) {
        let _guard = Guard(Arc::clone(&self.line));
        // A patience that cannot be set is the one before it.
        let _ = self.store.connection.busy_timeout(STALL);
        loop {
            let in_trouble = self.trouble.get().is_some();
            match self.line.take(MOST, Job::weight, || self.patience()) {
                Taken::Jobs(jobs) => {
                    // A disk in trouble is asked for nothing that nobody waits for.
                    self.commit(jobs, !in_trouble);
                    self.make_room();
                    self.rested = false;
                }
                Taken::Nothing => {
                    self.rested = true;
                    if in_trouble { self.look_again() } else { self.keep_the_rest() }
                }
                Taken::Closed => break,
            }
            if self.erasing {
                self.erase(Duration::ZERO);
            }
        }
        self.keep_the_rest();
        self.sweeper.close();
        self.checkpoint("TRUNCATE");
    }

    /// How long to wait for jobs: behind a commit the instants of the runs that it has settled are about to come.
    fn patience(&self) -> Option<Duration> {
        let in_trouble = self.trouble.get().map(|_| LOOK_AGAIN);
        let is_left = self.erasing || !self.instants.is_empty() || !self.uses.is_empty();
        match self.rested {
            false if in_trouble.is_none() => Some(REST),
            _ => is_left.then_some(AGAIN).or(in_trouble),
        }
    }

    /// All jobs in one transaction, perhaps with instants. If one of them breaks a rule of the database, or there is no room
    /// for all, each is tried in a transaction of its own, so that one that fails does not fail the others.
    fn commit(&mut self, mut jobs: Vec<Job>, with_instants: bool) {
        if let Err(error) = self.place.check() {
            return self.fail(jobs, &error);
        }
        match self.commit_when_free(&mut jobs, with_instants) {
            Ok(results) => {
                self.trouble.clear();
                if jobs.iter().any(|job| matches!(job, Job::Other(work) if work.erases())) {
                    // What is said to be gone is gone from the disk, unless a reader is in the way: then it is tried again.
                    self.erase(ERASE);
                }
                for (job, result) in jobs.into_iter().zip(results) {
                    job.done(result);
                }
                self.hit("store: acknowledged");
            }
            Err(error) if is_disks(&error) || (jobs.len() == 1 && !with_instants) => {
                if is_disks(&error) || is_full(&error) {
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

    /// Nothing can be written.
    fn fail(&mut self, jobs: Vec<Job>, error: &JournalError) {
        self.trouble.set(error.clone());
        self.refuse(jobs, error);
    }

    fn refuse(&mut self, jobs: Vec<Job>, error: &JournalError) {
        for job in jobs {
            if let Some((run, epoch)) = job.goes_on_with() {
                self.store.has_failed(run, epoch);
            }
            job.done(Err(error.clone()));
        }
    }

    /// While another program holds the database the jobs wait: that is a stall and no failure. Only a journal that is being
    /// closed does not wait.
    fn commit_when_free(
        &mut self,
        jobs: &mut [Job],
        with_instants: bool,
    ) -> rusqlite::Result<Vec<Result<(), JournalError>>> {
        loop {
            match self.try_commit(jobs, with_instants) {
                Err(error) if is_busy(&error) && !self.line.is_closed() => self.trouble.set(explain(&error)),
                done => return done,
            }
        }
    }

    /// Writes something that changes nothing, to see whether the disk takes it, and would take more than that.
    fn look_again(&self) {
        if let Err(error) = self.place.check() {
            return self.trouble.set(error);
        }
        if self.place.room() < ENOUGH {
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
                // If this fails as well, the next transaction says so.
                let _ = self.store.connection.execute_batch("ROLLBACK");
            }
        }
        done
    }

    fn transact(&mut self, jobs: &mut [Job], with_instants: bool) -> rusqlite::Result<Vec<Result<(), JournalError>>> {
        self.store.sync_again()?;
        self.execute("BEGIN IMMEDIATE")?;
        let is_full = jobs.iter().map(Job::weight).sum::<usize>() >= MOST / 2;
        let instants = if with_instants { self.instants.beside(is_full) } else { Vec::new() };
        self.store.keep_settled(&instants)?;
        // On a disk that has hardly any room left this waits, too.
        let uses = if with_instants { self.store.keep_too_many(&self.uses)? } else { Vec::new() };
        let mut results = Vec::with_capacity(jobs.len());
        for job in jobs.iter_mut() {
            match job.work(&mut self.store) {
                Ok(()) => results.push(Ok(())),
                Err(Failed::Refused(error)) => {
                    if let (Some((run, epoch)), JournalError::Storage(_)) = (job.goes_on_with(), &error) {
                        self.store.has_failed(run, epoch);
                    }
                    results.push(Err(error));
                }
                Err(Failed::Database(error)) => return Err(error),
            }
        }
        self.hit("store: before commit");
        self.execute("COMMIT")?;
        self.instants.written(&instants);
        self.uses.written(&uses);
        self.uses.apply(self.store.take_effects());
        self.hit("store: after commit");
        Ok(results)
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.store.connection.prepare_cached(sql)?.execute([]).map(drop)
    }

    /// Has what was written brought into the file itself now and then, after everybody was told.
    fn make_room(&mut self) {
        let pages = self.store.wal_pages();
        if pages < self.checkpointed {
            // It is written from its beginning again: all that was in it is where it belongs.
            self.checkpointed = 0;
        }
        if self.erasing {
            return;
        }
        if self.sweeper.has_swept() {
            self.checkpoint("PASSIVE");
        } else if pages - self.checkpointed >= self.most_pages() {
            self.checkpointed = pages;
            self.sweeper.sweep(if pages >= LARGE { Sweep::All } else { Sweep::Some });
        }
    }

    /// How many pages may stand in the file of what was written last: on a small disk it must leave room for the rest.
    fn most_pages(&self) -> i32 {
        if self.store.wal_pages() - self.checkpointed < FEW {
            return CHECKPOINT;
        }
        let quarter = self.place.room() / 4 / PAGE;
        i32::try_from(quarter).unwrap_or(CHECKPOINT).clamp(FEW, CHECKPOINT)
    }

    /// Empties the file of what was written last, where what was deleted may still stand. A small database is written anew
    /// first: what it has moved from page to page leaves traces in the pages.
    fn erase(&mut self, patience: Duration) {
        // A patience that cannot be set is the one before it.
        let _ = self.store.connection.busy_timeout(patience);
        let is_first_try = !self.erasing || patience > Duration::ZERO;
        if is_first_try && self.store.bytes().is_ok_and(|bytes| bytes <= SMALL) {
            // If there is no room for it the traces stay until the next time.
            let _ = self.store.connection.execute_batch("VACUUM");
        }
        self.erasing = !self.checkpoint("TRUNCATE");
        let _ = self.store.connection.busy_timeout(STALL);
    }

    /// Brings what was written into the file itself; says whether nothing was in the way.
    fn checkpoint(&self, how: &str) -> bool {
        let pragma = format!("PRAGMA wal_checkpoint({how})");
        // A reader may be in the way, or the disk may be full: then it is done the next time.
        self.store.connection.query_row(&pragma, [], |row| row.get(0)).is_ok_and(|busy: i64| busy == 0)
    }

    fn hit(&self, seam: &'static str) {
        if let Some(probe) = &self.probe {
            probe.hit(seam);
        }
    }
}

/// Whether nobody could have written.
fn is_disks(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    !matches!(code, None | Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig)) && !is_full(error)
}

/// Whether there was no room, which there may be for less.
fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

/// Whether another program holds the database.
fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// What an error of the database means for whoever wanted to write.
pub(crate) fn explain(error: &rusqlite::Error) -> JournalError {
    let hint = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "the disk is full: make room",
        Some(ErrorCode::ReadOnly) => "the file or its folder cannot be written any more",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program has locked it: close that program"
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => "the file is damaged: export what can be read",
        Some(ErrorCode::SystemIoFailure) => "the disk does not answer as it should",
        Some(ErrorCode::ConstraintViolation) => "it would break the order of the record",
        _ => return JournalError::Storage(error.to_string()),
    };
    JournalError::Storage(format!("{hint} ({error})"))
}
