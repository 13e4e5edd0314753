//! Lists of runs.

use std::cmp::Reverse;

use andon_runtime::core::outcome::Ending;
use andon_runtime::core::progress::RunState;
use andon_runtime::core::time::Wall;
use andon_runtime::{RunFilter, RunInfo};
use rusqlite::types::Value as Bound;
use rusqlite::{Connection, Row, params, params_from_iter};

use super::Places;
use crate::read::run::state_of;
use crate::record::{int, numbered_state, state_number};
use crate::rows::{RowResult, durable, parse, run_id, session_key, text, wall};

/// A part of a list of runs that an index yields in order, the newest first.
#[derive(Debug)]
struct Stream {
    from: &'static str,
    condition: String,
    /// The value of the condition's first parameter, if it has one.
    of: Option<i64>,
}

impl Stream {
    fn new(from: &'static str, condition: impl Into<String>) -> Self {
        Self { from, condition: condition.into(), of: None }
    }

    /// One whose condition has this number as its parameter, so that many share one prepared statement.
    fn of(from: &'static str, condition: impl Into<String>, number: i64) -> Self {
        Self { of: Some(number), ..Self::new(from, condition) }
    }
}

const ALL: &str = "runs AS r NOT INDEXED";
const OPEN: &str = "runs AS r INDEXED BY open_runs";
const OF_APP: &str = "runs AS r INDEXED BY runs_of_app";
const OF_USER: &str = "runs AS r INDEXED BY runs_of_user";
/// Each settled run has one last event, and those have an index.
const SETTLED: &str = "events AS e CROSS JOIN runs AS r ON r.id = e.run";

/// Runs, the newest first.
pub(crate) fn runs(connection: &Connection, which: &RunFilter) -> RowResult<Vec<RunInfo>> {
    let most = which.limit.unwrap_or(usize::MAX);
    let mut found: Vec<(i64, RunInfo)> = Vec::new();
    if most == 0 {
        return Ok(Vec::new());
    }
    for stream in streams(connection, which)? {
        // Once there are enough, anything older than all of them is not read.
        let floor = found.get(most - 1).map_or(0, |(id, _)| *id);
        let mut some = runs_of(connection, which, &stream, floor)?;
        found.append(&mut some);
        found.sort_unstable_by_key(|(id, _)| Reverse(*id));
        found.truncate(most);
    }
    Ok(found.into_iter().map(|(_, info)| info).collect())
}

/// The streams that together hold the runs that the filter selects; no run is in two of them.
fn streams(connection: &Connection, which: &RunFilter) -> RowResult<Vec<Stream>> {
    if which.run.is_some() {
        return Ok(vec![Stream::new("runs AS r", "TRUE")]);
    }
    if which.session.is_some() {
        return of_sessions(connection, which);
    }
    let is_anywhere = which.tenant.is_none() && which.app.is_none() && which.user.is_none();
    let is_open = which.settled == Some(false) || which.state.is_some_and(|state| state != RunState::Settled);
    let places = Places::named(connection, which.tenant.as_ref(), which.app.as_ref(), which.user.as_ref())?;
    if is_open {
        return Ok(open(which, (!is_anywhere).then_some(&places)));
    }
    if is_anywhere {
        let settled = which.settled == Some(true) || which.state == Some(RunState::Settled);
        let stream = if settled { Stream::new(SETTLED, "e.kind = 'run_settled'") } else { Stream::new(ALL, "TRUE") };
        return Ok(vec![stream]);
    }
    let from = if which.user.is_some() { OF_USER } else { OF_APP };
    let of = |place: &i64| Stream::of(from, format!("r.{} = ?", places.column()), *place);
    Ok(places.ids.iter().map(of).collect())
}

/// The runs that have not settled, by state. Those whose state is not in their row are always included.
fn open(which: &RunFilter, places: Option<&Places>) -> Vec<Stream> {
    if places.is_some_and(|places| places.ids.is_empty()) {
        return Vec::new();
    }
    let numbers: Vec<Option<i64>> = match which.state.and_then(state_number) {
        Some(number) => vec![None, Some(number)],
        None => vec![None, Some(0), Some(1), Some(2), Some(3)],
    };
    let within = places.map_or_else(String::new, |places| {
        let all: Vec<String> = places.ids.iter().map(i64::to_string).collect();
        format!(" AND r.{} IN ({})", places.column(), all.join(", "))
    });
    let of = |number: Option<i64>| {
        let state = number.map_or("NULL".to_owned(), |number| number.to_string());
        Stream::new(OPEN, format!("r.settled = 0 AND r.state IS {state}{within}"))
    };
    numbers.into_iter().map(of).collect()
}

fn of_sessions(connection: &Connection, which: &RunFilter) -> RowResult<Vec<Stream>> {
    let mut query = connection.prepare_cached(
        "SELECT id FROM sessions INDEXED BY sessions_of_name WHERE session = ?1
         AND (?2 IS NULL OR tenant = ?2) AND (?3 IS NULL OR app = ?3) AND (?4 IS NULL OR user = ?4)",
    )?;
    let whose = params![which.session, which.tenant, which.app, which.user];
    let sessions: Vec<i64> = query.query_map(whose, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    // The index has a session's runs in the order in which they started, but lists are in the order of ids: so the ids are
    // collected first.
    let condition = "r.id IN (SELECT id FROM runs INDEXED BY runs_of_session WHERE session = ?)";
    Ok(sessions.iter().map(|id| Stream::of(ALL, condition, *id)).collect())
}

/// The runs of a stream that the filter selects, with ids above `floor`.
fn runs_of(connection: &Connection, which: &RunFilter, stream: &Stream, floor: i64) -> RowResult<Vec<(i64, RunInfo)>> {
    let (sql, values) = query_for(which, stream, floor);
    let mut query = connection.prepare_cached(&sql)?;
    let mut rows = query.query(params_from_iter(values))?;
    let most = which.limit.unwrap_or(usize::MAX);
    let mut runs = Vec::new();
    while let Some(row) = if runs.len() < most { rows.next()? } else { None } {
        // SQLite ignores case for ASCII only, so text is matched here, before the row is decoded further.
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

fn run_info(connection: &Connection, row: &Row<'_>) -> RowResult<RunInfo> {
    let ended_at: Option<i64> = row.get(7)?;
    let ending: Option<Ending> = if ended_at.is_some() { Some(parse(row, 8)?) } else { None };
    let state = match (&ending, numbered_state(row.get(12)?)) {
        (Some(_), _) => RunState::Settled,
        (None, Some(state)) => state,
        (None, None) => state_of(connection, row.get(4)?)?,
    };
    let title: String = row.get(9)?;
    Ok(RunInfo::new(run_id(row, 5)?, session_key(row, 0)?, state, wall(row, 6)?, title)
        .ended_at(ended_at.map(|at| Wall(at.unsigned_abs())))
        .settled_at(durable(row, 10)?.map(|at| at.wall))
        .ending(ending))
}

/// The SQL for the runs of a stream, the newest first, and its parameters.
fn query_for(which: &RunFilter, stream: &Stream, floor: i64) -> (String, Vec<Bound>) {
    let columns =
        "SELECT s.tenant, s.app, s.user, s.session, r.id, r.run, r.accepted_at, r.settled_at, r.ending, r.title,
                r.durable_at, r.durable_mono_us, r.state";
    let Stream { from, condition, of } = stream;
    let mut sql = format!("{columns} FROM {from} CROSS JOIN sessions AS s ON s.id = r.session WHERE {condition}");
    match which.settled.or(which.state.map(|state| state == RunState::Settled)) {
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
    // With a text or a state that may have to be folded, it is not known in advance how many rows must be read.
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
    use crate::read::lists::sample::{OF_FORMAT_4, migrated, plan, some};
    use crate::read::{run, uses};

    #[test]
    fn a_list_of_runs_is_read_from_an_index_in_its_order_and_no_further_than_its_limit() {
        let connection = migrated(4, OF_FORMAT_4);
        let all = RunFilter::new().limit(20);
        let run = RunId::new("b").unwrap();
        let filters = [
            (all.clone().app(some("shop")), "USING INDEX runs_of_app (app_place=?"),
            (all.clone().tenant(some("t")), "USING INDEX runs_of_app (app_place=?"),
            (all.clone().user(some("ada")), "USING INDEX runs_of_user (user_place=?"),
            (all.clone().user(some("ada")).settled(true), "runs_of_user (user_place=?"),
            (all.clone().user(some("ada")).settled(false), "USING INDEX open_runs (state=?"),
            (all.clone().settled(false), "USING INDEX open_runs (state=?"),
            (all.clone().state(RunState::Running), "USING INDEX open_runs (state=?"),
            (all.clone().settled(true), "USING COVERING INDEX one_terminal"),
            (all.clone().session(some("s")), "USING INTEGER PRIMARY KEY"),
            (all.clone().run(run.clone()), "(run=?)"),
            (all.clone().before(run), "USING INTEGER PRIMARY KEY (rowid<?)"),
            (all, "SCAN r"),
        ];
        for (which, _) in &filters {
            for nobody in [
                which.clone().user(some("nobody")),
                which.clone().app(some("nothing")),
                which.clone().tenant(some("nobody")),
            ] {
                let found = runs(&connection, &nobody).unwrap_or_else(|error| panic!("{nobody:?}: {error:?}"));
                assert!(found.is_empty(), "{nobody:?}: {found:?}");
            }
        }
        for (which, expected) in filters {
            for stream in streams(&connection, &which).unwrap_or_else(|error| panic!("{error:?}")) {
                let (sql, values) = query_for(&which, &stream, 0);
                let plan = plan(&connection, &sql, &values);
                assert!(plan.contains(expected), "{which:?}: {plan}");
                assert!(!plan.contains("FOR ORDER BY"), "it sorts all of them: {which:?}: {plan}");
            }
        }
    }

    #[test]
    fn recovery_and_a_restart_do_not_scan_all_runs() {
        let connection = migrated(4, OF_FORMAT_4);
        let unsettled = plan(&connection, run::UNSETTLED, &[]);
        assert!(unsettled.starts_with("SCAN runs USING INDEX open_runs"), "{unsettled}");
        let unwritten = plan(&connection, uses::UNWRITTEN, &[]);
        assert!(unwritten.contains("SEARCH runs USING INTEGER PRIMARY KEY (rowid>?)"), "{unwritten}");
    }

    #[test]
    fn pages_of_a_list_fit_together_whether_or_not_the_states_of_runs_are_known() {
        let connection = migrated(4, OF_FORMAT_4);
        for id in 10..40 {
            // Every third is as an older version left it: its state must be folded, and it has no events.
            let state = if id % 3 == 0 { "NULL".to_owned() } else { (id % 4).to_string() };
            let run = format!(
                "INSERT INTO runs (id, run, session, epoch, owner, next_seq, settled, accepted_at, title, state, app_place, user_place)
                 SELECT {id}, 'r{id}', 1, 1, 'me', 2, 0, {id}, 'x', {state}, app_place, user_place FROM sessions WHERE id = 1"
            );
            connection.execute(&run, []).unwrap();
        }
        let list = |before: Option<RunId>, limit| {
            let which = RunFilter::new().settled(false).user(some("ada")).before(before).limit(limit);
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
