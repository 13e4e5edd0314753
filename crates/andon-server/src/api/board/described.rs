//! The messages of the board, for the OpenAPI description. A test compares it with what is actually sent.

use serde::Serialize;
use utoipa::ToSchema;

use crate::api::forms::{OutcomeForm, StateForm};
use crate::api::line::LineView;
use crate::options::prices::CostForm;

/// One event of the board.
#[derive(Debug, ToSchema)]
#[schema(as = BoardEvent)]
#[expect(dead_code, reason = "a description")]
pub(crate) struct EventForm {
    /// One `BoardMessage`, as JSON. Over a WebSocket each message is one of these.
    data: String,
}

/// One message of the board.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case", tag = "type")]
#[schema(as = BoardMessage)]
#[expect(dead_code, reason = "a description")]
pub(crate) enum MessageForm {
    /// The start of the board. It replaces everything that was sent before it.
    Board {
        /// When this message was made.
        #[schema(format = DateTime)]
        now: String,
        /// How many runs have not settled.
        live: u64,
        /// How many settled runs will be listed.
        settled: u64,
        /// The line.
        line: LineView,
        /// The last seconds, oldest first.
        past: Vec<SecondForm>,
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
        line: LineView,
    },
}

/// What happened in one second to the runs that you may see.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BoardSecond)]
pub(crate) struct SecondForm {
    /// When the second began. This is the same for every reader and identifies the second.
    #[schema(format = DateTime)]
    at: String,
    /// How many runs had not settled at its end.
    live: u64,
    /// How many runs were accepted.
    begun: u64,
    /// How many runs settled.
    settled: u64,
    /// How many of the settled runs were cancelled.
    cancelled: u64,
    /// The median time from the cancel request until the run had settled, in microseconds; `null` if no run was
    /// cancelled.
    #[schema(required)]
    median_us: Option<u64>,
    /// The longest of these times, in microseconds; `null` if no run was cancelled.
    #[schema(required)]
    slowest_us: Option<u64>,
}

/// A second, and the rows whose number of pieces changed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BoardSecondWithPieces)]
pub(crate) struct SecondAndPieces {
    #[serde(flatten)]
    second: SecondForm,
    /// Pairs of a row's `n` and its total number of pieces.
    pieces: Vec<Vec<u64>>,
}

/// One run on the board.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BoardRow)]
pub(crate) struct RowForm {
    /// Identifies the row for as long as it is on the board.
    n: u64,
    /// The id of the run.
    run_id: String,
    /// The name of the app.
    app: String,
    /// The user whose run it is.
    user: String,
    /// The session of the run.
    session: String,
    /// The tenant, if it is not your own.
    #[schema(nullable = false)]
    tenant: Option<String>,
    /// The state of the run.
    state: StateForm,
    /// What the run is doing: `queued`, `hook`, `model`, `backoff`, `tools`, `waiting` or `between`. Absent once it has
    /// settled.
    #[schema(nullable = false)]
    phase: Option<String>,
    /// How the run ended.
    outcome: Option<OutcomeForm>,
    /// When the run was accepted.
    #[schema(format = DateTime)]
    accepted_at: String,
    /// When the run settled, that is, when its outcome was on disk.
    #[schema(format = DateTime, nullable = false)]
    settled_at: Option<String>,
    /// The beginning of the prompt.
    title: String,
    /// The model that was called last.
    #[schema(nullable = false)]
    model: Option<String>,
    /// How many pieces of model answers have been accepted. Absent if that is not known.
    #[schema(nullable = false)]
    pieces: Option<u64>,
    /// The tokens that its model calls used. While a call is open, these are lower bounds.
    tokens: TokensForm,
    /// Whether a model call is open.
    #[schema(nullable = false)]
    open: Option<bool>,
    /// What the tokens cost, if the server has prices for them.
    cost: Option<CostForm>,
    /// The cancel request, if there was one.
    cancel: Option<CancelForm>,
    /// The time from the cancel request until the run had settled on disk, in microseconds.
    #[schema(nullable = false)]
    took_us: Option<u64>,
    /// The tools that are running now, at most 50.
    #[schema(nullable = false)]
    tools: Option<Vec<String>>,
    /// The calls that need approval, at most 50.
    #[schema(nullable = false)]
    waiting: Option<Vec<WaitingForm>>,
    /// How much work outlived the run and is still going on.
    #[schema(nullable = false)]
    leaked: Option<u64>,
    /// Why the journal does not accept the end of the run, if it does not. The run's work is over, and the run settles
    /// as soon as the journal accepts writes again.
    #[schema(nullable = false)]
    stalled: Option<String>,
}

/// The tokens of a row.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BoardTokens)]
pub(crate) struct TokensForm {
    /// Input tokens, including those read from or written to a cache.
    input: FigureForm,
    /// Output tokens.
    output: FigureForm,
}

/// A figure and how it is known, as in receipts.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BoardFigure)]
pub(crate) struct FigureForm {
    /// The figure, if it is known.
    #[schema(required)]
    value: Option<u64>,
    /// How the figure is known.
    provenance: String,
    /// The lower bound.
    #[schema(required)]
    low: Option<u64>,
    /// The upper bound.
    #[schema(required)]
    high: Option<u64>,
}

/// A cancel request: the first one, with the highest force of all.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BoardCancel)]
pub(crate) struct CancelForm {
    /// When the request was made.
    #[schema(format = DateTime)]
    requested_at: String,
    /// Who made the request.
    #[schema(nullable = false)]
    by: Option<String>,
    /// Why the run was cancelled.
    reason: String,
    /// The highest force that was requested.
    force: String,
}

/// A tool call that needs approval.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BoardWaiting)]
pub(crate) struct WaitingForm {
    /// The id of the call.
    call: String,
    /// The tool.
    tool: String,
    /// The digest of the call's arguments.
    #[schema(nullable = false)]
    digest: Option<String>,
}
