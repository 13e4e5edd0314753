//! Session state.

use andon_runtime::core::id::SessionKey;
use andon_runtime::core::time::Wall;
use andon_runtime::{JournalError, StateChange};
use serde_json::Value as Json;

use super::sessions::session_row;
use super::work::WriteError;
use crate::postgres::names;
use crate::postgres::sql::{Transaction, Value};
use crate::record::{int, json, user_and_session};

/// What happens to an existing value.
#[derive(Clone, Copy)]
pub(super) enum Existing {
    Replaced,
    Kept,
}

pub(in crate::postgres) async fn change_state(
    transaction: Transaction<'_>,
    key: &SessionKey,
    at: Wall,
    change: &StateChange,
) -> Result<(), WriteError> {
    let (session, _) = session_row(transaction, key, int(at.0)).await?;
    let new = change.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_ref()?)));
    set_state(transaction, key, new, Existing::Replaced).await?;
    let gone = change.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name.as_str());
    remove_state(transaction, key, gone).await?;
    let touched = "UPDATE sessions SET updated_at = greatest(updated_at, $2) WHERE id = $1";
    transaction.execute(touched, &[Value::Int(session), Value::Int(int(at.0))]).await?;
    Ok(())
}

pub(super) async fn set_state<'a>(
    transaction: Transaction<'_>,
    key: &'a SessionKey,
    values: impl IntoIterator<Item = (&'a str, &'a Json)>,
    existing: Existing,
) -> Result<(), WriteError> {
    let kept = values.into_iter().filter_map(|(name, value)| {
        let (user, session) = user_and_session(key, name)?;
        Some(json(value).map(|value| (user, session, names::stored(name), value)))
    });
    let kept: Vec<_> = kept.collect::<Result<_, JournalError>>()?;
    if kept.is_empty() {
        return Ok(());
    }
    let change = match existing {
        Existing::Replaced => "UPDATE SET value = excluded.value",
        Existing::Kept => "NOTHING",
    };
    // In the order of their keys, so that two processes do not wait for each other.
    let sql = format!(
        "INSERT INTO state (tenant, app, \"user\", session, key, value)
         SELECT $1, $2, k.* FROM unnest($3::text[], $4::text[], $5::text[], $6::text[]) AS k(\"user\", session, key, value)
         ORDER BY 3, 4, 5 ON CONFLICT (tenant, app, \"user\", session, key) DO {change}"
    );
    let values = [
        Value::Text(&key.tenant),
        Value::Text(&key.app),
        Value::Texts(kept.iter().map(|(user, ..)| *user).collect()),
        Value::Texts(kept.iter().map(|(_, session, ..)| *session).collect()),
        Value::Texts(kept.iter().map(|(_, _, name, _)| &**name).collect()),
        Value::Texts(kept.iter().map(|(.., value)| value.as_str()).collect()),
    ];
    transaction.execute(&sql, &values).await?;
    Ok(())
}

async fn remove_state<'a>(
    transaction: Transaction<'_>,
    key: &'a SessionKey,
    gone: impl Iterator<Item = &'a str>,
) -> Result<(), WriteError> {
    let gone: Vec<_> = gone.filter_map(|name| Some((user_and_session(key, name)?, names::stored(name)))).collect();
    if gone.is_empty() {
        return Ok(());
    }
    let sql = "DELETE FROM state s USING unnest($3::text[], $4::text[], $5::text[]) AS k(\"user\", session, key)
        WHERE s.tenant = $1 AND s.app = $2 AND s.\"user\" = k.\"user\" AND s.session = k.session AND s.key = k.key";
    let values = [
        Value::Text(&key.tenant),
        Value::Text(&key.app),
        Value::Texts(gone.iter().map(|((user, _), _)| *user).collect()),
        Value::Texts(gone.iter().map(|((_, session), _)| *session).collect()),
        Value::Texts(gone.iter().map(|(_, name)| &**name).collect()),
    ];
    transaction.execute(sql, &values).await?;
    Ok(())
}
