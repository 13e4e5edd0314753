//! Sessions: their rows, what is kept with them, and deleting them.

use andon_runtime::core::id::{RunId, SessionKey};
use andon_runtime::core::time::Wall;
use andon_runtime::{Attachment, JournalError, StateChange, StateMap};

use super::append::{PLACES, SESSIONS};
use super::state::{Existing, change_state, set_state};
use super::work::WriteError;
use crate::postgres::names;
use crate::postgres::sql::{Transaction, Value};
use crate::record::{int, json, unreadable};

/// The values that name a session.
pub(super) fn named(key: &SessionKey) -> [Value<'_>; 4] {
    [Value::Text(&key.tenant), Value::Text(&key.app), Value::Text(&key.user), Value::Text(key.session.as_str())]
}

/// Finds a session's row and locks it.
async fn find_session(transaction: Transaction<'_>, key: &SessionKey) -> Result<Option<i64>, WriteError> {
    let sql = "SELECT id FROM sessions WHERE (tenant, app, \"user\", session) = ($1, $2, $3, $4) FOR UPDATE";
    let row = transaction.row(sql, &named(key)).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// A session's row, created if there is none, and locked; and whether it was created.
pub(super) async fn session_row(
    transaction: Transaction<'_>,
    key: &SessionKey,
    at: i64,
) -> Result<(i64, bool), WriteError> {
    let mut is_new = false;
    loop {
        if let Some(id) = find_session(transaction, key).await? {
            return Ok((id, is_new));
        }
        let wanted =
            "WITH wanted AS (SELECT $1 AS tenant, $2 AS app, $3 AS \"user\", $4 AS session, $5::bigint AS accepted_at)";
        let [tenant, app, user, session] = named(key);
        let values = [tenant, app, user, session, Value::Int(at)];
        transaction.execute(&format!("{wanted} {PLACES}"), &values).await?;
        // If another process is faster, or removes a place, it is looked up again.
        is_new = transaction.execute(&format!("{wanted} {SESSIONS}"), &values).await? == 1;
    }
}

pub(in crate::postgres) async fn create(
    transaction: Transaction<'_>,
    key: &SessionKey,
    at: Wall,
    state: &StateMap,
) -> Result<bool, WriteError> {
    let (_, true) = session_row(transaction, key, int(at.0)).await? else { return Ok(false) };
    set_state(transaction, key, state.iter().map(|(name, value)| (name.as_str(), value)), Existing::Replaced).await?;
    Ok(true)
}

pub(in crate::postgres) async fn attach(
    transaction: Transaction<'_>,
    key: &SessionKey,
    at: Wall,
    things: &[Attachment],
    change: &StateChange,
) -> Result<bool, WriteError> {
    let Some(id) = find_session(transaction, key).await? else { return Ok(false) };
    change_state(transaction, key, at, change).await?;
    insert_kept(transaction, id, things).await?;
    Ok(true)
}

pub(super) async fn insert_kept(
    transaction: Transaction<'_>,
    session: i64,
    things: &[Attachment],
) -> Result<(), WriteError> {
    // One after the other: of two with the same name, the later one stays.
    for Attachment { kind, name, at, value, .. } in things {
        let sql = "INSERT INTO kept (session, kind, name, at, body) VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (session, kind, name) DO UPDATE SET at = excluded.at, body = excluded.body";
        let (kind, name, body) = (names::stored(kind), names::stored(name), json(value)?);
        let values =
            [Value::Int(session), Value::Text(&kind), Value::Text(&name), Value::Int(int(at.0)), Value::Text(&body)];
        transaction.execute(sql, &values).await?;
    }
    Ok(())
}

pub(in crate::postgres) async fn discard_attachment(
    transaction: Transaction<'_>,
    key: &SessionKey,
    kind: &str,
    name: &str,
) -> Result<bool, WriteError> {
    let Some(id) = find_session(transaction, key).await? else { return Ok(false) };
    let sql = "DELETE FROM kept WHERE session = $1 AND kind = $2 AND name = $3";
    let (kind, name) = (names::stored(kind), names::stored(name));
    Ok(transaction.execute(sql, &[Value::Int(id), Value::Text(&kind), Value::Text(&name)]).await? > 0)
}

/// Removes a session and everything that belongs to it alone.
pub(in crate::postgres) async fn delete(transaction: Transaction<'_>, key: &SessionKey) -> Result<bool, WriteError> {
    let Some(id) = find_session(transaction, key).await? else { return Ok(false) };
    // In a statement of its own: a run that began before the lock was taken is seen.
    let unsettled = "SELECT run FROM runs WHERE session = $1 AND NOT settled ORDER BY id LIMIT 1";
    if let Some(row) = transaction.row(unsettled, &[Value::Int(id)]).await? {
        let run = RunId::new(row.try_get::<_, String>(0)?).map_err(|error| unreadable(&error))?;
        return Err(JournalError::SessionBusy { session: Box::new(key.clone()), run }.into());
    }
    for table in ["events", "lumps", "addenda", "requests", "said", "brought"] {
        let sql = format!("DELETE FROM {table} WHERE run IN (SELECT id FROM runs WHERE session = $1)");
        transaction.execute(&sql, &[Value::Int(id)]).await?;
    }
    transaction.execute("DELETE FROM runs WHERE session = $1", &[Value::Int(id)]).await?;
    transaction.execute("DELETE FROM kept WHERE session = $1", &[Value::Int(id)]).await?;
    let own = "DELETE FROM state WHERE (tenant, app, \"user\", session) = ($1, $2, $3, $4)";
    transaction.execute(own, &named(key)).await?;
    let places = "DELETE FROM sessions WHERE id = $1 RETURNING user_place, app_place";
    if let Some(row) = transaction.row(places, &[Value::Int(id)]).await? {
        // No name remains.
        for (column, place) in ["user_place", "app_place"].into_iter().enumerate() {
            let sql =
                format!("DELETE FROM places WHERE id = $1 AND NOT EXISTS (SELECT FROM sessions WHERE {place} = $1)");
            transaction.execute(&sql, &[Value::Int(row.try_get(column)?)]).await?;
        }
    }
    Ok(true)
}
