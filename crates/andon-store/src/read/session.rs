//! Everything that is stored about a session, and the shelf.

use andon_runtime::core::id::SessionKey;
use andon_runtime::{Attachment, SessionCopy, StateMap};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use super::run::run;
use crate::rows::{RowResult, parse, run_id, wall};

/// A session's row and its places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionRow {
    pub(crate) id: i64,
    pub(crate) app_place: i64,
    pub(crate) user_place: i64,
}

pub(crate) fn find_session(connection: &Connection, key: &SessionKey) -> rusqlite::Result<Option<SessionRow>> {
    let mut query = connection.prepare_cached(
        "SELECT id, app_place, user_place FROM sessions WHERE tenant = ?1 AND app = ?2 AND user = ?3 AND session = ?4",
    )?;
    let key = params![key.tenant, key.app, key.user, key.session.as_str()];
    let columns = |row: &Row<'_>| Ok(SessionRow { id: row.get(0)?, app_place: row.get(1)?, user_place: row.get(2)? });
    query.query_row(key, columns).optional()
}

/// A session's state, with the keys that it shares.
pub(crate) fn state(connection: &Connection, key: &SessionKey) -> RowResult<Option<StateMap>> {
    if find_session(connection, key)?.is_none() {
        return Ok(None);
    }
    let mut query = connection.prepare_cached(
        "SELECT key, value FROM state
         WHERE tenant = ?1 AND app = ?2 AND (user, session) IN (VALUES ('', ''), (?3, ''), (?3, ?4))",
    )?;
    let scopes = params![key.tenant, key.app, key.user, key.session.as_str()];
    query.query_and_then(scopes, |row| Ok((row.get(0)?, parse(row, 1)?)))?.collect::<RowResult<_>>().map(Some)
}

/// All values of a kind on the shelf, by name.
pub(crate) fn kept(connection: &Connection, kind: &str) -> RowResult<Vec<(String, Value)>> {
    let mut query = connection.prepare_cached("SELECT name, body FROM shelf WHERE kind = ?1 ORDER BY name")?;
    let mut rows = query.query([kind])?;
    let mut kept = Vec::new();
    while let Some(row) = rows.next()? {
        // A value that cannot be decoded does not hide the others.
        if let Ok(value) = parse(row, 1) {
            kept.push((row.get(0)?, value));
        }
    }
    Ok(kept)
}

/// What is kept with a session, of one kind or of all kinds.
pub(crate) fn attachments(connection: &Connection, key: &SessionKey, kind: Option<&str>) -> RowResult<Vec<Attachment>> {
    let Some(session) = find_session(connection, key)? else { return Ok(Vec::new()) };
    let mut query = connection.prepare_cached(
        "SELECT kind, name, at, body FROM kept WHERE session = ?1 AND (?2 IS NULL OR kind = ?2) ORDER BY kind, name",
    )?;
    let kept = |row: &Row<'_>| {
        Ok(Attachment::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?, wall(row, 2)?, parse(row, 3)?))
    };
    query.query_and_then(params![session.id, kind], kept)?.collect()
}

/// A whole session, with the things of one kind that are kept with it, or all of them.
pub(crate) fn copy_whole(
    connection: &Connection,
    key: &SessionKey,
    kind: Option<&str>,
) -> RowResult<Option<SessionCopy>> {
    let (Some(SessionRow { id, .. }), Some(state)) = (find_session(connection, key)?, state(connection, key)?) else {
        return Ok(None);
    };
    let created_at = connection.query_row("SELECT created_at FROM sessions WHERE id = ?1", [id], |row| wall(row, 0))?;
    let mut query =
        connection.prepare_cached("SELECT run FROM runs WHERE session = ?1 ORDER BY started IS NULL, started, id")?;
    let mut rows = query.query([id])?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        let id = run_id(row, 0)?;
        runs.extend(run(connection, &id)?.map(|stored| (id, stored)));
    }
    let kept = attachments(connection, key, kind)?;
    Ok(Some(SessionCopy::new(key.clone(), created_at).state(state).kept(kept).runs(runs)))
}
