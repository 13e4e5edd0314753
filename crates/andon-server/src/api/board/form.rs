//! The messages of the board, as they are sent and as the OpenAPI description shows them.

use std::num::NonZero;
use std::sync::Arc;

use andon_runtime::core::progress::Phase;
use andon_runtime::core::time::Wall;
use andon_runtime::{CallId, Digest, Ending, Force, Reason, RunId, RunState, SessionId, SessionKey};
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::principal::Principal;
use crate::api::forms::{OutcomeForm, StateForm};
use crate::api::line::LineView;
use crate::board::row::{BoardRow, RowCall, RowCallState};
use crate::board::seconds::Told;
use crate::board::tokens::Tokens;
use crate::options::cost::Cost;

/// How many calls of a row are listed.
const MOST_CALLS: usize = 50;

/// One event of the board.
#[derive(Debug, ToSchema)]
#[schema(as = BoardEvent)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct BoardEventForm {
    /// One `BoardMessage`, as JSON. Over a WebSocket each message is one of these.
    data: String,
}

/// One message of the board.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case", tag = "type")]
#[schema(as = BoardMessage)]
pub(crate) enum BoardMessage {
    /// The start of the board. It replaces everything that was sent before it.
    Board {
        /// When this message was made.
        #[schema(value_type = String, format = DateTime)]
        now: Wall,
        /// How many runs have not settled.
        live: u64,
        /// How many settled runs will be listed.
        settled: usize,
        /// The line.
        line: Arc<LineView>,
        /// The last seconds, oldest first.
        past: Vec<Told>,
    },
    /// Rows of the board. Each replaces the row with the same `n`.
    Runs {
        /// The rows.
        runs: Vec<RowForm>,
    },
    /// All rows that existed at the start have been sent.
    Ready,
    /// Rows that were removed.
    Gone {
        /// The `n` of each removed row.
        rows: Vec<u64>,
    },
    /// A second has passed.
    Second(SecondAndPieces),
    /// A hold was made or removed.
    Line {
        /// The line as it is now.
        line: Arc<LineView>,
    },
}

impl BoardMessage {
    pub(super) fn to_json(&self) -> String {
        // This is plain data, so it does not fail; if it did, the reader would get an empty message.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A second, and the rows whose number of pieces changed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BoardSecondWithPieces)]
pub(crate) struct SecondAndPieces {
    #[serde(flatten)]
    pub(super) second: Told,
    /// Pairs of a row's `n` and its total number of pieces.
    #[schema(value_type = Vec<Vec<u64>>)]
    pub(super) pieces: Vec<(u64, u64)>,
}

/// One run on the board.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BoardRow)]
pub(crate) struct RowForm {
    /// Identifies the row for as long as it is on the board.
    n: u64,
    /// The id of the run.
    #[schema(value_type = String)]
    run_id: RunId,
    /// The name of the app.
    app: Arc<str>,
    /// The user whose run it is.
    user: Arc<str>,
    /// The session of the run.
    #[schema(value_type = String)]
    session: SessionId,
    /// The tenant, if it is not your own.
    #[schema(value_type = String)]
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<Arc<str>>,
    /// The state of the run.
    #[schema(value_type = StateForm)]
    state: RunState,
    /// What the run is doing: `queued`, `hook`, `model`, `backoff`, `tools`, `waiting` or `between`. Absent once it has
    /// settled.
    #[schema(value_type = String)]
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<Phase>,
    /// How the run ended.
    #[schema(value_type = OutcomeForm)]
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Arc<Ending>>,
    /// When the run was accepted.
    #[schema(value_type = String, format = DateTime)]
    accepted_at: Wall,
    /// When the run settled, that is, when its outcome was on disk.
    #[schema(value_type = String, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    settled_at: Option<Wall>,
    /// The beginning of the prompt.
    title: Arc<str>,
    /// The model that was called last.
    #[schema(value_type = String)]
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<Arc<str>>,
    /// How many pieces of model answers have been accepted. Absent if that is not known.
    #[schema(value_type = u64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pieces: Option<u64>,
    /// The tokens that its model calls used. While a call is open, these are lower bounds.
    tokens: Tokens,
    /// Whether a model call is open.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    open: bool,
    /// What the tokens cost, if the server has prices for them.
    #[schema(value_type = Cost)]
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Cost>,
    /// The cancel request, if there was one.
    #[schema(value_type = CancelForm)]
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel: Option<CancelForm>,
    /// The time from the cancel request until the run had settled on disk, in microseconds.
    #[schema(value_type = u64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    took_us: Option<u64>,
    /// The tools that are running now, at most 50.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Arc<str>>,
    /// The calls that need approval, at most 50.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waiting: Vec<WaitingForm>,
    /// How much work outlived the run and is still going on. Absent if none did.
    #[schema(value_type = u64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    leaked: Option<NonZero<u64>>,
    /// Why the journal does not accept the end of the run, if it does not. The run's work is over, and the run settles
    /// as soon as the journal accepts writes again.
    #[schema(value_type = String)]
    #[serde(skip_serializing_if = "Option::is_none")]
    stalled: Option<Arc<str>>,
}

/// A cancel request: the first one, with the highest force of all.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BoardCancel)]
pub(crate) struct CancelForm {
    /// When the request was made.
    #[schema(value_type = String, format = DateTime)]
    requested_at: Wall,
    /// Who made the request.
    #[schema(value_type = String)]
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<Arc<str>>,
    /// Why the run was cancelled.
    #[schema(value_type = String)]
    reason: Reason,
    /// The highest force that was requested.
    #[schema(value_type = String)]
    force: Force,
}

/// A tool call that needs approval.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BoardWaiting)]
pub(crate) struct WaitingForm {
    /// The id of the call.
    #[schema(value_type = String)]
    call: CallId,
    /// The tool.
    tool: Arc<str>,
    /// What an approval of the call is bound to.
    #[schema(value_type = String)]
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<Digest>,
}

impl RowForm {
    /// A row as a principal may see it.
    pub(super) fn of(row: &BoardRow, principal: &Principal) -> Self {
        let (end, standing) = (row.end(), row.standing());
        let SessionKey { tenant, app, user, session, .. } = row.session.clone();
        let running = |call: &RowCall| (call.state == RowCallState::Running).then(|| Arc::clone(&call.tool));
        Self {
            n: row.n,
            run_id: row.run.clone(),
            app,
            user,
            session,
            tenant: Some(tenant).filter(|tenant| *tenant != principal.tenant),
            state: standing.state,
            phase: standing.phase,
            outcome: end.map(|(outcome, _)| Arc::clone(outcome)),
            accepted_at: row.accepted_at,
            settled_at: end.and_then(|(_, at)| at),
            title: Arc::clone(&row.title),
            model: row.model.clone(),
            pieces: row.pieces,
            tokens: row.tokens(),
            open: row.is_counting(),
            cost: row.cost(),
            cancel: row.cancel.as_ref().zip(standing.force).map(|(cancel, force)| CancelForm {
                requested_at: cancel.requested_at,
                by: cancel.by.clone(),
                reason: cancel.reason,
                force,
            }),
            took_us: row.took_us(),
            tools: row.calls().iter().filter_map(running).take(MOST_CALLS).collect(),
            waiting: row.calls().iter().filter_map(waiting).take(MOST_CALLS).collect(),
            leaked: NonZero::new(row.leaked()),
            stalled: row.stalled.clone(),
        }
    }
}

fn waiting(call: &RowCall) -> Option<WaitingForm> {
    match call.state {
        RowCallState::Waiting(digest) => {
            Some(WaitingForm { call: call.id.clone(), tool: Arc::clone(&call.tool), digest })
        }
        RowCallState::Ready | RowCallState::Denied | RowCallState::Running => None,
    }
}
