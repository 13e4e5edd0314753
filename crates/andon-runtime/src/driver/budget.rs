//! When a run has reached its limit of turns or tokens.
//!
//! # Invariants
//!
//! 1. Only what is certainly used and billed counts.
//! 2. A run without a limit of tokens costs nothing here, and one with a limit that it stays far below next to nothing: what an
//!    answer has used is estimated only where it may matter, each time after a quarter more of it.

use andon_core::answer::Piece;
use andon_core::cancel::Reason;
use andon_core::limits::Limits;
use andon_core::message::Part;
use andon_core::progress::Progress;
use andon_core::usage::{BYTES_A_TOKEN, Figure};

use crate::live::cord::Cancel;

/// The cancel that is due before another model call, if a limit is reached.
pub(crate) fn spent(limits: &Limits, progress: &Progress) -> Option<Cancel> {
    if let Some(turns) = limits.turns
        && progress.turns() >= turns
    {
        return Some(budget(format!("the limit of {turns} turns was reached")));
    }
    let used = progress.used().billed.at_least();
    limits.tokens.filter(|limit| used >= *limit).map(|limit| tokens_spent(limit, used))
}

/// How many bytes more of an answer there are at least before it is estimated again.
const STEP: u64 = 64;

/// The limit of tokens, while an answer is read.
#[derive(Debug)]
pub(super) struct Budget {
    limit: u64,
    /// How many the run had used before this call.
    used_before: u64,
    /// How many bytes of the answer have come.
    come: u64,
    /// With how many of them it is to be estimated what this call has used.
    look_at: u64,
    /// What this call has read, as it was estimated first: it is not counted again.
    pub(super) input: Figure,
    /// How many tokens are used, if that is over the limit. The stop comes only if the answer goes on.
    over: Option<u64>,
}

impl Budget {
    /// The limit for a call whose request has this many bytes.
    pub(super) fn new(limit: u64, used_before: u64, asked: u64) -> Self {
        // A token is rarely less than a byte, and mostly four.
        let look_at = limit.saturating_sub(used_before).saturating_sub(asked) / 4;
        Self { limit, used_before, come: 0, look_at, input: Figure::UNKNOWN, over: None }
    }

    /// A piece was accepted. Returns whether it is to be estimated now what this call has used.
    pub(super) fn accepted(&mut self, piece: &Piece) -> bool {
        let bytes = match piece {
            Piece::Text(text) | Piece::Thinking(text) | Piece::CallInput { json: text, .. } => text.len(),
            Piece::Call { name, .. } => name.len(),
            Piece::ThinkingEnd { .. } | Piece::CallEnd { .. } | Piece::Usage(_) | Piece::End(_) => 0,
        };
        self.come = self.come.saturating_add(bytes as u64);
        bytes > 0 && self.come >= self.look_at
    }

    /// This call has certainly used so many tokens.
    pub(super) fn used(&mut self, in_this_call: u64) {
        let used = self.used_before.saturating_add(in_this_call);
        self.over = Some(used).filter(|used| *used > self.limit);
        let left = self.limit.saturating_sub(used) / 4;
        self.look_at = self.look_at.max(self.come.saturating_add(left.max(self.come / 4).max(STEP)));
    }

    /// The cancel that is due if the answer goes on with this piece. A complete answer is kept.
    pub(super) fn due(&mut self, piece: &Piece) -> Option<Cancel> {
        let used = self.over.take_if(|_| !matches!(piece, Piece::End(_) | Piece::Usage(_)))?;
        Some(tokens_spent(self.limit, used))
    }
}

/// As many tokens as an answer has at least, whatever counts them. A thought may be shown as a summary that is longer than it was.
pub(super) fn fewest_tokens(answer: &[Part]) -> u64 {
    let bytes = answer.iter().map(|part| match part {
        Part::Text { text } => text.len(),
        Part::ToolCall(call) => call.arguments.len(),
        Part::Thinking { .. } | Part::Image(_) | Part::ToolResult(_) => 0,
    });
    (bytes.sum::<usize>() as u64).div_ceil(BYTES_A_TOKEN)
}

fn tokens_spent(limit: u64, used: u64) -> Cancel {
    budget(format!("the limit of {limit} tokens was reached: at least {used} are used"))
}

fn budget(note: String) -> Cancel {
    Cancel::graceful().reason(Reason::Budget).by("limit").note(note)
}
