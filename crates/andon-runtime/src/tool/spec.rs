//! What a tool is called, what it takes, and how it is stopped.

use std::time::Duration;

use andon_core::event::Effect;
use serde_json::Value;

use super::DEFAULT_GRACE;

/// How long the cleanup of a call may take, unless the tool says otherwise.
const DEFAULT_CLEANUP: Duration = Duration::from_secs(2);

/// How many bytes of a result are kept, unless the tool says otherwise.
const DEFAULT_OUTPUT: usize = 1 << 20;

/// What a tool is called, what it takes, and how it is stopped.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolSpec {
    /// The name by which the model asks for it.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON schema of its arguments; an object.
    pub schema: Value,
    /// What kind of effect it can have.
    pub effect: Effect,
    /// How long it may take to stop by itself.
    pub grace: Duration,
    /// What a pull does to it.
    pub on_cancel: OnCancel,
    /// How long one call may take; over it that call alone is stopped, and the model is told.
    pub timeout: Option<Duration>,
    /// Whether a person has to say yes first.
    pub needs_approval: bool,
    /// How long the cleanup of its work may take, if it has one; two seconds unless told otherwise. See
    /// [`Work::cleanup`](super::Work::cleanup).
    pub cleanup: Duration,
    /// How long its compensation may take; nothing if it has none.
    pub compensation: Option<Duration>,
    /// How many bytes of its result are kept; what is over is cut, and a notice says so.
    pub max_output: usize,
}

impl ToolSpec {
    /// A tool that is taken to change the world and stops within two seconds when it is told.
    pub fn new(name: impl Into<String>, description: impl Into<String>, schema: Value) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            schema,
            effect: Effect::Effect,
            grace: DEFAULT_GRACE,
            on_cancel: OnCancel::Cooperate,
            timeout: None,
            needs_approval: false,
            cleanup: DEFAULT_CLEANUP,
            compensation: None,
            max_output: DEFAULT_OUTPUT,
        }
    }
}

/// What a pull does to a tool that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnCancel {
    /// It is told, has its grace to stop by itself, and is then dropped.
    #[default]
    Cooperate,
    /// It is dropped at once.
    Drop,
    /// It is let finish, for so long after the pull and no longer. Force `now` drops it all the same.
    Finish {
        /// How long.
        within: Duration,
    },
    /// It is meant to outlive the run: nobody waits for it, and the receipt says so. Only a cancel of this call alone stops
    /// it, as long as the run goes on, and its own time limit.
    Detach,
}
