//! How a run ended.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::cancel::Reason;
use crate::message::Message;
use crate::receipt::Receipt;
use crate::usage::Used;

/// Why the model stopped writing, in words that are the same for all providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelStop {
    /// It had finished.
    EndTurn,
    /// It wants tools to be called.
    ToolUse,
    /// It reached the limit of tokens for one answer.
    MaxTokens,
    /// It wrote a stop sequence.
    StopSequence,
    /// It, or a filter, refused.
    Refused,
}

impl ModelStop {
    /// The word for it, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence => "stop_sequence",
            Self::Refused => "refused",
        }
    }
}

/// How a run ended: the four outcomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Ending {
    /// The model finished.
    Completed {
        /// Why it stopped writing.
        stop: ModelStop,
    },
    /// The cord was pulled.
    Cancelled {
        /// Why.
        reason: Reason,
    },
    /// Something went wrong.
    Failed(Failure),
    /// The process that ran it died, and nobody had asked for a stop.
    Lost,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What kind of failure it is.
    pub error: FailureKind,
    /// What happened and what to do, for people.
    pub message: String,
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The model or its provider.
    Model,
    /// The conversation is too long for the model.
    ContextOverflow,
    /// The model's answer broke off after something of it was shown.
    StreamBroken,
    /// The journal could not be written.
    Journal,
    /// A hook panicked.
    Hook,
    /// A defect in the runtime itself.
    Internal,
}

impl Ending {
    /// Strands' word for how a run ended: the model's own stop reason, or `cancelled`, `failed`, `context_overflow` or `lost`.
    pub fn stop_reason(&self) -> &'static str {
        match self {
            Self::Completed { stop } => stop.as_str(),
            Self::Cancelled { .. } => "cancelled",
            Self::Failed(Failure { error: FailureKind::ContextOverflow, .. }) => "context_overflow",
            Self::Failed(_) => "failed",
            Self::Lost => "lost",
        }
    }

    /// The outcome in one word: `completed`, `cancelled`, `failed` or `lost`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::Cancelled { .. } => "cancelled",
            Self::Failed(_) => "failed",
            Self::Lost => "lost",
        }
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled { .. })
    }
}

/// How a settled run ended, with its last answer, its usage and its receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// See [`Ending::stop_reason`].
    pub fn stop_reason(&self) -> &'static str {
        self.ending.stop_reason()
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.ending.is_cancelled()
    }

    /// The text of the last answer, whole or cut.
    pub fn text(&self) -> String {
        self.message.as_ref().map(|message| message.text()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{RunId, SessionKey};

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
    fn an_outcome_says_whether_it_was_cancelled_and_has_the_last_text() {
        let cancelled = outcome(Ending::Cancelled { reason: Reason::Requested }, Some(Message::assistant("One, two")));
        assert_eq!((cancelled.is_cancelled(), cancelled.text().as_str()), (true, "One, two"));
        let lost = outcome(Ending::Lost, None);
        assert_eq!((lost.is_cancelled(), lost.text().as_str()), (false, ""));
    }
}
