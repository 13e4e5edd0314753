//! What the board says, for the description of the API. A test compares it with what is said.

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
    /// The beginning: all that was said before is not so any more.
    Board {
        /// When it was said.
        #[schema(format = DateTime)]
        now: String,
        /// How many runs are live.
        live: u64,
        /// How many that have settled will be told.
        settled: u64,
        /// The line.
        line: LineView,
        /// The last seconds, the oldest first.
        past: Vec<SecondForm>,
    },
    /// Rows, each in the place of the one that had its `n`.
    Runs {
        /// The rows.
        runs: Vec<RowForm>,
    },
    /// All that there was at the beginning is told.
    Ready,
    /// Rows that are there no more.
    Gone {
        /// What they were called: their `n`.
        rows: Vec<u64>,
    },
    /// A second is over.
    Second(SecondAndPieces),
    /// A hold was made or opened.
    Line {
        /// The line as it is now.
        line: LineView,
    },
}

/// What happened in a second, to the runs that one may see.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BoardSecond)]
pub(crate) struct SecondForm {
    /// When it began: its name, the same for every reader.
    #[schema(format = DateTime)]
    at: String,
    /// How many were live at its end.
    live: u64,
    /// How many were accepted.
    begun: u64,
    /// How many have settled.
    settled: u64,
    /// How many of these were stopped.
    cancelled: u64,
    /// The median from the request to stop until the run had settled, in microseconds; nothing if none was stopped.
    #[schema(required)]
    median_us: Option<u64>,
    /// The longest of these.
    #[schema(required)]
    slowest_us: Option<u64>,
}

/// A second, and which rows have other counts of pieces.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BoardSecondWithPieces)]
pub(crate) struct SecondAndPieces {
    #[serde(flatten)]
    second: SecondForm,
    /// Pairs: the `n` of a row, and how many pieces it has in all.
    pieces: Vec<Vec<u64>>,
}

/// One run on the board.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BoardRow)]
pub(crate) struct RowForm {
    /// What the row is called, as long as it is there.
    n: u64,
    /// The run.
    run_id: String,
    /// The app.
    app: String,
    /// Whose it is.
    user: String,
    /// Its conversation.
    session: String,
    /// The tenant, where it is not one's own.
    #[schema(nullable = false)]
    tenant: Option<String>,
    /// Where it stands.
    state: StateForm,
    /// What it is doing: `queued`, `hook`, `model`, `backoff`, `tools`, `waiting` or `between`; not once it has settled.
    #[schema(nullable = false)]
    phase: Option<String>,
    /// How it ended.
    outcome: Option<OutcomeForm>,
    /// When it was accepted.
    #[schema(format = DateTime)]
    accepted_at: String,
    /// When it settled: its outcome was on disk.
    #[schema(format = DateTime, nullable = false)]
    settled_at: Option<String>,
    /// The beginning of what was asked.
    title: String,
    /// The last model that was called.
    #[schema(nullable = false)]
    model: Option<String>,
    /// How many pieces of answers were accepted; not there where nobody knows.
    #[schema(nullable = false)]
    pieces: Option<u64>,
    /// What its model calls used, by what is billed. While one is open it is at least this.
    tokens: TokensForm,
    /// A model call is open.
    #[schema(nullable = false)]
    open: Option<bool>,
    /// What that costs, where there are prices.
    cost: Option<CostForm>,
    /// That it was asked to stop.
    cancel: Option<CancelForm>,
    /// Microseconds from the request to stop until it had settled, on disk.
    #[schema(nullable = false)]
    took_us: Option<u64>,
    /// Tools that run now, 50 at most.
    #[schema(nullable = false)]
    tools: Option<Vec<String>>,
    /// Calls that wait for a person, 50 at most.
    #[schema(nullable = false)]
    waiting: Option<Vec<WaitingForm>>,
    /// How much it has left behind that still goes on.
    #[schema(nullable = false)]
    leaked: Option<u64>,
    /// Why the journal does not take its end, if it does not: its work is over, and it settles when the journal takes writes
    /// again.
    #[schema(nullable = false)]
    stalled: Option<String>,
}

/// Tokens of a row.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BoardTokens)]
pub(crate) struct TokensForm {
    /// What was read, with what came from a cache or went into one.
    input: FigureForm,
    /// What was written.
    output: FigureForm,
}

/// A figure, and how it is known, as in receipts.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BoardFigure)]
pub(crate) struct FigureForm {
    /// The figure, if there is one.
    #[schema(required)]
    value: Option<u64>,
    /// How it is known.
    provenance: String,
    /// It is at least this.
    #[schema(required)]
    low: Option<u64>,
    /// It is at most this.
    #[schema(required)]
    high: Option<u64>,
}

/// A request to stop: the first one, with the hardest force.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BoardCancel)]
pub(crate) struct CancelForm {
    /// When it was made.
    #[schema(format = DateTime)]
    requested_at: String,
    /// Who made it.
    #[schema(nullable = false)]
    by: Option<String>,
    /// Why.
    reason: String,
    /// How hard.
    force: String,
}

/// A call that waits for a person.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BoardWaiting)]
pub(crate) struct WaitingForm {
    /// The call.
    call: String,
    /// Its tool.
    tool: String,
    /// The digest of its arguments.
    #[schema(nullable = false)]
    digest: Option<String>,
}
