//! Requests and responses that several routes share.

use std::sync::Arc;

use andon_runtime::core::progress::Phase;
use andon_runtime::core::time::Wall;
use andon_runtime::{
    CallId, Ending, Event, Force, Reason, Run, RunId, RunInfo, RunStanding, RunState, SessionKey, title,
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::access::principal::Principal;
use crate::access::scopes::Scope;
use crate::admission::order::CancelOrder;
use crate::http::problem::Problem;
use crate::options::cost::Cost;

/// A run.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Run)]
pub(crate) struct RunView {
    /// The id of the run.
    #[schema(value_type = String)]
    pub(crate) run_id: RunId,
    /// The name of the app.
    app: Arc<str>,
    /// The user whose run it is.
    user: Arc<str>,
    /// The session of the run.
    session: String,
    /// The tenant of the run, if it is not your own.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<Arc<str>>,
    /// The state of the run.
    #[schema(value_type = StateForm)]
    state: RunState,
    /// What the run is doing. Absent once it has settled; in `GET /v1/runs` also absent for a run that has not settled but is
    /// not in progress in this server, such as one whose agent is missing.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<Phase>,
    /// How hard the run is being stopped. Only present while it is `cancelling`.
    #[schema(value_type = Option<ForceForm>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    force: Option<Force>,
    /// How the run ended. Absent until it has settled.
    #[schema(value_type = Option<OutcomeForm>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<Ending>,
    /// When the run was accepted.
    #[schema(value_type = String, format = DateTime)]
    accepted_at: Wall,
    /// When the last event of a settled run was made, a little before it was on disk.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Wall>,
    /// When the run settled, that is, when its outcome was on disk. Also absent if that time was lost with
    /// its process, or if the run is from before that time was recorded.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    settled_at: Option<Wall>,
    /// Why the journal does not accept the end of the run, if it does not. The run's work is over but it has not
    /// settled: it can be cancelled, and it settles as soon as the journal accepts writes again.
    #[serde(skip_serializing_if = "Option::is_none")]
    stalled: Option<String>,
    /// The beginning of the prompt.
    title: String,
    /// What the model calls of the run cost, as in its receipt. Only in `GET /v1/runs` and `GET /v1/runs/{run_id}`, and only if
    /// the server has prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<Cost>,
    /// The tool calls that need approval.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    approvals: Vec<AwaitedApproval>,
}

/// A tool call that needs approval.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct AwaitedApproval {
    /// The id of the call.
    #[schema(value_type = String)]
    call: CallId,
    /// The tool.
    tool: String,
    /// The arguments, as the model wrote them.
    arguments: String,
    /// The digest of the arguments and, if a hook has given the call another name, of that name. Send it with an approval, so that
    /// it covers exactly this call.
    #[schema(value_type = String)]
    digest: andon_runtime::Digest,
    /// Since when it waits.
    #[schema(value_type = String, format = DateTime)]
    since: Wall,
}

impl RunView {
    pub(crate) fn of_info(info: RunInfo, principal: &Principal) -> Self {
        let SessionKey { tenant, app, user, session, .. } = info.session;
        Self {
            run_id: info.run,
            app,
            user,
            session: session.to_string(),
            tenant: Some(tenant).filter(|tenant| *tenant != principal.tenant),
            state: info.state,
            phase: None,
            force: None,
            outcome: info.ending,
            accepted_at: info.accepted_at,
            ended_at: info.ended_at,
            settled_at: info.settled_at,
            stalled: None,
            title: info.title,
            cost: None,
            approvals: Vec::new(),
        }
    }

    /// A run, from its durable events; `None` until it is on record. The events are folded only if the run may need
    /// approval.
    pub(crate) fn of(run: &Run, principal: &Principal) -> Option<Self> {
        let (first, _) = run.first_and_last()?;
        let Event::RunAccepted { accepted } = &first.event else { return None };
        let SessionKey { tenant, app, user, session, .. } = run.session().clone();
        let ChangingFields { state, phase, force, outcome, ended_at, settled_at, stalled } = ChangingFields::of(run);
        Some(Self {
            run_id: run.id().clone(),
            app,
            user,
            session: session.to_string(),
            tenant: Some(tenant).filter(|tenant| *tenant != principal.tenant),
            state,
            phase,
            force,
            outcome,
            accepted_at: first.at.wall,
            ended_at,
            settled_at,
            stalled,
            title: title(&accepted.input),
            cost: None,
            approvals: awaited(run),
        })
    }

    /// Takes everything that changes while a run is in progress from the run itself, except its approvals.
    pub(crate) fn update(&mut self, run: &Run) {
        ChangingFields {
            state: self.state,
            phase: self.phase,
            force: self.force,
            outcome: self.outcome,
            ended_at: self.ended_at,
            settled_at: self.settled_at,
            stalled: self.stalled,
        } = ChangingFields::of(run);
    }
}

/// The fields of a [`RunView`] that change while the run is in progress, except its approvals.
struct ChangingFields {
    state: RunState,
    phase: Option<Phase>,
    force: Option<Force>,
    outcome: Option<Ending>,
    ended_at: Option<Wall>,
    settled_at: Option<Wall>,
    stalled: Option<String>,
}

impl ChangingFields {
    /// The fields as they are now. The state, the phase and the force are of one instant.
    fn of(run: &Run) -> Self {
        // This is read first: once the state is settled, the outcome and the last event exist.
        let standing = run.standing();
        let is_settled = standing.state == RunState::Settled;
        let outcome = run.try_outcome().filter(|_| is_settled);
        let last = run.first_and_last().map(|(_, last)| last).filter(|_| is_settled);
        let end = last.filter(|last| matches!(last.event, Event::RunSettled { .. }));
        Self {
            state: standing.state,
            phase: standing.phase,
            force: force_while_cancelling(standing),
            ended_at: end.map(|end| end.at.wall),
            settled_at: outcome.as_ref().and_then(|outcome| outcome.receipt.settled_at),
            outcome: outcome.map(|outcome| (*outcome.ending).clone()),
            stalled: run.stalled().map(|why| why.to_string()),
        }
    }
}

/// How hard a run is being stopped; `None` unless it is cancelling.
pub(crate) fn force_while_cancelling(standing: RunStanding) -> Option<Force> {
    standing.force.filter(|_| standing.state == RunState::Cancelling)
}

/// The calls that need approval.
fn awaited(run: &Run) -> Vec<AwaitedApproval> {
    let told = run.approvals().into_iter().map(|call| AwaitedApproval {
        call: call.call().clone(),
        tool: call.tool().to_owned(),
        arguments: call.arguments().to_owned(),
        digest: call.digest(),
        since: call.since().wall,
    });
    told.collect()
}

/// A name that can be part of a path: no slashes and no control characters.
#[derive(Debug, ToSchema)]
#[schema(as = Id, value_type = String, min_length = 1, max_length = 256, pattern = r"^[^/\x00-\x1f\x7f-\x9f]+$")]
#[expect(dead_code, reason = "a description")]
pub(crate) struct IdForm(String);

/// The cancel reasons that a client may give.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Reason)]
#[expect(dead_code, reason = "a description")]
pub(crate) enum ReasonForm {
    /// A client asked for it.
    Requested,
    /// The operator of the server asked for it. Requires the scope `admin`.
    Operator,
}

/// The state of a run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = State)]
#[expect(dead_code, reason = "a description")]
pub(crate) enum StateForm {
    /// It waits for another run in its session.
    Queued,
    /// It is working.
    Running,
    /// It waits for a person's approval.
    Waiting,
    /// It was cancelled and is stopping.
    Cancelling,
    /// It is over, and its outcome is on disk.
    Settled,
}

/// How a run ended.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[schema(as = Outcome)]
#[expect(dead_code, reason = "a description")]
pub(crate) enum OutcomeForm {
    /// The model finished.
    Completed {
        /// Why the model stopped writing.
        stop: String,
    },
    /// The run was cancelled.
    Cancelled {
        /// Why it was cancelled.
        reason: String,
    },
    /// Something went wrong.
    Failed {
        /// The kind of error.
        error: String,
        /// What happened, and what to do.
        message: String,
    },
    /// The process of the run died.
    Lost,
}

/// How hard to stop.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Force)]
#[expect(dead_code, reason = "a description")]
pub(crate) enum ForceForm {
    /// The current answer and its tools finish; the next model call is not made.
    AfterTurn,
    /// The model's answer is cut at once; running tools are told, and get their grace.
    Graceful,
    /// Like `graceful`, but without any grace.
    Now,
}

/// The maximum length of a note. Notes are for people, and longer texts belong elsewhere.
pub const MAX_NOTE: usize = 2_000;

/// Validates how a client wants to cancel.
pub(crate) fn cancel_order(
    principal: &Principal,
    force: Option<Force>,
    reason: Option<Reason>,
    note: Option<String>,
    grace_ms: Option<u64>,
) -> Result<CancelOrder, Problem> {
    let reason = reason.unwrap_or(Reason::Requested);
    if !matches!(reason, Reason::Requested | Reason::Operator) {
        let detail = format!("reason: clients cannot set {}: leave it out, and use note", reason.as_str());
        return Err(Problem::unprocessable("bad-reason", detail));
    }
    if reason == Reason::Operator {
        principal.needs(Scope::Admin)?;
    }
    if note.as_ref().is_some_and(|note| note.len() > MAX_NOTE) {
        let detail = format!("note: it is longer than {MAX_NOTE} bytes: shorten it");
        return Err(Problem::unprocessable("note-too-long", detail));
    }
    Ok(CancelOrder { force: force.unwrap_or(Force::Graceful), reason, note: note.map(Into::into), grace_ms })
}

/// The account of a run's end. More fields may be added.
// Only for the OpenAPI description.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Receipt)]
pub(crate) struct ReceiptForm {
    /// The id of the run.
    run: String,
    /// The session of the run.
    #[schema(value_type = Object)]
    session: Value,
    /// How the run ended; `null` until it has settled.
    #[schema(value_type = Option<OutcomeForm>)]
    outcome: Option<OutcomeForm>,
    /// When the run was accepted.
    #[schema(format = DateTime)]
    accepted_at: String,
    /// When the cancel was requested.
    #[schema(format = DateTime)]
    requested_at: Option<String>,
    /// When the driver received the cancel.
    #[schema(format = DateTime)]
    delivered_at: Option<String>,
    /// When the run stopped accepting and starting anything.
    #[schema(format = DateTime)]
    quiet_at: Option<String>,
    /// When all work had ended and the outcome was on disk; `null` if that time was lost in a crash, or if the run is
    /// from before that time was recorded. `on_disk` says whether the run has settled.
    #[schema(format = DateTime)]
    settled_at: Option<String>,
    /// Whether the outcome is on disk.
    on_disk: bool,
    /// How long the stop took, from the request to each of these times, in microseconds. Unknown times are `null`.
    #[schema(value_type = Object)]
    took: Value,
    /// Why the run was cancelled.
    reason: Option<String>,
    /// Who cancelled it.
    by: Option<String>,
    /// The note of the cancel request.
    note: Option<String>,
    /// The highest force that was requested.
    force: Option<ForceForm>,
    /// What the run was doing when the cancel reached it.
    cut_in: Option<String>,
    /// What happened to each tool call.
    #[schema(value_type = Vec<Object>)]
    calls: Vec<Value>,
    /// Each model call: what it used, the model that was asked for (`model`) and, where the provider said so, the exact
    /// model that answered (`answered_by`) and the provider's id for the request (`request_id`).
    #[schema(value_type = Vec<Object>)]
    model_calls: Vec<Value>,
    /// The tokens of all model calls, each figure with its provenance and bounds.
    #[schema(value_type = Object)]
    usage: Value,
    /// What the model calls cost, if the server has prices for them. Each of `model_calls` has its own cost.
    cost: Option<Cost>,
    /// The time to the first piece of an answer, in microseconds.
    first_piece_us: Option<u64>,
    /// The names of work that outlived the run and may still be going on.
    leaked: Vec<String>,
    /// How many addenda are included.
    revision: u32,
}
