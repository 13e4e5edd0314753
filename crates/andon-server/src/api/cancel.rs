//! `POST /v1/runs/{run_id}/cancel`: pull the cord of one run, or stop one of its calls.
//!
//! The cord is pulled first, without waiting for anything. The answer then waits for the disk and, if asked to, for the
//! run to settle.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::http::json::JsonBody;
use andon_runtime::core::time::Wall;
use andon_runtime::{
    CallId, Cancel, Ending, Event, Force, JournalError, Reason, Reply, ReplyKind, Run, RunId, RunState,
};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};
use utoipa::ToSchema;

use super::forms::{
    ForceForm, IdForm, OutcomeForm, ReasonForm, ReceiptForm, StateForm, cancel_order, force_while_cancelling,
};
use super::runs;
use crate::access::principal::{Principal, Whose};
use crate::admission::Remembered;
use crate::admission::order::CancelOrder;
use crate::admission::tombstones::Tombstone;
use crate::core::Shared;
use crate::http::body::OptionalBody;
use crate::http::path::PathParams;
use crate::http::problem::{Problem, ProblemForm};
use crate::http::slots::MayWait;
use crate::options::cost::{Priced, priced};
use crate::time::A_YEAR;

/// How to cancel a run.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelRun {
    /// How hard to stop. `graceful` by default.
    #[schema(value_type = Option<ForceForm>)]
    force: Option<Force>,
    /// The grace for running tools in milliseconds, instead of each tool's own.
    #[schema(format = "uint64")]
    grace_ms: Option<u64>,
    /// Why the run is cancelled: `requested` (default) or `operator`, which requires the scope `admin`.
    #[schema(value_type = Option<ReasonForm>)]
    reason: Option<Reason>,
    /// Free text for the receipt.
    note: Option<String>,
    /// Whether to wait until the run has settled and answer with its receipt.
    #[serde(default)]
    wait: bool,
}

/// How to cancel one tool call.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelCall {
    /// How hard to stop. `graceful` by default.
    #[schema(value_type = Option<ForceForm>)]
    force: Option<Force>,
    /// The grace in milliseconds, instead of the tool's own.
    #[schema(format = "uint64")]
    grace_ms: Option<u64>,
    /// Why the call is cancelled: `requested` (default) or `operator`, which requires the scope `admin`.
    #[schema(value_type = Option<ReasonForm>)]
    reason: Option<Reason>,
    /// Free text for the record.
    note: Option<String>,
}

/// What a cancel did.
#[derive(Debug, Serialize, ToSchema)]
pub struct Cancelled {
    /// The id of the run.
    #[schema(value_type = String)]
    pub run_id: RunId,
    /// What the cancel did: `accepted`, `hardened`, `already_cancelling`, `too_late` or `not_running`.
    pub reply: &'static str,
    /// The state of the run now.
    #[schema(value_type = StateForm)]
    pub state: RunState,
    /// How hard the run is being stopped. Only present while it is `cancelling`.
    #[schema(value_type = Option<ForceForm>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<Force>,
    /// How the run ended, if it has settled.
    #[schema(value_type = Option<OutcomeForm>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Ending>,
    /// The call, if only one was cancelled.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<CallId>,
    /// The names of work that outlived the run and may still be going on. Only for a run that has settled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leaked: Vec<String>,
    /// The receipt of the run, if you asked to wait for it and the run has settled.
    #[schema(value_type = Option<ReceiptForm>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) receipt: Option<Priced>,
}

/// Cancel a run.
///
/// Idempotent: a repeated request changes nothing, unless it is harder. It never creates a run, but a cancel for an id
/// that has not arrived yet is remembered for a while.
#[utoipa::path(
    post, path = "/v1/runs/{run_id}/cancel", tag = "stop", request_body = Option<CancelRun>,
    params(("run_id" = inline(IdForm), Path, description = "The id of the run")),
    responses(
        (status = 202, description = "The run is stopping, and the request is on record", body = Cancelled),
        (status = 200, description = "The run has settled", body = Cancelled),
        (status = "4XX", body = ProblemForm, content_type = "application/problem+json"),
        (status = 503, description = "The cord was pulled, but the request is not on record yet", body = ProblemForm, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn cancel_run(
    State(core): State<Shared>,
    principal: Principal,
    MayWait(may_wait): MayWait,
    PathParams(run): PathParams<String>,
    OptionalBody(request): OptionalBody<CancelRun>,
) -> Result<Response, Problem> {
    let id = runs::id(&run)?;
    let CancelRun { force, grace_ms, reason, note, wait } = request;
    let how = cancel_order(&principal, force, reason, note, grace_ms)?;
    let (run, reply) = stop(&core, &principal, &id, &how).await?;
    Ok(answer(&core, run, reply, wait && may_wait).await)
}

/// Pulls the cord of a run, and waits until that is on record.
pub(super) async fn stop(
    core: &Shared,
    principal: &Principal,
    id: &RunId,
    how: &CancelOrder,
) -> Result<(Run, Reply), Problem> {
    core.cancels.fetch_add(1, Ordering::Relaxed);
    let (run, reply) = match runs::reached_in_progress(core, principal, id) {
        Some(run) => {
            let reply = run.cancel(how.cancel(&principal.name));
            (run, reply)
        }
        None => {
            if (core.auth.is_on() || principal.whose() != Whose::All)
                && !core.auth.cancels.take(principal.who(), Instant::now())
            {
                let detail = "too many cancels of runs that are not in progress: try again in a moment";
                return Err(Problem::too_many("too-many-cancels", detail));
            }
            // It may exist only in the journal.
            let (shared, principal, id, how) = (Shared::clone(core), principal.clone(), id.clone(), how.clone());
            let further = async move {
                match pull(&shared, &principal, &id, &how).await? {
                    Some(found) => Ok(found),
                    None => remember(&shared, &principal, &id, &how).await,
                }
            };
            run_to_completion(core, further).await?
        }
    };
    recorded(core, &run, &reply).await?;
    Ok((run, reply))
}

/// Runs this to completion, even if the client disconnects.
pub(super) async fn run_to_completion<T: Send + 'static>(
    core: &Shared,
    work: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Problem> {
    let broken = |_| Err(Problem::unavailable("journal", "it is not known how far the cancel got: send it again"));
    core.tasks.spawn(work).await.unwrap_or_else(broken)
}

/// Cancel one tool call. The run goes on, and its model is told about the cancel.
#[utoipa::path(
    post, path = "/v1/runs/{run_id}/calls/{call}/cancel", tag = "stop", request_body = Option<CancelCall>,
    params(("run_id" = inline(IdForm), Path, description = "The id of the run"), ("call" = inline(IdForm), Path, description = "The id of the call")),
    responses(
        (status = 202, description = "The call is stopping, and the request is on record", body = Cancelled),
        (status = 200, description = "The call or its run has already ended", body = Cancelled),
        (status = "4XX", body = ProblemForm, content_type = "application/problem+json"),
        (status = 503, description = "The call is stopping, but the request is not on record yet", body = ProblemForm, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn cancel_call(
    State(core): State<Shared>,
    principal: Principal,
    PathParams((run, call)): PathParams<(String, String)>,
    OptionalBody(request): OptionalBody<CancelCall>,
) -> Result<Response, Problem> {
    let CancelCall { force, grace_ms, reason, note } = request;
    let how = cancel_order(&principal, force, reason, note, grace_ms)?;
    let call = CallId::new(call).map_err(|error| Problem::bad_id("call", &error))?;
    let run = runs::find(&core, &principal, &run).await?;
    core.cancels.fetch_add(1, Ordering::Relaxed);
    let reply = run.cancel_call(&call, how.cancel(&principal.name));
    if *reply.kind() == ReplyKind::NotRunning && !has_call(&run, &call) {
        return Err(Problem::not_found("no-such-call", "the run has no such call: its feed shows the calls it has"));
    }
    recorded(&core, &run, &reply).await?;
    let status = if reply.is_stopping() { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, JsonBody(Cancelled { call: Some(call), ..cancelled_view(&run, &reply) })).into_response())
}

/// Whether the run's model has asked for this call. The run's events show what happened to it only a little later.
fn has_call(run: &Run, call: &CallId) -> bool {
    run.records().iter().any(|record| match &record.event {
        Event::Message { message } => message.calls().any(|asked| asked.id == *call),
        _ => false,
    })
}

/// Pulls the cord of a run that the principal may cancel; `None` if there is no such run.
async fn pull(
    core: &Shared,
    principal: &Principal,
    id: &RunId,
    how: &CancelOrder,
) -> Result<Option<(Run, Reply)>, Problem> {
    let Some(run) = runs::reached(core, principal, id).await? else { return Ok(None) };
    stop_found(core, run, how.cancel(&principal.name)).await.map(Some)
}

/// Cancels a run that may have no driver.
pub(super) async fn stop_found(core: &Shared, run: Run, cancel: Cancel) -> Result<(Run, Reply), Problem> {
    let reply = core.runtime.cancel(run.id(), cancel).await?;
    // If nobody was driving the run, the cancel itself has settled it, so the answer needs its state as of now.
    let found = core.runtime.find(run.id()).await;
    let found = found.map_err(|error| Problem::from(error).with("pulled", reply.is_stopping()))?;
    Ok((found.unwrap_or(run), reply))
}

/// Remembers a cancel for a run that was not found. The run may have arrived just now.
async fn remember(
    core: &Shared,
    principal: &Principal,
    id: &RunId,
    how: &CancelOrder,
) -> Result<(Run, Reply), Problem> {
    let options = &core.options;
    // The run that is meant is one that this principal is going to start.
    let id = &principal.chosen(id).map_err(|error| Problem::bad_id("run_id", &error))?;
    let micros = u64::try_from(options.remember.min(A_YEAR).as_micros()).unwrap_or(u64::MAX);
    let until = Wall(core.runtime.now().wall.0.saturating_add(micros));
    let stone = Tombstone::new(principal, id, how.clone(), until);
    let append = match core.admission.remember(options, principal, stone)? {
        Remembered::Arrived(run) => {
            let reply = run.cancel(how.cancel(&principal.name));
            return Ok((run, reply));
        }
        Remembered::Waiting(append) => append,
    };
    let millis = u64::try_from(options.remember.min(A_YEAR).as_millis()).unwrap_or(u64::MAX);
    let remembered = |problem: Problem| problem.with("remembered_for_ms", millis);
    on_record(core, append).await.map_err(|problem| remembered(problem).with("pulled", false))?;
    // The run may have arrived and settled between the lookup and the tombstone.
    if let Some(found) = pull(core, principal, id, how).await.map_err(remembered)? {
        core.admission.forget_when_on_record(principal, id);
        return Ok(found);
    }
    Err(remembered(runs::unknown()).with("reply", ReplyKind::NotFound.as_str()))
}

/// Waits until the effect of a reply is durable.
async fn recorded(core: &Shared, run: &Run, reply: &Reply) -> Result<(), Problem> {
    let recorded = on_record(core, reply.recorded()).await;
    recorded.map_err(|problem| problem.with("pulled", reply.is_stopping()).with("run_id", run.id().as_str()))
}

/// Waits for the disk. Only a limited number of requests wait at the same time; any further one is answered at once, by
/// whether its cancel is on record yet. The cancel takes effect either way.
pub(super) async fn on_record(
    core: &Shared,
    recorded: impl Future<Output = Result<(), JournalError>>,
) -> Result<(), Problem> {
    let permit = core.cancelling.try_acquire();
    let patience = if permit.is_ok() { core.options.record_patience } else { Duration::ZERO };
    within(patience, recorded).await
}

/// Waits for the disk, but not for long.
pub(crate) async fn within(
    patience: Duration,
    recorded: impl Future<Output = Result<(), JournalError>>,
) -> Result<(), Problem> {
    if let Ok(Ok(())) = timeout(patience, recorded).await {
        return Ok(());
    }
    let detail =
        "it took effect, but was not written to disk in time, so a crash now could undo it: it is safe to try again";
    Err(Problem::unavailable("not-recorded", detail).with("recorded", false))
}

/// What a cancel did, with the receipt if the client asked for it and the run settles in time.
async fn answer(core: &Shared, run: Run, reply: Reply, wait: bool) -> Response {
    if wait
        && reply.is_stopping()
        && let Ok(_permit) = core.waiting.try_acquire()
    {
        // The answer below gives the state, whether or not the run settled in time.
        let _ = timeout(core.options.wait, run.outcome()).await;
    }
    let mut told = cancelled_view(&run, &reply);
    if wait && told.state == RunState::Settled {
        told.receipt = run.receipt().map(|receipt| priced(core.options.prices.as_ref(), receipt));
    }
    let is_over = !reply.is_stopping() || (wait && told.state == RunState::Settled);
    let status = if is_over { StatusCode::OK } else { StatusCode::ACCEPTED };
    (status, JsonBody(told)).into_response()
}

/// What a cancel did, and the state of the run now.
pub(crate) fn cancelled_view(run: &Run, reply: &Reply) -> Cancelled {
    // This is read first: once the state is settled, the outcome exists.
    let standing = run.standing();
    let outcome = run.try_outcome().filter(|_| standing.state == RunState::Settled);
    let leaked = outcome.as_ref().map(|outcome| outcome.receipt.leaked.clone()).unwrap_or_default();
    let outcome = outcome.map(|outcome| Arc::clone(&outcome.ending));
    Cancelled {
        run_id: run.id().clone(),
        reply: reply.kind().as_str(),
        state: standing.state,
        force: force_while_cancelling(standing),
        outcome: outcome.map(|ending| (*ending).clone()),
        call: None,
        leaked,
        receipt: None,
    }
}
