//! A tool made from a closure.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use andon_core::event::Effect;
use serde_json::Value;

use super::{Invocation, Tool, Undo};
use crate::lanes::BoxFuture;
use crate::tool::{OnCancel, Returned, ToolSpec, Work};

/// A tool made from a closure.
///
/// ```
/// use andon_runtime::{FnTool, Effect};
/// use serde_json::json;
///
/// let shout = FnTool::new("shout", "Says it louder.", json!({
///     "type": "object",
///     "properties": { "text": { "type": "string" } },
///     "required": ["text"],
/// }), |call| async move {
///     let text = call.input["text"].as_str().unwrap_or_default().to_uppercase();
///     Ok(text.into())
/// }).effect(Effect::ReadOnly);
/// # let _ = shout;
/// ```
pub struct FnTool {
    spec: Arc<ToolSpec>,
    work: Box<WorkFn>,
    undo: Option<Box<UndoFn>>,
}

type WorkFn = dyn Fn(Invocation) -> Work + Send + Sync;
type UndoFn = dyn Fn(Undo) -> BoxFuture<Returned> + Send + Sync;

impl FnTool {
    /// A tool with this name that runs the async closure.
    pub fn new<F, R>(name: impl Into<String>, description: impl Into<String>, schema: Value, run: F) -> Self
    where
        F: Fn(Invocation) -> R + Send + Sync + 'static,
        R: Future<Output = Returned> + Send + 'static,
    {
        Self::from_spec(ToolSpec::new(name, description, schema), move |call| Work::task(run(call)))
    }

    /// A tool with this name that runs the closure, which may block: it runs on a separate thread.
    pub fn blocking<F>(name: impl Into<String>, description: impl Into<String>, schema: Value, run: F) -> Self
    where
        F: Fn(Invocation) -> Returned + Send + Sync + 'static,
    {
        let run = Arc::new(run);
        Self::from_spec(ToolSpec::new(name, description, schema), move |call| {
            let run = Arc::clone(&run);
            Work::blocking(move || run(call))
        })
    }

    /// A tool with this spec.
    pub fn from_spec(spec: ToolSpec, work: impl Fn(Invocation) -> Work + Send + Sync + 'static) -> Self {
        Self { spec: Arc::new(spec), work: Box::new(work), undo: None }
    }

    /// What kind of effect it can have. By default it is assumed to change the world.
    #[must_use]
    pub fn effect(self, effect: Effect) -> Self {
        self.with(|spec| spec.effect = effect)
    }

    /// How long it may take to stop by itself; two seconds by default.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        self.with(|spec| spec.grace = grace)
    }

    /// What a pull does to it; by default it is told and has its grace.
    #[must_use]
    pub fn on_cancel(self, on_cancel: OnCancel) -> Self {
        self.with(|spec| spec.on_cancel = on_cancel)
    }

    /// How long one call may take. After that the call alone is stopped, and the model is told.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|spec| spec.timeout = Some(timeout))
    }

    /// A person must approve each call.
    #[must_use]
    pub fn needs_approval(self) -> Self {
        self.with(|spec| spec.needs_approval = true)
    }

    /// How long the cleanup of its work may take, if it has one; two seconds by default. See [`Work::cleanup`].
    #[must_use]
    pub fn cleanup_within(self, cleanup: Duration) -> Self {
        self.with(|spec| spec.cleanup = cleanup)
    }

    /// How many bytes of its result are kept; a mebibyte by default.
    #[must_use]
    pub fn max_output(self, bytes: usize) -> Self {
        self.with(|spec| spec.max_output = bytes)
    }

    /// Undoes a call, within this time. It runs only when somebody asks for it with
    /// [`Agent::compensate`](crate::Agent::compensate).
    #[must_use]
    pub fn compensation<F, R>(mut self, within: Duration, undo: F) -> Self
    where
        F: Fn(Undo) -> R + Send + Sync + 'static,
        R: Future<Output = Returned> + Send + 'static,
    {
        self.undo = Some(Box::new(move |call| Box::pin(undo(call))));
        self.with(|spec| spec.compensation = Some(within))
    }

    fn with(mut self, change: impl FnOnce(&mut ToolSpec)) -> Self {
        change(Arc::make_mut(&mut self.spec));
        self
    }
}

impl fmt::Debug for FnTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnTool").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl Tool for FnTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, invocation: Invocation) -> Work {
        (self.work)(invocation)
    }

    fn compensate(&self, undo: Undo) -> BoxFuture<Returned> {
        match &self.undo {
            Some(compensation) => compensation(undo),
            None => super::tool::no_compensation(&undo),
        }
    }
}
