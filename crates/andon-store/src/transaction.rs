//! What the writer does within one transaction.
//!
//! Each of these either changes everything that it is to change, or is [`Refused`](Failed::Refused) and has changed
//! nothing, or fails with the database: then the transaction is rolled back.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use andon_runtime::core::cancel::CancelRequest;
use andon_runtime::core::event::{Addendum, Changes, Epoch, Event, Learnt, Record};
use andon_runtime::core::id::{RunId, SessionKey};
use andon_runtime::core::time::{Stamp, Wall};
use andon_runtime::{JournalError, Kept, Moved, Requested, Scope, StateChange, StateMap};
use rusqlite::hooks::Wal;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use crate::encode::{Begins, Encoded, Ends, Row, Told, int, json};
use crate::uses::{Effect, HashMap, SessionRow};

/// Why something was not done.
#[derive(Debug)]
pub(crate) enum Failed {
    /// It must not be done; nothing was changed.
    Refused(JournalError),
    /// The database failed; the transaction must be rolled back.
    Database(rusqlite::Error),
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<JournalError> for Failed {
    fn from(error: JournalError) -> Self {
        Self::Refused(error)
    }
}

/// The writer's connection, and what it remembers so as not to ask again.
pub(crate) struct Store {
    pub(crate) connection: Connection,
    /// This process, as the owner of the runs that it writes.
    owner: String,
    /// The rows of runs that have not settled.
    runs: HashMap<RunId, RunRow>,
    /// The rows of sessions that were used lately.
    sessions: HashMap<SessionKey, SessionRow>,
    /// What this transaction has done to sessions.
    effects: Vec<Effect>,
    /// Runs of which a batch failed, and in which epoch: what comes behind it would leave a gap.
    failed: HashMap<RunId, Epoch>,
    /// The place of the next run that starts.
    next_start: i64,
    wal_pages: Arc<AtomicI32>,
    /// Whether a commit waits for the disk. What must be durable is committed only if it does.
    syncs: Cell<bool>,
}

/// A run's row.
#[derive(Clone, Copy)]
struct RunRow {
    id: i64,
    session: SessionRow,
    /// Its state, as the row has it.
    state: Option<i64>,
}

/// How many sessions are remembered.
const SESSIONS: usize = 10_000;

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

    /// Lets commits return before they are on the disk.
    pub(crate) fn sync_no_more(&self) -> rusqlite::Result<()> {
        self.syncs.set(false);
        self.connection.pragma_update(None, "synchronous", "normal")
    }

    /// Has every commit wait for the disk, if it does not: while that cannot be set, nothing is committed.
    pub(crate) fn sync_again(&self) -> rusqlite::Result<()> {
        if !self.syncs.get() {
            if !self.connection.is_autocommit() {
                // In a transaction it cannot be set.
                self.connection.execute_batch("ROLLBACK")?;
            }
            self.connection.pragma_update(None, "synchronous", "full")?;
            self.syncs.set(true);
        }
        Ok(())
    }

    /// How large the database is.
    pub(crate) fn bytes(&self) -> rusqlite::Result<i64> {
        let number = |pragma| self.connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
        Ok(number("page_count")? * number("page_size")?)
    }

    /// How many pages stand in the file of what was written last, as the last commit told.
    pub(crate) fn wal_pages(&self) -> i32 {
        self.wal_pages.load(Ordering::Relaxed)
    }

    /// Forgets what it believes about rows: after a rollback they may not be there.
    pub(crate) fn forget(&mut self) {
        self.forget_rows();
        self.effects.clear();
    }

    fn forget_rows(&mut self) {
        self.runs.clear();
        self.sessions.clear();
    }

    /// What a transaction has done to sessions, once it is durable.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// A batch of this run failed.
    pub(crate) fn has_failed(&mut self, run: &RunId, epoch: Epoch) {
        let failed = self.failed.entry(run.clone()).or_default();
        *failed = epoch.max(*failed);
    }

    pub(crate) fn append(&mut self, batch: &Encoded) -> Result<(), Failed> {
        if batch.rows.is_empty() {
            return Ok(());
        }
        let id = self.put_batch(batch)?;
        if batch.starts { self.bring(id, batch.begins.as_ref()) } else { Ok(()) }
    }

    /// A run starts: what came with it for its session's state is changed.
    fn bring(&self, run: i64, begins: Option<&Begins>) -> Result<(), Failed> {
        let bring = |session: &SessionKey, state: Option<&Changes>| -> Result<(), Failed> {
            let mut state = state.into_iter().flatten();
            state.try_for_each(|(name, value)| self.set(session, name, value, Existing::Replaced))
        };
        if let Some(begins) = begins {
            return bring(&begins.session, begins.state.as_deref());
        }
        // It had to wait, and what came with it is with its first event.
        let sql = "SELECT body FROM events WHERE run = ?1 AND seq = 1";
        let first: String = self.connection.prepare_cached(sql)?.query_row([run], |row| row.get(0))?;
        let first = Record::from_json(&first).map_err(|error| JournalError::Unreadable(error.to_string()))?;
        match &first.event {
            Event::RunAccepted { accepted } => bring(&accepted.session, accepted.state.as_deref()),
            _ => Ok(()),
        }
    }

    fn put_batch(&mut self, batch: &Encoded) -> Result<i64, Failed> {
        let row = match &batch.begins {
            Some(begins) => self.begin(batch, begins)?,
            None => {
                self.check_failed(batch)?;
                self.go_on(batch)?
            }
        };
        if !self.failed.is_empty() {
            self.failed.remove(&batch.run);
        }
        self.insert(row.id, batch)?;
        match &batch.ends {
            Some(ends) => {
                self.runs.remove(&batch.run);
                self.effects.push(Effect::Used(row.session, ends.settled_at));
            }
            None => match self.runs.get_mut(&batch.run) {
                Some(known) => *known = row,
                None => drop(self.runs.insert(batch.run.clone(), row)),
            },
        }
        Ok(row.id)
    }

    /// Refuses what comes behind a batch that failed.
    fn check_failed(&self, batch: &Encoded) -> Result<(), Failed> {
        match self.failed.get(&batch.run) {
            Some(failed) if *failed >= batch.epoch && batch.takes_over.is_none() => {
                let why = format!("a batch of run {} before this one failed", batch.run);
                Err(JournalError::Storage(why).into())
            }
            _ => Ok(()),
        }
    }

    /// A run's first batch.
    fn begin(&mut self, batch: &Encoded, begins: &Begins) -> Result<RunRow, Failed> {
        let (session, is_new) = self.session(&begins.session, begins.accepted_at)?;
        let started = batch.starts.then(|| self.next_start());
        let state = match batch.state {
            Told::AsBefore => None,
            Told::Is(state) => state,
        };
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO runs (run, session, epoch, owner, next_seq, started, settled, accepted_at, settled_at, ending, title,
                               app_place, user_place, state)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) ON CONFLICT (run) DO NOTHING",
        )?;
        let ends = batch.ends.as_ref();
        let changed = insert.execute(params![
            batch.run.as_str(),
            session.id,
            batch.epoch,
            self.owner,
            int(batch.last + 1),
            started,
            ends.is_some(),
            begins.accepted_at,
            ends.map(|ends| ends.settled_at),
            ends.map(|ends| ends.ending.as_str()),
            begins.title,
            session.app_place,
            session.user_place,
            state,
        ])?;
        drop(insert);
        if changed == 0 {
            if is_new {
                // A run that is refused begins no session.
                self.remove_session(session)?;
                self.sessions.remove(&begins.session);
            }
            return Err(JournalError::RunExists(batch.run.clone()).into());
        }
        if !is_new {
            self.effects.push(Effect::Used(session, begins.accepted_at));
        }
        Ok(RunRow { id: self.connection.last_insert_rowid(), session, state })
    }

    /// A later batch: the run's own row is changed first, and only if epoch, seq and state are right.
    fn go_on(&mut self, batch: &Encoded) -> Result<RunRow, Failed> {
        let Some(mut row) = self.run(&batch.run)? else {
            return Err(JournalError::Storage(format!("run {} is unknown", batch.run)).into());
        };
        // The run is ours, or older than we are; if we take it over, it is still whose it was.
        let (oldest, newest) = match batch.takes_over {
            Some(owner) => (owner, owner),
            None => (0, batch.epoch),
        };
        let (last, after) = (int(batch.last + 1), int(batch.after + 1));
        // Columns that an index has are written only when they change: the index would be written, too.
        let changed = match &batch.ends {
            None => {
                let mut update = self.connection.prepare_cached(
                    "UPDATE runs SET next_seq = ?1, epoch = ?2
                     WHERE id = ?3 AND settled = 0 AND next_seq = ?4 AND epoch BETWEEN ?5 AND ?6",
                )?;
                update.execute(params![last, batch.epoch, row.id, after, oldest, newest])?
            }
            Some(Ends { settled_at, ending, .. }) => {
                let mut update = self.connection.prepare_cached(
                    "UPDATE runs SET next_seq = ?1, epoch = ?2, settled = 1, settled_at = ?7, ending = ?8
                     WHERE id = ?3 AND settled = 0 AND next_seq = ?4 AND epoch BETWEEN ?5 AND ?6",
                )?;
                update.execute(params![last, batch.epoch, row.id, after, oldest, newest, settled_at, ending])?
            }
        };
        if changed != 1 {
            return Err(self.why_refused(row.id, batch)?.into());
        }
        if batch.starts {
            let started = "UPDATE runs SET started = ?2 WHERE id = ?1 AND started IS NULL";
            let place = self.next_start();
            self.connection.prepare_cached(started)?.execute(params![row.id, place])?;
        }
        match batch.state {
            Told::Is(state) if state != row.state && batch.ends.is_none() => {
                self.connection
                    .prepare_cached("UPDATE runs SET state = ?2 WHERE id = ?1")?
                    .execute(params![row.id, state])?;
                row.state = state;
            }
            Told::Is(_) | Told::AsBefore => {}
        }
        if batch.takes_over.is_some() {
            let owned = "UPDATE runs SET owner = ?2 WHERE id = ?1";
            self.connection.prepare_cached(owned)?.execute(params![row.id, self.owner])?;
        }
        Ok(row)
    }

    fn why_refused(&self, id: i64, batch: &Encoded) -> rusqlite::Result<JournalError> {
        let mut query = self.connection.prepare_cached("SELECT epoch, settled, next_seq FROM runs WHERE id = ?1")?;
        let (owner, settled, next): (Epoch, bool, i64) =
            query.query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        if settled || owner > batch.epoch || batch.takes_over.is_some_and(|taken| taken != owner) {
            return Ok(JournalError::Fenced { ours: batch.epoch, owner });
        }
        let (run, after) = (&batch.run, batch.after + 1);
        Ok(JournalError::Storage(format!("run {run}: event {after} stands where {next} belongs")))
    }

    fn insert(&self, id: i64, batch: &Encoded) -> Result<(), Failed> {
        let mut fact = self
            .connection
            .prepare_cached("INSERT INTO events (run, seq, epoch, kind, body) VALUES (?1, ?2, ?3, ?4, ?5)")?;
        for row in &batch.rows {
            match row {
                Row::Fact { seq, kind, body } => {
                    fact.execute(params![id, int(*seq), batch.epoch, kind, body])?;
                }
                Row::Lump { after, body } => {
                    let mut insert = self
                        .connection
                        .prepare_cached("INSERT INTO lumps (run, after, epoch, body) VALUES (?1, ?2, ?3, ?4)")?;
                    insert.execute(params![id, int(*after), batch.epoch, body])?;
                }
            }
        }
        if let Some(said) = batch.ends.as_ref().and_then(|ends| ends.said.as_ref()) {
            let insert = "INSERT INTO said (run, body) VALUES (?1, ?2)";
            self.connection.prepare_cached(insert)?.execute(params![id, said])?;
        }
        Ok(())
    }

    fn next_start(&mut self) -> i64 {
        let place = self.next_start;
        self.next_start += 1;
        place
    }

    /// A run's row.
    fn run(&self, run: &RunId) -> rusqlite::Result<Option<RunRow>> {
        if let Some(row) = self.runs.get(run) {
            return Ok(Some(*row));
        }
        let mut query = self
            .connection
            .prepare_cached("SELECT id, session, app_place, user_place, state FROM runs WHERE run = ?1")?;
        let columns = |row: &rusqlite::Row<'_>| {
            let session = SessionRow { id: row.get(1)?, app_place: row.get(2)?, user_place: row.get(3)? };
            Ok(RunRow { id: row.get(0)?, session, state: row.get(4)? })
        };
        query.query_row([run.as_str()], columns).optional()
    }

    /// A session's row, and whether it was made because there was none.
    fn session(&mut self, key: &SessionKey, at: i64) -> rusqlite::Result<(SessionRow, bool)> {
        if let Some(row) = self.sessions.get(key) {
            return Ok((*row, false));
        }
        let known = self.known_session(key)?;
        let row = match known {
            Some(row) => row,
            None => self.insert_session(key, at)?,
        };
        if self.sessions.len() >= SESSIONS {
            self.sessions.clear();
        }
        self.sessions.insert(key.clone(), row);
        Ok((row, known.is_none()))
    }

    fn insert_session(&self, key: &SessionKey, at: i64) -> rusqlite::Result<SessionRow> {
        let (app_place, user_place) = (self.place(key, "")?, self.place(key, &key.user)?);
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO sessions (tenant, app, user, session, created_at, updated_at, app_place, user_place)
             VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7)",
        )?;
        let row = params![key.tenant, key.app, key.user, key.session.as_str(), at, app_place, user_place];
        Ok(SessionRow { id: insert.insert(row)?, app_place, user_place })
    }

    /// The place of a user or, without one, of an app. It is made if there is none.
    fn place(&self, key: &SessionKey, user: &str) -> rusqlite::Result<i64> {
        let query = "SELECT id FROM places WHERE tenant = ?1 AND app = ?2 AND user = ?3";
        let place = params![key.tenant, key.app, user];
        match self.connection.prepare_cached(query)?.query_row(place, |row| row.get(0)).optional()? {
            Some(id) => Ok(id),
            None => {
                let insert = "INSERT INTO places (tenant, app, user) VALUES (?1, ?2, ?3)";
                self.connection.prepare_cached(insert)?.insert(place)
            }
        }
    }

    /// Removes a session's row, and its places if no other is there: of a name nothing remains.
    fn remove_session(&self, row: SessionRow) -> rusqlite::Result<()> {
        self.connection.execute("DELETE FROM sessions WHERE id = ?1", [row.id])?;
        for (place, column) in [(row.user_place, "user_place"), (row.app_place, "app_place")] {
            let sql =
                format!("DELETE FROM places WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM sessions WHERE {column} = ?1)");
            self.connection.execute(&sql, [place])?;
        }
        Ok(())
    }

    fn known_session(&self, key: &SessionKey) -> rusqlite::Result<Option<SessionRow>> {
        let mut query = self.connection.prepare_cached(
            "SELECT id, app_place, user_place FROM sessions
             WHERE tenant = ?1 AND app = ?2 AND user = ?3 AND session = ?4",
        )?;
        let key = params![key.tenant, key.app, key.user, key.session.as_str()];
        let columns = |row: &rusqlite::Row<'_>| {
            Ok(SessionRow { id: row.get(0)?, app_place: row.get(1)?, user_place: row.get(2)? })
        };
        query.query_row(key, columns).optional()
    }

    pub(crate) fn claim(&mut self, run: &RunId, from: Epoch) -> Result<Option<Epoch>, Failed> {
        let mut query = self.connection.prepare_cached("SELECT epoch FROM runs WHERE run = ?1")?;
        let Some(owner) = query.query_row([run.as_str()], |row| row.get(0)).optional()? else { return Ok(None) };
        if owner != from {
            return Err(JournalError::Fenced { ours: from, owner }.into());
        }
        let mut update =
            self.connection.prepare_cached("UPDATE runs SET epoch = epoch + 1, owner = ?2 WHERE run = ?1")?;
        update.execute(params![run.as_str(), self.owner])?;
        Ok(Some(from.saturating_add(1)))
    }

    pub(crate) fn request_cancel(&mut self, run: &RunId, request: &CancelRequest) -> Result<Requested, Failed> {
        let Some(RunRow { id, .. }) = self.run(run)? else { return Ok(Requested::Unknown) };
        let body = json(request)?;
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO cancel_requests (run, number, body)
             SELECT ?1, (SELECT coalesce(max(number), 0) + 1 FROM cancel_requests WHERE run = ?1), ?2
             FROM runs WHERE id = ?1 AND settled = 0",
        )?;
        let changed = insert.execute(params![id, body])?;
        Ok(if changed == 1 { Requested::Recorded } else { Requested::TooLate })
    }

    /// Writes when runs settled: once, and only of those that have.
    pub(crate) fn keep_settled(&self, instants: &[(RunId, Stamp)]) -> rusqlite::Result<()> {
        for (run, at) in instants {
            let mut update = self.connection.prepare_cached(
                "UPDATE runs SET durable_at = ?2, durable_mono_us = ?3
                 WHERE run = ?1 AND settled = 1 AND durable_at IS NULL",
            )?;
            update.execute(params![run.as_str(), int(at.wall.0), int(at.mono_us)])?;
        }
        Ok(())
    }

    pub(crate) fn append_addendum(&mut self, run: &RunId, at: Stamp, what: &Learnt) -> Result<(), Failed> {
        let Some(RunRow { id, .. }) = self.run(run)? else {
            return Err(JournalError::Storage(format!("run {run} is unknown")).into());
        };
        let next = "SELECT coalesce(max(number), 0) + 1 FROM addenda WHERE run = ?1";
        let number = self.connection.prepare_cached(next)?.query_row([id], |row| row.get(0))?;
        let addendum = Addendum { v: andon_runtime::core::FORMAT_VERSION, number, at, what: what.clone() };
        self.add_addendum(id, &addendum)
    }

    fn add_addendum(&self, id: i64, addendum: &Addendum) -> Result<(), Failed> {
        let mut insert =
            self.connection.prepare_cached("INSERT INTO addenda (run, number, body) VALUES (?1, ?2, ?3)")?;
        insert.execute(params![id, addendum.number, json(addendum)?])?;
        Ok(())
    }

    pub(crate) fn keep(&mut self, kind: &str, name: &str, value: &Value) -> Result<(), Failed> {
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO shelf (kind, name, body) VALUES (?1, ?2, ?3)
             ON CONFLICT (kind, name) DO UPDATE SET body = excluded.body",
        )?;
        insert.execute(params![kind, name, json(value)?])?;
        Ok(())
    }

    pub(crate) fn discard(&mut self, kind: &str, name: &str) -> Result<(), Failed> {
        let mut delete = self.connection.prepare_cached("DELETE FROM shelf WHERE kind = ?1 AND name = ?2")?;
        delete.execute(params![kind, name])?;
        Ok(())
    }

    // ---- sessions ----

    pub(crate) fn create(&mut self, key: &SessionKey, at: Wall, state: &StateMap) -> Result<bool, Failed> {
        if self.known_session(key)?.is_some() {
            return Ok(false);
        }
        self.session(key, int(at.0))?;
        for (name, value) in state {
            self.set(key, name, value, Existing::Replaced)?;
        }
        Ok(true)
    }

    pub(crate) fn change_state(&mut self, key: &SessionKey, at: Wall, change: &StateChange) -> Result<(), Failed> {
        let (row, _) = self.session(key, int(at.0))?;
        for (name, value) in change {
            match value {
                Some(value) => self.set(key, name, value, Existing::Replaced)?,
                None => self.remove(key, name)?,
            }
        }
        let touched = "UPDATE sessions SET updated_at = max(updated_at, ?2) WHERE id = ?1";
        self.connection.prepare_cached(touched)?.execute(params![row.id, int(at.0)])?;
        Ok(())
    }

    pub(crate) fn keep_with(
        &mut self,
        key: &SessionKey,
        at: Wall,
        things: &[Kept],
        change: &StateChange,
    ) -> Result<bool, Failed> {
        let Some(row) = self.known_session(key)? else { return Ok(false) };
        self.change_state(key, at, change)?;
        self.insert_kept(row.id, things)?;
        Ok(true)
    }

    fn insert_kept(&self, session: i64, things: &[Kept]) -> Result<(), Failed> {
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO kept (session, kind, name, at, body) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO UPDATE SET at = excluded.at, body = excluded.body",
        )?;
        for Kept { kind, name, at, value } in things {
            insert.execute(params![session, kind, name, int(at.0), json(value)?])?;
        }
        Ok(())
    }

    pub(crate) fn discard_with(&mut self, key: &SessionKey, kind: &str, name: &str) -> Result<bool, Failed> {
        let Some(row) = self.known_session(key)? else { return Ok(false) };
        let sql = "DELETE FROM kept WHERE session = ?1 AND kind = ?2 AND name = ?3";
        Ok(self.connection.prepare_cached(sql)?.execute(params![row.id, kind, name])? > 0)
    }

    fn set(&self, key: &SessionKey, name: &str, value: &Value, existing: Existing) -> Result<(), Failed> {
        let Some((user, session)) = reach(key, name) else { return Ok(()) };
        let sql = match existing {
            Existing::Replaced => {
                "INSERT INTO state (tenant, app, user, session, key, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT DO UPDATE SET value = excluded.value"
            }
            Existing::Kept => {
                "INSERT INTO state (tenant, app, user, session, key, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT DO NOTHING"
            }
        };
        let row = params![key.tenant, key.app, user, session, name, json(value)?];
        self.connection.prepare_cached(sql)?.execute(row)?;
        Ok(())
    }

    fn remove(&self, key: &SessionKey, name: &str) -> Result<(), Failed> {
        let Some((user, session)) = reach(key, name) else { return Ok(()) };
        let sql = "DELETE FROM state WHERE tenant = ?1 AND app = ?2 AND user = ?3 AND session = ?4 AND key = ?5";
        self.connection.prepare_cached(sql)?.execute(params![key.tenant, key.app, user, session, name])?;
        Ok(())
    }

    /// Removes a session with all that is its own.
    pub(crate) fn delete(&mut self, key: &SessionKey) -> Result<bool, Failed> {
        let Some(row) = self.known_session(key)? else { return Ok(false) };
        let id = row.id;
        let unsettled = "SELECT run FROM runs WHERE session = ?1 AND settled = 0 LIMIT 1";
        let unsettled: Option<String> = self.connection.query_row(unsettled, [id], |row| row.get(0)).optional()?;
        if let Some(run) = unsettled {
            let run = RunId::new(run).map_err(|error| JournalError::Unreadable(error.to_string()))?;
            return Err(JournalError::SessionBusy { session: Box::new(key.clone()), run }.into());
        }
        for table in ["events", "lumps", "addenda", "cancel_requests", "said"] {
            let sql = format!("DELETE FROM {table} WHERE run IN (SELECT id FROM runs WHERE session = ?1)");
            self.connection.execute(&sql, [id])?;
        }
        self.connection.execute("DELETE FROM runs WHERE session = ?1", [id])?;
        self.connection.execute("DELETE FROM kept WHERE session = ?1", [id])?;
        self.remove_session(row)?;
        // The rows that are free now may be a later run's, which nobody has counted.
        let last = "SELECT coalesce(max(id), 0) + 1 FROM runs";
        self.connection.execute(&format!("UPDATE caught_up SET before_run = min(before_run, ({last}))"), [])?;
        let own = "DELETE FROM state WHERE tenant = ?1 AND app = ?2 AND user = ?3 AND session = ?4";
        self.connection.execute(own, params![key.tenant, key.app, key.user, key.session.as_str()])?;
        self.forget_rows();
        self.effects.push(Effect::Gone(id));
        Ok(true)
    }

    /// Puts a session from another store in. What is refused in the middle takes back what was put before it.
    pub(crate) fn put(&mut self, moved: &Moved, runs: &[Encoded]) -> Result<(), Failed> {
        self.connection.execute_batch("SAVEPOINT put")?;
        let effects = self.effects.clone();
        let result = self.try_put(moved, runs);
        if result.is_err() {
            self.forget();
            self.effects = effects;
            self.connection.execute_batch("ROLLBACK TO put")?;
        }
        self.connection.execute_batch("RELEASE put")?;
        result
    }

    fn try_put(&mut self, moved: &Moved, runs: &[Encoded]) -> Result<(), Failed> {
        let key = &moved.session;
        if self.known_session(key)?.is_some() {
            return Err(JournalError::SessionExists(Box::new(key.clone())).into());
        }
        let (row, _) = self.session(key, int(moved.created_at.0))?;
        self.insert_kept(row.id, &moved.kept)?;
        for (name, value) in &moved.state {
            self.set(key, name, value, Existing::Kept)?;
        }
        for ((run, stored), encoded) in moved.runs.iter().zip(runs) {
            self.failed.remove(run);
            if encoded.rows.is_empty() {
                continue;
            }
            // What came with it is in the state that moves with the session.
            let id = self.put_batch(encoded)?;
            if let Some(at) = stored.settled_at {
                self.keep_settled(&[(run.clone(), at)])?;
            }
            for addendum in &stored.addenda {
                self.add_addendum(id, addendum)?;
            }
            for request in &stored.requests {
                let sql = "INSERT INTO cancel_requests (run, number, body)
                     VALUES (?1, (SELECT coalesce(max(number), 0) + 1 FROM cancel_requests WHERE run = ?1), ?2)";
                self.connection.prepare_cached(sql)?.execute(params![id, json(request)?])?;
            }
        }
        Ok(())
    }
}

/// What becomes of a value that is there already.
#[derive(Clone, Copy)]
enum Existing {
    Replaced,
    Kept,
}

/// The user and the session of a key's row, both empty as far as it is shared; nothing for what is never stored.
fn reach<'a>(key: &'a SessionKey, name: &str) -> Option<(&'a str, &'a str)> {
    match Scope::of(name) {
        Scope::Temp => None,
        Scope::App => Some(("", "")),
        Scope::User => Some((&key.user, "")),
        Scope::Session => Some((&key.user, key.session.as_str())),
    }
}
