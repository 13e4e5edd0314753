//! How a run ended. Public in [`outcome`](crate::outcome).

use serde::{Deserialize, Serialize};

use crate::reason::Reason;

/// Why the model stopped writing, in words that are the same for all providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
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

/// How a run ended: the four outcomes.
///
/// ```
/// # use andon_core::cancel::Reason;
/// # use andon_core::outcome::Ending;
/// # let ending = Ending::Cancelled { reason: Reason::Requested };
/// // Ada stopped the run; this is its `outcome.ending`.
/// let told = match &ending {
///     Ending::Completed { .. } => "It is done.".to_owned(),
///     Ending::Cancelled { reason } => format!("It was stopped: {}.", reason.as_str()),
///     Ending::Failed(failure) => format!("It failed: {failure}."),
///     _ => "Its process died.".to_owned(),
/// };
/// assert_eq!(told, "It was stopped: requested.");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
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
#[non_exhaustive]
pub struct Failure {
    /// What kind of failure it is.
    pub error: FailureKind,
    /// What happened and what to do, for people.
    pub message: String,
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum FailureKind {
    /// The model or its provider.
    Model,
    /// The conversation is too long for the model.
    ContextOverflow,
    /// The model's answer broke off after something of it was shown.
    StreamBroken,
    /// The journal could not be written.
    Journal,
    /// A hook failed the run, panicked, or returned something that cannot be used.
    Hook,
    /// A defect in the runtime itself.
    Internal,
}

impl Failure {
    /// A failure of this kind, with a text for people.
    pub fn new(error: FailureKind, message: impl Into<String>) -> Self {
        Self { error, message: message.into() }
    }
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

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled { .. })
    }
}
