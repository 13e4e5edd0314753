//! A conversation that comes with a new session: ADK's events become settled runs, so that any provider can continue it.
//!
//! # Invariants
//!
//! 1. What is imported makes sense: each result answers a call, each call has one result, and what the model says follows what a
//!    user said. Anything else is refused, and no session is created.
//! 2. A client cannot make events that only a server makes: events with actions, with long-running calls, or with calls of ADK's
//!    own protocol are refused in ADK's words.
//! 3. Imported runs get new ids: the ids in the events may belong to somebody else's runs.

mod read;
mod write;

use andon_runtime::core::progress::RunProgress;
use andon_runtime::core::time::Stamp;
use andon_runtime::{SessionCopy, SessionKey, StateMap};
use andon_server::dialect::Problem;

pub(crate) use read::{ImportedTurn, turns};

/// A session with the conversation in these turns.
pub(crate) fn session(
    key: &SessionKey,
    state: &StateMap,
    turns: Vec<ImportedTurn>,
    now: Stamp,
) -> Result<SessionCopy, Problem> {
    let runs: Vec<_> = turns.into_iter().map(|turn| write::run(key, turn, now)).collect::<Result<_, _>>()?;
    for (_, stored) in &runs {
        // The same check as for any other record that comes from outside.
        RunProgress::fold(&stored.entries)
            .map_err(|error| bad(format!("the events are not a valid conversation: {error}")))?;
    }
    Ok(SessionCopy::new(key.clone(), now.wall).state(state.clone()).runs(runs))
}

fn bad(detail: impl Into<String>) -> Problem {
    Problem::bad_request("bad-events", detail)
}
