//! Values as every database stores them.

use andon_runtime::core::id::SessionKey;
use andon_runtime::{JournalError, RunState, Scope};
use serde::Serialize;

/// The number that the database stores for a state. A settled run is recognised by its end instead.
pub(crate) fn state_number(state: RunState) -> Option<i64> {
    match state {
        RunState::Queued => Some(0),
        RunState::Running => Some(1),
        RunState::Waiting => Some(2),
        RunState::Cancelling => Some(3),
        RunState::Settled => None,
        #[cfg(not(andon_whole))]
        _ => None,
    }
}

/// The state of a run that has not settled, from that number. `None` if the number does not say.
pub(crate) fn numbered_state(number: Option<i64>) -> Option<RunState> {
    match number {
        Some(0) => Some(RunState::Queued),
        Some(1) => Some(RunState::Running),
        Some(2) => Some(RunState::Waiting),
        Some(3) => Some(RunState::Cancelling),
        None | Some(_) => None,
    }
}

pub(crate) fn json(value: &impl Serialize) -> Result<String, JournalError> {
    serde_json::to_string(value)
        .map_err(|error| JournalError::Storage(format!("it cannot be encoded as JSON: {error}")))
}

/// A number as a database stores it.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn unreadable(error: &impl ToString) -> JournalError {
    JournalError::Unreadable(error.to_string())
}

/// The user and session columns for a key: empty where it is shared. `None` for a key that is never stored.
pub(crate) fn user_and_session<'a>(key: &'a SessionKey, name: &str) -> Option<(&'a str, &'a str)> {
    match Scope::of(name) {
        Scope::Temp => None,
        Scope::App => Some(("", "")),
        Scope::User => Some((&key.user, "")),
        Scope::Session => Some((&key.user, key.session.as_str())),
    }
}
