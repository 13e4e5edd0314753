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

use super::cancel::{Cancelled, carried_out, on_record, stop_found, told, within};
use super::forms::{ForceForm, IdForm, ReasonForm, how};
use crate::Shared;
use crate::body::Body;
use crate::idle::after;
use crate::line::{On, Scope};
use crate::principal::Principal;
use crate::problem::{Problem, ProblemForm};
use crate::seats::MayWait;
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
    /// Of this tenant; it takes the scope `admin`. Without it, what is named is of the tenant of who asks, and `all` is all
    /// that who asks reaches: with `admin` that of every tenant.
    #[schema(value_type = Option<IdForm>)]
    tenant: Option<String>,
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
    /// What became of each, those included whose end was decided already and not on record.
    pub(crate) runs: Vec<Cancelled>,
}

/// Which runs are meant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    /// Of which tenant; nothing if of every one that is in reach.
    pub(crate) tenant: Option<String>,
    pub(crate) app: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) session: Option<String>,
}

impl Selector {
    /// All runs that a hold is on.
    pub(crate) fn of(Scope { tenant, on }: &Scope) -> Self {
        let all = Self { tenant: tenant.clone(), ..Self::default() };
        match on {
            On::All => all,
            On::App(app) => Self { app: Some(app.clone()), ..all },
            On::User(user) => Self { user: Some(user.clone()), ..all },
        }
    }

    /// All runs of one session.
    pub(crate) fn of_session(key: &SessionKey) -> Self {
        Self {
            tenant: Some(key.tenant.to_string()),
            app: Some(key.app.to_string()),
            user: Some(key.user.to_string()),
            session: Some(key.session.to_string()),
        }
    }

    fn is_meant(&self, principal: &Principal, key: &SessionKey) -> bool {
        let matches = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        principal.reaches(key)
            && matches(&self.tenant, &key.tenant)
            && matches(&self.app, &key.app)
            && matches(&self.user, &key.user)
            && matches(&self.session, key.session.as_str())
    }
}

/// The tenant of what is named: the one that is said, which takes the scope `admin`; else the own, or every one if all is
/// meant.
pub(crate) fn tenant(principal: &Principal, said: Option<&str>, is_all: bool) -> Result<Option<String>, Problem> {
    match said {
        Some(tenant) => {
            principal.needs(crate::scopes::Scope::Admin)?;
            let checked = andon::SessionId::new(tenant).map_err(|error| Problem::bad_id("tenant", &error))?;
            Ok(Some(checked.to_string()))
        }
        None if is_all => Ok(None),
        None => Ok(Some(principal.tenant.to_string())),
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
    MayWait(may_wait): MayWait,
    Body(request): Body<CancelMany>,
) -> Result<Response, Problem> {
    let CancelMany { app, user, session, all, tenant: said, force, grace_ms, reason, note, wait } = request;
    let names_something = app.is_some() || user.is_some() || session.is_some();
    if all == names_something {
        let detail = "say what to stop: app, user and session, or all: true and none of those";
        return Err(Problem::unprocessable("no-selector", detail));
    }
    let how = how(&principal, force, reason, note, grace_ms)?;
    let tenant = tenant(&principal, said.as_deref(), all)?;
    let selector = Selector { tenant, app, user, session };
    let cancelled = stop(&core, &principal, &selector, &how, wait && may_wait).await?;
    let status = if cancelled.settled { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(cancelled)).into_response())
}

/// A run, and what a cancel did to it.
type Stopped = (Run, Reply);

/// Stops all that is meant, waits until that is on record, and if asked until all have settled.
pub(crate) async fn stop(
    core: &Shared,
    principal: &Principal,
    selector: &Selector,
    how: &How,
    wait: bool,
) -> Result<CancelledMany, Problem> {
    let (stopped, trouble) = pull_all(core, principal, selector, how).await;
    let cancelled = stopped.iter().filter(|(_, reply)| reply.is_stopping()).count();
    core.counts.cancels.fetch_add(cancelled as u64, Ordering::Relaxed);
    let done = |problem: Problem| problem.with("pulled", cancelled > 0).with("cancelled", cancelled);
    if let Some(problem) = trouble {
        return Err(done(problem).with("recorded", false));
    }
    let waiting = if wait { core.waiting.try_acquire().ok() } else { None };
    settled(core, &stopped, waiting.is_some()).await.map_err(done)?;
    let runs: Vec<Cancelled> = stopped.iter().map(|(run, reply)| told(run, reply)).collect();
    let settled = runs.iter().all(|run| run.state == RunState::Settled);
    Ok(CancelledMany { cancelled, settled, runs })
}

/// Waits until all is on record, and if it may until all have settled: there is one deadline for both.
async fn settled(core: &Shared, stopped: &[Stopped], may_wait: bool) -> Result<(), Problem> {
    let all_recorded = async {
        for (_, reply) in stopped {
            reply.recorded().await?;
        }
        Ok(())
    };
    if !may_wait {
        return on_record(core, all_recorded).await;
    }
    let patience = core.options.wait.max(core.options.record_patience);
    let until = after(Instant::now(), patience);
    within(patience, all_recorded).await?;
    for (run, _) in stopped.iter().filter(|(_, reply)| reply.is_stopping() || reply.too_late().is_some()) {
        // Who has not settled in time is told as it is.
        let _ = timeout_at(until, run.outcome()).await;
    }
    Ok(())
}

/// Pulls all cords that are meant, without a wait between them; then stops what an earlier process left waiting for an agent
/// that is not there. What went wrong with some of those does not keep it from the others.
async fn pull_all(
    core: &Shared,
    principal: &Principal,
    selector: &Selector,
    how: &How,
) -> (Vec<Stopped>, Option<Problem>) {
    // Read first: one that is taken up meanwhile is in progress before it is out of here.
    let mut parked = core.runtime.parked();
    let meant = core.runtime.in_progress().into_iter().filter(|run| selector.is_meant(principal, run.session()));
    let pulled = meant.map(|run| {
        let reply = run.cancel(how.cancel(&principal.name));
        (run, reply)
    });
    let mut stopped: Vec<Stopped> = pulled.collect();
    if parked.is_empty() {
        return (stopped, None);
    }
    let pulled: HashSet<&RunId> = stopped.iter().map(|(run, _)| run.id()).collect();
    parked.retain(|id| !pulled.contains(id));
    let parked = stop_parked(Shared::clone(core), principal.clone(), selector.clone(), how.clone(), parked);
    match carried_out(core, parked).await {
        Ok((more, trouble)) => {
            stopped.extend(more);
            (stopped, trouble)
        }
        Err(problem) => (stopped, Some(problem)),
    }
}

async fn stop_parked(
    core: Shared,
    principal: Principal,
    selector: Selector,
    how: How,
    parked: Vec<RunId>,
) -> Result<(Vec<Stopped>, Option<Problem>), Problem> {
    let (mut stopped, mut trouble) = (Vec::new(), None);
    for id in parked {
        let stopping = async {
            let found = core.runtime.find(&id).await?;
            let Some(run) = found.filter(|run| selector.is_meant(&principal, run.session())) else { return Ok(None) };
            stop_found(&core, run, how.cancel(&principal.name)).await.map(Some)
        };
        match stopping.await {
            Ok(one) => stopped.extend(one),
            Err(problem) => trouble = Some(problem),
        }
    }
    Ok((stopped, trouble))
}
