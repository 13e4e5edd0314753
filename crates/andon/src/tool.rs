//! The seam to tools: what the model may ask for.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use andon_core::event::Effect;
use andon_core::id::{CallId, RunId, SessionKey};
use andon_core::message::Content;
use serde_json::Value;

use crate::cord::Cord;

/// A future that a tool or hook returns.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The grace of a tool that names none.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(2);

/// Something that the model may ask for.
///
/// Tools run on threads of their own, so one that blocks for a moment delays no stop. One that blocks for long cannot be
/// stopped, only abandoned by name.
pub trait Tool: Send + Sync + 'static {
    /// What it is called, what it takes, and how it is stopped.
    fn spec(&self) -> &Arc<ToolSpec>;

    /// Does it. The future is polled on the tools' own threads; when the cord is pulled it gets its grace, and is then
    /// dropped.
    fn call(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, ToolError>>;
}

/// What a tool is called, what it takes, and how it is stopped.
#[derive(Debug, Clone, PartialEq)]
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
    /// Whether a person has to say yes first.
    pub needs_approval: bool,
}

/// One call of a tool.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The call's id. Together with the run's it makes a key under which an effect can be done at most once.
    pub call: CallId,
    /// The run that asks.
    pub run: RunId,
    /// The run's session.
    pub session: SessionKey,
    /// The arguments, which fit the schema.
    pub input: Value,
    /// The run's cord, as this call sees it: to watch it, or to pull it.
    pub cord: Cord,
}

impl Invocation {
    /// A key that no other call has: under it an effect can be made to happen at most once.
    pub fn effect_id(&self) -> String {
        format!("{}.{}", self.run, self.call)
    }
}

/// What a tool returns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolOutput(pub Vec<Content>);

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self(vec![Content::Text { text }])
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<Value> for ToolOutput {
    fn from(value: Value) -> Self {
        Self::from(value.to_string())
    }
}

impl From<Vec<Content>> for ToolOutput {
    fn from(content: Vec<Content>) -> Self {
        Self(content)
    }
}

/// Why a tool failed, in words that the model can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError(pub String);

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl ToolError {
    /// An error in the tool's own words.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// A tool made from an async closure.
///
/// ```
/// use andon::{FnTool, Effect};
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
    run: Box<RunFn>,
}

type RunFn = dyn Fn(Invocation) -> BoxFuture<Result<ToolOutput, ToolError>> + Send + Sync;

impl FnTool {
    /// A tool of this name that does what the closure does.
    pub fn new<F, R>(name: impl Into<String>, description: impl Into<String>, schema: Value, run: F) -> Self
    where
        F: Fn(Invocation) -> R + Send + Sync + 'static,
        R: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        let spec = ToolSpec {
            name: name.into(),
            description: description.into(),
            schema,
            effect: Effect::Effect,
            grace: DEFAULT_GRACE,
            needs_approval: false,
        };
        Self { spec: Arc::new(spec), run: Box::new(move |call| Box::pin(run(call))) }
    }

    /// What kind of effect it can have. Unless told otherwise it is taken to change the world.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        Arc::make_mut(&mut self.spec).effect = effect;
        self
    }

    /// How long it may take to stop by itself; two seconds unless told otherwise.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        Arc::make_mut(&mut self.spec).grace = grace;
        self
    }

    /// A person has to say yes before each call.
    #[must_use]
    pub fn needs_approval(mut self) -> Self {
        Arc::make_mut(&mut self.spec).needs_approval = true;
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

    fn call(&self, invocation: Invocation) -> BoxFuture<Result<ToolOutput, ToolError>> {
        (self.run)(invocation)
    }
}
