//! What is sent and answered: the forms that several calls share.

use std::sync::Arc;

use andon_runtime::core::progress::Phase;
use andon_runtime::core::time::Wall;
use andon_runtime::{CallId, Ending, Event, Force, Reason, Run, RunId, RunInfo, SessionKey, State, title};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::access::principal::Principal;
use crate::access::scopes::Scope;
use crate::admission::order::CancelOrder;
use crate::http::problem::Problem;
use crate::options::prices::CostForm;

/// A run, as it is listed.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Run)]
pub(crate) struct RunView {
    /// Its id.
    #[schema(value_type = String)]
    pub(crate) run_id: RunId,
    /// The app.
    #[schema(value_type = String)]
    app: Arc<str>,
    /// Whose it is.
    #[schema(value_type = String)]
    user: Arc<str>,
    /// Its conversation.
    session: String,
    /// Where it stands.
    #[schema(value_type = StateForm)]
    pub(crate) state: State,
    /// What it is doing; nothing once it has settled.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<Phase>,
    /// How it ended; nothing while it has not.
    #[schema(value_type = Option<OutcomeForm>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<Ending>,
    /// When it was accepted.
    #[schema(value_type = String, format = DateTime)]
    accepted_at: Wall,
    /// When its last event was made, once it has settled: a little before that was on disk.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Wall>,
    /// When it settled: its outcome was on disk. Not there, too, if that instant was lost with its process or is older than its keeping.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    settled_at: Option<Wall>,
    /// Why the journal does not take its end, if it does not. Its work is over and it has not settled: it can be cancelled, and
    /// settles when the journal takes writes again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stalled: Option<String>,
    /// The beginning of what was asked.
    title: String,
    /// Calls that wait for a person's yes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    approvals: Vec<AwaitedApproval>,
}

/// A call that waits for a person's yes.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct AwaitedApproval {
    /// The call.
    #[schema(value_type = String)]
    call: CallId,
    /// Its tool.
    tool: String,
    /// Its arguments, as the model wrote them.
    arguments: String,
    /// The digest of the arguments, to say yes to exactly these.
    #[schema(value_type = String)]
    digest: andon_runtime::Digest,
}

impl RunView {
    pub(crate) fn of_info(info: RunInfo) -> Self {
        let SessionKey { app, user, session, .. } = info.session;
        Self {
            run_id: info.run,
            app,
            user,
            session: session.to_string(),
            state: info.state,
            phase: None,
            outcome: info.ending,
            accepted_at: info.accepted_at,
            ended_at: info.ended_at,
            settled_at: info.settled_at,
            stalled: None,
            title: info.title,
            approvals: Vec::new(),
        }
    }

    /// A run as its durable events tell it; nothing before it is on record. They are not folded, unless a person is asked.
    pub(crate) fn of(run: &Run) -> Option<Self> {
        // First: once it says that the run has settled, the outcome and the last event are there.
        let (state, phase) = run.state_and_phase();
        let (first, last) = run.first_and_last()?;
        let Event::RunAccepted { accepted } = &first.event else { return None };
        let SessionKey { app, user, session, .. } = run.session().clone();
        let outcome = run.try_outcome();
        let is_end = matches!(last.event, Event::RunSettled { .. });
        let settled_at = outcome.as_ref().and_then(|outcome| outcome.receipt.settled_at);
        Some(Self {
            run_id: run.id().clone(),
            app,
            user,
            session: session.to_string(),
            state: if outcome.is_some() { State::Settled } else { state },
            phase: if outcome.is_some() { None } else { phase },
            outcome: outcome.map(|outcome| (*outcome.ending).clone()),
            accepted_at: first.at.wall,
            ended_at: is_end.then_some(last.at.wall),
            settled_at,
            stalled: run.stalled().map(|why| why.to_string()),
            title: title(&accepted.input),
            approvals: awaited(run),
        })
    }
}

/// The calls that wait for a person.
fn awaited(run: &Run) -> Vec<AwaitedApproval> {
    use andon_runtime::core::progress::CallState;
    let progress = if run.may_await_approval() { run.progress() } else { None };
    let calls = progress.iter().flat_map(|progress| progress.calls());
    let waiting = calls.filter(|open| open.state == CallState::AwaitingApproval);
    let told = waiting.map(|open| AwaitedApproval {
        call: open.call.id.clone(),
        tool: open.call.name.clone(),
        arguments: open.call.arguments.clone(),
        digest: open.call.digest(),
    });
    told.collect()
}

/// A name that is part of a path: no slash, nothing that cannot be printed. Only for the description of the API.
#[derive(Debug, ToSchema)]
#[schema(as = Id, value_type = String, min_length = 1, max_length = 256, pattern = r"^[^/\x00-\x1f\x7f-\x9f]+$")]
#[expect(dead_code, reason = "a description")]
pub(crate) struct IdForm(String);

/// Why something is stopped, as far as that is a client's to say. Only for the description of the API.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Reason)]
#[expect(dead_code, reason = "a description")]
pub(crate) enum ReasonForm {
    /// Somebody asked for it.
    Requested,
    /// Who runs the server asked for it.
    Operator,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = State)]
pub(crate) enum StateForm {
    /// It waits for its session.
    Queued,
    /// It is at work.
    Running,
    /// It waits for a person.
    Waiting,
    /// It was told to stop.
    Cancelling,
    /// It is over.
    Settled,
}

impl From<StateForm> for State {
    fn from(form: StateForm) -> Self {
        match form {
            StateForm::Queued => Self::Queued,
            StateForm::Running => Self::Running,
            StateForm::Waiting => Self::Waiting,
            StateForm::Cancelling => Self::Cancelling,
            StateForm::Settled => Self::Settled,
        }
    }
}

/// How a run ended. Only for the description of the API.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[schema(as = Outcome)]
#[expect(dead_code, reason = "a description")]
pub(crate) enum OutcomeForm {
    /// The model came to its end.
    Completed {
        /// Why it stopped writing.
        stop: String,
    },
    /// The cord was pulled.
    Cancelled {
        /// Why.
        reason: String,
    },
    /// Something went wrong.
    Failed {
        /// The kind of it.
        error: String,
        /// What happened, and what to do.
        message: String,
    },
    /// Its process died.
    Lost,
}

/// How hard to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Force)]
pub(crate) enum ForceForm {
    /// The answer in progress and its tools finish; the next model call is not made.
    AfterTurn,
    /// The model stream is cut at once; running tools are told and get their grace.
    #[default]
    Graceful,
    /// As graceful, with no grace.
    Now,
}

impl From<ForceForm> for Force {
    fn from(form: ForceForm) -> Self {
        match form {
            ForceForm::AfterTurn => Self::AfterTurn,
            ForceForm::Graceful => Self::Graceful,
            ForceForm::Now => Self::Now,
        }
    }
}

/// Notes are for people: longer ones belong elsewhere.
pub const MAX_NOTE: usize = 2_000;

/// What may be said of how to cancel.
pub(crate) fn how(
    principal: &Principal,
    force: Option<ForceForm>,
    reason: Option<Reason>,
    note: Option<String>,
    grace_ms: Option<u64>,
) -> Result<CancelOrder, Problem> {
    let reason = reason.unwrap_or(Reason::Requested);
    if !matches!(reason, Reason::Requested | Reason::Operator) {
        let detail = format!("reason: {} is not a client's to say: leave it out, and use note", reason.as_str());
        return Err(Problem::unprocessable("bad-reason", detail));
    }
    if reason == Reason::Operator {
        principal.needs(Scope::Admin)?;
    }
    if note.as_ref().is_some_and(|note| note.len() > MAX_NOTE) {
        return Err(Problem::unprocessable("note-too-long", format!("note: it has more than {MAX_NOTE} bytes")));
    }
    Ok(CancelOrder { force: force.unwrap_or_default().into(), reason, note: note.map(Into::into), grace_ms })
}

/// The account of a run's end. Only for the description of the API: more fields may come.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Receipt)]
pub(crate) struct ReceiptForm {
    /// The run.
    run: String,
    /// Its session.
    #[schema(value_type = Object)]
    session: Value,
    /// How it ended; nothing while it has not.
    #[schema(value_type = Option<OutcomeForm>)]
    outcome: Option<OutcomeForm>,
    /// When it began.
    #[schema(format = DateTime)]
    accepted_at: String,
    /// When the stop was asked for.
    #[schema(format = DateTime)]
    requested_at: Option<String>,
    /// When the driver saw it.
    #[schema(format = DateTime)]
    delivered_at: Option<String>,
    /// When nothing was accepted or started any more.
    #[schema(format = DateTime)]
    quiet_at: Option<String>,
    /// When all was at rest and the outcome on disk. Nothing if that instant was lost in a crash, or if the run is older than
    /// its keeping: `on_disk` says whether the run has settled.
    #[schema(format = DateTime)]
    settled_at: Option<String>,
    /// Whether the outcome is on disk.
    on_disk: bool,
    /// How long the stop took from the request to each instant, in microseconds; nothing where that is not known.
    #[schema(value_type = Object)]
    took: Value,
    /// Why it was stopped.
    reason: Option<String>,
    /// Who asked.
    by: Option<String>,
    /// Their note.
    note: Option<String>,
    /// How hard, in the end.
    force: Option<ForceForm>,
    /// What the run was doing when the stop reached it.
    cut_in: Option<String>,
    /// What became of each tool call.
    #[schema(value_type = Vec<Object>)]
    calls: Vec<Value>,
    /// What each model call used.
    #[schema(value_type = Vec<Object>)]
    model_calls: Vec<Value>,
    /// The tokens of all model calls, each figure with its provenance and bounds.
    #[schema(value_type = Object)]
    usage: Value,
    /// What the model calls cost, by what is billed, if the server has prices for them. Each of `model_calls` has its own.
    #[schema(value_type = Option<CostForm>)]
    cost: Option<CostForm>,
    /// Microseconds to the first piece.
    first_piece_us: Option<u64>,
    /// What may still be going on after the run, by name.
    leaked: Vec<String>,
    /// How many addenda are folded in.
    revision: u32,
}
