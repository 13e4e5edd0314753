//! The writer's connection, and its caches. The files beside this one add what it can do within a transaction.
//!
//! Each operation either makes its whole change, or is [`Refused`](WriteError::Refused) and changes nothing, or fails with the
//! database: then the transaction is rolled back.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use andon_runtime::JournalError;
use andon_runtime::core::event::Epoch;
use andon_runtime::core::id::{RunId, SessionKey};
use rusqlite::hooks::Wal;
use rusqlite::{Connection, Params};

use super::append::RunRow;
use super::uses::Effect;
use crate::read::SessionRow;
use crate::record::HashMap;

/// Why something was not written.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) enum WriteError {
    /// It is not allowed; nothing was changed.
    Refused(#[from] JournalError),
    /// The database failed; the transaction must be rolled back.
    Database(#[from] rusqlite::Error),
}

/// The writer's connection, and what it remembers to save queries.
pub(crate) struct Store {
    pub(crate) connection: Connection,
    /// The id of this process as the owner of runs.
    pub(super) owner: String,
    /// The rows of runs that have not settled.
    pub(super) runs: HashMap<RunId, RunRow>,
    /// The rows of recently used sessions.
    pub(super) sessions: HashMap<SessionKey, SessionRow>,
    /// What this transaction has done to sessions.
    pub(super) effects: Vec<Effect>,
    /// Runs with a batch that failed, and its epoch: a later batch would leave a gap.
    pub(super) failed: HashMap<RunId, Epoch>,
    /// The position of the next run to start.
    next_start: i64,
    wal_pages: Arc<AtomicI32>,
    /// Whether commits wait for the disk. Nothing that must be durable is committed while they do not.
    syncs: Cell<bool>,
}

impl Store {
    pub(crate) fn new(mut connection: Connection) -> rusqlite::Result<Self> {
        let query = "SELECT coalesce(max(started), 0) + 1 FROM runs";
        let next_start = connection.query_row(query, [], |row| row.get(0))?;
        let owner = uuid::Uuid::now_v7().to_string();
        let wal_pages = Arc::new(AtomicI32::new(0));
        let told = Arc::clone(&wal_pages);
        connection.wal_hook(Some(move |_: &mut Wal, pages| {
            told.store(pages, Ordering::Relaxed);
            Ok(())
        }))?;
        let (runs, sessions, effects, failed) = Default::default();
        Ok(Self { connection, owner, runs, sessions, effects, failed, next_start, wal_pages, syncs: Cell::new(true) })
    }

    /// Executes a statement, and returns how many rows it has changed.
    pub(super) fn execute(&self, sql: &str, values: impl Params) -> rusqlite::Result<usize> {
        self.connection.prepare_cached(sql)?.execute(values)
    }

    /// Lets commits return before they are on disk.
    pub(crate) fn stop_syncing(&self) -> rusqlite::Result<()> {
        self.syncs.set(false);
        self.connection.pragma_update(None, "synchronous", "normal")
    }

    /// Makes commits wait for the disk again. If that cannot be set, nothing may be committed.
    pub(crate) fn resume_syncing(&self) -> rusqlite::Result<()> {
        if !self.syncs.get() {
            if !self.connection.is_autocommit() {
                // It cannot be set within a transaction.
                self.connection.execute_batch("ROLLBACK")?;
            }
            self.connection.pragma_update(None, "synchronous", "full")?;
            self.syncs.set(true);
        }
        Ok(())
    }

    /// The size of the database in bytes.
    pub(crate) fn bytes(&self) -> rusqlite::Result<i64> {
        let number = |pragma| self.connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
        Ok(number("page_count")? * number("page_size")?)
    }

    /// How many pages the write-ahead log had after the last commit.
    pub(crate) fn wal_pages(&self) -> i32 {
        self.wal_pages.load(Ordering::Relaxed)
    }

    /// Forgets cached rows: after a rollback they may not exist.
    pub(crate) fn forget(&mut self) {
        self.forget_rows();
        self.effects.clear();
    }

    pub(super) fn forget_rows(&mut self) {
        self.runs.clear();
        self.sessions.clear();
    }

    /// What a transaction has done to sessions. To be taken once it is durable.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Remembers that a batch of this run failed.
    pub(crate) fn note_failure(&mut self, run: &RunId, epoch: Epoch) {
        let failed = self.failed.entry(run.clone()).or_default();
        *failed = epoch.max(*failed);
    }

    pub(super) fn next_start(&mut self) -> i64 {
        let place = self.next_start;
        self.next_start += 1;
        place
    }
}
