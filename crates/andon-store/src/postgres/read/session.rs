//! Everything that is stored about a session, and the shelf.

use andon_runtime::core::id::SessionKey;
use andon_runtime::{Attachment, SessionCopy, StateMap};
use serde_json::Value as Json;
use tokio_postgres::Row;

use super::run::run;
use crate::postgres::names;
use crate::postgres::rows::{RowResult, parse, run_id, wall};
use crate::postgres::sql::{Transaction, Value};

/// The values that name a session.
pub(super) fn named(key: &SessionKey) -> [Value<'_>; 4] {
    [Value::Text(&key.tenant), Value::Text(&key.app), Value::Text(&key.user), Value::Text(key.session.as_str())]
}

/// A session's row: its id, and when it was created.
async fn find_session(transaction: Transaction<'_>, key: &SessionKey) -> RowResult<Option<Row>> {
    let sql = "SELECT id, created_at FROM sessions WHERE (tenant, app, \"user\", session) = ($1, $2, $3, $4)";
    Ok(transaction.row(sql, &named(key)).await?)
}

/// A session's state, with the keys that it shares.
pub(in crate::postgres) async fn state(transaction: Transaction<'_>, key: &SessionKey) -> RowResult<Option<StateMap>> {
    if find_session(transaction, key).await?.is_none() {
        return Ok(None);
    }
    let sql = "SELECT key, value FROM state
        WHERE tenant = $1 AND app = $2 AND (\"user\", session) IN (('', ''), ($3, ''), ($3, $4))";
    state_of(&transaction.rows(sql, &named(key)).await?).map(Some)
}

/// A state, from rows with a key and a value.
pub(super) fn state_of(rows: &[Row]) -> RowResult<StateMap> {
    rows.iter().map(|row| Ok((names::read(row.try_get(0)?), parse(row, 1)?))).collect()
}

/// All values of a kind on the shelf, by name.
pub(in crate::postgres) async fn kept(transaction: Transaction<'_>, kind: &str) -> RowResult<Vec<(String, Json)>> {
    let kind = names::stored(kind);
    let sql = "SELECT name, body FROM shelf WHERE kind = $1 ORDER BY name";
    let mut kept = Vec::new();
    for row in transaction.rows(sql, &[Value::Text(&kind)]).await? {
        // A value that cannot be decoded does not hide the others.
        if let Ok(value) = parse(&row, 1) {
            kept.push((names::read(row.try_get(0)?), value));
        }
    }
    Ok(kept)
}

/// What is kept with a session, of one kind or of all kinds.
pub(in crate::postgres) async fn attachments(
    transaction: Transaction<'_>,
    key: &SessionKey,
    kind: Option<&str>,
) -> RowResult<Vec<Attachment>> {
    let kind = kind.map(names::stored);
    let sql = "SELECT kind, name, at, body FROM kept
        WHERE session = (SELECT id FROM sessions WHERE (tenant, app, \"user\", session) = ($1, $2, $3, $4))
        AND ($5::text IS NULL OR kind = $5) ORDER BY kind, name";
    let [tenant, app, user, session] = named(key);
    let values = [tenant, app, user, session, Value::MaybeText(kind.as_deref())];
    let kept = |row: &Row| {
        let (kind, name) = (names::read(row.try_get(0)?), names::read(row.try_get(1)?));
        Ok(Attachment::new(kind, name, wall(row, 2)?, parse(row, 3)?))
    };
    transaction.rows(sql, &values).await?.iter().map(kept).collect()
}

/// A whole session, with the things of one kind that are kept with it, or all of them.
pub(in crate::postgres) async fn copy_whole(
    transaction: Transaction<'_>,
    key: &SessionKey,
    kind: Option<&str>,
) -> RowResult<Option<SessionCopy>> {
    let (Some(session), Some(state)) = (find_session(transaction, key).await?, state(transaction, key).await?) else {
        return Ok(None);
    };
    let sql = "SELECT run FROM runs WHERE session = $1 ORDER BY started IS NULL, started, id";
    let mut runs = Vec::new();
    for row in transaction.rows(sql, &[Value::Int(session.try_get(0)?)]).await? {
        let id = run_id(&row, 0)?;
        runs.extend(run(transaction, &id).await?.map(|stored| (id, stored)));
    }
    let kept = attachments(transaction, key, kind).await?;
    Ok(Some(SessionCopy::new(key.clone(), wall(&session, 1)?).state(state).kept(kept).runs(runs)))
}
