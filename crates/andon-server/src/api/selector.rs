//! `POST /v1/cancel`: stop all that a selector names, as it is at this instant.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use crate::json::Json;
use andon::{Reason, Reply, Run, RunId, SessionKey, State as RunState};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};
use utoipa::ToSchema;

use super::cancel::{Cancelled, carry_out, told, too_many, within};
use super::forms::{ForceForm, ReasonForm, how};
use crate::Shared;
use crate::body::Body;
use crate::line::Scope;
use crate::principal::Principal;
use crate::problem::{Problem, ProblemForm};
use crate::tombstones::How;

/// What to stop: all runs that match everything that is given.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelMany {
    /// Those of this app.
    app: Option<String>,
    /// Those of this user.
    user: Option<String>,
    /// Those of sessions of this name, queued ones included.
    session: Option<String>,
    /// Everything.
    #[serde(default)]
    all: bool,
    /// How hard; `graceful` unless told otherwise.
    force: Option<ForceForm>,
    /// The grace for running tools in milliseconds, in place of each tool's own.
    #[schema(format = "uint64")]
    grace_ms: Option<u64>,
    /// Why: `requested`, or `operator`.
    #[schema(value_type = Option<ReasonForm>)]
    reason: Option<Reason>,
    /// Free text for the receipts.
    note: Option<String>,
    /// Answer when all of them have settled.
    #[serde(default)]
    wait: bool,
}

/// What was stopped.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CancelledMany {
    /// How many runs were in progress and are stopping now, or have stopped.
    pub(crate) cancelled: usize,
    /// Whether all of them have settled.
    pub(crate) settled: bool,
    /// What became of each.
    pub(crate) runs: Vec<Cancelled>,
}

/// Which runs are meant.
#[derive(Debug, Default)]
pub(crate) struct Selector {
    pub(crate) app: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) session: Option<String>,
}

impl Selector {
    /// All runs that a hold is on.
    pub(crate) fn of(scope: &Scope) -> Self {
        match scope {
            Scope::All => Self::default(),
            Scope::App(app) => Self { app: Some(app.clone()), ..Self::default() },
            Scope::User(user) => Self { user: Some(user.clone()), ..Self::default() },
        }
    }

    fn is_meant(&self, principal: &Principal, key: &SessionKey) -> bool {
        let matches = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        key.tenant == principal.tenant
            && matches(&self.app, &key.app)
            && matches(&self.user, &key.user)
            && matches(&self.session, key.session.as_str())
    }
}

/// Stop all runs that match.
///
/// It reaches the runs that are there when it arrives, and none that comes later: holding the line keeps those out.
#[utoipa::path(
    post, path = "/v1/cancel", tag = "stop", request_body = CancelMany,
    responses(
        (status = 202, description = "They are stopping, and the requests are on record", body = CancelledMany),
        (status = 200, description = "All have settled, or there was nothing to stop", body = CancelledMany),
        (status = "4XX", body = ProblemForm, content_type = "application/problem+json"),
        (status = 503, description = "The cords were pulled, but not all requests are on record yet", body = ProblemForm, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn cancel_many(
    State(core): State<Shared>,
    principal: Principal,
    Body(request): Body<CancelMany>,
) -> Result<Response, Problem> {
    let CancelMany { app, user, session, all, force, grace_ms, reason, note, wait } = request;
    let names_something = app.is_some() || user.is_some() || session.is_some();
    if all == names_something {
        let detail = "say what to stop: app, user and session, or all: true and none of those";
        return Err(Problem::unprocessable("no-selector", detail));
    }
    let how = how(force, reason, note, grace_ms)?;
    let cancelled = stop(&core, &principal, &Selector { app, user, session }, &how, wait).await?;
    let status = if cancelled.settled { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(cancelled)).into_response())
}

/// Stops all that is meant, waits until that is on record, and if asked until all have settled.
pub(crate) async fn stop(
    core: &Shared,
    principal: &Principal,
    selector: &Selector,
    how: &How,
    wait: bool,
) -> Result<CancelledMany, Problem> {
    let permit = core.cancelling.try_acquire().map_err(|_| too_many())?;
    let mut stopped = pull_all(core, principal, selector, how);
    stopped.extend(stop_parked(core, principal, selector, how, &stopped).await?);
    core.counts.cancels.fetch_add(stopped.len() as u64, Ordering::Relaxed);
    let all_recorded = async {
        for (_, reply) in &stopped {
            reply.recorded().await?;
        }
        Ok(())
    };
    // Who waits for the end of thousands waits for the disk, too.
    let patience =
        if wait { core.options.wait.max(core.options.record_patience) } else { core.options.record_patience };
    let recorded = within(patience, all_recorded).await;
    recorded.map_err(|problem| problem.with("pulled", true).with("cancelled", stopped.len()))?;
    drop(permit);
    if wait && let Ok(_permit) = core.waiting.try_acquire() {
        let until = Instant::now() + core.options.wait;
        for (run, _) in stopped.iter().filter(|(_, reply)| reply.is_stopping()) {
            // Who has not settled in time is told as it is.
            let _ = timeout_at(until, run.outcome()).await;
        }
    }
    let runs: Vec<Cancelled> = stopped.iter().map(|(run, reply)| told(run, reply)).collect();
    let settled = runs.iter().all(|run| run.state == RunState::Settled);
    Ok(CancelledMany { cancelled: runs.len(), settled, runs })
}

/// Pulls all cords that are meant, without a wait between them.
fn pull_all(core: &Shared, principal: &Principal, selector: &Selector, how: &How) -> Vec<(Run, Reply)> {
    let meant = core.runtime.in_progress().into_iter().filter(|run| selector.is_meant(principal, run.session()));
    let pulled = meant.map(|run| {
        let reply = run.cancel(how.cancel(&principal.name));
        (run, reply)
    });
    // One whose end was decided before the pull is none that was stopped.
    pulled.filter(|(_, reply)| reply.is_stopping()).collect()
}

/// Stops what an earlier process left waiting for an agent that is not there.
async fn stop_parked(
    core: &Shared,
    principal: &Principal,
    selector: &Selector,
    how: &How,
    pulled: &[(Run, Reply)],
) -> Result<Vec<(Run, Reply)>, Problem> {
    let parked = core.runtime.parked();
    if parked.is_empty() {
        return Ok(Vec::new());
    }
    let pulled: HashSet<&RunId> = pulled.iter().map(|(run, _)| run.id()).collect();
    let mut stopped = Vec::new();
    for id in parked.iter().filter(|id| !pulled.contains(id)) {
        let Some(run) = core.runtime.find(id).await? else { continue };
        if !selector.is_meant(principal, run.session()) {
            continue;
        }
        let reply = carry_out(core, id, how.cancel(&principal.name)).await?;
        stopped.push((core.runtime.find(id).await?.unwrap_or(run), reply));
    }
    Ok(stopped)
}
