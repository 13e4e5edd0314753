//! Where hooks are called, and how they end.

use serde::{Deserialize, Serialize};

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
    /// It denied the tool call.
    Denied,
    /// It cancelled the run.
    Cancelled,
    /// It panicked.
    Panicked,
    /// The run was stopped while the hook waited, and the hook was dropped.
    Cut,
    /// The run was stopped while the hook waited, and the hook did not yield, so it could not be dropped.
    Leaked,
}
