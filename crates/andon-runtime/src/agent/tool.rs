//! The seam to tools: what the model may call.

use std::sync::Arc;

use andon_core::id::{CallId, RunId, SessionKey};
use andon_core::message::ToolResult;
use andon_core::receipt::Verdict;
use serde_json::Value;

use super::{Progress, SessionState};
use crate::lanes::BoxFuture;
use crate::live::cord::Cord;
use crate::tool::{Returned, ToolError, ToolSpec, Work};

/// Something that the model may call.
///
/// Most tools are functions with `#[tool]` on them, or closures in a [`FnTool`](crate::FnTool). Implement this by hand for a tool that
/// starts something which outlives a dropped future: a process, a remote call. See [`Work::cleanup`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    note = "write #[andon::tool] before the function, or make a tool of a closure: andon::tool(\"name\", \"what it does\").run(..)"
)]
pub trait Tool: Send + Sync + 'static {
    /// Its name, its arguments, and how it is stopped.
    fn spec(&self) -> &Arc<ToolSpec>;

    /// Begins a call. It must not block: whatever takes time belongs in the [`Work`].
    fn call(&self, invocation: Invocation) -> Work;

    /// Undoes what a call did. Called only if the spec has a [`compensation`](ToolSpec::compensation), and only when
    /// somebody asks for it with [`Agent::compensate`](crate::Agent::compensate).
    fn compensate(&self, undo: Undo) -> BoxFuture<Returned> {
        no_compensation(&undo)
    }
}

pub(super) fn no_compensation(undo: &Undo) -> BoxFuture<Returned> {
    let message = format!("the tool {} declares a compensation time but has no compensation", undo.tool);
    Box::pin(std::future::ready(Err(ToolError::new(message))))
}

/// A shared tool is a tool.
impl<T: Tool + ?Sized> Tool for Arc<T> {
    fn spec(&self) -> &Arc<ToolSpec> {
        (**self).spec()
    }

    fn call(&self, invocation: Invocation) -> Work {
        (**self).call(invocation)
    }

    fn compensate(&self, undo: Undo) -> BoxFuture<Returned> {
        (**self).compensate(undo)
    }
}

/// One call of a tool.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Invocation {
    /// The call's id.
    pub call: CallId,
    /// The run that makes the call.
    pub run: RunId,
    /// The run's session.
    pub session: SessionKey,
    /// The arguments, which match the schema.
    pub input: Value,
    /// The run's cord, as this call sees it: to watch it, or to pull it.
    pub cord: Cord,
    /// Shows in the run's feed what the call is doing.
    pub progress: Progress,
    /// The session's state.
    pub state: SessionState,
}

impl Invocation {
    /// A key that no other call has, and that is on record before the call starts: use it to make an effect happen at
    /// most once.
    pub fn effect_id(&self) -> EffectId {
        EffectId::new(&self.run, &self.call)
    }
}

/// A key that makes a call's effect happen at most once: pass it on as the idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EffectId(Arc<str>);

impl EffectId {
    pub(crate) fn new(run: &RunId, call: &CallId) -> Self {
        Self(format!("{run}.{call}").into())
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn shared(self) -> Arc<str> {
        self.0
    }
}

impl std::fmt::Display for EffectId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The call to undo, which has ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Undo {
    /// The tool's name.
    pub tool: String,
    /// The call's id.
    pub call: CallId,
    /// The run that made the call.
    pub run: RunId,
    /// The run's session.
    pub session: SessionKey,
    /// The arguments that it was called with.
    pub input: Value,
    /// What became of the call. `unknown` means that there may be nothing to undo.
    pub verdict: Verdict,
    /// The result that the model got.
    pub result: Arc<ToolResult>,
}

impl Undo {
    /// For tests of a tool. A runtime makes its own.
    pub fn new(
        tool: impl Into<String>,
        call: CallId,
        run: RunId,
        session: SessionKey,
        input: Value,
        verdict: Verdict,
        result: Arc<ToolResult>,
    ) -> Self {
        Self { tool: tool.into(), call, run, session, input, verdict, result }
    }
}

impl Undo {
    /// The key that the call itself had.
    pub fn effect_id(&self) -> EffectId {
        EffectId::new(&self.run, &self.call)
    }
}
