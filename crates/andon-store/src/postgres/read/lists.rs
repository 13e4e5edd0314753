//! Lists of sessions and runs, each read in its order and no further than its limit.

use andon_runtime::core::id::SessionKey;
use andon_runtime::core::outcome::Ending;
use andon_runtime::core::progress::RunState;
use andon_runtime::core::time::Wall;
use andon_runtime::{RunFilter, RunInfo, SessionFilter, SessionInfo, StateMap};
use tokio_postgres::Row;

use super::run::state_of as folded_state;
use super::session::state_of;
use crate::postgres::names;
use crate::postgres::rows::{RowResult, durable, parse, run_id, session_key, text, wall};
use crate::postgres::sql::{Transaction, Value};
use crate::record::{HashMap, int, numbered_state, state_number};

/// How many runs are read at a time, if it is not known in advance how many of them are wanted.
const SOME: usize = 256;

/// Conditions that are joined by AND, with their values.
#[derive(Default)]
struct Conditions<'a> {
    sql: String,
    values: Vec<Value<'a>>,
}

impl<'a> Conditions<'a> {
    /// Adds a condition with one value, which it has as `$`.
    fn add(&mut self, condition: &str, value: Option<Value<'a>>) {
        let Some(value) = value else { return };
        self.values.push(value);
        self.plain(&condition.replace('$', &format!("${}", self.values.len())));
    }

    fn plain(&mut self, condition: &str) {
        self.sql.push_str(if self.sql.is_empty() { " WHERE " } else { " AND " });
        self.sql.push_str(condition);
    }
}

/// Sessions, the most recently used first.
pub(in crate::postgres) async fn sessions(
    transaction: Transaction<'_>,
    which: &SessionFilter,
) -> RowResult<Vec<SessionInfo>> {
    let mut conditions = Conditions::default();
    let (tenant, app, user) = (which.tenant.as_deref(), which.app.as_deref(), which.user.as_deref());
    if let Some((column, places)) = places(transaction, tenant, app, user).await? {
        conditions.add(&format!("s.{column} = ANY($)"), Some(Value::Ints(places)));
    }
    let limit = which.limit.map_or(i64::MAX, |limit| int(limit as u64));
    let sql = format!(
        "SELECT s.tenant, s.app, s.\"user\", s.session, s.created_at, s.updated_at,
            (SELECT count(*) FROM runs WHERE session = s.id),
            coalesce((SELECT title FROM runs WHERE session = s.id AND started IS NOT NULL ORDER BY started LIMIT 1),
                     (SELECT title FROM runs WHERE session = s.id ORDER BY id LIMIT 1))
         FROM (SELECT * FROM sessions s{} ORDER BY updated_at DESC, tenant, app, \"user\", session LIMIT {limit}) s
         ORDER BY s.updated_at DESC, s.tenant, s.app, s.\"user\", s.session",
        conditions.sql
    );
    let rows = transaction.rows(&sql, &conditions.values).await?;
    rows.iter().map(session_info).collect()
}

fn session_info(row: &Row) -> RowResult<SessionInfo> {
    let title = row.try_get::<_, Option<String>>(7)?.map(names::read);
    let runs = row.try_get::<_, i64>(6)?.unsigned_abs();
    Ok(SessionInfo::new(session_key(row, 0)?, wall(row, 4)?, wall(row, 5)?).runs(runs).title(title))
}

/// The places that a filter selects, and which column of a session or run has them. `None` if it selects everything.
async fn places(
    transaction: Transaction<'_>,
    tenant: Option<&str>,
    app: Option<&str>,
    user: Option<&str>,
) -> RowResult<Option<(&'static str, Vec<i64>)>> {
    if tenant.is_none() && app.is_none() && user.is_none() {
        return Ok(None);
    }
    let sql = "SELECT id FROM places WHERE \"user\" = $3 AND ($1::text IS NULL OR tenant = $1) AND ($2::text IS NULL OR app = $2)";
    let values = [Value::MaybeText(tenant), Value::MaybeText(app), Value::Text(user.unwrap_or_default())];
    let rows = transaction.rows(sql, &values).await?;
    let ids = rows.iter().map(|row| Ok(row.try_get(0)?)).collect::<RowResult<_>>()?;
    Ok(Some((if user.is_some() { "user_place" } else { "app_place" }, ids)))
}

/// Sessions, each with its state. Shared state is read once.
pub(in crate::postgres) async fn with_state(
    transaction: Transaction<'_>,
    listed: Vec<SessionInfo>,
) -> RowResult<Vec<(SessionInfo, StateMap)>> {
    let mut shared: HashMap<(String, String, String), StateMap> = HashMap::default();
    let mut with_state = Vec::with_capacity(listed.len());
    for info in listed {
        let SessionKey { tenant, app, user, session, .. } = &info.key;
        let owner = (tenant.to_string(), app.to_string(), user.to_string());
        let mut state = match shared.get(&owner) {
            Some(state) => state.clone(),
            None => {
                let mut state = state_at(transaction, [tenant, app, "", ""]).await?;
                state.extend(state_at(transaction, [tenant, app, user, ""]).await?);
                shared.insert(owner, state.clone());
                state
            }
        };
        state.extend(state_at(transaction, [tenant, app, user, session.as_str()]).await?);
        with_state.push((info, state));
    }
    Ok(with_state)
}

async fn state_at(transaction: Transaction<'_>, scope: [&str; 4]) -> RowResult<StateMap> {
    let sql = "SELECT key, value FROM state WHERE (tenant, app, \"user\", session) = ($1, $2, $3, $4)";
    state_of(&transaction.rows(sql, &scope.map(Value::Text)).await?)
}

const RUNS: &str =
    "SELECT s.tenant, s.app, s.\"user\", s.session, r.id, r.run, r.accepted_at, r.settled_at, r.ending, r.title,
    r.durable_at, r.durable_mono_us, r.state FROM runs r JOIN sessions s ON s.id = r.session";

/// Runs, the newest first.
pub(in crate::postgres) async fn runs(transaction: Transaction<'_>, which: &RunFilter) -> RowResult<Vec<RunInfo>> {
    let most = which.limit.unwrap_or(usize::MAX);
    let is_exact = which.text.is_none() && which.state.is_none();
    let page = if is_exact { most } else { SOME };
    let (mut found, mut before) = (Vec::new(), i64::MAX);
    while found.len() < most {
        let mut conditions = conditions(transaction, which).await?;
        conditions.add("r.id < $", Some(Value::Int(before)));
        let sql = format!("{RUNS}{} ORDER BY r.id DESC LIMIT {}", conditions.sql, int(page as u64));
        let rows = transaction.rows(&sql, &conditions.values).await?;
        for row in &rows {
            before = row.try_get(4)?;
            if found.len() < most {
                found.extend(wanted(transaction, which, row).await?);
            }
        }
        if rows.len() < page {
            break;
        }
    }
    Ok(found)
}

/// What the server can judge of a filter.
async fn conditions<'a>(transaction: Transaction<'_>, which: &'a RunFilter) -> RowResult<Conditions<'a>> {
    let mut conditions = Conditions::default();
    let (tenant, app, user) = (which.tenant.as_deref(), which.app.as_deref(), which.user.as_deref());
    if let Some((column, places)) = places(transaction, tenant, app, user).await? {
        conditions.add(&format!("r.{column} = ANY($)"), Some(Value::Ints(places)));
    }
    match which.settled.or(which.state.map(|state| state == RunState::Settled)) {
        Some(true) => conditions.plain("r.settled"),
        Some(false) => conditions.plain("NOT r.settled"),
        None => {}
    }
    let state = which.state.and_then(state_number);
    conditions.add("(r.state IS NULL OR r.state = $)", state.map(Value::Int));
    let of_session = "r.session IN (SELECT id FROM sessions WHERE session = $)";
    conditions.add(of_session, which.session.as_deref().map(Value::Text));
    conditions.add("r.run = $", which.run.as_ref().map(|run| Value::Text(run.as_str())));
    conditions.add("r.accepted_at >= $", which.since.map(|at| Value::Int(int(at.0))));
    conditions.add("r.accepted_at < $", which.until.map(|at| Value::Int(int(at.0))));
    let older = "r.id < (SELECT id FROM runs WHERE run = $)";
    conditions.add(older, which.before.as_ref().map(|run| Value::Text(run.as_str())));
    Ok(conditions)
}

/// A run, if the filter wants it. The server cannot ignore the case of every script, so text is matched here, before the row is
/// decoded further.
async fn wanted(transaction: Transaction<'_>, which: &RunFilter, row: &Row) -> RowResult<Option<RunInfo>> {
    let title = names::read(row.try_get(9)?);
    if !which.finds([&title, text(row, 5)?, text(row, 2)?, text(row, 3)?]) {
        return Ok(None);
    }
    let ended_at: Option<i64> = row.try_get(7)?;
    let ending: Option<Ending> = if ended_at.is_some() { Some(parse(row, 8)?) } else { None };
    let state = match (&ending, numbered_state(row.try_get(12)?)) {
        (Some(_), _) => RunState::Settled,
        (None, Some(state)) => state,
        (None, None) => folded_state(transaction, row.try_get(4)?).await?,
    };
    if which.state.is_some_and(|wanted| wanted != state) {
        return Ok(None);
    }
    let info = RunInfo::new(run_id(row, 5)?, session_key(row, 0)?, state, wall(row, 6)?, title);
    let ended_at = ended_at.map(|at| Wall(at.unsigned_abs()));
    Ok(Some(info.ended_at(ended_at).settled_at(durable(row, 10)?.map(|at| at.wall)).ending(ending)))
}
