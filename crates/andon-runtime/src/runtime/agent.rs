//! An agent: a model, instructions, tools and limits.

use std::fmt;
use std::sync::Arc;

use andon_core::cancel::ReplyKind;
use andon_core::history::History;
use andon_core::id::{CallId, IdError, LOCAL, RunId, SessionId, SessionKey, local};
use andon_core::limits::Limits;
use andon_core::message::Message;
use andon_core::outcome::Outcome;

use crate::agent::hook::Hooks;
use crate::agent::{AgentCore, BuildError, CheckedTool, Tool, setup_digest, validator};
use crate::journal::JournalError;
use crate::live::cord::{Cancel, Reply, all_recorded, kind_of_all};
use crate::live::run::Run;
use crate::model::rendering::Rendering;
use crate::model::retry::Retry;
use crate::model::{Model, ModelRequest};
use crate::runtime::Runtime;
use crate::runtime::compensate::{self, CompensateError, Compensated};
use crate::runtime::prompt::{Prompt, StartError};
use crate::runtime::session::{Session, SessionError};
use crate::session::anchors::Asked;
use crate::session::unnamed::Unnamed;
use crate::tool::ToolSpec;

/// The name of an agent that was given none.
const NO_NAME: &str = "agent";

/// A model, instructions, tools and limits. Cheap to clone, usable from many threads.
///
/// An agent has no conversation. [`session`](Agent::session) opens one, which remembers what was said in it.
/// [`run`](Agent::run), [`start`](Agent::start) and [`prompt`](Agent::prompt) are for one question: each is in a new
/// session of its own, so that no question is sent with what was said in another, whoever asked it.
///
/// ```
/// # use andon_practice::Practice;
/// use andon_runtime::Agent;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = Agent::builder().name("guide").model(Practice::instant()).instructions("Be brief.").build()?;
/// let text = agent.run("Hello").await?.completed()?.text();
/// # assert!(!text.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Agent {
    pub(crate) core: Arc<AgentCore>,
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

    /// Asks one question, in a new session of its own, and waits for the outcome. A run that was cancelled or that
    /// failed has an outcome, too. Whoever wants only a finished answer asks for it with
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
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe, on purpose: dropping it cancels the run. See [`Prompt::run`].
    pub async fn run(&self, input: impl Into<Message>) -> Result<Arc<Outcome>, StartError> {
        self.prompt(input).run().await
    }

    /// Starts one question, in a new session of its own.
    pub fn start(&self, input: impl Into<Message>) -> Result<Run, StartError> {
        self.prompt(input).start()
    }

    /// Prepares one question, in a new session of its own, for options on how to run it.
    pub fn prompt(&self, input: impl Into<Message>) -> Prompt {
        Prompt::new(self.fresh_session(local(), local()), input.into())
    }

    /// A conversation of this user, which is created if it is new.
    ///
    /// It is kept under the agent's name, so agents that do different work need different
    /// [names](AgentBuilder::name). Two that have none are refused the same session.
    pub fn session(&self, user: &str, id: impl AsRef<str>) -> Result<Session, SessionError> {
        self.open(&SessionKey::new(&self.core.name, user, id)?)
    }

    /// The conversation with this key, of any tenant, which is created if it is new. Refused if the key is another
    /// agent's.
    pub fn session_by_key(&self, key: &SessionKey) -> Result<Session, SessionError> {
        if key.app != self.core.name {
            let agent = Arc::clone(&self.core.name);
            return Err(SessionError::OtherAgent { session: Box::new(key.clone()), agent });
        }
        self.open(key)
    }

    /// A new conversation of this user. Its id is made here, so that there is no history to read before its first run.
    pub fn new_session(&self, user: &str) -> Result<Session, IdError> {
        self.new_session_of(LOCAL, user)
    }

    /// As [`new_session`](Agent::new_session), of this tenant's user.
    pub fn new_session_of(&self, tenant: &str, user: &str) -> Result<Session, IdError> {
        let [tenant, user] = [SessionId::new(tenant)?, SessionId::new(user)?].map(|name| name.as_str().into());
        Ok(self.fresh_session(tenant, user))
    }

    fn open(&self, key: &SessionKey) -> Result<Session, SessionError> {
        let core = self.runtime.core.sessions.get(key);
        if !self.may_open(&core.key) {
            return Err(SessionError::TwoUnnamed(Box::new(key.clone())));
        }
        Ok(Session { core, agent: self.clone() })
    }

    fn fresh_session(&self, tenant: Arc<str>, user: Arc<str>) -> Session {
        let core = self.runtime.core.new_session(tenant, Arc::clone(&self.core.name), user);
        // Nobody else can have it: its key is new.
        self.may_open(&core.key);
        Session { core, agent: self.clone() }
    }

    /// Notes that it has this session, unless another agent under the same default name does.
    fn may_open(&self, key: &Arc<SessionKey>) -> bool {
        self.core.unnamed.as_ref().is_none_or(|unnamed| self.runtime.core.unnamed.open(key, unnamed))
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

    /// Undoes what a call of a settled run did, with its tool's compensation and within the time that it may take. The
    /// compensation is on record before it begins, and its result afterwards: both are in the run's receipt. Dropping
    /// this future does not stop it.
    ///
    /// [`Runtime::find`] finds a run of an earlier process. A compensation that failed, or whose end is not known, may
    /// be asked for again: the tool sees by [`Undo::effect_id`](crate::Undo::effect_id) that it is the same one.
    ///
    /// # Cancel safety
    ///
    /// Dropping this future does not stop the compensation, and its result is recorded.
    pub async fn compensate(&self, run: &Run, call: &CallId, by: Option<&str>) -> Result<Compensated, CompensateError> {
        compensate::compensate(&self.core, run.live(), call, by.map(Arc::from)).await
    }

    /// Cancels every run in progress of this agent, whoever's it is: in all sessions of all users. If there is none, the
    /// agent is armed: its next run, whoever starts it, is cancelled before it calls its model, and the one after that
    /// is normal. This is the contract of Strands' `agent.cancel()`.
    ///
    /// To stop what one user sees, cancel that session with [`Session::cancel`] or that run with [`Run::cancel`]: these
    /// reach nobody else and never arm.
    pub fn cancel(&self) -> AgentReply {
        self.cancel_with(Cancel::graceful())
    }

    /// As [`cancel`](Agent::cancel), with a force, a reason or a note.
    pub fn cancel_with(&self, cancel: Cancel) -> AgentReply {
        let runs = self.runtime.core.registry.of_agent_or_arm(self.core.id, &cancel);
        if runs.is_empty() {
            return AgentReply::Armed;
        }
        AgentReply::Runs(self.runtime.core.sessions.pull_together(&runs, &cancel))
    }

    /// Disarms the agent; returns whether it was armed.
    pub fn disarm(&self) -> bool {
        self.runtime.core.registry.take_arm(self.core.id).is_some()
    }

    /// What a run with this history would send to the model now. Nothing is sent.
    pub fn rendering(&self, run: &RunId, history: impl Into<History>) -> Rendering {
        let request = ModelRequest {
            instructions: self.core.instructions.clone(),
            tools: Arc::clone(&self.core.specs),
            ..ModelRequest::new(run.clone(), 1, history)
        };
        self.core.model.rendering(&request).unwrap_or_else(|| Rendering::plain(&request))
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
    /// The reply in one word: `armed`, or the reply of the first run that is stopping, or of the first run if none is.
    pub fn kind(&self) -> ReplyKind {
        match self {
            Self::Runs(replies) => kind_of_all(replies),
            Self::Armed => ReplyKind::Armed,
        }
    }

    /// What the cancel did to each run in progress, in the order in which they came. Empty if the agent was armed.
    pub fn runs(&self) -> &[Reply] {
        match self {
            Self::Runs(replies) => replies,
            Self::Armed => &[],
        }
    }

    /// Whether a run is stopping, because of this request or an earlier one.
    pub fn is_stopping(&self) -> bool {
        self.runs().iter().any(Reply::is_stopping)
    }

    /// Waits until everything that the reply says is durable: see [`Reply::recorded`]. That an agent is armed is known only
    /// to this process, so there is nothing to wait for.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub async fn recorded(&self) -> Result<(), JournalError> {
        all_recorded(self.runs()).await
    }
}

/// Builds an [`Agent`].
pub struct AgentBuilder {
    name: Option<String>,
    model: Option<Arc<dyn Model>>,
    instructions: Option<Arc<str>>,
    tools: Vec<Arc<dyn Tool>>,
    pub(super) hooks: Hooks,
    limits: Limits,
    retry: Retry,
    tools_at_once: usize,
    runtime: Option<Runtime>,
}

impl Default for AgentBuilder {
    fn default() -> Self {
        Self {
            name: None,
            model: None,
            instructions: None,
            tools: Vec::new(),
            hooks: Hooks::default(),
            limits: Limits::NONE,
            retry: Retry::default(),
            tools_at_once: 8,
            runtime: None,
        }
    }
}

impl AgentBuilder {
    /// The agent's name; `agent` by default. Its sessions are kept under it, apart from those of agents with other names:
    /// give one to each of several agents. One that is given the name `agent` shares no session with those that are given none.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
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

    /// Puts the model and each tool that it has so far inside another one. For test kits. An agent that was given no name is
    /// given the default one, so that an agent of the kit's can go on in its sessions.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn inside(
        mut self,
        model: impl FnOnce(Arc<dyn Model>) -> Arc<dyn Model>,
        tool: impl FnMut(Arc<dyn Tool>) -> Arc<dyn Tool>,
    ) -> Self {
        self.name.get_or_insert_with(|| NO_NAME.to_owned());
        self.model = self.model.map(model);
        self.tools = self.tools.into_iter().map(tool).collect();
        self
    }

    /// Builds the agent, or says what to change first.
    pub fn build(self) -> Result<Agent, BuildError> {
        let model = self.model.ok_or(BuildError::NoModel)?;
        let name = SessionId::new(self.name.as_deref().unwrap_or(NO_NAME)).map_err(BuildError::BadName)?;
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
        let setup = setup_digest(self.instructions.as_deref(), &specs);
        let model_name: Arc<str> = model.name().into();
        let unnamed = match &self.name {
            None => Some(Unnamed::NoName(Asked { model: Arc::clone(&model_name), setup: Some(setup) })),
            Some(_) if name.as_str() == NO_NAME => Some(Unnamed::ByName),
            Some(_) => None,
        };
        let core = AgentCore {
            id: runtime.core.agents.next_id(),
            name: name.as_str().into(),
            model_name,
            model,
            setup,
            instructions: self.instructions,
            tools,
            specs,
            hooks: self.hooks,
            limits: self.limits,
            retry: self.retry,
            tools_at_once: self.tools_at_once,
            unnamed: unnamed.map(|unnamed| runtime.core.unnamed.share(unnamed)),
        };
        let core = Arc::new(core);
        runtime.core.agents.add(&core);
        Ok(Agent { core, runtime })
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
