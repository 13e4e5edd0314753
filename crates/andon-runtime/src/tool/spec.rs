//! A tool's name, its arguments, and how it is stopped.

use std::sync::Arc;
use std::time::Duration;

use andon_core::event::Effect;
use serde_json::Value;

use super::DEFAULT_GRACE;

/// How long the cleanup of a call may take, by default.
const DEFAULT_CLEANUP: Duration = Duration::from_secs(2);

/// How many bytes of a result are kept, by default.
const DEFAULT_OUTPUT: usize = 1 << 20;

/// A tool's name, its arguments, and how it is stopped.
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
    /// How long one call may take. After that the call alone is stopped, and the model is told.
    pub timeout: Option<Duration>,
    /// Whether a person must approve each call first.
    pub needs_approval: bool,
    /// How long the cleanup of its work may take, if it has one; two seconds by default. See
    /// [`Work::cleanup`](super::Work::cleanup).
    pub cleanup: Duration,
    /// How long its compensation may take; `None` if it has none.
    pub compensation: Option<Duration>,
    /// How many bytes of its result are kept; the rest is cut, and a notice says so.
    pub max_output: usize,
    /// Why its schema could not be made from a type, if so. No agent can have such a tool.
    pub(crate) flaw: Option<Arc<str>>,
}

impl ToolSpec {
    /// A tool that is assumed to change the world, and to stop within two seconds when it is told.
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
            flaw: None,
        }
    }
}

/// What a pull does to a running tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum OnCancel {
    /// It is told, has its grace in which to stop by itself, and is then dropped.
    #[default]
    Cooperate,
    /// It is dropped at once.
    Drop,
    /// It may finish, within this time after the pull. Force `now` drops it at once.
    Finish {
        /// How long.
        within: Duration,
    },
    /// It is meant to outlive the run: the run does not wait for it, and the receipt says so. Only two things stop it:
    /// its own time limit, and, while the run goes on, a cancel of this call alone.
    Detach,
}
