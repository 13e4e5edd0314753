//! Everything that is stored about a run.

use std::sync::Arc;

use andon_runtime::JournaledRun;
use andon_runtime::core::answer::Lump;
use andon_runtime::core::event::{Entry, Record};
use andon_runtime::core::id::RunId;
use andon_runtime::core::progress::{RunProgress, RunState};
use rusqlite::{Connection, OptionalExtension, Row};
use serde::de::DeserializeOwned;

use crate::record::{interleaved, unreadable};
use crate::rows::{ReadError, RowResult, durable, parse, run_id, text};

/// Everything that is stored about a run.
pub(crate) fn run(connection: &Connection, run: &RunId) -> RowResult<Option<JournaledRun>> {
    let sql = "SELECT id, epoch, durable_at, durable_mono_us FROM runs WHERE run = ?1";
    let columns = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, durable(row, 2)?));
    let found = connection.prepare_cached(sql)?.query_row([run.as_str()], columns).optional()?;
    let Some((id, epoch, settled_at)) = found else { return Ok(None) };
    let mut stored = JournaledRun::new().epoch(epoch).settled_at(settled_at);
    stored.entries = entries(connection, id)?;
    stored.addenda = bodies(connection, "SELECT body FROM addenda WHERE run = ?1 ORDER BY number", id)?;
    stored.requests = bodies(connection, "SELECT body FROM cancel_requests WHERE run = ?1 ORDER BY number", id)?;
    Ok(Some(stored))
}

/// A run's facts, each followed by the text that streamed after it.
fn entries(connection: &Connection, run: i64) -> RowResult<Vec<Entry>> {
    let facts = facts(connection, run)?;
    let lumps: Vec<Arc<Lump>> = bodies(connection, "SELECT body FROM lumps WHERE run = ?1 ORDER BY id", run)?;
    Ok(interleaved(facts, lumps))
}

/// What is stored about the model calls of a run: the other events, which may be long, are not read.
pub(crate) fn account(connection: &Connection, run: &RunId) -> RowResult<Option<JournaledRun>> {
    let mut find = connection.prepare_cached("SELECT id, epoch FROM runs WHERE run = ?1")?;
    let found = find.query_row([run.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((id, epoch)) = found else { return Ok(None) };
    let read = || -> RowResult<JournaledRun> {
        let entries = records(connection, OF_CALLS, id)?.into_iter().map(Entry::Fact).collect();
        let addenda = bodies(connection, "SELECT body FROM addenda WHERE run = ?1 ORDER BY number", id)?;
        Ok(JournaledRun::new().epoch(epoch).entries(entries).addenda(addenda))
    };
    match read() {
        Ok(stored) => Ok(Some(stored)),
        Err(ReadError::Journal(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

const OF_CALLS: &str = "SELECT body FROM events WHERE run = ?1 AND kind IN ('model_started', 'usage') ORDER BY seq";

pub(super) fn facts(connection: &Connection, run: i64) -> RowResult<Vec<Arc<Record>>> {
    records(connection, "SELECT body FROM events WHERE run = ?1 ORDER BY seq", run)
}

fn records(connection: &Connection, sql: &str, run: i64) -> RowResult<Vec<Arc<Record>>> {
    let mut query = connection.prepare_cached(sql)?;
    let record = |row: &Row<'_>| Record::from_json(text(row, 0)?).map_err(|error| unreadable(&error).into());
    query.query_and_then([run], |row| record(row).map(Arc::new))?.collect()
}

/// The bodies of rows, decoded.
fn bodies<T: DeserializeOwned>(connection: &Connection, sql: &str, id: i64) -> RowResult<Vec<T>> {
    connection.prepare_cached(sql)?.query_and_then([id], |row| parse(row, 0))?.collect()
}

pub(crate) const UNSETTLED: &str = "SELECT run FROM runs INDEXED BY open_runs WHERE settled = 0 ORDER BY id";

/// The runs that have not settled, in the order in which they were accepted.
pub(crate) fn unsettled(connection: &Connection) -> RowResult<Vec<RunId>> {
    connection.prepare_cached(UNSETTLED)?.query_and_then([], |row| run_id(row, 0))?.collect()
}

/// The state of a run that has not settled, folded from its record. If the record does not fold, all that is known is that the run
/// has not settled; that must not fail the list it is in.
pub(crate) fn state_of(connection: &Connection, run: i64) -> RowResult<RunState> {
    match entries(connection, run) {
        Ok(entries) => Ok(RunProgress::fold(&entries).map_or(RunState::Running, |progress| progress.state())),
        Err(ReadError::Journal(_)) => Ok(RunState::Running),
        Err(error) => Err(error),
    }
}
