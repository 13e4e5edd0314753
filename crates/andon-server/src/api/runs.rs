//! `GET /v1/runs`: the runs in progress and the earlier ones.

use crate::http::json::JsonBody;
use andon_runtime::core::time::Wall;
use andon_runtime::{Run, RunFilter, RunId, RunState};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::forms::{IdForm, ReceiptForm, RunView, StateForm};
use crate::access::principal::Principal;
use crate::access::scopes::Scope;
use crate::core::Shared;
use crate::http::path::PathParams;
use crate::http::problem::{Problem, Refusals};
use crate::http::query::{Query, limit};
use crate::options::cost::{Priced, Spent, priced};

/// Which runs to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunQuery {
    /// Only runs in this state.
    #[param(value_type = Option<StateForm>)]
    state: Option<RunState>,
    /// Only runs that have settled (`true`), or that have not (`false`).
    settled: Option<bool>,
    /// Only runs of this app.
    app: Option<String>,
    /// Only runs of this user.
    user: Option<String>,
    /// Only runs in sessions with this name.
    session: Option<String>,
    /// Only runs with this text in the title, run id, user or session. Case is ignored.
    text: Option<String>,
    /// Only runs that were accepted at this time or later.
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Wall>,
    /// Only runs that were accepted before this time.
    #[param(value_type = Option<String>, format = DateTime)]
    until: Option<Wall>,
    /// Only runs that are older than this one. For the next page, pass the last run of the previous page.
    #[param(value_type = Option<IdForm>, inline)]
    before: Option<String>,
    /// The maximum number of runs.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A page of runs, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunPage {
    runs: Vec<RunView>,
    /// There are more runs: pass this as `before` to get them. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// List runs, newest first.
#[utoipa::path(
    get, path = "/v1/runs", tag = "runs", params(RunQuery),
    responses(
        (status = 200, body = RunPage),
        Refusals,
    )
)]
pub(crate) async fn list(
    State(core): State<Shared>,
    principal: Principal,
    Query(which): Query<RunQuery>,
) -> Result<JsonBody<RunPage>, Problem> {
    let limit = limit(which.limit)?;
    let is_settled = which.state.map(|state| state == RunState::Settled);
    if which.settled.is_some_and(|settled| is_settled.is_some_and(|is_settled| is_settled != settled)) {
        return Err(Problem::unprocessable("bad-query", "settled and state contradict each other: leave one out"));
    }
    let before = which.before.as_ref().map(RunId::new).transpose();
    let before = before.map_err(|error| Problem::bad_id("before", &error))?;
    let nothing = || Ok(JsonBody(RunPage { runs: Vec::new(), next: None }));
    let Ok(user) = principal.listed(which.user) else { return nothing() };
    let before = match before {
        Some(before) if principal.allows(Scope::Admin) => Some(before),
        // Paging from somebody else's run gives an empty list, as it does from a run that does not exist.
        Some(before) => match reached(&core, &principal, &before).await? {
            Some(run) => Some(run.id().clone()),
            None => return nothing(),
        },
        None => None,
    };
    let filter = RunFilter::new()
        // An admin sees the runs of all tenants.
        .tenant((!principal.allows(Scope::Admin)).then(|| principal.tenant.to_string()))
        .app(which.app)
        .user(user)
        .session(which.session)
        .settled(which.settled.or(is_settled))
        .state(which.state)
        .text(which.text.filter(|text| !text.is_empty()))
        .since(which.since)
        .until(which.until)
        .before(before)
        // One extra, to know whether there is another page.
        .limit(limit + 1);
    let listed = core.runtime.list_runs(filter).await?;
    let mut runs: Vec<RunView> = listed.into_iter().map(|info| RunView::of_info(info, &principal)).collect();
    // A run may have moved on since the index was read. What it shows is then where it stands now, even if a filter no
    // longer matches. A run that the index knows as settled stays settled, although its driver may not have heard yet.
    for view in runs.iter_mut().filter(|view| view.outcome.is_none()) {
        if let Some(run) = core.runtime.find_in_progress(&view.run_id) {
            view.update(&run);
        }
    }
    let has_more = runs.len() > limit;
    runs.truncate(limit);
    add_costs(&core, &mut runs).await?;
    let next = runs.last().filter(|_| has_more).map(|last| last.run_id.to_string());
    Ok(JsonBody(RunPage { runs, next }))
}

/// Get a run.
#[utoipa::path(
    get, path = "/v1/runs/{run_id}", tag = "runs", params(("run_id" = inline(IdForm), Path, description = "The id of the run")),
    responses(
        (status = 200, body = RunView),
        Refusals,
    )
)]
pub(crate) async fn one(
    State(core): State<Shared>,
    principal: Principal,
    PathParams(run): PathParams<String>,
) -> Result<JsonBody<RunView>, Problem> {
    let id = id(&run)?;
    let view = view(&core, &principal, &id).await?.ok_or_else(unknown)?;
    let mut alone = [view];
    add_costs(&core, &mut alone).await?;
    let [view] = alone;
    Ok(JsonBody(view))
}

/// A run that the principal may see, without its cost.
async fn view(core: &Shared, principal: &Principal, id: &RunId) -> Result<Option<RunView>, Problem> {
    if let Some(run) = reached_in_progress(core, principal, id) {
        return Ok(RunView::of(&run, principal));
    }
    for id in names(principal, id) {
        let alone = RunFilter::new().run(id).limit(1);
        let info = core.runtime.list_runs(alone).await?.pop().filter(|info| principal.reaches(&info.session));
        match info {
            // For a settled run, its row in the index has everything, so its record, however long, is not read.
            Some(info) if info.ending.is_some() => return Ok(Some(RunView::of_info(info, principal))),
            Some(_) => break,
            None => {}
        }
    }
    Ok(reached(core, principal, id).await?.and_then(|run| RunView::of(&run, principal)))
}

/// Adds what runs cost, if there are prices. Of those on record only the events of their model calls are read.
async fn add_costs(core: &Shared, views: &mut [RunView]) -> Result<(), Problem> {
    let Some(prices) = &core.options.prices else { return Ok(()) };
    let mut stored: Vec<&mut RunView> = Vec::new();
    for view in views {
        match core.runtime.find_in_progress(&view.run_id).and_then(|run| run.receipt()) {
            Some(receipt) => view.cost = Some(prices.of_run(&receipt)),
            None => stored.push(view),
        }
    }
    let runs: Vec<RunId> = stored.iter().map(|view| view.run_id.clone()).collect();
    for (view, account) in stored.into_iter().zip(core.runtime.accounts(&runs).await?) {
        let cost = account.map(|account| Spent::of_account(prices, &account).total());
        // A run without an outcome may have an open call.
        view.cost = if view.outcome.is_some() { cost } else { cost.map(|cost| cost.and_unknown()) };
    }
    Ok(())
}

/// The receipt of a run. Until the run has settled, it covers what has happened so far.
#[utoipa::path(
    get, path = "/v1/runs/{run_id}/receipt", tag = "runs", params(("run_id" = inline(IdForm), Path, description = "The id of the run")),
    responses(
        (status = 200, body = ReceiptForm),
        Refusals,
    )
)]
pub(crate) async fn receipt(
    State(core): State<Shared>,
    principal: Principal,
    PathParams(run): PathParams<String>,
) -> Result<JsonBody<Priced>, Problem> {
    let run = find(&core, &principal, &run).await?;
    let receipt = run.receipt().ok_or_else(unknown)?;
    Ok(JsonBody(priced(core.options.prices.as_ref(), receipt)))
}

/// The error for a run that does not exist, and for a run that belongs to somebody else.
pub(crate) fn unknown() -> Problem {
    Problem::not_found("no-such-run", "there is no such run: GET /v1/runs lists them")
}

/// Parses a run id.
pub(crate) fn id(text: &str) -> Result<RunId, Problem> {
    RunId::new(text).map_err(|error| Problem::bad_id("run_id", &error))
}

/// A run that the principal may see.
pub(crate) async fn find(core: &Shared, principal: &Principal, run: &str) -> Result<Run, Problem> {
    reached(core, principal, &id(run)?).await?.ok_or_else(unknown)
}

/// A run that the principal may see, by its id or by the id that the principal chose for it; `None` if there is none.
pub(crate) async fn reached(core: &Shared, principal: &Principal, id: &RunId) -> Result<Option<Run>, Problem> {
    for id in names(principal, id) {
        if let Some(run) = core.runtime.find(&id).await?.filter(|run| principal.reaches(run.session())) {
            return Ok(Some(run));
        }
    }
    Ok(None)
}

/// Like [`reached`], but only for runs in progress, and without waiting.
pub(crate) fn reached_in_progress(core: &Shared, principal: &Principal, id: &RunId) -> Option<Run> {
    let mut found = names(principal, id).filter_map(|id| core.runtime.find_in_progress(&id));
    found.find(|run| principal.reaches(run.session()))
}

/// The ids that may be meant, starting with the one that this principal would have chosen.
fn names(principal: &Principal, id: &RunId) -> impl Iterator<Item = RunId> {
    // An id that would be too long was never chosen.
    let chosen = principal.chosen(id).ok().filter(|chosen| chosen != id);
    chosen.into_iter().chain([id.clone()])
}
