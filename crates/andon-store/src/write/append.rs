//! Appending a batch to a run.

use andon_runtime::JournalError;
use andon_runtime::core::event::{Changes, Epoch, Event, Record};
use andon_runtime::core::id::{RunId, SessionKey};
use rusqlite::{OptionalExtension, params};

use super::state::Existing;
use super::store::{Store, WriteError};
use super::uses::Effect;
use crate::read::SessionRow;
use crate::record::{Begins, Encoded, Ends, NewState, Row, int};

/// A run's row.
#[derive(Clone, Copy)]
pub(super) struct RunRow {
    pub(super) id: i64,
    session: SessionRow,
    /// The state that is in the row.
    state: Option<i64>,
}

impl Store {
    pub(crate) fn append(&mut self, batch: &Encoded) -> Result<(), WriteError> {
        if batch.rows.is_empty() {
            return Ok(());
        }
        let id = self.put_batch(batch)?;
        if batch.starts { self.apply_state(id, batch.begins.as_ref()) } else { Ok(()) }
    }

    /// Applies the changes of the session's state that came with a run that starts.
    fn apply_state(&self, run: i64, begins: Option<&Begins>) -> Result<(), WriteError> {
        let apply_state = |session: &SessionKey, state: Option<&Changes>| -> Result<(), WriteError> {
            let mut state = state.into_iter().flatten();
            state.try_for_each(|(name, value)| self.set_state(session, name, value, Existing::Replaced))
        };
        if let Some(begins) = begins {
            return apply_state(&begins.session, begins.state.as_deref());
        }
        // It was queued, so its changes are in its first event.
        let sql = "SELECT body FROM events WHERE run = ?1 AND seq = 1";
        let first: String = self.connection.prepare_cached(sql)?.query_row([run], |row| row.get(0))?;
        let first = Record::from_json(&first).map_err(|error| JournalError::Unreadable(error.to_string()))?;
        match &first.event {
            Event::RunAccepted { accepted } => apply_state(&accepted.session, accepted.state.as_deref()),
            _ => Ok(()),
        }
    }

    pub(super) fn put_batch(&mut self, batch: &Encoded) -> Result<i64, WriteError> {
        let row = match &batch.begins {
            Some(begins) => self.begin_run(batch, begins)?,
            None => {
                self.check_failed(batch)?;
                self.continue_run(batch)?
            }
        };
        if !self.failed.is_empty() {
            self.failed.remove(&batch.run);
        }
        self.insert_rows(row.id, batch)?;
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

    /// Refuses a batch that follows one that failed.
    fn check_failed(&self, batch: &Encoded) -> Result<(), WriteError> {
        match self.failed.get(&batch.run) {
            Some(failed) if *failed >= batch.epoch && batch.takes_over.is_none() => {
                let why = format!("a batch of run {} before this one failed", batch.run);
                Err(JournalError::Storage(why).into())
            }
            _ => Ok(()),
        }
    }

    /// Inserts the row of a new run.
    fn begin_run(&mut self, batch: &Encoded, begins: &Begins) -> Result<RunRow, WriteError> {
        let (session, is_new) = self.session_row(&begins.session, begins.accepted_at)?;
        let started = batch.starts.then(|| self.next_start());
        let state = match batch.state {
            NewState::Unchanged => None,
            NewState::Is(state) => state,
        };
        let insert =
            "INSERT INTO runs (run, session, epoch, owner, next_seq, started, settled, accepted_at, settled_at, ending,
                               title, app_place, user_place, state)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) ON CONFLICT (run) DO NOTHING";
        let ends = batch.ends.as_ref();
        let values = params![
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
        ];
        if self.execute(insert, values)? == 0 {
            if is_new {
                // A run that is refused does not create a session.
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

    /// Updates the row of an existing run, if epoch, seq and state allow it. Nothing else is written before that.
    fn continue_run(&mut self, batch: &Encoded) -> Result<RunRow, WriteError> {
        let Some(mut row) = self.run_row(&batch.run)? else {
            return Err(JournalError::Storage(format!("run {} is unknown", batch.run)).into());
        };
        let expected = batch.expects();
        let (last, after) = (int(batch.last + 1), int(batch.after + 1));
        // Indexed columns are written only when they change, because the index would be written as well.
        let changed = match &batch.ends {
            None => self.execute(
                "UPDATE runs SET next_seq = ?1, epoch = ?2
                 WHERE id = ?3 AND settled = 0 AND next_seq = ?4 AND epoch = ?5",
                params![last, batch.epoch, row.id, after, expected],
            )?,
            Some(Ends { settled_at, ending, .. }) => self.execute(
                "UPDATE runs SET next_seq = ?1, epoch = ?2, settled = 1, settled_at = ?6, ending = ?7
                 WHERE id = ?3 AND settled = 0 AND next_seq = ?4 AND epoch = ?5",
                params![last, batch.epoch, row.id, after, expected, settled_at, ending],
            )?,
        };
        if changed != 1 {
            return Err(self.why_refused(row.id, batch)?.into());
        }
        if batch.starts {
            let started = "UPDATE runs SET started = ?2 WHERE id = ?1 AND started IS NULL";
            let place = self.next_start();
            self.execute(started, params![row.id, place])?;
        }
        match batch.state {
            NewState::Is(state) if state != row.state && batch.ends.is_none() => {
                self.execute("UPDATE runs SET state = ?2 WHERE id = ?1", params![row.id, state])?;
                row.state = state;
            }
            NewState::Is(_) | NewState::Unchanged => {}
        }
        if batch.takes_over.is_some() {
            self.execute("UPDATE runs SET owner = ?2 WHERE id = ?1", params![row.id, self.owner])?;
        }
        Ok(row)
    }

    fn why_refused(&self, id: i64, batch: &Encoded) -> rusqlite::Result<JournalError> {
        let mut query = self.connection.prepare_cached("SELECT epoch, settled, next_seq FROM runs WHERE id = ?1")?;
        let (owner, settled, next): (Epoch, bool, i64) =
            query.query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        if settled || owner != batch.expects() {
            return Ok(JournalError::Fenced { ours: batch.epoch, owner });
        }
        let (run, after) = (&batch.run, batch.after + 1);
        Ok(JournalError::Storage(format!("run {run}: event {after} was given where {next} was expected")))
    }

    fn insert_rows(&self, id: i64, batch: &Encoded) -> Result<(), WriteError> {
        let mut fact = self
            .connection
            .prepare_cached("INSERT INTO events (run, seq, epoch, kind, body) VALUES (?1, ?2, ?3, ?4, ?5)")?;
        for row in &batch.rows {
            match row {
                Row::Fact { seq, kind, body } => {
                    fact.execute(params![id, int(*seq), batch.epoch, kind, body])?;
                }
                Row::Lump { after, body } => {
                    let lump = "INSERT INTO lumps (run, after, epoch, body) VALUES (?1, ?2, ?3, ?4)";
                    self.execute(lump, params![id, int(*after), batch.epoch, body])?;
                }
            }
        }
        if let Some(said) = batch.ends.as_ref().and_then(|ends| ends.said.as_ref()) {
            self.execute("INSERT INTO said (run, body) VALUES (?1, ?2)", params![id, said])?;
        }
        Ok(())
    }

    /// A run's row.
    pub(super) fn run_row(&self, run: &RunId) -> rusqlite::Result<Option<RunRow>> {
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
}
