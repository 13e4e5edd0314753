//! `POST /v1/runs/{run_id}/approvals/{call}`: a person's yes or no.

use crate::json::Json;
use andon::{CallId, Digest, Event, FeedItem, Run};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::cancel::within;
use super::forms::IdForm;
use super::runs;
use crate::Shared;
use crate::body::Body;
use crate::path::Path;
use crate::principal::Principal;
use crate::problem::{Problem, ProblemForm};

/// A decision about a call that waits for one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decide {
    /// Yes or no.
    decision: Decision,
    /// The digest of the arguments that were seen, as the feed and the run tell it: a yes is then to exactly these.
    #[schema(value_type = Option<String>)]
    digest: Option<Digest>,
    /// Why not, for the model.
    why: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Decision {
    /// The call may be made.
    Approve,
    /// It may not.
    Deny,
}

/// A decision, on record.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Decided {
    /// The run.
    run_id: String,
    /// The call.
    call: String,
    /// What was decided.
    decision: Decision,
}

/// Approve or deny a tool call that waits for a person.
#[utoipa::path(
    post, path = "/v1/runs/{run_id}/approvals/{call}", tag = "runs", request_body = Decide,
    params(("run_id" = inline(IdForm), Path, description = "The run"), ("call" = inline(IdForm), Path, description = "The call")),
    responses(
        (status = 200, description = "The decision is on record", body = Decided),
        (status = 409, description = "Nothing waits for this decision", body = ProblemForm, content_type = "application/problem+json"),
        (status = "4XX", body = ProblemForm, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn decide(
    State(core): State<Shared>,
    principal: Principal,
    Path((run, call)): Path<(String, String)>,
    Body(request): Body<Decide>,
) -> Result<Json<Decided>, Problem> {
    let call = CallId::new(call).map_err(|error| Problem::bad_id("call", &error))?;
    let run = runs::find(&core, &principal, &run).await?;
    let by = Some(&*principal.name);
    let seen = run.feed_from(andon::Cursor { seq: run.seq(), byte: 0 });
    match (request.decision, request.digest) {
        (Decision::Deny, _) => run.deny(&call, by, request.why.as_deref())?,
        (Decision::Approve, Some(digest)) => run.approve_exactly(&call, digest, by)?,
        (Decision::Approve, None) => run.approve(&call, by)?,
    }
    within(core.options.record_patience, on_record(seen, &call)).await?;
    Ok(Json(decided(&run, &call, request.decision)))
}

/// Waits until the decision is among the run's events.
async fn on_record(mut feed: andon::Feed, call: &CallId) -> Result<(), andon::JournalError> {
    while let Some(item) = feed.next().await {
        if let FeedItem::Fact(record) = item
            && matches!(&record.event, Event::ApprovalResolved { call: resolved, .. } if resolved == call)
        {
            break;
        }
    }
    Ok(())
}

fn decided(run: &Run, call: &CallId, decision: Decision) -> Decided {
    Decided { run_id: run.id().to_string(), call: call.to_string(), decision }
}
