//! Lists of sessions, with or without their state.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use andon_runtime::core::id::SessionKey;
use andon_runtime::core::time::Wall;
use andon_runtime::{SessionFilter, SessionInfo, StateMap};
use rusqlite::{Connection, params};

use super::Places;
use crate::read::uses::{self, Use};
use crate::rows::{RowResult, parse, session_key, wall};

/// Sessions, the most recently used first. `pending` are the uses that are not in the file yet; without them they are found from
/// the runs in the file.
pub(crate) fn sessions(
    connection: &Connection,
    which: &SessionFilter,
    pending: Option<Vec<Use>>,
) -> RowResult<Vec<SessionInfo>> {
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
    for unwritten in pending.iter().filter(|unwritten| places.contain(unwritten.row)) {
        let at = used.entry(unwritten.row.id).or_insert(unwritten.at);
        *at = unwritten.at.max(*at);
    }
    let mut used: Vec<(i64, i64)> = used.into_iter().collect();
    keep_latest(&mut used, most);
    let mut listed = Vec::with_capacity(used.len());
    for (id, at) in used {
        // `pending` was taken before the file was read, so its row may belong to another session by now.
        listed.extend(session_info(connection, id, at)?.filter(|info| which.matches(&info.key)));
    }
    listed.sort_by(|one, other| other.updated_at.cmp(&one.updated_at).then_with(|| one.key.cmp(&other.key)));
    listed.truncate(most);
    Ok(listed)
}

/// The most recently used sessions of these places according to the file, and when they were used.
fn latest(connection: &Connection, places: &Places, most: usize) -> RowResult<Vec<(i64, i64)>> {
    let mut query = connection.prepare_cached(&latest_in(places.column()))?;
    let (mut latest, mut floor) = (Vec::new(), i64::MIN);
    for place in &places.ids {
        let mut rows = query.query(params![place, floor])?;
        let mut count = 0;
        let mut last = i64::MIN;
        while let Some(row) = rows.next()? {
            let (id, at): (i64, i64) = (row.get(0)?, row.get(1)?);
            // Beyond the limit, only those used at the same time as the last one are taken (invariant 2).
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

/// Keeps the most recently used, and all that were used at the same time as the last of those. Returns that time if the limit was
/// reached.
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

fn session_info(connection: &Connection, id: i64, used_at: i64) -> RowResult<Option<SessionInfo>> {
    let mut query = connection.prepare_cached(SESSION)?;
    let mut rows = query.query([id])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (runs, title) = (row.get::<_, i64>(5)?.unsigned_abs(), row.get::<_, Option<String>>(6)?);
    let info = SessionInfo::new(session_key(row, 0)?, wall(row, 4)?, Wall(used_at.unsigned_abs()));
    Ok(Some(info.runs(runs).title(title)))
}

/// Sessions, each with its state. Shared state is read once.
pub(crate) fn with_state(connection: &Connection, listed: Vec<SessionInfo>) -> RowResult<Vec<(SessionInfo, StateMap)>> {
    type Owner = (Arc<str>, Arc<str>, Arc<str>);
    let mut shared: HashMap<Owner, StateMap> = HashMap::new();
    let mut with_state = Vec::with_capacity(listed.len());
    for info in listed {
        let SessionKey { tenant, app, user, session, .. } = info.key.clone();
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

fn state_at(connection: &Connection, [tenant, app, user, session]: [&str; 4]) -> RowResult<StateMap> {
    let mut query = connection
        .prepare_cached("SELECT key, value FROM state WHERE tenant = ?1 AND app = ?2 AND user = ?3 AND session = ?4")?;
    query.query_and_then([tenant, app, user, session], |row| Ok((row.get(0)?, parse(row, 1)?)))?.collect()
}

#[cfg(test)]
mod tests {
    use andon_runtime::RunFilter;
    use rusqlite::types::Value as Bound;

    use super::*;
    use crate::read::SessionRow;
    use crate::read::lists::runs;
    use crate::read::lists::sample::{OF_FORMAT_4, migrated, plan, some};

    #[test]
    fn an_upgrade_fills_in_what_lists_need() {
        let connection = migrated(4, OF_FORMAT_4);
        let listed = sessions(&connection, &SessionFilter::default(), None).unwrap_or_else(|error| panic!("{error:?}"));
        let seen: Vec<_> = listed.iter().map(|info| (info.updated_at.0, info.runs, info.title.as_deref())).collect();
        assert_eq!(seen, [(40, 2, Some("first")), (12, 0, None), (11, 0, None)]);
        let ids = |which: RunFilter| {
            let runs = runs(&connection, &which).unwrap_or_else(|error| panic!("{error:?}"));
            runs.iter().map(|info| info.run.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(ids(RunFilter::new().user(some("ada")).settled(true)), ["b"]);
        assert_eq!(ids(RunFilter::new().settled(false)), ["a"]);
        assert_eq!(ids(RunFilter::new().app(some("shop"))), ["b", "a"]);
        let before: i64 = connection.query_row("SELECT before_run FROM caught_up", [], |row| row.get(0)).unwrap();
        assert_eq!(before, 1, "the first that has not settled");
    }

    #[test]
    fn a_list_of_sessions_is_read_from_an_index_in_its_order() {
        let connection = migrated(0, "");
        for (column, index) in [("app_place", "sessions_of_app"), ("user_place", "sessions_of_user")] {
            let plan = plan(&connection, &latest_in(column), &[Bound::Integer(1), Bound::Integer(0)]);
            let expected = format!("SEARCH sessions USING COVERING INDEX {index} ({column}=? AND updated_at>?)");
            assert_eq!(plan, expected);
        }
        let plan = plan(&connection, SESSION, &[Bound::Integer(1)]);
        assert!(!plan.contains("SCAN") && !plan.contains("B-TREE"), "{plan}");
    }

    /// Checks P11: nobody is shown another user's session.
    #[test]
    fn a_pending_use_does_not_list_the_session_that_has_its_row_by_now() {
        let connection = migrated(4, OF_FORMAT_4);
        let of_ada = SessionFilter::new().user(some("ada"));
        let place = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        let (app_place, user_place) = (
            place("SELECT app_place FROM sessions WHERE id = 1"),
            place("SELECT user_place FROM sessions WHERE id = 1"),
        );
        // One of her sessions was deleted, and another user's session has its row.
        let stale = Use { row: SessionRow { id: 3, app_place, user_place }, at: 99 };
        let listed = sessions(&connection, &of_ada, Some(vec![stale])).unwrap_or_else(|error| panic!("{error:?}"));
        assert!(listed.iter().all(|info| &*info.key.user == "ada"), "{listed:?}");
        assert_eq!(listed.len(), 2);
    }
}
