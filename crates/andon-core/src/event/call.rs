//! What can become of a tool call.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::message::Content;

/// A decision about a call that needs approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Approval {
    /// A person approved it.
    Approved {
        /// Who decided.
        by: Option<String>,
        /// The digest of the arguments that were approved. `None` in records of older programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Digest>,
        /// Why, if the person said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// A person denied it.
    Denied {
        /// Who decided.
        by: Option<String>,
        /// Why, for the model.
        why: Option<String>,
    },
    /// The run was stopped before anybody decided.
    Closed,
}

/// What kind of effect a tool can have.
///
/// ```
/// use andon_core::event::Effect;
///
/// let words = [Effect::ReadOnly, Effect::Idempotent, Effect::Effect].map(|effect| effect.as_str());
/// assert_eq!(words, ["read_only", "idempotent", "effect"]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Effect {
    /// It changes nothing.
    ReadOnly,
    /// Doing it twice is the same as doing it once.
    Idempotent,
    /// It changes something outside, each time anew.
    Effect,
}

/// How a started tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum ToolEnd {
    /// It returned a result or an error.
    Finished,
    /// It panicked.
    Panicked,
    /// It was stopped, or stopped by itself when told to.
    Cut,
    /// It was stopped or lost, and may have had its effect.
    Unknown,
    /// The pull came between its record and its start: it did not run.
    NeverStarted,
    /// It was stopped and was not seen to end: it may go on somewhere.
    Leaked,
    /// It is declared to outlive the run, and goes on.
    Detached,
}

/// What remains of a tool call once its cleanup is over.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Remains {
    /// What it had started and what could not be stopped, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaked: Vec<String>,
    /// Why the call itself is leaked, if it was told to stop and not seen to end: it may go on elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unended: Option<String>,
    /// What else is known about how it was stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The output of a call that was dropped before it could return it. It goes into the call's result.
    #[serde(skip)]
    pub output: Vec<Content>,
}

crate::with!(Remains: leaked: Vec<String>, unended: text String, notes: Vec<String>, output: Vec<Content>);

impl Remains {
    /// Nothing yet: `Remains::new().notes(…)` has something to report.
    pub const fn new() -> Self {
        Self::NONE
    }

    /// Nothing remains, and there is nothing to report.
    pub const NONE: Self = Self { leaked: Vec::new(), unended: None, notes: Vec::new(), output: Vec::new() };

    /// Whether there is nothing to report.
    pub fn is_none(&self) -> bool {
        self.leaked.is_empty() && self.unended.is_none() && self.notes.is_empty()
    }
}

/// Why a call was closed without being started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Refusal {
    /// There is no tool with that name.
    UnknownTool,
    /// The arguments are not JSON, or do not fit the tool's schema.
    BadArguments,
    /// The model used one id for two calls.
    DuplicateId,
    /// A hook denied it.
    DeniedByHook,
    /// A hook answered it instead of the tool.
    AnsweredByHook,
    /// A person denied it.
    DeniedByPerson,
    /// The call was cancelled, not the run.
    CallCancelled,
    /// The run was stopped first.
    RunCancelled,
    /// The process died first.
    Lost,
}
