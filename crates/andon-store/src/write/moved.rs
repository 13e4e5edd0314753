//! Importing a session from another store.

use andon_runtime::{JournalError, SessionCopy};
use rusqlite::params;

use super::state::Existing;
use super::store::{Store, WriteError};
use crate::read::find_session;
use crate::record::{Encoded, int, json};

impl Store {
    /// Puts in a session from another store. If any part is refused, the rest is rolled back.
    pub(crate) fn put(&mut self, moved: &SessionCopy, runs: &[Encoded]) -> Result<(), WriteError> {
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

    fn try_put(&mut self, moved: &SessionCopy, runs: &[Encoded]) -> Result<(), WriteError> {
        let key = &moved.session;
        if find_session(&self.connection, key)?.is_some() {
            return Err(JournalError::SessionExists(Box::new(key.clone())).into());
        }
        let (row, _) = self.session_row(key, int(moved.created_at.0))?;
        self.insert_kept(row.id, &moved.kept)?;
        for (name, value) in &moved.state {
            self.set_state(key, name, value, Existing::Kept)?;
        }
        for ((run, stored), encoded) in moved.runs.iter().zip(runs) {
            self.failed.remove(run);
            if encoded.rows.is_empty() {
                continue;
            }
            // Its changes are already in the state that moves with the session.
            let id = self.put_batch(encoded)?;
            if let Some(at) = stored.settled_at {
                self.write_settled(&[(run.clone(), at)])?;
            }
            for addendum in &stored.addenda {
                self.add_addendum(id, addendum)?;
            }
            for request in &stored.requests {
                let sql = "INSERT INTO cancel_requests (run, number, body)
                     VALUES (?1, (SELECT coalesce(max(number), 0) + 1 FROM cancel_requests WHERE run = ?1), ?2)";
                self.execute(sql, params![id, json(request)?])?;
            }
        }
        Ok(())
    }
}
