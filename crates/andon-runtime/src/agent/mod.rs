//! What an agent is made of: its model, instructions, tools, hooks and limits. A user's handle on it is
//! [`Agent`](crate::Agent).

mod arguments;
mod fn_tool;
pub(crate) mod hook;
pub mod macro_support;
pub(crate) mod names;
mod progress;
mod state;
mod tool;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use andon_core::id::IdError;
use andon_core::limits::Limits;
use serde_json::Value;

use crate::model::Model;
use crate::model::retry::Retry;
use crate::session::anchors::Asked;
use crate::session::registry::AgentId;
use crate::session::unnamed::Unnamed;
use crate::tool::ToolSpec;
use crate::tool::validator::Validator;
use hook::Hooks;

pub use self::tool::{EffectId, Invocation, Tool, Undo};
pub use fn_tool::{FnTool, ToolBuilder, tool};
pub use macro_support::{ToolReturn, tool, tools};
pub use progress::Progress;
pub use state::{SessionState, StateError};

/// An agent as its runs see it.
pub(crate) struct AgentCore {
    pub(crate) id: AgentId,
    pub(crate) name: Arc<str>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) model_name: Arc<str>,
    pub(crate) instructions: Option<Arc<str>>,
    pub(crate) tools: Vec<CheckedTool>,
    pub(crate) specs: Arc<[Arc<ToolSpec>]>,
    /// See [`setup_digest`].
    pub(crate) setup: u64,
    pub(crate) hooks: Hooks,
    pub(crate) limits: Limits,
    pub(crate) retry: Retry,
    pub(crate) tools_at_once: usize,
    /// What its sessions remember of it, if nobody gave it a name.
    pub(crate) unnamed: Option<Arc<Unnamed>>,
}

impl AgentCore {
    /// Whom its calls ask.
    pub(crate) fn asked(&self) -> Asked {
        Asked { model: Arc::clone(&self.model_name), setup: Some(self.setup) }
    }
}

/// Tells instructions and tools, as a model gets them, from others.
pub(crate) fn setup_digest(instructions: Option<&str>, specs: &[Arc<ToolSpec>]) -> u64 {
    let mut hasher = DefaultHasher::new();
    instructions.hash(&mut hasher);
    for spec in specs {
        (&spec.name, &spec.description, spec.schema.to_string()).hash(&mut hasher);
    }
    hasher.finish()
}

/// A tool with the validator of its arguments.
pub(crate) struct CheckedTool {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) validator: Validator,
}

/// Why an agent cannot be built, and what to change.
///
/// ```
/// use andon_runtime::{Agent, BuildError};
///
/// assert_eq!(Agent::builder().build().unwrap_err(), BuildError::NoModel);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum BuildError {
    /// No model was given.
    #[error("an agent needs a model: call .model(..), for example .model(Practice::new())")]
    NoModel,
    /// Two tools have the same name.
    #[error("two tools are called {0:?}: rename one of them, because the model calls tools by name")]
    TwoToolsOfOneName(String),
    /// A tool's name is not one that every provider accepts.
    #[error("{0:?} cannot be a tool's name: use 1 to 64 letters, digits, '_' and '-'")]
    BadToolName(String),
    /// A tool's schema is not valid, or does not describe an object.
    #[error("the schema of tool {tool:?} cannot be used: {why}")]
    BadSchema {
        /// The tool.
        tool: String,
        /// What is wrong with it.
        why: String,
    },
    /// A limit is zero.
    #[error("the limit {0:?} is zero, so every run would stop before it began: raise it, or leave it out")]
    ZeroLimit(&'static str),
    /// No tool could ever run.
    #[error("tools_at_once is zero, so no tool could run: use 1 to run them one after another")]
    NoToolAtOnce,
    /// The agent's name is not valid.
    #[error("the agent's name cannot be used: {0}")]
    BadName(IdError),
}

/// Makes the validator of a tool's arguments.
pub(crate) fn validator(spec: &ToolSpec) -> Result<Validator, BuildError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if spec.name.is_empty() || spec.name.len() > 64 || !spec.name.bytes().all(is_plain) {
        return Err(BuildError::BadToolName(spec.name.clone()));
    }
    let bad = |why: String| BuildError::BadSchema { tool: spec.name.clone(), why };
    if let Some(flaw) = &spec.flaw {
        return Err(bad(flaw.to_string()));
    }
    let describes_object = spec.schema.get("type").and_then(Value::as_str) == Some("object");
    if !describes_object {
        return Err(bad("it must describe an object: write {\"type\": \"object\", \"properties\": {..}}".to_owned()));
    }
    Validator::of(&spec.schema).map_err(bad)
}

impl ToolSpec {
    /// Checks whether an agent can have this tool: every provider must accept its name, and its schema must be usable.
    /// Building an agent checks this, too; use it for tools from elsewhere that may be left out.
    pub fn check(&self) -> Result<(), BuildError> {
        validator(self).map(drop)
    }
}
