//! What is written about a run besides its batches: claims, cancel requests, when it settled, addenda. And the shelf.

use andon_runtime::core::cancel::CancelRequest;
use andon_runtime::core::event::{Addendum, AddendumKind, Epoch};
use andon_runtime::core::id::RunId;
use andon_runtime::core::time::Stamp;
use andon_runtime::{JournalError, RequestFate};
use rusqlite::{OptionalExtension, params};
use serde_json::Value;

use super::append::RunRow;
use super::store::{Store, WriteError};
use crate::record::{int, json};

impl Store {
    pub(crate) fn claim(&mut self, run: &RunId, from: Epoch) -> Result<Option<Epoch>, WriteError> {
        let mut query = self.connection.prepare_cached("SELECT epoch FROM runs WHERE run = ?1")?;
        let Some(owner) = query.query_row([run.as_str()], |row| row.get(0)).optional()? else { return Ok(None) };
        if owner != from {
            return Err(JournalError::Fenced { ours: from, owner }.into());
        }
        let claimed = "UPDATE runs SET epoch = epoch + 1, owner = ?2 WHERE run = ?1";
        self.execute(claimed, params![run.as_str(), self.owner])?;
        Ok(Some(from.saturating_add(1)))
    }

    pub(crate) fn request_cancel(&mut self, run: &RunId, request: &CancelRequest) -> Result<RequestFate, WriteError> {
        let Some(RunRow { id, .. }) = self.run_row(run)? else { return Ok(RequestFate::Unknown) };
        let insert = "INSERT INTO cancel_requests (run, number, body)
             SELECT ?1, (SELECT coalesce(max(number), 0) + 1 FROM cancel_requests WHERE run = ?1), ?2
             FROM runs WHERE id = ?1 AND settled = 0";
        let changed = self.execute(insert, params![id, json(request)?])?;
        Ok(if changed == 1 { RequestFate::Recorded } else { RequestFate::TooLate })
    }

    /// Writes when runs settled, once for each, and only for those that have settled.
    pub(crate) fn write_settled(&self, instants: &[(RunId, Stamp)]) -> rusqlite::Result<()> {
        let update = "UPDATE runs SET durable_at = ?2, durable_mono_us = ?3
             WHERE run = ?1 AND settled = 1 AND durable_at IS NULL";
        for (run, at) in instants {
            self.execute(update, params![run.as_str(), int(at.wall.0), int(at.mono_us)])?;
        }
        Ok(())
    }

    pub(crate) fn append_addendum(&mut self, run: &RunId, at: Stamp, what: &AddendumKind) -> Result<(), WriteError> {
        let Some(RunRow { id, .. }) = self.run_row(run)? else {
            return Err(JournalError::Storage(format!("run {run} is unknown")).into());
        };
        let next = "SELECT coalesce(max(number), 0) + 1 FROM addenda WHERE run = ?1";
        let number = self.connection.prepare_cached(next)?.query_row([id], |row| row.get(0))?;
        let addendum = Addendum::new(number, at, what.clone());
        self.add_addendum(id, &addendum)
    }

    pub(super) fn add_addendum(&self, id: i64, addendum: &Addendum) -> Result<(), WriteError> {
        let insert = "INSERT INTO addenda (run, number, body) VALUES (?1, ?2, ?3)";
        self.execute(insert, params![id, addendum.number, json(addendum)?])?;
        Ok(())
    }

    pub(crate) fn keep(&mut self, kind: &str, name: &str, value: &Value) -> Result<(), WriteError> {
        let insert = "INSERT INTO shelf (kind, name, body) VALUES (?1, ?2, ?3)
             ON CONFLICT (kind, name) DO UPDATE SET body = excluded.body";
        self.execute(insert, params![kind, name, json(value)?])?;
        Ok(())
    }

    pub(crate) fn discard(&mut self, kind: &str, name: &str) -> Result<(), WriteError> {
        self.execute("DELETE FROM shelf WHERE kind = ?1 AND name = ?2", params![kind, name])?;
        Ok(())
    }
}
