//! Everything that is stored about a run.

use std::sync::Arc;

use andon_runtime::JournaledRun;
use andon_runtime::core::answer::Lump;
use andon_runtime::core::event::{Entry, Record};
use andon_runtime::core::id::RunId;
use andon_runtime::core::progress::{RunProgress, RunState};
use futures_util::future::{try_join3, try_join5};
use serde::de::DeserializeOwned;
use tokio_postgres::Row;

use crate::postgres::rows::{RowResult, durable, parse, record, run_id};
use crate::postgres::sql::{Transaction, Value};
use crate::postgres::write::WriteError;
use crate::record::{HashMap, interleaved};

/// Everything that is stored about a run. All of it is asked for at once.
pub(in crate::postgres) async fn run(transaction: Transaction<'_>, run: &RunId) -> RowResult<Option<JournaledRun>> {
    let name = [Value::Text(run.as_str())];
    let of_run = |table: &str, order: &str| {
        format!("SELECT body FROM {table} WHERE run = (SELECT id FROM runs WHERE run = $1) ORDER BY {order}")
    };
    let [events, lumps, addenda, requests] =
        [of_run("events", "seq"), of_run("lumps", "n"), of_run("addenda", "number"), of_run("requests", "number")];
    let (found, events, lumps, addenda, requests) = try_join5(
        transaction.row("SELECT epoch, durable_at, durable_mono_us FROM runs WHERE run = $1", &name),
        transaction.rows(&events, &name),
        transaction.rows(&lumps, &name),
        transaction.rows(&addenda, &name),
        transaction.rows(&requests, &name),
    )
    .await?;
    let Some(found) = found else { return Ok(None) };
    let mut stored = JournaledRun::new().epoch(epoch(&found, 0)?).settled_at(durable(&found, 1)?);
    stored.entries = interleaved(records(&events)?, decoded(&lumps)?);
    stored.addenda = decoded(&addenda)?;
    stored.requests = decoded(&requests)?;
    Ok(Some(stored))
}

fn epoch(row: &Row, column: usize) -> RowResult<u32> {
    Ok(u32::try_from(row.try_get::<_, i64>(column)?).unwrap_or(u32::MAX))
}

fn records(rows: &[Row]) -> RowResult<Vec<Arc<Record>>> {
    rows.iter().map(|row| record(row, 0)).collect()
}

fn decoded<T: DeserializeOwned>(rows: &[Row]) -> RowResult<Vec<T>> {
    rows.iter().map(|row| parse(row, 0)).collect()
}

/// What is stored about the model calls of runs: the other events, which may be long, are not read.
pub(in crate::postgres) async fn accounts(
    transaction: Transaction<'_>,
    runs: &[RunId],
) -> RowResult<Vec<Option<JournaledRun>>> {
    let names = [Value::Texts(runs.iter().map(RunId::as_str).collect())];
    let found = transaction.rows("SELECT run, epoch FROM runs WHERE run = ANY($1::text[])", &names);
    let events = transaction.rows(
        "SELECT r.run, e.body FROM runs r JOIN events e ON e.run = r.id
         WHERE r.run = ANY($1::text[]) AND e.kind IN ('model_started', 'usage') ORDER BY e.run, e.seq",
        &names,
    );
    let addenda = transaction.rows(
        "SELECT r.run, a.body FROM runs r JOIN addenda a ON a.run = r.id WHERE r.run = ANY($1::text[]) ORDER BY a.run, a.number",
        &names,
    );
    let (found, events, addenda) = try_join3(found, events, addenda).await?;
    // `None` stands for a record that cannot be read, which must not fail the list that it is in.
    let mut accounts: HashMap<RunId, Option<JournaledRun>> = HashMap::default();
    for row in &found {
        accounts.insert(run_id(row, 0)?, Some(JournaledRun::new().epoch(epoch(row, 1)?)));
    }
    add(&mut accounts, &events, |account, row| {
        account.entries.push(Entry::Fact(record(row, 1)?));
        Ok(())
    })?;
    add(&mut accounts, &addenda, |account, row| {
        account.addenda.push(parse(row, 1)?);
        Ok(())
    })?;
    Ok(runs.iter().map(|run| accounts.get(run).cloned().flatten()).collect())
}

fn add(
    accounts: &mut HashMap<RunId, Option<JournaledRun>>,
    rows: &[Row],
    add: impl Fn(&mut JournaledRun, &Row) -> RowResult<()>,
) -> RowResult<()> {
    for row in rows {
        let Some(slot) = accounts.get_mut(&run_id(row, 0)?) else { continue };
        let Some(account) = slot else { continue };
        match add(account, row) {
            Ok(()) => {}
            Err(WriteError::Refused(_)) => *slot = None,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The facts of a run's row.
pub(super) async fn facts(transaction: Transaction<'_>, run: i64) -> RowResult<Vec<Arc<Record>>> {
    let sql = "SELECT body FROM events WHERE run = $1 ORDER BY seq";
    records(&transaction.rows(sql, &[Value::Int(run)]).await?)
}

/// The runs that have not settled, in the order in which they were accepted.
pub(in crate::postgres) async fn unsettled(transaction: Transaction<'_>) -> RowResult<Vec<RunId>> {
    let rows = transaction.rows("SELECT run FROM runs WHERE NOT settled ORDER BY id", &[]).await?;
    rows.iter().map(|row| run_id(row, 0)).collect()
}

/// The state of a run that has not settled, folded from its record. If the record does not fold, all that is known is that the run
/// has not settled; that must not fail the list it is in.
pub(super) async fn state_of(transaction: Transaction<'_>, run: i64) -> RowResult<RunState> {
    let id = [Value::Int(run)];
    let lumps = transaction.rows("SELECT body FROM lumps WHERE run = $1 ORDER BY n", &id).await?;
    let lumps: RowResult<Vec<Arc<Lump>>> = decoded(&lumps);
    let entries = match (facts(transaction, run).await, lumps) {
        (Ok(facts), Ok(lumps)) => interleaved(facts, lumps),
        (Err(WriteError::Server(fault)), _) => return Err(fault.into()),
        _ => return Ok(RunState::Running),
    };
    Ok(RunProgress::fold(&entries).map_or(RunState::Running, |progress| progress.state()))
}
