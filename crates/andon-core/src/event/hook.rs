//! Where hooks are called, how they end, and what they change.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::message::{Message, ToolCall, ToolResult};
use crate::request::RequestChange;

/// Where a hook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum HookPoint {
    /// Before the first model call.
    BeforeRun,
    /// Before the run settles.
    AfterRun,
    /// Before a model call.
    BeforeModel,
    /// After a model call.
    AfterModel,
    /// Before a tool is started.
    BeforeTool,
    /// After a tool has finished.
    AfterTool,
}

/// How a hook ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum HookEnd {
    /// It let the run go on.
    Continued,
    /// It changed what it was called with, and let the run go on.
    Changed,
    /// It denied the tool call.
    Denied,
    /// It answered the tool call, so that the tool is not started.
    Answered,
    /// It wants a person to approve the tool call.
    Asked,
    /// It failed the run, or what it returned cannot be used.
    Failed,
    /// It cancelled the run.
    Cancelled,
    /// It panicked.
    Panicked,
    /// The run was stopped while the hook waited, and the hook was dropped.
    Cut,
    /// The run was stopped while the hook waited, and the hook did not yield, so it could not be dropped.
    Leaked,
}

/// What a hook changed. What was there before is in earlier events, and stays on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum HookChange {
    /// The prompt, as the conversation has it from now on.
    Input {
        /// The new prompt.
        input: Arc<Message>,
    },
    /// The request of the next model call. The conversation stays as it is.
    Request {
        /// How it differs from what the agent would have sent, including what earlier hooks of this model call changed.
        request: RequestChange,
    },
    /// The last answer, as the conversation has it from now on.
    Answer {
        /// The new answer.
        answer: Arc<Message>,
        /// Whether the model's answer was withdrawn: then none of its calls was made, their results are withdrawn with it, and the
        /// run ends as refused. If not, the new answer has the same calls.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_withdrawn: bool,
    },
    /// A call, as its tool gets it. In the conversation it stays as the model wrote it.
    Call {
        /// The new name and arguments, with the same id.
        call: ToolCall,
    },
    /// A call's result, as the conversation has it from now on.
    Result {
        /// The new result.
        result: Arc<ToolResult>,
    },
}
