//! Sessions: their rows, what is kept with them, and deleting them.

use andon_runtime::core::id::{RunId, SessionKey};
use andon_runtime::core::time::Wall;
use andon_runtime::{Attachment, JournalError, StateChange, StateMap};
use rusqlite::{OptionalExtension, params};

use super::state::Existing;
use super::store::{Store, WriteError};
use super::uses::Effect;
use crate::read::{SessionRow, find_session};
use crate::record::{int, json};

/// How many sessions' rows are cached.
const SESSIONS: usize = 10_000;

impl Store {
    /// A session's row, and whether it was created.
    pub(super) fn session_row(&mut self, key: &SessionKey, at: i64) -> rusqlite::Result<(SessionRow, bool)> {
        if let Some(row) = self.sessions.get(key) {
            return Ok((*row, false));
        }
        let known = find_session(&self.connection, key)?;
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

    /// The place of a user or, for an empty user, of an app. Created if there is none.
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

    /// Removes a session's row, and its places if no other session is there, so that no name remains.
    pub(super) fn remove_session(&self, row: SessionRow) -> rusqlite::Result<()> {
        self.connection.execute("DELETE FROM sessions WHERE id = ?1", [row.id])?;
        for (place, column) in [(row.user_place, "user_place"), (row.app_place, "app_place")] {
            let sql =
                format!("DELETE FROM places WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM sessions WHERE {column} = ?1)");
            self.connection.execute(&sql, [place])?;
        }
        Ok(())
    }

    pub(crate) fn create(&mut self, key: &SessionKey, at: Wall, state: &StateMap) -> Result<bool, WriteError> {
        if find_session(&self.connection, key)?.is_some() {
            return Ok(false);
        }
        self.session_row(key, int(at.0))?;
        for (name, value) in state {
            self.set_state(key, name, value, Existing::Replaced)?;
        }
        Ok(true)
    }

    pub(crate) fn attach(
        &mut self,
        key: &SessionKey,
        at: Wall,
        things: &[Attachment],
        change: &StateChange,
    ) -> Result<bool, WriteError> {
        let Some(row) = find_session(&self.connection, key)? else { return Ok(false) };
        self.change_state(key, at, change)?;
        self.insert_kept(row.id, things)?;
        Ok(true)
    }

    pub(super) fn insert_kept(&self, session: i64, things: &[Attachment]) -> Result<(), WriteError> {
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO kept (session, kind, name, at, body) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO UPDATE SET at = excluded.at, body = excluded.body",
        )?;
        for Attachment { kind, name, at, value, .. } in things {
            insert.execute(params![session, kind, name, int(at.0), json(value)?])?;
        }
        Ok(())
    }

    pub(crate) fn discard_attachment(&mut self, key: &SessionKey, kind: &str, name: &str) -> Result<bool, WriteError> {
        let Some(row) = find_session(&self.connection, key)? else { return Ok(false) };
        let sql = "DELETE FROM kept WHERE session = ?1 AND kind = ?2 AND name = ?3";
        Ok(self.execute(sql, params![row.id, kind, name])? > 0)
    }

    /// Removes a session and everything that belongs to it alone.
    pub(crate) fn delete(&mut self, key: &SessionKey) -> Result<bool, WriteError> {
        let Some(row) = find_session(&self.connection, key)? else { return Ok(false) };
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
        // A later run may get one of the freed ids, and its use must not count as written.
        let last = "SELECT coalesce(max(id), 0) + 1 FROM runs";
        self.connection.execute(&format!("UPDATE caught_up SET before_run = min(before_run, ({last}))"), [])?;
        let own = "DELETE FROM state WHERE tenant = ?1 AND app = ?2 AND user = ?3 AND session = ?4";
        self.connection.execute(own, params![key.tenant, key.app, key.user, key.session.as_str()])?;
        self.forget_rows();
        self.effects.push(Effect::Gone(id));
        Ok(true)
    }
}
