//! The last call of a session that the provider reported.

use andon_runtime::core::id::SessionKey;
use andon_runtime::{LastReported, LookingBack};

use super::session::named;
use crate::postgres::rows::{RowResult, record};
use crate::postgres::sql::{Transaction, Value};

/// Runs of a session, those that started last first.
fn runs() -> String {
    format!(
        "SELECT id FROM runs WHERE session = (SELECT id FROM sessions WHERE (tenant, app, \"user\", session) = ($1, $2, $3, $4))
         AND started IS NOT NULL AND settled ORDER BY started DESC LIMIT {}",
        LookingBack::RUNS
    )
}

/// Answers may be long, and are only counted: their bodies are not read. Of the hooks, those count that changed an answer, and
/// the server finds a few too many.
fn calls() -> String {
    format!(
        "SELECT CASE kind WHEN 'message' THEN NULL ELSE body END, seq FROM events WHERE run = $1 AND seq < $2
         AND (kind IN ('model_started', 'message', 'usage') OR (kind = 'hook_finished' AND body LIKE '%\"answer\"%'))
         ORDER BY seq DESC LIMIT {}",
        LookingBack::EVENTS
    )
}

/// The last call of a session that the provider reported.
pub(in crate::postgres) async fn last_reported(
    transaction: Transaction<'_>,
    session: &SessionKey,
) -> RowResult<Option<LastReported>> {
    let mut looking = LookingBack::default();
    let calls = calls();
    for run in transaction.rows(&runs(), &named(session)).await? {
        if let Some(found) = look_through(transaction, &calls, run.try_get(0)?, &mut looking).await? {
            return Ok(Some(found));
        }
        if !looking.next_run() {
            break;
        }
    }
    Ok(None)
}

async fn look_through(
    transaction: Transaction<'_>,
    calls: &str,
    run: i64,
    looking: &mut LookingBack,
) -> RowResult<Option<LastReported>> {
    let (mut before, mut looked_at) = (i64::MAX, 0);
    loop {
        let rows = transaction.rows(calls, &[Value::Int(run), Value::Int(before)]).await?;
        for row in &rows {
            before = row.try_get(1)?;
            if looked_at == LookingBack::EVENTS {
                return Ok(None);
            }
            if row.try_get::<_, Option<&str>>(0)?.is_none() {
                looked_at += 1;
                looking.answer();
                continue;
            }
            let record = record(row, 0)?;
            if !LookingBack::looks_at(&record.event) {
                continue;
            }
            looked_at += 1;
            if let Some(last) = looking.event(&record.event) {
                return Ok(Some(last));
            }
        }
        if rows.len() < LookingBack::EVENTS {
            return Ok(None);
        }
    }
}
