//! When a run has reached its limit of turns or tokens.
//!
//! # Invariants
//!
//! 1. Only what is certainly used and billed counts, and of a request that the provider has not counted yet half of what it is
//!    estimated to be.
//! 2. A run without a limit of tokens costs nothing here, and one with a limit that it stays far below next to nothing: what an
//!    answer has used is estimated only where it may matter, each time after a quarter more of it or of what is left of the limit.

use andon_core::answer::Piece;
use andon_core::cancel::Reason;
use andon_core::limits::Limits;
use andon_core::progress::RunProgress;
use andon_core::usage::Figure;

use crate::live::cord::Cancel;
use crate::model::ModelRequest;

/// The cancel that is due before another model call, if a limit is reached.
pub(crate) fn spent(limits: &Limits, progress: &RunProgress) -> Option<Cancel> {
    if let Some(turns) = limits.turns
        && progress.turns() >= turns
    {
        return Some(budget(format!("the limit of {turns} turns was reached")));
    }
    let limit = limits.tokens?;
    let used = progress.used().billed.at_least();
    (used >= limit).then(|| tokens_spent(limit, used))
}

/// At least this many more bytes before the next estimate.
const STEP: u64 = 64;

/// The limit of tokens, while an answer is read.
#[derive(Debug)]
pub(super) struct Budget {
    limit: u64,
    /// How many the run had used before this call.
    used_before: u64,
    /// How many this call has used, as the provider says.
    reported: u64,
    /// How many it has certainly used, as was estimated last. A report may be older than what was shown.
    estimated: u64,
    /// With how many bytes of the answer that was.
    estimated_at: u64,
    /// How many bytes of the answer were accepted.
    accepted: u64,
    /// With how many of them the next estimate is due.
    next: u64,
    /// What this call has read, as it was estimated first: it is not counted again.
    pub(super) input: Figure,
}

impl Budget {
    /// The limit for a call with this request.
    pub(super) fn new(limit: u64, used_before: u64, request: &ModelRequest) -> Self {
        // A token is rarely less than a byte, and mostly four.
        let next = limit.saturating_sub(used_before).saturating_sub(bytes_of(request)) / 4;
        Self {
            limit,
            used_before,
            reported: 0,
            estimated: 0,
            estimated_at: 0,
            accepted: 0,
            next,
            input: Figure::UNKNOWN,
        }
    }

    /// A piece was accepted. Returns whether an estimate is due.
    pub(super) fn accepted(&mut self, piece: &Piece) -> bool {
        let bytes = match piece {
            Piece::Text(text) | Piece::Thinking(text) | Piece::CallInput { json: text, .. } => text.len(),
            Piece::Call { name, .. } => name.len(),
            Piece::ThinkingEnd { .. } | Piece::CallEnd { .. } | Piece::Usage(_) | Piece::End(_) => 0,
            #[cfg(not(andon_whole))]
            _ => 0,
        };
        self.accepted = self.accepted.saturating_add(bytes as u64);
        bytes > 0 && self.accepted >= self.next
    }

    /// The provider says that this call has used so many tokens by now.
    pub(super) fn reported(&mut self, in_this_call: u64) {
        self.reported = in_this_call;
    }

    /// This call has certainly used so many tokens by now.
    pub(super) fn estimated(&mut self, in_this_call: u64) {
        let (before, so_far) = (self.estimated, self.accepted - self.estimated_at);
        (self.estimated, self.estimated_at) = (in_this_call, self.accepted);
        let left = self.limit.saturating_sub(self.used());
        // As far as the tokens that are left reach if the answer goes on as it did since the last estimate.
        let reach = left.saturating_mul(so_far).checked_div(in_this_call.saturating_sub(before));
        let far = (left / 4).max(self.accepted / 4);
        self.next = self.accepted.saturating_add(far.min(reach.unwrap_or(far)).max(STEP));
    }

    fn used(&self) -> u64 {
        self.used_before.saturating_add(self.reported.max(self.estimated))
    }

    /// The cancel that is due if the answer goes on with this piece. A complete answer is kept.
    pub(super) fn due(&self, piece: &Piece) -> Option<Cancel> {
        let goes_on = !matches!(piece, Piece::End(_) | Piece::Usage(_));
        (goes_on && self.used() > self.limit).then(|| tokens_spent(self.limit, self.used()))
    }
}

/// Roughly how many bytes a request has: its conversation, its instructions and its tools.
fn bytes_of(request: &ModelRequest) -> u64 {
    let said: usize = request.history.iter().map(|message| message.weight()).sum();
    let tools =
        request.tools.iter().map(|tool| tool.name.len() + tool.description.len() + tool.schema.to_string().len());
    (said + request.instructions.as_deref().map_or(0, str::len) + tools.sum::<usize>()) as u64
}

fn tokens_spent(limit: u64, used: u64) -> Cancel {
    budget(format!("the limit of {limit} tokens was reached: at least {used} are used"))
}

fn budget(note: String) -> Cancel {
    Cancel::graceful().reason(Reason::Budget).by("limit").note(note)
}
