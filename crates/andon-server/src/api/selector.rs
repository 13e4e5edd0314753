//! `POST /v1/cancel`: cancel all runs that a selector matches at this moment.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use crate::http::json::JsonBody;
use andon_runtime::{Force, Reason, Reply, Run, RunId, RunState, SessionKey};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};
use utoipa::ToSchema;

use super::aim::Aim;
use super::cancel::{Cancelled, cancelled_view, on_record, run_to_completion, stop_found, within};
use super::forms::{ForceForm, IdForm, ReasonForm, cancel_order};
use crate::access::principal::Principal;
use crate::admission::line::{HoldScope, On};
use crate::admission::order::CancelOrder;
use crate::core::Shared;
use crate::http::body::Body;
use crate::http::problem::{Problem, ProblemForm};
use crate::http::slots::MayWait;
use crate::time::after;

/// Which runs to cancel: those that match all of the given fields.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelMany {
    /// Only runs of this app.
    app: Option<String>,
    /// Only runs of this user.
    user: Option<String>,
    /// Only runs in sessions with this name, including queued ones.
    session: Option<String>,
    /// All runs.
    #[serde(default)]
    all: bool,
    /// Only runs of this tenant, which requires the scope `admin`. Without it, the given names are of your own tenant,
    /// and `all` means all runs that you can reach: with `admin`, those of every tenant.
    #[schema(value_type = Option<IdForm>)]
    tenant: Option<String>,
    /// How hard to stop. `graceful` by default.
    #[schema(value_type = Option<ForceForm>)]
    force: Option<Force>,
    /// The grace for running tools in milliseconds, instead of each tool's own.
    #[schema(format = "uint64")]
    grace_ms: Option<u64>,
    /// Why the runs are cancelled: `requested` (default) or `operator`, which requires the scope `admin`.
    #[schema(value_type = Option<ReasonForm>)]
    reason: Option<Reason>,
    /// Free text for the receipts.
    note: Option<String>,
    /// Whether to wait until all of them have settled.
    #[serde(default)]
    wait: bool,
}

/// What was cancelled, and what was not.
#[derive(Debug, Serialize, ToSchema)]
#[non_exhaustive]
pub struct CancelledMany {
    /// How many runs were in progress and are stopping now, or have stopped.
    pub cancelled: usize,
    /// Whether all matching runs have settled. Never true for something unknown: if `cancelled` is 0 and `known` is
    /// false, a name may be wrong.
    pub settled: bool,
    /// What was looked for, and what else there is.
    #[serde(flatten)]
    pub aim: Aim,
    /// What happened to each run, including those whose end was already decided but not yet on record.
    pub runs: Vec<Cancelled>,
}

/// Which runs are meant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    /// The tenant; `None` for every tenant within reach.
    pub(crate) tenant: Option<String>,
    pub(crate) app: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) session: Option<String>,
}

impl Selector {
    /// All runs that a hold is on.
    pub(crate) fn of(HoldScope { tenant, on }: &HoldScope) -> Self {
        let all = Self { tenant: tenant.clone(), ..Self::default() };
        match on {
            On::All => all,
            On::App(app) => Self { app: Some(app.clone()), ..all },
            On::User(user) => Self { user: Some(user.clone()), ..all },
        }
    }

    /// All runs in one session of a tenant.
    pub(crate) fn of_session(tenant: &str, [app, user, session]: [&str; 3]) -> Self {
        let some = |name: &str| Some(name.to_owned());
        Self { tenant: some(tenant), app: some(app), user: some(user), session: some(session) }
    }

    pub(crate) fn selects(&self, principal: &Principal, key: &SessionKey) -> bool {
        let matches = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        principal.reaches(key)
            && matches(&self.tenant, &key.tenant)
            && matches(&self.app, &key.app)
            && matches(&self.user, &key.user)
            && matches(&self.session, key.session.as_str())
    }
}

/// The tenant that is meant: the given one, which requires the scope `admin`; otherwise the principal's own, or every
/// tenant if everything is meant.
pub(crate) fn tenant(principal: &Principal, said: Option<&str>, is_all: bool) -> Result<Option<String>, Problem> {
    match said {
        Some(tenant) => {
            principal.needs(crate::access::scopes::Scope::Admin)?;
            let checked = andon_runtime::SessionId::new(tenant).map_err(|error| Problem::bad_id("tenant", &error))?;
            Ok(Some(checked.to_string()))
        }
        None if is_all => Ok(None),
        None => Ok(Some(principal.tenant.to_string())),
    }
}

/// Cancel all runs that match.
///
/// This cancels the runs that exist when the request arrives, but none that come later; hold the line to keep those
/// out. The answer says what was looked for, what was found, and how many other runs are in progress. An app that does
/// not exist gives a 404.
#[utoipa::path(
    post, path = "/v1/cancel", tag = "stop", request_body = CancelMany,
    responses(
        (status = 202, description = "The runs are stopping, and the requests are on record", body = CancelledMany),
        (status = 200, description = "All runs have settled, or none matched: `settled` says which", body = CancelledMany),
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
        let detail = "say which runs to cancel: set app, user or session, or only all: true";
        return Err(Problem::unprocessable("no-selector", detail));
    }
    let how = cancel_order(&principal, force, reason, note, grace_ms)?;
    let tenant = tenant(&principal, said.as_deref(), all)?;
    let selector = Selector { tenant, app, user, session };
    let cancelled = stop(&core, &principal, &selector, &how, wait && may_wait).await?;
    Ok((cancelled.status(), JsonBody(cancelled)).into_response())
}

impl CancelledMany {
    /// 202 while any of the runs is still stopping.
    pub(crate) fn status(&self) -> StatusCode {
        if all_settled(&self.runs) { StatusCode::OK } else { StatusCode::ACCEPTED }
    }
}

fn all_settled(runs: &[Cancelled]) -> bool {
    runs.iter().all(|run| run.state == RunState::Settled)
}

/// A run, and the reply to its cancel.
type Stopped = (Run, Reply);

/// What a selector found.
#[derive(Default)]
struct Found {
    /// The matching runs.
    stopped: Vec<Stopped>,
    /// The sessions of all other runs in progress within reach.
    others: Vec<SessionKey>,
    /// The error, if some of them could not be cancelled.
    trouble: Option<Problem>,
}

/// Cancels all matching runs, waits until that is on record and, if asked to, until all have settled.
pub(crate) async fn stop(
    core: &Shared,
    principal: &Principal,
    selector: &Selector,
    how: &CancelOrder,
    wait: bool,
) -> Result<CancelledMany, Problem> {
    let Found { stopped, others, trouble } = pull_all(core, principal, selector, how).await;
    let cancelled = stopped.iter().filter(|(_, reply)| reply.is_stopping()).count();
    core.cancels.fetch_add(cancelled as u64, Ordering::Relaxed);
    let done = |problem: Problem| problem.with("pulled", cancelled > 0).with("cancelled", cancelled);
    if let Some(problem) = trouble {
        return Err(done(problem).with("recorded", false));
    }
    let waiting = if wait { core.waiting.try_acquire().ok() } else { None };
    settled(core, &stopped, waiting.is_some()).await.map_err(done)?;
    let aim = Aim::of(core, principal, selector, !stopped.is_empty(), &others).await?;
    let runs: Vec<Cancelled> = stopped.iter().map(|(run, reply)| cancelled_view(run, reply)).collect();
    Ok(CancelledMany { cancelled, settled: aim.known && all_settled(&runs), aim, runs })
}

/// Waits until everything is on record and, if it may, until all runs have settled. Both share one deadline.
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
        // A run that has not settled in time is reported as it is.
        let _ = timeout_at(until, run.outcome()).await;
    }
    Ok(())
}

/// Pulls the cords of all matching runs, without waiting in between. Then cancels the runs that an earlier process left
/// waiting for an agent that is missing. If that fails for some, the others are still cancelled.
async fn pull_all(core: &Shared, principal: &Principal, selector: &Selector, how: &CancelOrder) -> Found {
    // Read before the runs in progress: a run that is resumed meanwhile is in progress before it is removed from this
    // list.
    let mut parked: BTreeSet<RunId> = core.runtime.parked().into_iter().collect();
    let mut found = Found::default();
    let mut selected = Vec::new();
    for run in core.runtime.in_progress() {
        parked.remove(run.id());
        if selector.selects(principal, run.session()) {
            selected.push(run);
        } else if principal.reaches(run.session()) {
            found.others.push(run.session().clone());
        }
    }
    let replies = core.runtime.cancel_together(&selected, &how.cancel(&principal.name));
    found.stopped = selected.into_iter().zip(replies).collect();
    if parked.is_empty() {
        return found;
    }
    let parked = stop_parked(Shared::clone(core), principal.clone(), selector.clone(), how.clone(), parked);
    match run_to_completion(core, parked).await {
        Ok(more) => {
            found.stopped.extend(more.stopped);
            found.others.extend(more.others);
            found.trouble = more.trouble;
        }
        Err(problem) => found.trouble = Some(problem),
    }
    found
}

async fn stop_parked(
    core: Shared,
    principal: Principal,
    selector: Selector,
    how: CancelOrder,
    parked: BTreeSet<RunId>,
) -> Result<Found, Problem> {
    let mut all = Found::default();
    for id in parked {
        let stopping = async {
            let found = core.runtime.find(&id).await?;
            let Some(run) = found.filter(|run| principal.reaches(run.session())) else { return Ok(None) };
            if !selector.selects(&principal, run.session()) {
                all.others.push(run.session().clone());
                return Ok(None);
            }
            stop_found(&core, run, how.cancel(&principal.name)).await.map(Some)
        };
        match stopping.await {
            Ok(one) => all.stopped.extend(one),
            Err(problem) => all.trouble = Some(problem),
        }
    }
    Ok(all)
}
