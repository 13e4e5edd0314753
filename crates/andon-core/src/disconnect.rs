//! What happens to a run that loses its readers: a plain value that is recorded with the run, so that a run that outlives
//! its process keeps it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What happens to a run when the last feed that was opened on it closes. Nothing happens if none was ever opened.
///
/// ```
/// # use std::time::Duration;
/// # use andon_core::disconnect::OnDisconnect;
/// // `agent.prompt("…").on_disconnect(policy)`: a page that is reloaded within five seconds finds the run in progress.
/// let policy = OnDisconnect::CancelAfterMs(5_000);
/// assert_eq!(policy.patience(), Some(Duration::from_secs(5)));
/// assert!(OnDisconnect::default().is_continue(), "by default nobody needs to read it");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum OnDisconnect {
    /// It goes on.
    #[default]
    Continue,
    /// It is cancelled at once.
    Cancel,
    /// It is cancelled, unless a reader comes back within this many milliseconds.
    CancelAfterMs(u64),
}

impl OnDisconnect {
    /// How long the run may be without a reader, or `None` if there is no limit.
    pub fn patience(self) -> Option<Duration> {
        match self {
            Self::Continue => None,
            Self::Cancel => Some(Duration::ZERO),
            Self::CancelAfterMs(time) => Some(Duration::from_millis(time)),
        }
    }

    /// Whether the run goes on without its readers.
    pub fn is_continue(&self) -> bool {
        *self == Self::Continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_in_the_words_of_the_api() {
        let forms = [OnDisconnect::Continue, OnDisconnect::Cancel, OnDisconnect::CancelAfterMs(5)];
        let written = forms.map(|form| serde_json::to_string(&form).unwrap());
        assert_eq!(written, [r#""continue""#, r#""cancel""#, r#"{"cancel_after_ms":5}"#]);
        assert_eq!(written.map(|text| serde_json::from_str::<OnDisconnect>(&text).unwrap()), forms);
    }

    #[test]
    fn only_a_run_that_minds_losing_its_readers_runs_out_of_patience() {
        let forms = [OnDisconnect::Continue, OnDisconnect::Cancel, OnDisconnect::CancelAfterMs(5)];
        assert_eq!(forms.map(OnDisconnect::patience), [None, Some(Duration::ZERO), Some(Duration::from_millis(5))]);
        assert_eq!(forms.map(|form| form.is_continue()), [true, false, false]);
    }
}
