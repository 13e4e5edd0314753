//! A settled run: how it ended, its last answer, its usage and its receipt.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::message::Message;
use crate::receipt::Receipt;
use crate::usage::Used;

pub use crate::ending::{Ending, Failure, FailureKind, ModelStop};

/// How a settled run ended, with its last answer, its usage and its receipt.
///
/// A run that was cancelled, that failed or that was lost has an outcome, too. Whoever wants only a finished answer asks
/// for it with [`completed`](Self::completed).
///
/// It comes as an `Arc<Outcome>`, and the compiler does not warn about one that is not looked at: it does not see `must_use` through an `Arc`.
///
/// ```
/// # use std::sync::Arc;
/// # use andon_core::cancel::Reason;
/// # use andon_core::id::{RunId, SessionKey};
/// # use andon_core::message::Message;
/// # use andon_core::outcome::{Ending, Outcome};
/// # use andon_core::receipt::Receipt;
/// # use andon_core::usage::Used;
/// # let receipt = Receipt::unknown(&RunId::new("r")?, &SessionKey::new("app", "ada", "monday")?);
/// # let message = Some(Arc::new(Message::assistant("One, ")));
/// # let ending = Arc::new(Ending::Cancelled { reason: Reason::Requested });
/// # let outcome = Arc::new(Outcome::new(ending, message, Used::NONE, receipt));
/// // Ada stopped the run: `agent.run("Count to two").await?`
/// assert_eq!((outcome.stop_reason(), outcome.text_so_far()), ("cancelled", "One, ".to_owned()));
/// assert!(outcome.completed().is_err());
/// # Ok::<(), andon_core::id::IdError>(())
/// ```
#[must_use = "the run may have failed or been cancelled: `completed()` gives a finished answer or an error"]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// How it ended.
    pub ending: Arc<Ending>,
    /// The last answer, whole or cut.
    pub message: Option<Arc<Message>>,
    /// The tokens of all its model calls.
    pub usage: Used,
    /// The account of its end.
    pub receipt: Receipt,
}

impl Outcome {
    /// How a run ended, what it said last, what it used, and its receipt.
    pub const fn new(ending: Arc<Ending>, message: Option<Arc<Message>>, usage: Used, receipt: Receipt) -> Self {
        Self { ending, message, usage, receipt }
    }

    /// The same, with a later receipt and its usage.
    pub fn with_receipt(self, receipt: Receipt) -> Self {
        Self { usage: receipt.usage, receipt, ..self }
    }

    /// See [`Ending::stop_reason`].
    pub fn stop_reason(&self) -> &'static str {
        self.ending.stop_reason()
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.ending.is_cancelled()
    }

    /// The text of the last answer as far as it came: half of it if the run was cut or failed, and empty if there was no
    /// answer at all. [`completed`](Self::completed) gives only the text of a run that completed.
    pub fn text_so_far(&self) -> String {
        self.message.as_ref().map(|message| message.text()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{RunId, SessionKey};
    use crate::reason::Reason;
    use crate::usage::Usage;

    fn failed(error: FailureKind) -> Ending {
        Ending::Failed(Failure { error, message: "It broke.".into() })
    }

    fn outcome(ending: Ending, message: Option<Message>) -> Outcome {
        let (run, session) = (RunId::new("r").unwrap(), SessionKey::new("app", "ann", "s").unwrap());
        let receipt = Receipt::unknown(&run, &session);
        Outcome { ending: Arc::new(ending), message: message.map(Arc::new), usage: Used::NONE, receipt }
    }

    #[test]
    fn the_stop_reason_is_the_models_own_or_says_how_the_run_ended_without_one() {
        for (ending, word) in [
            (Ending::Completed { stop: ModelStop::MaxTokens }, "max_tokens"),
            (Ending::Cancelled { reason: Reason::Deadline }, "cancelled"),
            (failed(FailureKind::Model), "failed"),
            (failed(FailureKind::ContextOverflow), "context_overflow"),
            (Ending::Lost, "lost"),
        ] {
            assert_eq!((ending.stop_reason(), outcome(ending.clone(), None).stop_reason()), (word, word));
        }
    }

    #[test]
    fn an_outcome_says_whether_it_was_cancelled_and_has_the_text_so_far() {
        let cancelled = outcome(Ending::Cancelled { reason: Reason::Requested }, Some(Message::assistant("One, two")));
        assert_eq!((cancelled.is_cancelled(), cancelled.text_so_far().as_str()), (true, "One, two"));
        let lost = outcome(Ending::Lost, None);
        assert_eq!((lost.is_cancelled(), lost.text_so_far().as_str()), (false, ""));
    }

    #[test]
    fn a_later_receipt_replaces_the_earlier_one_and_its_usage() {
        let first = outcome(Ending::Lost, None);
        let usage = Used::new(Usage::reported(3, 4), Usage::reported(3, 5));
        let later = Receipt { usage, revision: 1, ..first.receipt.clone() };
        let told = first.with_receipt(later.clone());
        assert_eq!((told.usage, told.receipt), (usage, later));
    }
}
