//! `POST /v1/runs/{run_id}/approvals/{call}`: a person approves or denies a tool call.

use crate::http::json::JsonBody;
use andon_runtime::core::event::Approval;
use andon_runtime::{CallId, DecideError, Digest, Event, FeedItem};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use utoipa::ToSchema;

use super::forms::IdForm;
use super::runs;
use crate::access::principal::Principal;
use crate::core::Shared;
use crate::http::body::Body;
use crate::http::path::PathParams;
use crate::http::problem::{Problem, ProblemForm};

/// A decision about a tool call that needs approval.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decide {
    /// Whether to approve or deny the call.
    decision: Decision,
    /// The digest of the call that the person saw, as reported by the feed and the run. The approval then covers exactly this
    /// tool with these arguments.
    #[schema(value_type = Option<String>)]
    digest: Option<Digest>,
    /// Why. It is on record; if the call is denied, the model sees it.
    why: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Decision {
    /// The call may run.
    Approve,
    /// The call may not run.
    Deny,
}

/// A decision that is on record.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Decided {
    /// The id of the run.
    run_id: String,
    /// The id of the call.
    call: String,
    /// What was decided.
    decision: Decision,
}

/// Approve or deny a tool call that needs approval.
#[utoipa::path(
    post, path = "/v1/runs/{run_id}/approvals/{call}", tag = "runs", request_body = Decide,
    params(("run_id" = inline(IdForm), Path, description = "The id of the run"), ("call" = inline(IdForm), Path, description = "The id of the call")),
    responses(
        (status = 200, description = "The decision is on record", body = Decided),
        (status = 409, description = "No call is waiting for this decision", body = ProblemForm, content_type = "application/problem+json"),
        (status = "4XX", body = ProblemForm, content_type = "application/problem+json"),
        (status = 503, description = "The decision is not on record", body = ProblemForm, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn decide(
    State(core): State<Shared>,
    principal: Principal,
    PathParams((run, call)): PathParams<(String, String)>,
    Body(request): Body<Decide>,
) -> Result<JsonBody<Decided>, Problem> {
    let call = CallId::new(call).map_err(|error| Problem::bad_id("call", &error))?;
    let run = runs::find(&core, &principal, &run).await?;
    let seen = run.feed_from(andon_runtime::Cursor { seq: run.seq(), byte: 0 });
    let undecided = run.decide(&call);
    let decision = match (request.decision, request.digest) {
        (Decision::Deny, _) => undecided.deny(),
        (Decision::Approve, Some(digest)) => undecided.approve_exactly(digest),
        (Decision::Approve, None) => undecided.approve(),
    };
    let decision = decision.by(&*principal.name);
    match request.why {
        Some(why) => decision.note(why),
        None => decision,
    }
    .send()?;
    let verdict = timeout(core.options.record_patience, on_record(seen, &call)).await.ok().flatten();
    match (request.decision, verdict.ok_or_else(not_recorded)?) {
        (Decision::Approve, Approval::Approved { .. }) | (Decision::Deny, Approval::Denied { .. }) => {
            Ok(JsonBody(Decided { run_id: run.id().to_string(), call: call.to_string(), decision: request.decision }))
        }
        // The driver ended before it received the decision; whatever ended the run also closed the call.
        _ => Err(DecideError::TooLate.into()),
    }
}

/// The decision on the call, once it is among the run's events; `None` if it never will be.
async fn on_record(mut feed: andon_runtime::Feed, call: &CallId) -> Option<Approval> {
    while let Some(item) = feed.next().await {
        if let FeedItem::Fact(record) = item
            && let Event::ApprovalResolved { call: resolved, verdict } = &record.event
            && resolved == call
        {
            return Some((**verdict).clone());
        }
    }
    None
}

fn not_recorded() -> Problem {
    let detail = "the decision was not written to disk in time: check the run to see whether the call still needs one";
    Problem::unavailable("not-recorded", detail).with("recorded", false)
}
