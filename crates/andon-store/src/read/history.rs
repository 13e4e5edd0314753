//! What was said in a session.

use std::sync::Arc;

use andon_runtime::core::event::Entry;
use andon_runtime::core::id::{RunId, SessionKey};
use andon_runtime::core::message::Message;
use andon_runtime::core::progress::RunProgress;
use andon_runtime::{HistoryBefore, HistoryGatherer};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::run::facts;
use super::session::find_session;
use crate::record::{said, unreadable};
use crate::rows::{RowResult, run_id, text};

/// What was said in a session: the messages of its runs that started and have settled.
pub(crate) fn history(connection: &Connection, session: &SessionKey) -> RowResult<Vec<Arc<Message>>> {
    let Some(session) = find_session(connection, session)? else { return Ok(Vec::new()) };
    // A run with a row in `said` has settled, so its row in `runs` is not read.
    let mut query = connection.prepare_cached(
        "SELECT said.body, CASE WHEN said.body IS NULL THEN runs.settled END, runs.id
         FROM runs INDEXED BY runs_of_session LEFT JOIN said ON said.run = runs.id
         WHERE runs.session = ?1 AND runs.started IS NOT NULL ORDER BY runs.started",
    )?;
    let mut rows = query.query([session.id])?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        match row.get(1)? {
            Some(false) => {}
            Some(true) => messages.extend(folded(connection, row.get(2)?)?),
            // The events are the truth and this is a copy, so nothing is lost if a row cannot be read.
            None => messages.extend(said::read(text(row, 0)?).or_else(|_| folded(connection, row.get(2)?))?),
        }
    }
    Ok(messages)
}

/// What was said in a run's session before it, by runs that started and have settled; and the earlier runs that have not.
pub(crate) fn history_before(connection: &Connection, run: &RunId, most: usize) -> RowResult<Option<HistoryBefore>> {
    let mut query = connection.prepare_cached("SELECT id, session, started FROM runs WHERE run = ?1")?;
    let columns = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let found: Option<(i64, i64, Option<i64>)> = query.query_row([run.as_str()], columns).optional()?;
    let Some((id, session, started)) = found else { return Ok(None) };
    let mut gathering = HistoryGatherer::new(most, size(connection, id)?);
    let mut query = connection.prepare_cached(
        "SELECT id, run FROM runs WHERE session = ?1 AND settled = 0
         AND CASE WHEN ?2 IS NULL THEN id < ?3 ELSE started < ?2 END
         ORDER BY started IS NULL DESC, started DESC, id DESC",
    )?;
    let mut rows = query.query(params![session, started, id])?;
    while let Some(row) = rows.next()? {
        gathering.unsettled(run_id(row, 1)?, size(connection, row.get(0)?)?);
    }
    let mut query = connection.prepare_cached(
        "SELECT id FROM runs WHERE session = ?1 AND settled = 1 AND started IS NOT NULL
         AND CASE WHEN ?2 IS NULL THEN id < ?3 ELSE started < ?2 END
         ORDER BY started DESC",
    )?;
    let mut rows = query.query(params![session, started, id])?;
    while let Some(row) = rows.next()? {
        let earlier = row.get(0)?;
        if !gathering.settled(size(connection, earlier)?, || messages(connection, earlier))? {
            break;
        }
    }
    Ok(Some(gathering.done()))
}

/// How many bytes a run's facts take, found without reading them.
fn size(connection: &Connection, run: i64) -> RowResult<usize> {
    let mut query = connection.prepare_cached("SELECT sum(octet_length(body)) FROM events WHERE run = ?1")?;
    let bytes: Option<i64> = query.query_row([run], |row| row.get(0))?;
    Ok(usize::try_from(bytes.unwrap_or_default()).unwrap_or(usize::MAX))
}

/// The messages of a settled run.
fn messages(connection: &Connection, run: i64) -> RowResult<Vec<Arc<Message>>> {
    let mut query = connection.prepare_cached("SELECT body FROM said WHERE run = ?1")?;
    let mut rows = query.query([run])?;
    match rows.next()? {
        Some(row) => said::read(text(row, 0)?).or_else(|_| folded(connection, run)),
        None => folded(connection, run),
    }
}

/// The messages of a run, folded from its events.
fn folded(connection: &Connection, run: i64) -> RowResult<Vec<Arc<Message>>> {
    let entries: Vec<Entry> = facts(connection, run)?.into_iter().map(Entry::Fact).collect();
    let progress = RunProgress::fold(&entries).map_err(|error| unreadable(&error))?;
    Ok(progress.messages().to_vec())
}
