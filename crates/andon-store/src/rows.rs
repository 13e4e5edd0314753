//! Rows as what they stand for.

use std::sync::Arc;

use andon::core::answer::Lump;
use andon::core::event::{Entry, Record, Seq};
use andon::core::id::{RunId, SessionId, SessionKey};
use andon::core::message::Message;
use andon::core::outcome::Ending;
use andon::core::progress::{Progress, State};
use andon::core::time::{Stamp, Wall};
use andon::{
    Earlier, Gathering, JournalError, Kept, Moved, RunFilter, RunInfo, SessionFilter, SessionInfo, StateMap, Stored,
};
use rusqlite::types::Value as Bound;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::encode::int;
use crate::reader::Unread;

type Read<T> = Result<T, Unread>;

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

fn parse<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Read<T> {
    serde_json::from_str(text(row, column)?).map_err(|error| unreadable(&error).into())
}

fn text<'a>(row: &'a Row<'_>, column: usize) -> Read<&'a str> {
    row.get_ref(column)?.as_str().map_err(|error| unreadable(&error).into())
}

fn unreadable(error: &impl ToString) -> JournalError {
    JournalError::Unreadable(error.to_string())
}

/// What was said in a session, by its runs that started and have settled.
pub(crate) fn history(connection: &Connection, session: &SessionKey) -> Read<Vec<Arc<Message>>> {
    let Some(id) = session_id(connection, session)? else { return Ok(Vec::new()) };
    let mut query = connection.prepare_cached(
        "SELECT events.run, events.body FROM runs JOIN events ON events.run = runs.id
         WHERE runs.session = ?1 AND runs.settled = 1 AND runs.started IS NOT NULL
         ORDER BY runs.started, events.seq",
    )?;
    let mut rows = query.query([id])?;
    let mut messages = Vec::new();
    let mut current: Option<(i64, Vec<Entry>)> = None;
    while let Some(row) = rows.next()? {
        let run: i64 = row.get(0)?;
        let entry = Entry::Fact(record(row, 1)?);
        match &mut current {
            Some((same, entries)) if *same == run => entries.push(entry),
            other => {
                messages.extend(fold(other.replace((run, vec![entry])))?);
            }
        }
    }
    messages.extend(fold(current)?);
    Ok(messages)
}

fn fold(run: Option<(i64, Vec<Entry>)>) -> Read<Vec<Arc<Message>>> {
    let Some((_, entries)) = run else { return Ok(Vec::new()) };
    let progress = Progress::fold(&entries).map_err(|error| unreadable(&error))?;
    Ok(progress.messages().to_vec())
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

/// What a run has said.
fn said(connection: &Connection, run: i64) -> Read<Vec<Arc<Message>>> {
    let entries = facts(connection, run)?.into_iter().map(Entry::Fact).collect();
    fold(Some((run, entries)))
}

/// The runs that have no outcome, in the order in which they came.
pub(crate) fn unsettled(connection: &Connection) -> Read<Vec<RunId>> {
    let mut query = connection.prepare_cached("SELECT run FROM runs WHERE settled = 0 ORDER BY id")?;
    let mut rows = query.query([])?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        runs.push(run_id(row, 0)?);
    }
    Ok(runs)
}

fn run_id(row: &Row<'_>, column: usize) -> Read<RunId> {
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
fn session_key(row: &Row<'_>, first: usize) -> Read<SessionKey> {
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

fn wall(row: &Row<'_>, column: usize) -> rusqlite::Result<Wall> {
    Ok(Wall(u64::try_from(row.get::<_, i64>(column)?).unwrap_or_default()))
}

/// When a run's outcome was durable, in two columns.
fn durable(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Stamp>> {
    let at: Option<(i64, i64)> = row.get::<_, Option<i64>>(first)?.zip(row.get(first + 1)?);
    Ok(at.map(|(wall, mono)| Stamp { wall: Wall(wall.unsigned_abs()), mono_us: mono.unsigned_abs() }))
}

/// No limit is as many as there can be.
fn limit(limit: Option<usize>) -> i64 {
    limit.map_or(-1, |limit| int(limit as u64))
}

pub(crate) fn sessions(connection: &Connection, which: &SessionFilter) -> Read<Vec<SessionInfo>> {
    let mut query = connection.prepare_cached(
        "SELECT s.tenant, s.app, s.user, s.session, s.created_at,
                max(s.updated_at, coalesce(max(coalesce(r.settled_at, r.accepted_at)), 0)) AS updated_at,
                count(r.id),
                (SELECT title FROM runs WHERE session = s.id ORDER BY started IS NULL, started, id LIMIT 1)
         FROM sessions AS s LEFT JOIN runs AS r ON r.session = s.id
         WHERE (?1 IS NULL OR s.tenant = ?1) AND (?2 IS NULL OR s.app = ?2) AND (?3 IS NULL OR s.user = ?3)
         GROUP BY s.id ORDER BY updated_at DESC, s.tenant, s.app, s.user, s.session LIMIT ?4",
    )?;
    let mut rows = query.query(params![which.tenant, which.app, which.user, limit(which.limit)])?;
    let mut sessions = Vec::new();
    while let Some(row) = rows.next()? {
        sessions.push(SessionInfo {
            key: session_key(row, 0)?,
            created_at: wall(row, 4)?,
            updated_at: wall(row, 5)?,
            runs: row.get::<_, i64>(6)?.unsigned_abs(),
            title: row.get(7)?,
        });
    }
    Ok(sessions)
}

pub(crate) fn runs(connection: &Connection, which: &RunFilter) -> Read<Vec<RunInfo>> {
    let (sql, values) = runs_asked_for(which);
    let mut query = connection.prepare_cached(&sql)?;
    let mut rows = query.query(params_from_iter(values))?;
    let most = which.limit.unwrap_or(usize::MAX);
    let mut runs = Vec::new();
    while let Some(row) = if runs.len() < most { rows.next()? } else { None } {
        let (run, session, title) = (run_id(row, 5)?, session_key(row, 0)?, row.get::<_, String>(9)?);
        // SQLite knows capitals of English alone.
        if !which.finds([&title, run.as_str(), &session.user, session.session.as_str()]) {
            continue;
        }
        let ended_at: Option<i64> = row.get(7)?;
        let ending: Option<Ending> = if ended_at.is_some() { Some(parse(row, 8)?) } else { None };
        let state = match ending {
            Some(_) => State::Settled,
            None => state_of(connection, row.get(4)?)?,
        };
        let (accepted_at, ended_at) = (wall(row, 6)?, ended_at.map(|at| Wall(at.unsigned_abs())));
        let settled_at = durable(row, 10)?.map(|at| at.wall);
        runs.push(RunInfo { run, session, state, accepted_at, ended_at, settled_at, ending, title });
    }
    Ok(runs)
}

/// The question for runs, the newest first, and its values.
fn runs_asked_for(which: &RunFilter) -> (String, Vec<Bound>) {
    // Only what is asked for stands in the question, so that an index can answer it.
    let mut sql =
        "SELECT s.tenant, s.app, s.user, s.session, r.id, r.run, r.accepted_at, r.settled_at, r.ending, r.title,
                r.durable_at, r.durable_mono_us
         FROM runs AS r JOIN sessions AS s ON s.id = r.session WHERE TRUE"
            .to_owned();
    match which.settled {
        Some(true) => sql.push_str(" AND r.settled = 1"),
        Some(false) => sql.push_str(" AND r.settled = 0"),
        None => {}
    }
    let text = |value: &Option<String>| value.clone().map(Bound::Text);
    let time = |value: Option<Wall>| value.map(|wall| Bound::Integer(int(wall.0)));
    let conditions = [
        (" AND s.tenant = ?", text(&which.tenant)),
        (" AND s.app = ?", text(&which.app)),
        (" AND s.user = ?", text(&which.user)),
        (" AND s.session = ?", text(&which.session)),
        (" AND r.accepted_at >= ?", time(which.since)),
        (" AND r.accepted_at < ?", time(which.until)),
        (
            " AND r.id < (SELECT id FROM runs WHERE run = ?)",
            which.before.as_ref().map(|run| Bound::Text(run.as_str().to_owned())),
        ),
    ];
    let mut values = Vec::new();
    for (condition, value) in conditions {
        let Some(value) = value else { continue };
        sql.push_str(condition);
        values.push(value);
    }
    sql.push_str(" ORDER BY r.id DESC");
    // Where words are looked for, how many rows that takes is not known before.
    if which.text.is_none() {
        sql.push_str(" LIMIT ");
        sql.push_str(&limit(which.limit).to_string());
    }
    (sql, values)
}

/// The state of a run that has not settled, as its record tells it. One whose record makes no sense hides no other: all
/// that is known of it is that it has not settled.
fn state_of(connection: &Connection, run: i64) -> Read<State> {
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
