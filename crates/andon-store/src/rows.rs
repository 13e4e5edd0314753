//! Rows as what they stand for.

use std::sync::Arc;

use andon_runtime::core::answer::Lump;
use andon_runtime::core::event::{Entry, Record, Seq};
use andon_runtime::core::id::{RunId, SessionId, SessionKey};
use andon_runtime::core::message::Message;
use andon_runtime::core::progress::{Progress, State};
use andon_runtime::core::time::{Stamp, Wall};
use andon_runtime::{Earlier, Gathering, JournalError, Kept, Moved, StateMap, Stored};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::reader::Unread;
use crate::said;

pub(crate) type Read<T> = Result<T, Unread>;

/// All that is stored of a run.
pub(crate) fn run(connection: &Connection, run: &RunId) -> Read<Option<Stored>> {
    let sql = "SELECT id, epoch, durable_at, durable_mono_us FROM runs WHERE run = ?1";
    let columns = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, durable(row, 2)?));
    let found = connection.prepare_cached(sql)?.query_row([run.as_str()], columns).optional()?;
    let Some((id, epoch, settled_at)) = found else { return Ok(None) };
    let mut stored = Stored { epoch, settled_at, ..Stored::default() };
    stored.entries = entries(connection, id)?;
    stored.addenda = bodies(connection, "SELECT body FROM addenda WHERE run = ?1 ORDER BY number", id)?;
    stored.requests = bodies(connection, "SELECT body FROM cancel_requests WHERE run = ?1 ORDER BY number", id)?;
    Ok(Some(stored))
}

/// A run's facts and, behind the fact that each follows, the text that streamed.
fn entries(connection: &Connection, run: i64) -> Read<Vec<Entry>> {
    let facts = facts(connection, run)?;
    let lumps: Vec<Arc<Lump>> = bodies(connection, "SELECT body FROM lumps WHERE run = ?1 ORDER BY id", run)?;
    let mut entries = Vec::with_capacity(facts.len() + lumps.len());
    let mut lumps = lumps.into_iter().peekable();
    let mut add_lumps_before = |entries: &mut Vec<Entry>, seq: Seq| {
        while let Some(lump) = lumps.next_if(|lump| lump.span.after < seq) {
            entries.push(Entry::Lump(lump));
        }
    };
    for fact in facts {
        add_lumps_before(&mut entries, fact.seq);
        entries.push(Entry::Fact(fact));
    }
    add_lumps_before(&mut entries, Seq::MAX);
    Ok(entries)
}

fn facts(connection: &Connection, run: i64) -> Read<Vec<Arc<Record>>> {
    let mut query = connection.prepare_cached("SELECT body FROM events WHERE run = ?1 ORDER BY seq")?;
    let mut rows = query.query([run])?;
    let mut facts = Vec::new();
    while let Some(row) = rows.next()? {
        facts.push(record(row, 0)?);
    }
    Ok(facts)
}

fn record(row: &Row<'_>, column: usize) -> Read<Arc<Record>> {
    let record = Record::from_json(text(row, column)?).map_err(|error| unreadable(&error))?;
    Ok(Arc::new(record))
}

/// The bodies of rows, read as what they are.
fn bodies<T: DeserializeOwned>(connection: &Connection, sql: &str, id: i64) -> Read<Vec<T>> {
    let mut query = connection.prepare_cached(sql)?;
    let mut rows = query.query([id])?;
    let mut read = Vec::new();
    while let Some(row) = rows.next()? {
        read.push(parse(row, 0)?);
    }
    Ok(read)
}

pub(crate) fn parse<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Read<T> {
    serde_json::from_str(text(row, column)?).map_err(|error| unreadable(&error).into())
}

pub(crate) fn text<'a>(row: &'a Row<'_>, column: usize) -> Read<&'a str> {
    row.get_ref(column)?.as_str().map_err(|error| unreadable(&error).into())
}

pub(crate) fn unreadable(error: &impl ToString) -> JournalError {
    JournalError::Unreadable(error.to_string())
}

/// What was said in a session, by its runs that started and have settled.
pub(crate) fn history(connection: &Connection, session: &SessionKey) -> Read<Vec<Arc<Message>>> {
    let Some(id) = session_id(connection, session)? else { return Ok(Vec::new()) };
    // A run that has a row of what it has said has settled: its own row is not looked at.
    let mut query = connection.prepare_cached(
        "SELECT said.body, CASE WHEN said.body IS NULL THEN runs.settled END, runs.id
         FROM runs INDEXED BY runs_of_session LEFT JOIN said ON said.run = runs.id
         WHERE runs.session = ?1 AND runs.started IS NOT NULL ORDER BY runs.started",
    )?;
    let mut rows = query.query([id])?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        match (row.get_ref(0)?, row.get(1)?) {
            (_, Some(false)) => {}
            (_, Some(true)) => messages.extend(folded(connection, row.get(2)?)?),
            // Its events are the truth, and this only a copy: one that cannot be read is no loss.
            (_, None) => match said::read(text(row, 0)?) {
                Ok(said) => messages.extend(said),
                Err(_) => messages.extend(folded(connection, row.get(2)?)?),
            },
        }
    }
    Ok(messages)
}

/// What was said in a run's session before it, by runs that started and have settled, and which have not.
pub(crate) fn said_before(connection: &Connection, run: &RunId, most: usize) -> Read<Option<Earlier>> {
    let mut query = connection.prepare_cached("SELECT id, session, started FROM runs WHERE run = ?1")?;
    let columns = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let found: Option<(i64, i64, Option<i64>)> = query.query_row([run.as_str()], columns).optional()?;
    let Some((id, session, started)) = found else { return Ok(None) };
    let mut gathering = Gathering::new(most, size(connection, id)?);
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
        if !gathering.settled(size(connection, earlier)?, || said(connection, earlier))? {
            break;
        }
    }
    Ok(Some(gathering.done()))
}

/// The bytes in which a run's facts are stored. They are not read for it.
fn size(connection: &Connection, run: i64) -> Read<usize> {
    let mut query = connection.prepare_cached("SELECT sum(octet_length(body)) FROM events WHERE run = ?1")?;
    let bytes: Option<i64> = query.query_row([run], |row| row.get(0))?;
    Ok(usize::try_from(bytes.unwrap_or_default()).unwrap_or(usize::MAX))
}

/// What a run that has settled has said.
fn said(connection: &Connection, run: i64) -> Read<Vec<Arc<Message>>> {
    let mut query = connection.prepare_cached("SELECT body FROM said WHERE run = ?1")?;
    let mut rows = query.query([run])?;
    match rows.next()? {
        Some(row) => said::read(text(row, 0)?).or_else(|_| folded(connection, run)),
        None => folded(connection, run),
    }
}

/// What a run has said, folded from its events.
fn folded(connection: &Connection, run: i64) -> Read<Vec<Arc<Message>>> {
    let entries: Vec<Entry> = facts(connection, run)?.into_iter().map(Entry::Fact).collect();
    let progress = Progress::fold(&entries).map_err(|error| unreadable(&error))?;
    Ok(progress.messages().to_vec())
}

pub(crate) const UNSETTLED: &str = "SELECT run FROM runs INDEXED BY open_runs WHERE settled = 0 ORDER BY id";

/// The runs that have no outcome, in the order in which they came.
pub(crate) fn unsettled(connection: &Connection) -> Read<Vec<RunId>> {
    let mut query = connection.prepare_cached(UNSETTLED)?;
    let mut rows = query.query([])?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        runs.push(run_id(row, 0)?);
    }
    Ok(runs)
}

pub(crate) fn run_id(row: &Row<'_>, column: usize) -> Read<RunId> {
    let text: String = row.get(column)?;
    RunId::new(text).map_err(|error| unreadable(&error).into())
}

fn session_id(connection: &Connection, key: &SessionKey) -> Read<Option<i64>> {
    let mut query = connection
        .prepare_cached("SELECT id FROM sessions WHERE tenant = ?1 AND app = ?2 AND user = ?3 AND session = ?4")?;
    let key = params![key.tenant, key.app, key.user, key.session.as_str()];
    Ok(query.query_row(key, |row| row.get(0)).optional()?)
}

/// A session's key in four columns.
pub(crate) fn session_key(row: &Row<'_>, first: usize) -> Read<SessionKey> {
    let text = |column: usize| row.get::<_, String>(first + column);
    let session = SessionId::new(text(3)?).map_err(|error| unreadable(&error))?;
    Ok(SessionKey { tenant: text(0)?.into(), app: text(1)?.into(), user: text(2)?.into(), session })
}

/// A session's state, with what it shares.
pub(crate) fn state(connection: &Connection, key: &SessionKey) -> Read<Option<StateMap>> {
    if session_id(connection, key)?.is_none() {
        return Ok(None);
    }
    let mut query = connection.prepare_cached(
        "SELECT key, value FROM state
         WHERE tenant = ?1 AND app = ?2 AND (user, session) IN (VALUES ('', ''), (?3, ''), (?3, ?4))",
    )?;
    let mut rows = query.query(params![key.tenant, key.app, key.user, key.session.as_str()])?;
    let mut state = StateMap::new();
    while let Some(row) = rows.next()? {
        state.insert(row.get(0)?, parse(row, 1)?);
    }
    Ok(Some(state))
}

/// All that is kept of a kind, by name.
pub(crate) fn kept(connection: &Connection, kind: &str) -> Read<Vec<(String, Value)>> {
    let mut query = connection.prepare_cached("SELECT name, body FROM shelf WHERE kind = ?1 ORDER BY name")?;
    let mut rows = query.query([kind])?;
    let mut kept = Vec::new();
    while let Some(row) = rows.next()? {
        // One that cannot be read hides no other.
        if let Ok(value) = parse(row, 1) {
            kept.push((row.get(0)?, value));
        }
    }
    Ok(kept)
}

/// What is kept with a session, of one kind or of all.
pub(crate) fn kept_with(connection: &Connection, key: &SessionKey, kind: Option<&str>) -> Read<Vec<Kept>> {
    let Some(id) = session_id(connection, key)? else { return Ok(Vec::new()) };
    let mut query = connection.prepare_cached(
        "SELECT kind, name, at, body FROM kept WHERE session = ?1 AND (?2 IS NULL OR kind = ?2) ORDER BY kind, name",
    )?;
    let mut rows = query.query(params![id, kind])?;
    let mut kept = Vec::new();
    while let Some(row) = rows.next()? {
        kept.push(Kept { kind: row.get(0)?, name: row.get(1)?, at: wall(row, 2)?, value: parse(row, 3)? });
    }
    Ok(kept)
}

pub(crate) fn wall(row: &Row<'_>, column: usize) -> rusqlite::Result<Wall> {
    Ok(Wall(u64::try_from(row.get::<_, i64>(column)?).unwrap_or_default()))
}

/// When a run's outcome was durable, in two columns.
pub(crate) fn durable(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Stamp>> {
    let at: Option<(i64, i64)> = row.get::<_, Option<i64>>(first)?.zip(row.get(first + 1)?);
    Ok(at.map(|(wall, mono)| Stamp { wall: Wall(wall.unsigned_abs()), mono_us: mono.unsigned_abs() }))
}

/// The state of a run that has not settled, as its record tells it. One whose record makes no sense hides no other: all
/// that is known of it is that it has not settled.
pub(crate) fn state_of(connection: &Connection, run: i64) -> Read<State> {
    match entries(connection, run) {
        Ok(entries) => Ok(Progress::fold(&entries).map_or(State::Running, |progress| progress.state())),
        Err(Unread::Journal(_)) => Ok(State::Running),
        Err(error) => Err(error),
    }
}

/// All of a session; of what is kept with it, the things of one kind or all.
pub(crate) fn take_copy(connection: &Connection, key: &SessionKey, kind: Option<&str>) -> Read<Option<Moved>> {
    let (Some(id), Some(state)) = (session_id(connection, key)?, state(connection, key)?) else { return Ok(None) };
    let created_at = connection.query_row("SELECT created_at FROM sessions WHERE id = ?1", [id], |row| wall(row, 0))?;
    let mut query =
        connection.prepare_cached("SELECT run FROM runs WHERE session = ?1 ORDER BY started IS NULL, started, id")?;
    let mut rows = query.query([id])?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        let id = run_id(row, 0)?;
        runs.extend(run(connection, &id)?.map(|stored| (id, stored)));
    }
    let kept = kept_with(connection, key, kind)?;
    Ok(Some(Moved { session: key.clone(), created_at, state, kept, runs }))
}
