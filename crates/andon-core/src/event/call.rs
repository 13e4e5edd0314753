//! What can become of a tool call.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::message::Content;

/// A decision about a call that needs a yes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Approval {
    /// Yes.
    Approved {
        /// Who said so.
        by: Option<String>,
        /// To exactly these arguments; nothing in the records of older programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Digest>,
    },
    /// No.
    Denied {
        /// Who said so.
        by: Option<String>,
        /// Why, for the model.
        why: Option<String>,
    },
    /// The run was stopped before anybody decided.
    Closed,
}

/// What kind of effect a tool can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It only looks.
    ReadOnly,
    /// Doing it twice is doing it once.
    Idempotent,
    /// It changes the world.
    Effect,
}

/// How a started tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolEnd {
    /// It returned, well or with an error of its own.
    Finished,
    /// It panicked.
    Panicked,
    /// It was stopped, or stopped by itself because it was told.
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
pub struct Remains {
    /// What it had started and could not be stopped, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaked: Vec<String>,
    /// Why the call itself is leaked, if it was told to stop and not seen to end: it goes on elsewhere, or may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unended: Option<String>,
    /// What else is to be known of how it was stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What the call had to show for itself, if it was dropped before it could return it. It goes into the call's result.
    #[serde(skip)]
    pub output: Vec<Content>,
}

impl Remains {
    /// Nothing remains, and nothing is to be said.
    pub const NONE: Self = Self { leaked: Vec::new(), unended: None, notes: Vec::new(), output: Vec::new() };

    /// Whether there is nothing to say.
    pub fn is_none(&self) -> bool {
        self.leaked.is_empty() && self.unended.is_none() && self.notes.is_empty()
    }
}

/// Why a call was closed without being started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// There is no tool of that name.
    UnknownTool,
    /// The arguments are no JSON, or break the tool's schema.
    BadArguments,
    /// The model used one id for two calls.
    DuplicateId,
    /// A hook said no.
    DeniedByHook,
    /// A person said no.
    DeniedByPerson,
    /// The call was cancelled alone.
    CallCancelled,
    /// The run was stopped first.
    RunCancelled,
    /// The process died first.
    Lost,
}
