//! The last call of a session that the provider reported.

use andon_runtime::core::event::Record;
use andon_runtime::core::id::SessionKey;
use andon_runtime::{LastReported, LookingBack};
use rusqlite::{Connection, params};

use super::session::find_session;
use crate::record::unreadable;
use crate::rows::{RowResult, text};

const RUNS: &str = "SELECT id FROM runs INDEXED BY runs_of_session
    WHERE session = ?1 AND started IS NOT NULL AND settled = 1 ORDER BY started DESC LIMIT ?2";

/// Answers may be long, and are only counted: their bodies are not read. Of the hooks, those count that changed an answer.
const CALLS: &str = "SELECT CASE kind WHEN 'message' THEN NULL ELSE body END, kind = 'message' FROM events
    WHERE run = ?1 AND (kind IN ('model_started', 'message', 'usage')
        OR (kind = 'hook_finished' AND json_extract(body, '$.change.what') = 'answer')) ORDER BY seq DESC LIMIT ?2";

/// The last call of a session that the provider reported.
pub(crate) fn last_reported(connection: &Connection, session: &SessionKey) -> RowResult<Option<LastReported>> {
    let Some(session) = find_session(connection, session)? else { return Ok(None) };
    let mut looking = LookingBack::default();
    let (mut runs, mut calls) = (connection.prepare_cached(RUNS)?, connection.prepare_cached(CALLS)?);
    let mut runs = runs.query(params![session.id, LookingBack::RUNS as i64])?;
    while let Some(run) = runs.next()? {
        let mut events = calls.query(params![run.get::<_, i64>(0)?, LookingBack::EVENTS as i64])?;
        while let Some(row) = events.next()? {
            if row.get(1)? {
                looking.answer();
                continue;
            }
            let record = Record::from_json(text(row, 0)?).map_err(|error| unreadable(&error))?;
            if let Some(last) = looking.event(&record.event) {
                return Ok(Some(last));
            }
        }
        if !looking.next_run() {
            break;
        }
    }
    Ok(None)
}
