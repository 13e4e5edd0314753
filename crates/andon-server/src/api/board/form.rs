//! The messages of the board, as JSON.

use std::sync::Arc;

use andon_runtime::core::progress::Phase;
use andon_runtime::core::time::Wall;
use andon_runtime::{CallId, Digest, Ending, Figure, Force, Reason, RunId, SessionId, State};
use serde::Serialize;

use crate::access::principal::Principal;
use crate::api::line::LineView;
use crate::board::row::{Call, CallState, Row};
use crate::board::seconds::Told;
use crate::options::prices::Cost;

/// How many calls of a row are listed.
const MOST_CALLS: usize = 50;

/// One message.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub(super) enum Said<'a> {
    /// The start of the board. It replaces everything that was sent before it.
    Board { now: Wall, live: u64, settled: usize, line: &'a LineView, past: Vec<SecondForm> },
    /// Rows. Each replaces the row with the same number.
    Runs { runs: Vec<RowForm<'a>> },
    /// Rows that were removed.
    Gone { rows: Vec<u64> },
    /// All rows that existed at the start have been sent.
    Ready,
    /// A second has passed.
    Second {
        #[serde(flatten)]
        second: SecondForm,
        pieces: Vec<(u64, u64)>,
    },
    /// A hold was made or removed.
    Line { line: &'a LineView },
}

impl Said<'_> {
    pub(super) fn to_json(&self) -> String {
        // This is plain data, so it does not fail; if it did, the reader would get an empty message.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A second.
#[derive(Debug, Serialize)]
pub(super) struct SecondForm {
    at: Wall,
    live: u64,
    begun: u64,
    settled: u64,
    cancelled: u64,
    median_us: Option<u64>,
    slowest_us: Option<u64>,
}

impl SecondForm {
    pub(super) fn of(told: &Told) -> Self {
        Self {
            at: told.began,
            live: told.live,
            begun: told.begun,
            settled: told.settled,
            cancelled: told.cancelled,
            median_us: told.median_us,
            slowest_us: told.slowest_us,
        }
    }
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct RowForm<'a> {
    n: u64,
    run_id: &'a RunId,
    app: &'a Arc<str>,
    user: &'a Arc<str>,
    session: &'a SessionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a Arc<str>>,
    state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<Phase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a Ending>,
    accepted_at: Wall,
    #[serde(skip_serializing_if = "Option::is_none")]
    settled_at: Option<Wall>,
    title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pieces: Option<u64>,
    tokens: TokensForm,
    #[serde(skip_serializing_if = "is_false")]
    open: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Cost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel: Option<CancelForm<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    took_us: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<&'a Arc<str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waiting: Vec<WaitingForm<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    leaked: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    stalled: Option<&'a Arc<str>>,
}

#[derive(Debug, Serialize)]
struct TokensForm {
    input: Figure,
    output: Figure,
}

#[derive(Debug, Serialize)]
struct CancelForm<'a> {
    requested_at: Wall,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a Arc<str>>,
    reason: Reason,
    force: Force,
}

#[derive(Debug, Serialize)]
struct WaitingForm<'a> {
    call: &'a CallId,
    tool: &'a Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<Digest>,
}

impl<'a> RowForm<'a> {
    /// A row as a principal may see it.
    pub(super) fn of(row: &'a Row, principal: &Principal) -> Self {
        let (end, tokens, standing) = (row.end(), row.tokens(), row.standing());
        let running = |call: &'a Call| (call.state == CallState::Running).then_some(&call.tool);
        Self {
            n: row.n,
            run_id: &row.run,
            app: &row.session.app,
            user: &row.session.user,
            session: &row.session.session,
            tenant: Some(&row.session.tenant).filter(|tenant| **tenant != principal.tenant),
            state: standing.state,
            phase: standing.phase,
            outcome: end.map(|(outcome, _)| &**outcome),
            accepted_at: row.accepted_at,
            settled_at: end.and_then(|(_, at)| at),
            title: &row.title,
            model: row.model.as_ref(),
            pieces: row.pieces,
            tokens: TokensForm { input: tokens.input, output: tokens.output },
            open: row.is_counting(),
            cost: row.cost(),
            cancel: row.cancel.as_ref().zip(standing.force).map(|(cancel, force)| CancelForm {
                requested_at: cancel.requested_at,
                by: cancel.by.as_ref(),
                reason: cancel.reason,
                force,
            }),
            took_us: row.took_us(),
            tools: row.calls().iter().filter_map(running).take(MOST_CALLS).collect(),
            waiting: row.calls().iter().filter_map(waiting).take(MOST_CALLS).collect(),
            leaked: row.leaked(),
            stalled: row.stalled.as_ref(),
        }
    }
}

fn waiting(call: &Call) -> Option<WaitingForm<'_>> {
    match call.state {
        CallState::Waiting(digest) => Some(WaitingForm { call: &call.id, tool: &call.tool, digest }),
        CallState::Ready | CallState::Denied | CallState::Running => None,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_false(is: &bool) -> bool {
    !is
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
