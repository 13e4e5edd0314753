//! What is written about a run besides its batches: claims, cancel requests, addenda. And the shelf.

use andon_runtime::core::cancel::CancelRequest;
use andon_runtime::core::event::{Addendum, AddendumKind, Epoch};
use andon_runtime::core::id::RunId;
use andon_runtime::core::time::Stamp;
use andon_runtime::{JournalError, RequestFate};
use serde_json::Value as Json;

use super::work::WriteError;
use crate::postgres::names;
use crate::postgres::rows::run_id;
use crate::postgres::sql::{Statement, Transaction, Value};
use crate::record::{int, json};

pub(in crate::postgres) async fn claim(
    transaction: Transaction<'_>,
    run: &RunId,
    from: Epoch,
) -> Result<Option<Epoch>, WriteError> {
    let sql = "SELECT id, epoch, owner FROM runs WHERE run = $1 FOR NO KEY UPDATE";
    let Some(row) = transaction.row(sql, &[Value::Text(run.as_str())]).await? else { return Ok(None) };
    let owner = u32::try_from(row.try_get::<_, i64>(1)?).unwrap_or(Epoch::MAX);
    if owner != from {
        return Err(JournalError::Fenced { ours: from, owner }.into());
    }
    let of: &str = row.try_get(2)?;
    if of != transaction.owner
        && let Some(by) = driven_by(transaction, of).await?
    {
        return Err(JournalError::Owned { by: by.into() }.into());
    }
    // The number that is there is of a commit of its former owner's. One of ours may have the same, and would count as written.
    let claimed = "UPDATE runs SET epoch = epoch + 1, owner = $2, commit = 0 WHERE id = $1";
    transaction.execute(claimed, &[Value::Int(row.try_get(0)?), Value::Text(transaction.owner)]).await?;
    Ok(Some(from.saturating_add(1)))
}

/// The program that drives an owner's runs, if they may not be taken over.
async fn driven_by(transaction: Transaction<'_>, owner: &str) -> Result<Option<String>, WriteError> {
    // Locked first, so that the lease is not renewed meanwhile.
    let lock = "SELECT program FROM replicas WHERE id = $1 FOR SHARE";
    let Some(row) = transaction.row(lock, &[Value::Text(owner)]).await? else { return Ok(None) };
    let judge = "SELECT may_take($1, $2)";
    let judged = transaction.row(judge, &[Value::Text(owner), Value::Text(transaction.owner)]).await?;
    let may_take: bool = judged.map_or(Ok(false), |row| row.try_get(0))?;
    Ok(if may_take { None } else { Some(row.try_get(0)?) })
}

/// Makes the caller the heir of the dead whose runs nobody takes up, and returns the open runs that it may take up: theirs, its
/// own, and those of owners that are not known any more.
pub(in crate::postgres) async fn abandoned(transaction: Transaction<'_>) -> Result<Vec<RunId>, WriteError> {
    let inherit = "UPDATE replicas SET heir = $1
        WHERE id IN (SELECT id FROM replicas p WHERE id <> $1 AND lease_until < clock_timestamp() AND may_take(id, $1)
            AND NOT EXISTS (SELECT FROM replicas h WHERE h.id = p.heir AND h.id <> $1 AND h.lease_until >= clock_timestamp())
            ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)";
    let owner = || [Value::Text(transaction.owner)];
    transaction.execute(inherit, &owner()).await?;
    let open = "SELECT r.run FROM runs r LEFT JOIN replicas p ON p.id = r.owner
        WHERE NOT r.settled AND (p.id IS NULL OR p.id = $1 OR (p.heir = $1 AND p.lease_until < clock_timestamp()))
        ORDER BY r.id";
    transaction.rows(open, &owner()).await?.iter().map(|row| run_id(row, 0)).collect()
}

/// Remembers up to which request the owner of runs has heard them.
pub(in crate::postgres) async fn heard(transaction: Transaction<'_>, runs: &[(RunId, i64)]) -> Result<(), WriteError> {
    let sql = "UPDATE runs r SET heard = greatest(r.heard, k.number)
        FROM unnest($1::text[], $2::bigint[]) AS k(run, number) WHERE r.run = k.run";
    let values = [
        Value::Texts(runs.iter().map(|(run, _)| run.as_str()).collect()),
        Value::Ints(runs.iter().map(|(_, number)| *number).collect()),
    ];
    transaction.execute(sql, &values).await?;
    Ok(())
}

pub(in crate::postgres) async fn request_cancel(
    transaction: Transaction<'_>,
    run: &RunId,
    request: &CancelRequest,
) -> Result<RequestFate, WriteError> {
    let sql = "WITH asked AS (UPDATE runs SET asked = asked + 1 WHERE run = $1 AND NOT settled RETURNING id, asked)
        INSERT INTO requests (run, number, kind, body) SELECT id, asked, 'cancel', $2 FROM asked";
    if transaction.execute(sql, &[Value::Text(run.as_str()), Value::Text(&json(request)?)]).await? == 1 {
        return Ok(RequestFate::Recorded);
    }
    let known = transaction.row("SELECT FROM runs WHERE run = $1", &[Value::Text(run.as_str())]).await?;
    Ok(if known.is_some() { RequestFate::TooLate } else { RequestFate::Unknown })
}

/// When runs settled, once for each, and only for those that have settled.
pub(in crate::postgres) fn settled(instants: &[(RunId, Stamp)]) -> Statement<'_> {
    let sql = "UPDATE runs r SET durable_at = k.at, durable_mono_us = k.mono
        FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS k(run, at, mono)
        WHERE r.run = k.run AND r.settled AND r.durable_at IS NULL";
    let values = vec![
        Value::Texts(instants.iter().map(|(run, _)| run.as_str()).collect()),
        Value::Ints(instants.iter().map(|(_, at)| int(at.wall.0)).collect()),
        Value::Ints(instants.iter().map(|(_, at)| int(at.mono_us)).collect()),
    ];
    Statement::new(sql, values)
}

pub(in crate::postgres) async fn append_addendum(
    transaction: Transaction<'_>,
    run: &RunId,
    at: Stamp,
    what: &AddendumKind,
) -> Result<(), WriteError> {
    // Locked, so that no other process takes the same number.
    let sql = "SELECT id FROM runs WHERE run = $1 FOR NO KEY UPDATE";
    let Some(row) = transaction.row(sql, &[Value::Text(run.as_str())]).await? else {
        return Err(JournalError::Storage(format!("run {run} is unknown")).into());
    };
    let id: i64 = row.try_get(0)?;
    let next = "SELECT coalesce(max(number), 0) + 1 FROM addenda WHERE run = $1";
    let row = transaction.row(next, &[Value::Int(id)]).await?;
    let number: i64 = row.map_or(Ok(1), |row| row.try_get(0))?;
    let addendum = Addendum::new(u32::try_from(number).unwrap_or(u32::MAX), at, what.clone());
    let insert = "INSERT INTO addenda (run, number, body) VALUES ($1, $2, $3)";
    transaction.execute(insert, &[Value::Int(id), Value::Int(number), Value::Text(&json(&addendum)?)]).await?;
    Ok(())
}

pub(in crate::postgres) async fn keep(
    transaction: Transaction<'_>,
    kind: &str,
    name: &str,
    value: &Json,
) -> Result<(), WriteError> {
    let sql = "INSERT INTO shelf (kind, name, body) VALUES ($1, $2, $3)
        ON CONFLICT (kind, name) DO UPDATE SET body = excluded.body";
    let (kind, name) = (names::stored(kind), names::stored(name));
    transaction.execute(sql, &[Value::Text(&kind), Value::Text(&name), Value::Text(&json(value)?)]).await?;
    Ok(())
}

pub(in crate::postgres) async fn discard(
    transaction: Transaction<'_>,
    kind: &str,
    name: &str,
) -> Result<(), WriteError> {
    let (kind, name) = (names::stored(kind), names::stored(name));
    transaction
        .execute("DELETE FROM shelf WHERE kind = $1 AND name = $2", &[Value::Text(&kind), Value::Text(&name)])
        .await?;
    Ok(())
}
