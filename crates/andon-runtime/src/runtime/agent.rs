//! An agent: a model, instructions, tools and limits.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use andon_core::cancel::ReplyKind;
use andon_core::event::HookPoint;
use andon_core::history::History;
use andon_core::id::{CallId, IdError, LOCAL, RunId, SessionId, SessionKey};
use andon_core::limits::Limits;
use andon_core::message::Message;
use andon_core::outcome::Outcome;

use crate::agent::hook::{Hook, Moment};
use crate::agent::{AgentCore, BuildError, CheckedTool, Tool, setup_digest, validator};
use crate::journal::JournalError;
use crate::journal::sessions::{StateChange, StateMap};
use crate::live::Decision;
use crate::live::cord::{Cancel, Cord, Reply};
use crate::live::run::Run;
use crate::model::rendering::Rendering;
use crate::model::retry::Retry;
use crate::model::{Model, Request};
use crate::runtime::Runtime;
use crate::runtime::compensate::{self, CompensateError, Compensated};
use crate::runtime::prompt::{Prompt, StartError};
use crate::session::SessionCore;
use crate::tool::ToolSpec;

/// A model, instructions, tools and limits. Cheap to clone, usable from many threads.
///
/// An agent has its own conversation, as in Strands: [`run`](Agent::run) and [`start`](Agent::start) continue it.
/// [`session`](Agent::session) gives others.
#[derive(Clone)]
pub struct Agent {
    pub(crate) core: Arc<AgentCore>,
    pub(crate) session: Arc<SessionCore>,
    pub(crate) runtime: Runtime,
}

impl Agent {
    /// Builds an agent.
    pub fn builder() -> AgentBuilder {
        AgentBuilder::default()
    }

    /// The agent's name.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// Runs a prompt in the agent's own conversation and waits for the outcome. A run that was cancelled or that failed
    /// has an outcome, too. Whoever wants only a finished answer asks for it with
    /// [`completed`](andon_core::outcome::Outcome::completed):
    ///
    /// ```
    /// # use andon_practice::Practice;
    /// # use andon_runtime::Agent;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let agent = Agent::builder().model(Practice::instant()).build()?;
    /// let text = agent.run("Hello").await?.completed()?.text();
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run(&self, input: impl Into<Message>) -> Result<Arc<Outcome>, StartError> {
        self.prompt(input).run().await
    }

    /// Starts a prompt in the agent's own conversation.
    pub fn start(&self, input: impl Into<Message>) -> Result<Run, StartError> {
        self.prompt(input).start()
    }

    /// Prepares a prompt, for options on how to run it.
    pub fn prompt(&self, input: impl Into<Message>) -> Prompt {
        Prompt::new(self.clone(), input.into())
    }

    /// The same agent in another conversation, which is created if it is new. The user is `local`.
    pub fn session(&self, id: impl AsRef<str>) -> Result<Self, IdError> {
        self.session_of(LOCAL, id)
    }

    /// The same agent in another conversation, of this user.
    pub fn session_of(&self, user: &str, id: impl AsRef<str>) -> Result<Self, IdError> {
        Ok(self.in_session(&SessionKey::new(&self.core.name, user, id)?))
    }

    /// The same agent in the conversation with this key. The app is the agent's name, whatever the key says.
    #[must_use]
    pub fn in_session(&self, key: &SessionKey) -> Self {
        // An agent's sessions share its name.
        let key = key.clone().app(Arc::clone(&self.core.name));
        Self { session: self.runtime.core.sessions.get(&key), ..self.clone() }
    }

    /// The same agent in a new conversation of this user. Its id is made here, so there is no history to read before
    /// its first run.
    pub fn in_new_session(&self, tenant: &str, user: &str) -> Result<Self, IdError> {
        let session = self.runtime.core.new_session(tenant, &self.core.name, user)?;
        Ok(Self { session, ..self.clone() })
    }

    /// The name of its model.
    pub fn model_name(&self) -> &str {
        &self.core.model_name
    }

    /// The agent's instructions to its model, if it has any.
    pub fn instructions(&self) -> Option<&str> {
        self.core.instructions.as_deref()
    }

    /// Its tools: their names, their arguments, and how they are stopped.
    pub fn tools(&self) -> &[Arc<ToolSpec>] {
        &self.core.specs
    }

    /// What each of its runs may use.
    pub fn limits(&self) -> Limits {
        self.core.limits
    }

    /// The key of the conversation that this handle is for.
    pub fn session_key(&self) -> &SessionKey {
        &self.session.key
    }

    /// What was said in this conversation, by all runs that have settled.
    pub async fn history(&self) -> Result<Vec<Arc<Message>>, JournalError> {
        self.runtime.history(&self.session.key).await
    }

    /// This conversation's state, including what it shares with others: see [`StateMap`]. Empty if nothing was said or
    /// set yet.
    pub async fn state(&self) -> Result<StateMap, JournalError> {
        Ok(self.runtime.state(&self.session.key).await?.unwrap_or_default())
    }

    /// Changes this conversation's state, all of it or nothing; a key without a value is removed.
    pub async fn change_state(&self, change: StateChange) -> Result<(), JournalError> {
        self.runtime.change_state(&self.session.key, change).await
    }

    /// Undoes what a call of a settled run did, with its tool's compensation and within the time that it may take. The
    /// compensation is on record before it begins, and its result afterwards: both are in the run's receipt. Dropping
    /// this future does not stop it.
    ///
    /// [`Runtime::find`] finds a run of an earlier process. A compensation that failed, or whose end is not known, may
    /// be asked for again: the tool sees by [`Undo::effect_id`](crate::Undo::effect_id) that it is the same one.
    pub async fn compensate(&self, run: &Run, call: &CallId, by: Option<&str>) -> Result<Compensated, CompensateError> {
        compensate::compensate(&self.core, run.live(), call, by.map(Arc::from)).await
    }

    /// Cancels every run in progress of this agent, in all its sessions. If there is none, the agent is armed: its next
    /// run is cancelled before it calls its model, and the one after that is normal.
    pub fn cancel(&self) -> AgentReply {
        self.cancel_with(Cancel::graceful())
    }

    /// As [`cancel`](Agent::cancel), with a force, a reason or a note.
    pub fn cancel_with(&self, cancel: Cancel) -> AgentReply {
        let runs = self.runtime.core.registry.of_agent_or_arm(self.core.id, &cancel);
        if runs.is_empty() {
            return AgentReply::Armed;
        }
        AgentReply::Runs(runs.into_iter().map(|live| Cord::new(live, None).pull(cancel.clone())).collect())
    }

    /// Disarms the agent; returns whether it was armed.
    pub fn disarm(&self) -> bool {
        self.runtime.core.registry.take_arm(self.core.id).is_some()
    }

    /// What a run with this history would send to the model now. Nothing is sent.
    pub fn rendering(&self, run: &RunId, history: impl Into<History>) -> Rendering {
        let request = Request {
            run: run.clone(),
            number: 1,
            instructions: self.core.instructions.clone(),
            history: history.into(),
            tools: Arc::clone(&self.core.specs),
            anchor: None,
        };
        self.core.model.rendering(&request).unwrap_or_else(|| Rendering::plain(&request))
    }

    /// The run in progress in this conversation, if there is one.
    pub fn current(&self) -> Option<Run> {
        self.session.seated().map(Run::new)
    }

    /// The runtime that this agent's runs share with others.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("name", &self.core.name)
            .field("model", &self.core.model_name)
            .field("session", &self.session.key)
            .finish_non_exhaustive()
    }
}

/// What `agent.cancel()` did.
#[derive(Debug, Clone)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum AgentReply {
    /// What the cancel did to each run in progress.
    Runs(Vec<Reply>),
    /// No run was in progress: the agent's next run will be cancelled before it calls its model, unless
    /// [`disarm`](crate::Agent::disarm) is called first.
    Armed,
}

impl AgentReply {
    /// It in one word: `armed`, or the reply of the first run.
    pub fn kind(&self) -> ReplyKind {
        match self {
            Self::Runs(replies) => replies.first().map_or(ReplyKind::NotRunning, |reply| reply.kind().clone()),
            Self::Armed => ReplyKind::Armed,
        }
    }
}

/// Builds an [`Agent`].
pub struct AgentBuilder {
    name: String,
    model: Option<Arc<dyn Model>>,
    instructions: Option<Arc<str>>,
    tools: Vec<Arc<dyn Tool>>,
    hooks: Vec<Hook>,
    limits: Limits,
    retry: Retry,
    tools_at_once: usize,
    runtime: Option<Runtime>,
}

impl Default for AgentBuilder {
    fn default() -> Self {
        Self {
            name: "agent".to_owned(),
            model: None,
            instructions: None,
            tools: Vec::new(),
            hooks: Vec::new(),
            limits: Limits::NONE,
            retry: Retry::default(),
            tools_at_once: 8,
            runtime: None,
        }
    }
}

impl AgentBuilder {
    /// The agent's name; `agent` by default.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The model.
    #[must_use]
    pub fn model(mut self, model: impl Model) -> Self {
        self.model = Some(Arc::new(model));
        self
    }

    /// The agent's instructions to its model, in every conversation.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<Arc<str>>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Adds a tool that the model may call.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Adds tools that the model may call.
    #[must_use]
    pub fn tools<T: Tool>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.tools.extend(tools.into_iter().map(|tool| Arc::new(tool) as Arc<dyn Tool>));
        self
    }

    /// What each run may use.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// When a failed model call is retried.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// How many tools of one turn run at once; 8 by default.
    #[must_use]
    pub fn tools_at_once(mut self, tools: usize) -> Self {
        self.tools_at_once = tools;
        self
    }

    /// Runs the tools of one turn one after another, in the model's order.
    #[must_use]
    pub fn sequential_tools(self) -> Self {
        self.tools_at_once(1)
    }

    /// The runtime that the agent's runs share with others; [`Runtime::shared`] by default.
    #[must_use]
    pub fn runtime(mut self, runtime: &Runtime) -> Self {
        self.runtime = Some(runtime.clone());
        self
    }

    /// Calls this before each run.
    #[must_use]
    pub fn before_run<F, R>(self, hook: F) -> Self
    where
        F: Fn(Moment) -> R + Send + Sync + 'static,
        R: Future<Output = Decision> + Send + 'static,
    {
        self.hook(HookPoint::BeforeRun, hook)
    }

    /// Calls this after each run that began. If the run was stopped, the hook has a tool's default grace; after force
    /// `now` it is not called.
    #[must_use]
    pub fn after_run<F, R>(self, hook: F) -> Self
    where
        F: Fn(Moment) -> R + Send + Sync + 'static,
        R: Future<Output = Decision> + Send + 'static,
    {
        self.hook(HookPoint::AfterRun, hook)
    }

    /// Calls this before each model call.
    #[must_use]
    pub fn before_model<F, R>(self, hook: F) -> Self
    where
        F: Fn(Moment) -> R + Send + Sync + 'static,
        R: Future<Output = Decision> + Send + 'static,
    {
        self.hook(HookPoint::BeforeModel, hook)
    }

    /// Calls this after each complete answer.
    #[must_use]
    pub fn after_model<F, R>(self, hook: F) -> Self
    where
        F: Fn(Moment) -> R + Send + Sync + 'static,
        R: Future<Output = Decision> + Send + 'static,
    {
        self.hook(HookPoint::AfterModel, hook)
    }

    /// Calls this before each tool call, one after another. It may deny the call.
    #[must_use]
    pub fn before_tool<F, R>(self, hook: F) -> Self
    where
        F: Fn(Moment) -> R + Send + Sync + 'static,
        R: Future<Output = Decision> + Send + 'static,
    {
        self.hook(HookPoint::BeforeTool, hook)
    }

    /// Calls this after each tool call, one after another.
    #[must_use]
    pub fn after_tool<F, R>(self, hook: F) -> Self
    where
        F: Fn(Moment) -> R + Send + Sync + 'static,
        R: Future<Output = Decision> + Send + 'static,
    {
        self.hook(HookPoint::AfterTool, hook)
    }

    fn hook<F, R>(mut self, point: HookPoint, hook: F) -> Self
    where
        F: Fn(Moment) -> R + Send + Sync + 'static,
        R: Future<Output = Decision> + Send + 'static,
    {
        self.hooks.push(Hook::new(point, hook));
        self
    }

    /// Builds the agent, or says what to change first.
    pub fn build(self) -> Result<Agent, BuildError> {
        let model = self.model.ok_or(BuildError::NoModel)?;
        let name = SessionId::new(&self.name).map_err(BuildError::BadName)?;
        if let Some(limit) = self.limits.zero() {
            return Err(BuildError::ZeroLimit(limit));
        }
        if self.tools_at_once == 0 {
            return Err(BuildError::NoToolAtOnce);
        }
        let mut tools: Vec<CheckedTool> = Vec::with_capacity(self.tools.len());
        for tool in self.tools {
            if tools.iter().any(|other| other.tool.spec().name == tool.spec().name) {
                return Err(BuildError::TwoToolsOfOneName(tool.spec().name.clone()));
            }
            tools.push(CheckedTool { validator: validator(tool.spec())?, tool });
        }
        let runtime = self.runtime.unwrap_or_default();
        let specs: Arc<[_]> = tools.iter().map(|checked| Arc::clone(checked.tool.spec())).collect();
        let core = AgentCore {
            id: runtime.core.agents.next_id(),
            name: name.as_str().into(),
            model_name: model.name().into(),
            model,
            setup: setup_digest(self.instructions.as_deref(), &specs),
            instructions: self.instructions,
            tools,
            specs,
            hooks: self.hooks,
            limits: self.limits,
            retry: self.retry,
            tools_at_once: self.tools_at_once,
        };
        let session = runtime.core.new_session(LOCAL, &core.name, LOCAL).map_err(BuildError::BadName)?;
        let core = Arc::new(core);
        runtime.core.agents.add(&core);
        Ok(Agent { core, session, runtime })
    }
}

impl fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use andon_core::message::Message;
    use serde_json::json;

    use super::*;
    use crate::model::fake::Brief;

    #[test]
    fn a_model_without_its_own_format_is_shown_in_andons() {
        let agent = Agent::builder().model(Brief).instructions("Be brief.").build().unwrap();
        let history = vec![Arc::new(Message::user("")), Arc::new(Message::user("Hello"))];
        let shown = agent.rendering(&RunId::new("r").unwrap(), history.clone());
        let prompt = andon_core::prompt::prompt(history.iter().map(|message| &**message));
        let expected = json!({"instructions": "Be brief.", "messages": prompt});
        assert_eq!(shown, Rendering::new("andon", expected));
    }
}
