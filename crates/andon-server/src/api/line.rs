//! `/v1/line`: hold and open the line.

use std::sync::Arc;

use crate::http::json::JsonBody;
use andon_runtime::{Force, Reason};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::aim::{Aim, app_must_exist, look};
use super::cancel::within;
use super::forms::{ForceForm, IdForm, cancel_order};
use super::selector::{CancelledMany, Selector, stop, tenant};
use crate::access::principal::Principal;
use crate::access::scopes;
use crate::admission::line::{Hold, HoldScope, On};
use crate::core::Shared;
use crate::http::body::Body;
use crate::http::problem::{Problem, ProblemForm};
use crate::http::slots::MayWait;

/// The line: whether the server accepts new runs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Line)]
pub(crate) struct LineView {
    /// `held` while there is a hold on everything. An app or a user may be held even if this is `open`.
    state: LineState,
    /// All holds.
    holds: Vec<Hold>,
    /// What a new hold is on, if it was made without cancelling anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    aim: Option<Aim>,
    /// What was cancelled, if you asked for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<CancelledMany>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum LineState {
    /// New runs are accepted.
    Open,
    /// New runs are refused.
    Held,
}

/// Hold or open the line.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeLine {
    /// The new state.
    state: LineState,
    /// Hold or open only this app.
    #[schema(value_type = Option<IdForm>)]
    app: Option<String>,
    /// Hold or open only this user.
    #[schema(value_type = Option<IdForm>)]
    user: Option<String>,
    /// Hold or open only this tenant. Without it, an app or a user means one of your own tenant, and everything means
    /// everything of every tenant.
    #[schema(value_type = Option<IdForm>)]
    tenant: Option<String>,
    /// Why, for clients whose runs are refused.
    reason: Option<String>,
    /// Whether to also cancel the runs in progress there.
    #[serde(default)]
    cancel: bool,
    /// How hard to stop them. `graceful` by default.
    #[schema(value_type = Option<ForceForm>)]
    force: Option<Force>,
    /// Whether to wait until all cancelled runs have settled.
    #[serde(default)]
    wait: bool,
}

/// The state of the line.
#[utoipa::path(get, path = "/v1/line", tag = "line", responses((status = 200, body = LineView)))]
pub(crate) async fn status(State(core): State<Shared>, principal: Principal) -> JsonBody<LineView> {
    JsonBody(view(&core, &principal))
}

/// The line as a principal may see it: the holds that apply to it, or all of them for an admin.
pub(crate) fn view(core: &Shared, principal: &Principal) -> LineView {
    let mut holds = core.admission.holds();
    let is_held = holds.iter().any(|hold| hold.is_on_all() && hold.is_for(&principal.tenant));
    if !principal.allows(scopes::Scope::Admin) {
        let is_own = |hold: &Hold| hold.user.as_ref().is_none_or(|user| principal.may_act_for(user));
        holds.retain(|hold| hold.is_for(&principal.tenant) && is_own(hold));
    }
    LineView { state: if is_held { LineState::Held } else { LineState::Open }, holds, aim: None, stopped: None }
}

/// Hold or open the line, for everything, an app or a user.
///
/// A hold survives a restart. With `cancel`, it also cancels the runs in progress there; with `wait`, the answer proves
/// that all of them have settled. Opening removes the one hold that is named; others stay. An app that does not exist
/// gives a 404, and nothing is held. A user who has nothing on record can be held, and the answer says so.
#[utoipa::path(
    put, path = "/v1/line", tag = "line", request_body = ChangeLine,
    responses(
        (status = 200, description = "The change is made and on record", body = LineView),
        (status = 202, description = "The line is held, and the runs in progress there are stopping", body = LineView),
        (status = "4XX", body = ProblemForm, content_type = "application/problem+json"),
        (status = 503, description = "The change is made, but not on record yet", body = ProblemForm, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn change(
    State(core): State<Shared>,
    principal: Principal,
    MayWait(may_wait): MayWait,
    Body(request): Body<ChangeLine>,
) -> Result<Response, Problem> {
    let scope = scope(&principal, &request)?;
    match request.state {
        LineState::Open => open(&core, &principal, &scope, &request).await,
        LineState::Held => hold(&core, &principal, &scope, request, may_wait).await,
    }
}

async fn open(
    core: &Shared,
    principal: &Principal,
    scope: &HoldScope,
    request: &ChangeLine,
) -> Result<Response, Problem> {
    if request.cancel || request.wait || request.reason.is_some() || request.force.is_some() {
        let detail = "reason, cancel, force and wait are only for a hold: leave them out to open the line";
        return Err(Problem::unprocessable("bad-field", detail));
    }
    // A hold recorded before holds named a tenant is on every tenant, and is removed by its name alone.
    let is_by_name = request.tenant.is_none() && scope.tenant.is_some();
    let every = is_by_name.then(|| HoldScope { tenant: None, on: scope.on.clone() });
    let scopes: Vec<&HoldScope> = [scope].into_iter().chain(&every).collect();
    let was_held = core.admission.holds().iter().any(|hold| scopes.contains(&&hold.scope()));
    for scope in scopes {
        // Even if there is no such hold: an earlier request may not have reached the disk.
        within(core.options.record_patience, core.admission.open(scope)).await?;
    }
    if !was_held {
        // Removing the hold of an app that is gone is fine; if there was no hold, the name may be a typo.
        app_must_exist(core, principal, &Selector::of(scope)).await?;
    }
    Ok(JsonBody(view(core, principal)).into_response())
}

async fn hold(
    core: &Shared,
    principal: &Principal,
    scope: &HoldScope,
    request: ChangeLine,
    may_wait: bool,
) -> Result<Response, Problem> {
    let how = cancel_order(principal, request.force, Some(Reason::Operator), request.reason.clone(), None)?;
    if !request.cancel && (request.wait || request.force.is_some()) {
        let detail = "wait and force need cancel: true; add it, or leave them out";
        return Err(Problem::unprocessable("bad-field", detail));
    }
    let selector = Selector::of(scope);
    // A hold on an app that does not exist would keep nobody out.
    app_must_exist(core, principal, &selector).await?;
    let since = core.runtime.now().wall;
    let hold = Hold::new(scope, request.reason, Arc::clone(&principal.name), since);
    let held = core.admission.hold(hold)?;
    // Nothing more is let in, so what is cancelled now is everything.
    let stopping = async {
        match request.cancel {
            true => stop(core, principal, &selector, &how, request.wait && may_wait).await.map(Some),
            false => Ok(None),
        }
    };
    let (stopped, held) = tokio::join!(stopping, within(core.options.record_patience, held));
    // The line is held, even if something is not on record.
    let stopped = stopped.map_err(|problem| problem.with("held", true))?;
    let cancelled = stopped.as_ref().map_or(0, |stopped| stopped.cancelled);
    held.map_err(|problem| problem.with("held", true).with("cancelled", cancelled))?;
    let status = stopped.as_ref().map_or(StatusCode::OK, CancelledMany::status);
    // A failed lookup does not undo the hold.
    let aim = if stopped.is_none() { look(core, principal, &selector).await.ok() } else { None };
    Ok((status, JsonBody(LineView { aim, stopped, ..view(core, principal) })).into_response())
}

fn scope(principal: &Principal, request: &ChangeLine) -> Result<HoldScope, Problem> {
    let checked = |what, name: &String| {
        andon_runtime::SessionId::new(name).map(|_| name.clone()).map_err(|error| Problem::bad_id(what, &error))
    };
    let on = match (&request.app, &request.user) {
        (None, None) => On::All,
        (Some(app), None) => On::App(checked("app", app)?),
        (None, Some(user)) => On::User(checked("user", user)?),
        (Some(_), Some(_)) => {
            let detail = "a hold is on an app or on a user, not on both: make two holds";
            return Err(Problem::unprocessable("bad-field", detail));
        }
    };
    Ok(HoldScope { tenant: tenant(principal, request.tenant.as_deref(), on == On::All)?, on })
}
