//! Session state.

use andon_runtime::StateChange;
use andon_runtime::core::id::SessionKey;
use andon_runtime::core::time::Wall;
use rusqlite::params;
use serde_json::Value;

use super::store::{Store, WriteError};
use crate::record::{int, json, user_and_session};

/// What happens to an existing value.
#[derive(Clone, Copy)]
pub(super) enum Existing {
    Replaced,
    Kept,
}

impl Store {
    pub(crate) fn change_state(&mut self, key: &SessionKey, at: Wall, change: &StateChange) -> Result<(), WriteError> {
        let (row, _) = self.session_row(key, int(at.0))?;
        for (name, value) in change {
            match value {
                Some(value) => self.set_state(key, name, value, Existing::Replaced)?,
                None => self.remove_state(key, name)?,
            }
        }
        let touched = "UPDATE sessions SET updated_at = max(updated_at, ?2) WHERE id = ?1";
        self.execute(touched, params![row.id, int(at.0)])?;
        Ok(())
    }

    pub(super) fn set_state(
        &self,
        key: &SessionKey,
        name: &str,
        value: &Value,
        existing: Existing,
    ) -> Result<(), WriteError> {
        let Some((user, session)) = user_and_session(key, name) else { return Ok(()) };
        let change = match existing {
            Existing::Replaced => "UPDATE SET value = excluded.value",
            Existing::Kept => "NOTHING",
        };
        let sql = format!(
            "INSERT INTO state (tenant, app, user, session, key, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT DO {change}"
        );
        self.execute(&sql, params![key.tenant, key.app, user, session, name, json(value)?])?;
        Ok(())
    }

    fn remove_state(&self, key: &SessionKey, name: &str) -> Result<(), WriteError> {
        let Some((user, session)) = user_and_session(key, name) else { return Ok(()) };
        let sql = "DELETE FROM state WHERE tenant = ?1 AND app = ?2 AND user = ?3 AND session = ?4 AND key = ?5";
        self.execute(sql, params![key.tenant, key.app, user, session, name])?;
        Ok(())
    }
}
