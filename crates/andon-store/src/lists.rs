//! The lists that people look through.
//!
//! # Invariants
//!
//! 1. A list is read in its own order and no further than it goes, however much is on record: each place has an index in that
//!    order, and a list of several places is merged from those.
//! 2. Where several sessions were used at the same time, all of them are looked at before some are left out.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use andon_runtime::core::id::SessionKey;
use andon_runtime::core::outcome::Ending;
use andon_runtime::core::progress::State;
use andon_runtime::core::time::Wall;
use andon_runtime::{RunFilter, RunInfo, SessionFilter, SessionInfo, StateMap};
use rusqlite::types::Value as Bound;
use rusqlite::{Connection, Row, params, params_from_iter};

use crate::encode::{int, state_number};
use crate::rows::{Read, durable, parse, run_id, session_key, state_of, text, wall};
use crate::uses::{self, Use};

/// Where to look for what a list shows.
#[derive(Debug, PartialEq, Eq)]
enum Places {
    /// Of these users.
    Users(Vec<i64>),
    /// Of these apps.
    Apps(Vec<i64>),
}

impl Places {
    /// The places that a filter names, all of them if it names none.
    fn named(
        connection: &Connection,
        tenant: Option<&String>,
        app: Option<&String>,
        user: Option<&String>,
    ) -> Read<Self> {
        let mut query = connection.prepare_cached(
            "SELECT id FROM places WHERE user = ?3 AND (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR app = ?2)",
        )?;
        let whose = params![tenant, app, user.map_or("", String::as_str)];
        let places = query.query_map(whose, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        Ok(if user.is_some() { Self::Users(places) } else { Self::Apps(places) })
    }

    fn all(&self) -> &[i64] {
        match self {
            Self::Users(places) | Self::Apps(places) => places,
        }
    }

    fn column(&self) -> &'static str {
        match self {
            Self::Users(_) => "user_place",
            Self::Apps(_) => "app_place",
        }
    }

    fn has(&self, used: &Use) -> bool {
        match self {
            Self::Users(places) => places.contains(&used.row.user_place),
            Self::Apps(places) => places.contains(&used.row.app_place),
        }
    }
}

// ---- sessions ----

/// Sessions, the one that was used last first. What the file does not say of their use is given, unless it is only read.
pub(crate) fn sessions(
    connection: &Connection,
    which: &SessionFilter,
    pending: Option<Vec<Use>>,
) -> Read<Vec<SessionInfo>> {
    let most = which.limit.unwrap_or(usize::MAX);
    if most == 0 {
        return Ok(Vec::new());
    }
    let places = Places::named(connection, which.tenant.as_ref(), which.app.as_ref(), which.user.as_ref())?;
    let pending = match pending {
        Some(pending) => pending,
        None => uses::unwritten(connection)?,
    };
    let mut used: HashMap<i64, i64> = latest(connection, &places, most)?.into_iter().collect();
    for unwritten in pending.iter().filter(|unwritten| places.has(unwritten)) {
        let at = used.entry(unwritten.row.id).or_insert(unwritten.at);
        *at = unwritten.at.max(*at);
    }
    let mut used: Vec<(i64, i64)> = used.into_iter().collect();
    keep_latest(&mut used, most);
    let mut listed = Vec::with_capacity(used.len());
    for (id, at) in used {
        // What waits to be written was asked for before the file was read: its row may be another's by now.
        listed.extend(session_info(connection, id, at)?.filter(|info| is_asked_for(which, &info.key)));
    }
    listed.sort_by(|one, other| other.updated_at.cmp(&one.updated_at).then_with(|| one.key.cmp(&other.key)));
    listed.truncate(most);
    Ok(listed)
}

fn is_asked_for(which: &SessionFilter, key: &SessionKey) -> bool {
    let is = |asked: &Option<String>, found: &str| asked.as_ref().is_none_or(|asked| asked == found);
    is(&which.tenant, &key.tenant) && is(&which.app, &key.app) && is(&which.user, &key.user)
}

/// The sessions of these places that were used last, as the file says, and when.
fn latest(connection: &Connection, places: &Places, most: usize) -> Read<Vec<(i64, i64)>> {
    let mut query = connection.prepare_cached(&latest_in(places.column()))?;
    let (mut latest, mut floor) = (Vec::new(), i64::MIN);
    for place in places.all() {
        let mut rows = query.query(params![place, floor])?;
        let mut count = 0;
        let mut last = i64::MIN;
        while let Some(row) = rows.next()? {
            let (id, at): (i64, i64) = (row.get(0)?, row.get(1)?);
            // One more than are wanted is taken only if it was used at the same time (invariant 2).
            if count >= most && at < last {
                break;
            }
            (count, last) = (count + 1, at);
            latest.push((id, at));
        }
        if let Some(at) = keep_latest(&mut latest, most) {
            floor = at;
        }
    }
    Ok(latest)
}

fn latest_in(column: &str) -> String {
    format!("SELECT id, updated_at FROM sessions WHERE {column} = ?1 AND updated_at >= ?2 ORDER BY updated_at DESC")
}

/// Keeps those that were used last, and all that were used at the same time as the last of them. Says when that was, if there
/// are as many as are wanted.
fn keep_latest(used: &mut Vec<(i64, i64)>, most: usize) -> Option<i64> {
    used.sort_unstable_by_key(|(_, at)| Reverse(*at));
    let (_, floor) = *used.get(most.checked_sub(1)?)?;
    used.truncate(used.partition_point(|(_, at)| *at >= floor));
    Some(floor)
}

const SESSION: &str = "
SELECT tenant, app, user, session, created_at,
       (SELECT count(*) FROM runs INDEXED BY runs_of_session WHERE session = sessions.id),
       coalesce((SELECT title FROM runs INDEXED BY runs_of_session
                 WHERE session = sessions.id AND started IS NOT NULL ORDER BY started LIMIT 1),
                (SELECT title FROM runs WHERE id =
                    (SELECT min(id) FROM runs INDEXED BY runs_of_session WHERE session = sessions.id)))
FROM sessions WHERE id = ?1";

fn session_info(connection: &Connection, id: i64, used_at: i64) -> Read<Option<SessionInfo>> {
    let mut query = connection.prepare_cached(SESSION)?;
    let mut rows = query.query([id])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(SessionInfo {
        key: session_key(row, 0)?,
        created_at: wall(row, 4)?,
        updated_at: Wall(used_at.unsigned_abs()),
        runs: row.get::<_, i64>(5)?.unsigned_abs(),
        title: row.get(6)?,
    }))
}

/// Sessions, each with its state. What sessions share is read once.
pub(crate) fn with_state(connection: &Connection, listed: Vec<SessionInfo>) -> Read<Vec<(SessionInfo, StateMap)>> {
    type Owner = (Arc<str>, Arc<str>, Arc<str>);
    let mut shared: HashMap<Owner, StateMap> = HashMap::new();
    let mut with_state = Vec::with_capacity(listed.len());
    for info in listed {
        let SessionKey { tenant, app, user, session } = info.key.clone();
        let mut state = match shared.get(&(tenant.clone(), app.clone(), user.clone())) {
            Some(state) => state.clone(),
            None => {
                let mut state = state_at(connection, [&tenant, &app, "", ""])?;
                state.extend(state_at(connection, [&tenant, &app, &user, ""])?);
                shared.insert((tenant.clone(), app.clone(), user.clone()), state.clone());
                state
            }
        };
        state.extend(state_at(connection, [&tenant, &app, &user, session.as_str()])?);
        with_state.push((info, state));
    }
    Ok(with_state)
}

fn state_at(connection: &Connection, [tenant, app, user, session]: [&str; 4]) -> Read<StateMap> {
    let mut query = connection
        .prepare_cached("SELECT key, value FROM state WHERE tenant = ?1 AND app = ?2 AND user = ?3 AND session = ?4")?;
    let mut rows = query.query([tenant, app, user, session])?;
    let mut state = StateMap::new();
    while let Some(row) = rows.next()? {
        state.insert(row.get(0)?, parse(row, 1)?);
    }
    Ok(state)
}

// ---- runs ----

/// One of the orders in which runs can be read, the newest first: from which table, and which of it.
#[derive(Debug)]
struct Stream {
    from: &'static str,
    condition: String,
    /// The value of the first parameter of the condition, if it has one.
    of: Option<i64>,
}

impl Stream {
    fn new(from: &'static str, condition: impl Into<String>) -> Self {
        Self { from, condition: condition.into(), of: None }
    }

    /// One whose condition asks for this number: many have the same words, and are prepared once.
    fn of(from: &'static str, condition: impl Into<String>, number: i64) -> Self {
        Self { of: Some(number), ..Self::new(from, condition) }
    }
}

const ALL: &str = "runs AS r NOT INDEXED";
const OPEN: &str = "runs AS r INDEXED BY open_runs";
const OF_APP: &str = "runs AS r INDEXED BY runs_of_app";
const OF_USER: &str = "runs AS r INDEXED BY runs_of_user";
/// Each run that has settled has one last event, and those have an index.
const SETTLED: &str = "events AS e CROSS JOIN runs AS r ON r.id = e.run";

/// Runs, the newest first.
pub(crate) fn runs(connection: &Connection, which: &RunFilter) -> Read<Vec<RunInfo>> {
    let most = which.limit.unwrap_or(usize::MAX);
    let mut found: Vec<(i64, RunInfo)> = Vec::new();
    if most == 0 {
        return Ok(Vec::new());
    }
    for stream in streams(connection, which)? {
        // What is older than all that were found is not looked at.
        let floor = found.get(most - 1).map_or(0, |(id, _)| *id);
        let mut some = runs_of(connection, which, &stream, floor)?;
        found.append(&mut some);
        found.sort_unstable_by_key(|(id, _)| Reverse(*id));
        found.truncate(most);
    }
    Ok(found.into_iter().map(|(_, info)| info).collect())
}

/// From where the runs that are asked for are read: each run is in one of them at most.
fn streams(connection: &Connection, which: &RunFilter) -> Read<Vec<Stream>> {
    if which.run.is_some() {
        return Ok(vec![Stream::new("runs AS r", "TRUE")]);
    }
    if which.session.is_some() {
        return of_sessions(connection, which);
    }
    let is_anywhere = which.tenant.is_none() && which.app.is_none() && which.user.is_none();
    let is_open = which.settled == Some(false) || which.state.is_some_and(|state| state != State::Settled);
    let places = Places::named(connection, which.tenant.as_ref(), which.app.as_ref(), which.user.as_ref())?;
    if is_open {
        return Ok(open(which, (!is_anywhere).then_some(&places)));
    }
    if is_anywhere {
        let settled = which.settled == Some(true) || which.state == Some(State::Settled);
        let stream = if settled { Stream::new(SETTLED, "e.kind = 'run_settled'") } else { Stream::new(ALL, "TRUE") };
        return Ok(vec![stream]);
    }
    let from = if which.user.is_some() { OF_USER } else { OF_APP };
    let of = |place: &i64| Stream::of(from, format!("r.{} = ?", places.column()), *place);
    Ok(places.all().iter().map(of).collect())
}

/// The runs that have not settled, by their state. What is not known of a state is looked at as well.
fn open(which: &RunFilter, places: Option<&Places>) -> Vec<Stream> {
    if places.is_some_and(|places| places.all().is_empty()) {
        return Vec::new();
    }
    let numbers: Vec<Option<i64>> = match which.state.and_then(state_number) {
        Some(number) => vec![None, Some(number)],
        None => vec![None, Some(0), Some(1), Some(2), Some(3)],
    };
    let within = places.map_or_else(String::new, |places| {
        let all: Vec<String> = places.all().iter().map(i64::to_string).collect();
        format!(" AND r.{} IN ({})", places.column(), all.join(", "))
    });
    let of = |number: Option<i64>| {
        let state = number.map_or("NULL".to_owned(), |number| number.to_string());
        Stream::new(OPEN, format!("r.settled = 0 AND r.state IS {state}{within}"))
    };
    numbers.into_iter().map(of).collect()
}

fn of_sessions(connection: &Connection, which: &RunFilter) -> Read<Vec<Stream>> {
    let mut query = connection.prepare_cached(
        "SELECT id FROM sessions INDEXED BY sessions_of_name WHERE session = ?1
         AND (?2 IS NULL OR tenant = ?2) AND (?3 IS NULL OR app = ?3) AND (?4 IS NULL OR user = ?4)",
    )?;
    let whose = params![which.session, which.tenant, which.app, which.user];
    let sessions: Vec<i64> = query.query_map(whose, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    // A session's runs stand in the order in which they started, so those that came last are looked for there first.
    let condition = "r.id IN (SELECT id FROM runs INDEXED BY runs_of_session WHERE session = ?)";
    Ok(sessions.iter().map(|id| Stream::of(ALL, condition, *id)).collect())
}

/// The runs of a stream that are asked for, down to a row.
fn runs_of(connection: &Connection, which: &RunFilter, stream: &Stream, floor: i64) -> Read<Vec<(i64, RunInfo)>> {
    let (sql, values) = runs_asked_for(which, stream, floor);
    let mut query = connection.prepare_cached(&sql)?;
    let mut rows = query.query(params_from_iter(values))?;
    let most = which.limit.unwrap_or(usize::MAX);
    let mut runs = Vec::new();
    while let Some(row) = if runs.len() < most { rows.next()? } else { None } {
        // SQLite knows capitals of English alone: it is asked here, before anything else is made of the row.
        if !which.finds([text(row, 9)?, text(row, 5)?, text(row, 2)?, text(row, 3)?]) {
            continue;
        }
        let info = run_info(connection, row)?;
        if which.state.is_none_or(|state| state == info.state) {
            runs.push((row.get(4)?, info));
        }
    }
    Ok(runs)
}

fn run_info(connection: &Connection, row: &Row<'_>) -> Read<RunInfo> {
    let ended_at: Option<i64> = row.get(7)?;
    let ending: Option<Ending> = if ended_at.is_some() { Some(parse(row, 8)?) } else { None };
    let state = match (&ending, row.get(12)?) {
        (Some(_), _) => State::Settled,
        (None, Some(0)) => State::Queued,
        (None, Some(1)) => State::Running,
        (None, Some(2)) => State::Waiting,
        (None, Some(3)) => State::Cancelling,
        (None, None | Some(_)) => state_of(connection, row.get(4)?)?,
    };
    Ok(RunInfo {
        run: run_id(row, 5)?,
        session: session_key(row, 0)?,
        state,
        accepted_at: wall(row, 6)?,
        ended_at: ended_at.map(|at| Wall(at.unsigned_abs())),
        settled_at: durable(row, 10)?.map(|at| at.wall),
        ending,
        title: row.get(9)?,
    })
}

/// The question for the runs of a stream, the newest first, and its values.
fn runs_asked_for(which: &RunFilter, stream: &Stream, floor: i64) -> (String, Vec<Bound>) {
    let columns =
        "SELECT s.tenant, s.app, s.user, s.session, r.id, r.run, r.accepted_at, r.settled_at, r.ending, r.title,
                r.durable_at, r.durable_mono_us, r.state";
    let Stream { from, condition, of } = stream;
    let mut sql = format!("{columns} FROM {from} CROSS JOIN sessions AS s ON s.id = r.session WHERE {condition}");
    match which.settled.or(which.state.map(|state| state == State::Settled)) {
        Some(true) => sql.push_str(" AND r.settled = 1"),
        Some(false) => sql.push_str(" AND r.settled = 0"),
        None => {}
    }
    let time = |value: Option<Wall>| value.map(|wall| Bound::Integer(int(wall.0)));
    let words = |text: &str| Bound::Text(text.to_owned());
    let alone = which.run.as_ref();
    let conditions = [
        (" AND r.run = ?", alone.map(|run| words(run.as_str()))),
        (" AND s.tenant = ?", alone.and(which.tenant.as_deref()).map(words)),
        (" AND s.app = ?", alone.and(which.app.as_deref()).map(words)),
        (" AND s.user = ?", alone.and(which.user.as_deref()).map(words)),
        (" AND s.session = ?", alone.and(which.session.as_deref()).map(words)),
        (" AND r.accepted_at >= ?", time(which.since)),
        (" AND r.accepted_at < ?", time(which.until)),
        (" AND r.id < (SELECT id FROM runs WHERE run = ?)", which.before.as_ref().map(|run| words(run.as_str()))),
        (" AND r.id > ?", (floor > 0).then_some(Bound::Integer(floor))),
    ];
    let mut values: Vec<Bound> = of.map(Bound::Integer).into_iter().collect();
    for (condition, value) in conditions {
        let Some(value) = value else { continue };
        sql.push_str(condition);
        values.push(value);
    }
    let newest = if *from == SETTLED { " ORDER BY e.run DESC" } else { " ORDER BY r.id DESC" };
    sql.push_str(newest);
    // Where words are looked for, or states that have to be folded, how many rows that takes is not known before.
    if which.text.is_none() && which.state.is_none() {
        sql.push_str(" LIMIT ");
        sql.push_str(&which.limit.map_or(-1, |limit| int(limit as u64)).to_string());
    }
    (sql, values)
}

#[cfg(test)]
mod tests {
    use andon_runtime::core::id::RunId;

    use super::*;
    use crate::schema::MIGRATIONS;

    /// How the database would answer a question.
    fn plan(connection: &Connection, sql: &str, values: &[Bound]) -> String {
        let mut query = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps = query.query_map(params_from_iter(values), |row| row.get::<_, String>(3)).unwrap();
        steps.map(Result::unwrap).collect::<Vec<_>>().join("; ")
    }

    fn migrated(older: usize, rows: &str) -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        let transaction = connection.transaction().unwrap();
        let (older, newer) = MIGRATIONS.split_at(older);
        older.iter().for_each(|migrate| migrate(&transaction).unwrap());
        transaction.execute_batch(rows).unwrap();
        newer.iter().for_each(|migrate| migrate(&transaction).unwrap());
        transaction.commit().unwrap();
        connection
    }

    /// Two users of one app, one of whom has two sessions; a run that waits and one that has settled.
    const OF_FORMAT_4: &str = "
        INSERT INTO sessions VALUES (1, 't', 'shop', 'ada', 's', 10, 10), (2, 't', 'shop', 'ada', 'empty', 11, 12),
                                    (3, 't', 'shop', 'bob', 's', 11, 11);
        INSERT INTO runs (id, run, session, epoch, owner, next_seq, started, settled, accepted_at, settled_at, ending, title)
        VALUES (1, 'a', 1, 1, 'me', 2, NULL, 0, 20, NULL, NULL, 'waits'),
               (2, 'b', 1, 1, 'me', 9, 1, 1, 30, 40, '{\"kind\":\"lost\"}', 'first');";

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn what_lists_look_for_is_made_up_for_a_file_of_an_older_version() {
        let connection = migrated(4, OF_FORMAT_4);
        let listed = sessions(&connection, &SessionFilter::default(), None).unwrap_or_else(|error| panic!("{error:?}"));
        let seen: Vec<_> = listed.iter().map(|info| (info.updated_at.0, info.runs, info.title.as_deref())).collect();
        assert_eq!(seen, [(40, 2, Some("first")), (12, 0, None), (11, 0, None)]);
        let ids = |which: RunFilter| {
            let runs = runs(&connection, &which).unwrap_or_else(|error| panic!("{error:?}"));
            runs.iter().map(|info| info.run.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(ids(RunFilter { user: some("ada"), settled: Some(true), ..RunFilter::default() }), ["b"]);
        assert_eq!(ids(RunFilter { settled: Some(false), ..RunFilter::default() }), ["a"]);
        assert_eq!(ids(RunFilter { app: some("shop"), ..RunFilter::default() }), ["b", "a"]);
        let before: i64 = connection.query_row("SELECT before_run FROM caught_up", [], |row| row.get(0)).unwrap();
        assert_eq!(before, 1, "the first that has not settled");
    }

    #[test]
    fn a_list_of_sessions_is_read_in_its_order() {
        let connection = migrated(0, "");
        for (column, index) in [("app_place", "sessions_of_app"), ("user_place", "sessions_of_user")] {
            let plan = plan(&connection, &latest_in(column), &[Bound::Integer(1), Bound::Integer(0)]);
            let expected = format!("SEARCH sessions USING COVERING INDEX {index} ({column}=? AND updated_at>?)");
            assert_eq!(plan, expected);
        }
        let plan = plan(&connection, SESSION, &[Bound::Integer(1)]);
        assert!(!plan.contains("SCAN") && !plan.contains("B-TREE"), "{plan}");
    }

    #[test]
    fn a_list_of_runs_is_read_in_its_order_and_no_further_than_it_goes() {
        let connection = migrated(4, OF_FORMAT_4);
        let all = RunFilter { limit: Some(20), ..RunFilter::default() };
        let run = RunId::new("b").unwrap();
        let filters = [
            (RunFilter { app: some("shop"), ..all.clone() }, "USING INDEX runs_of_app (app_place=?"),
            (RunFilter { tenant: some("t"), ..all.clone() }, "USING INDEX runs_of_app (app_place=?"),
            (RunFilter { user: some("ada"), ..all.clone() }, "USING INDEX runs_of_user (user_place=?"),
            (RunFilter { user: some("ada"), settled: Some(true), ..all.clone() }, "runs_of_user (user_place=?"),
            (RunFilter { user: some("ada"), settled: Some(false), ..all.clone() }, "USING INDEX open_runs (state=?"),
            (RunFilter { settled: Some(false), ..all.clone() }, "USING INDEX open_runs (state=?"),
            (RunFilter { state: Some(State::Running), ..all.clone() }, "USING INDEX open_runs (state=?"),
            (RunFilter { settled: Some(true), ..all.clone() }, "USING COVERING INDEX one_terminal"),
            (RunFilter { session: some("s"), ..all.clone() }, "USING INTEGER PRIMARY KEY"),
            (RunFilter { run: Some(run.clone()), ..all.clone() }, "(run=?)"),
            (RunFilter { before: Some(run), ..all.clone() }, "USING INTEGER PRIMARY KEY (rowid<?)"),
            (all, "SCAN r"),
        ];
        for (which, _) in &filters {
            for nobody in [
                RunFilter { user: some("nobody"), ..which.clone() },
                RunFilter { app: some("nothing"), ..which.clone() },
                RunFilter { tenant: some("nobody"), ..which.clone() },
            ] {
                let found = runs(&connection, &nobody).unwrap_or_else(|error| panic!("{nobody:?}: {error:?}"));
                assert!(found.is_empty(), "{nobody:?}: {found:?}");
            }
        }
        for (which, expected) in filters {
            for stream in streams(&connection, &which).unwrap_or_else(|error| panic!("{error:?}")) {
                let (sql, values) = runs_asked_for(&which, &stream, 0);
                let plan = plan(&connection, &sql, &values);
                assert!(plan.contains(expected), "{which:?}: {plan}");
                assert!(!plan.contains("FOR ORDER BY"), "all of them are sorted: {which:?}: {plan}");
            }
        }
    }

    #[test]
    fn what_recovery_and_a_restart_look_for_is_not_looked_for_among_all_runs() {
        let connection = migrated(4, OF_FORMAT_4);
        let unsettled = plan(&connection, crate::rows::UNSETTLED, &[]);
        assert!(unsettled.starts_with("SCAN runs USING INDEX open_runs"), "{unsettled}");
        let unwritten = plan(&connection, crate::uses::UNWRITTEN, &[]);
        assert!(unwritten.contains("SEARCH runs USING INTEGER PRIMARY KEY (rowid>?)"), "{unwritten}");
    }

    /// Checks P10: nobody is shown the session of another.
    #[test]
    fn a_use_that_waits_is_not_told_of_whoever_has_its_row_by_now() {
        let connection = migrated(4, OF_FORMAT_4);
        let of_ada = SessionFilter { user: some("ada"), ..SessionFilter::default() };
        let place = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        let (app_place, user_place) = (
            place("SELECT app_place FROM sessions WHERE id = 1"),
            place("SELECT user_place FROM sessions WHERE id = 1"),
        );
        // A session of hers was deleted, and its row is another user's.
        let stale = Use { row: crate::uses::SessionRow { id: 3, app_place, user_place }, at: 99 };
        let listed = sessions(&connection, &of_ada, Some(vec![stale])).unwrap_or_else(|error| panic!("{error:?}"));
        assert!(listed.iter().all(|info| &*info.key.user == "ada"), "{listed:?}");
        assert_eq!(listed.len(), 2);
    }

    #[test]
    fn pages_of_a_list_join_on_whether_the_state_of_a_run_is_known_or_not() {
        let connection = migrated(4, OF_FORMAT_4);
        for id in 10..40 {
            // Every third is as an older version has left it: its state has to be folded, and it has no events.
            let state = if id % 3 == 0 { "NULL".to_owned() } else { (id % 4).to_string() };
            let run = format!(
                "INSERT INTO runs (id, run, session, epoch, owner, next_seq, settled, accepted_at, title, state, app_place, user_place)
                 SELECT {id}, 'r{id}', 1, 1, 'me', 2, 0, {id}, 'x', {state}, app_place, user_place FROM sessions WHERE id = 1"
            );
            connection.execute(&run, []).unwrap();
        }
        let list = |before: Option<RunId>, limit| {
            let which = RunFilter { settled: Some(false), user: some("ada"), before, limit, ..RunFilter::default() };
            let found = runs(&connection, &which).unwrap_or_else(|error| panic!("{error:?}"));
            found.into_iter().map(|info| info.run).collect::<Vec<_>>()
        };
        let all = list(None, None);
        let numbers: Vec<String> = (10..40).rev().map(|id| format!("r{id}")).chain(["a".to_owned()]).collect();
        assert_eq!(all.iter().map(ToString::to_string).collect::<Vec<_>>(), numbers);
        let (mut pages, mut before) = (Vec::new(), None);
        loop {
            let page = list(before.clone(), Some(7));
            let Some(last) = page.last().cloned() else { break };
            pages.extend(page);
            before = Some(last);
        }
        assert_eq!(pages, all);
    }
}
