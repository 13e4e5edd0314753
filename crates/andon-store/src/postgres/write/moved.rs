//! Importing a session from another store.

use andon_runtime::core::id::RunId;
use andon_runtime::core::time::Stamp;
use andon_runtime::{JournalError, JournaledRun, SessionCopy};

use super::append::{Appending, Brought, accepted};
use super::notes::settled;
use super::sessions::{insert_kept, session_row};
use super::state::{Existing, set_state};
use super::wave::Part;
use super::work::WriteError;
use crate::postgres::sql::{Transaction, Value};
use crate::record::{Encoded, int, json};

/// Puts in a session from another store. If any part is refused, its transaction must be rolled back.
pub(in crate::postgres) async fn put(
    transaction: Transaction<'_>,
    moved: &SessionCopy,
    runs: &[Encoded],
) -> Result<(), WriteError> {
    let key = &moved.session;
    let (session, true) = session_row(transaction, key, int(moved.created_at.0)).await? else {
        return Err(JournalError::SessionExists(Box::new(key.clone())).into());
    };
    insert_kept(transaction, session, &moved.kept).await?;
    set_state(transaction, key, moved.state.iter().map(|(name, value)| (name.as_str(), value)), Existing::Kept).await?;
    let parts: Vec<Part<'_>> =
        runs.iter().filter(|run| !run.rows.is_empty()).filter_map(|run| Part::of([run])).collect();
    check(&parts)?;
    insert_runs(transaction, &parts).await?;
    let instants: Vec<(RunId, Stamp)> =
        moved.runs.iter().filter_map(|(run, stored)| Some((run.clone(), stored.settled_at?))).collect();
    let instants = settled(&instants);
    transaction.execute(&instants.sql, &instants.values).await?;
    for (run, stored) in moved.runs.iter().filter(|(_, stored)| !stored.entries.is_empty()) {
        add_the_rest(transaction, run, stored).await?;
    }
    Ok(())
}

fn check(parts: &[Part<'_>]) -> Result<(), JournalError> {
    for (place, part) in parts.iter().enumerate() {
        if part.begins.is_none() {
            return Err(JournalError::Storage(format!("run {} is unknown", part.run)));
        }
        if parts.iter().take(place).any(|other| other.run == part.run) {
            return Err(JournalError::RunExists(part.run.clone()));
        }
    }
    Ok(())
}

async fn insert_runs(transaction: Transaction<'_>, parts: &[Part<'_>]) -> Result<(), WriteError> {
    // No commit of ours has this number.
    let appending = Appending { parts, owner: transaction.owner, number: 0, brought: Brought::AlreadyThere };
    let texts = appending.texts();
    let mut taken = Vec::new();
    for statement in appending.statements(&texts) {
        taken.extend(accepted(transaction.rows(&statement.sql, &statement.values).await?.into_iter())?);
    }
    match parts.iter().enumerate().find(|(place, _)| !taken.contains(place)) {
        Some((_, refused)) => Err(JournalError::RunExists(refused.run.clone()).into()),
        None => Ok(()),
    }
}

/// Adds what is kept about a run beside its events.
async fn add_the_rest(transaction: Transaction<'_>, run: &RunId, stored: &JournaledRun) -> Result<(), WriteError> {
    for addendum in &stored.addenda {
        let sql = "INSERT INTO addenda (run, number, body) SELECT id, $2, $3 FROM runs WHERE run = $1";
        let body = json(addendum)?;
        let values = [Value::Text(run.as_str()), Value::Int(i64::from(addendum.number)), Value::Text(&body)];
        transaction.execute(sql, &values).await?;
    }
    for request in &stored.requests {
        let sql = "WITH asked AS (UPDATE runs SET asked = asked + 1 WHERE run = $1 RETURNING id, asked)
            INSERT INTO requests (run, number, kind, body) SELECT id, asked, 'cancel', $2 FROM asked";
        transaction.execute(sql, &[Value::Text(run.as_str()), Value::Text(&json(request)?)]).await?;
    }
    Ok(())
}
