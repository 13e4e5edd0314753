//! When a run has reached its limit of turns or tokens.

use andon_core::cancel::Reason;
use andon_core::limits::Limits;
use andon_core::progress::Progress;

use crate::live::cord::Cancel;

/// The cancel that is due before another model call, if a limit is reached.
pub(crate) fn spent(limits: &Limits, progress: &Progress) -> Option<Cancel> {
    if let Some(turns) = limits.turns
        && progress.turns() >= turns
    {
        return Some(budget(format!("the limit of {turns} turns was reached")));
    }
    let used = progress.used().delivered.at_least();
    limits.tokens.filter(|limit| used >= *limit).map(|limit| tokens_spent(limit, used))
}

/// The cancel that is due when the tokens are used up.
pub(crate) fn tokens_spent(limit: u64, used: u64) -> Cancel {
    budget(format!("the limit of {limit} tokens was reached: {used} are used"))
}

fn budget(note: String) -> Cancel {
    Cancel::graceful().reason(Reason::Budget).by("limit").note(note)
}
