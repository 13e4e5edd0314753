//! Giving an agent hooks.

use crate::agent::hook::{
    AfterModel, AfterRun, AfterTool, AnswerDecision, BeforeModel, BeforeRun, BeforeTool, CallDecision, EndDecision,
    HookReply, RequestDecision, ResultDecision, RunDecision, hook,
};
use crate::runtime::agent::AgentBuilder;

impl AgentBuilder {
    /// Calls this before each run. It sees the prompt, and may change it.
    ///
    /// A hook is a closure that returns a decision of its moment, or nothing, which means that the run goes on; it may be async:
    ///
    /// ```
    /// # use andon_practice::Practice;
    /// use andon_runtime::{Agent, Cancel, Message, Reason, RunDecision};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let agent = Agent::builder()
    ///     .model(Practice::instant())
    ///     .before_run(|moment| println!("{} begins", moment.run))
    ///     .before_run(|moment| async move {
    ///         match moment.input.text().as_str() {
    ///             "" => RunDecision::fail("there is nothing to answer"),
    ///             text if text.contains("secret") => {
    ///                 RunDecision::Cancel(Cancel::now().reason(Reason::Policy).note("it asks for a secret"))
    ///             }
    ///             text => RunDecision::ChangeInput(Message::user(text.trim())),
    ///         }
    ///     })
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn before_run<F, R, K>(mut self, run: F) -> Self
    where
        F: Fn(BeforeRun) -> R + Send + Sync + 'static,
        R: HookReply<RunDecision, K>,
    {
        self.hooks.before_run.push(hook::<_, RunDecision, _, _>(run));
        self
    }

    /// Calls this after each run that began. It sees how the run ends. If the run was stopped, the hook has a tool's default grace;
    /// after force `now` it is not called.
    ///
    /// ```
    /// # use andon_practice::Practice;
    /// # use andon_runtime::Agent;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let agent = Agent::builder()
    ///     .model(Practice::instant())
    ///     .after_run(|end| async move { println!("{} after {:?}", end.ending.as_str(), end.used) })
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn after_run<F, R, K>(mut self, run: F) -> Self
    where
        F: Fn(AfterRun) -> R + Send + Sync + 'static,
        R: HookReply<EndDecision, K>,
    {
        self.hooks.after_run.push(hook::<_, EndDecision, _, _>(run));
        self
    }

    /// Calls this before each model call. It sees the request, and may change all of it for this call: messages, instructions,
    /// tools, settings and tool choice. A request that no provider would accept fails the run and says what is wrong.
    ///
    /// ```
    /// # use andon_practice::Practice;
    /// use andon_runtime::{Agent, RequestDecision};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let agent = Agent::builder()
    ///     .model(Practice::instant())
    ///     .before_model(|moment| async move {
    ///         let mut request = moment.request;
    ///         request.keep_tools(|tool| tool.name != "shred");
    ///         request.settings.temperature = Some(0.2);
    ///         RequestDecision::Change(request)
    ///     })
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn before_model<F, R, K>(mut self, run: F) -> Self
    where
        F: Fn(BeforeModel) -> R + Send + Sync + 'static,
        R: HookReply<RequestDecision, K>,
    {
        self.hooks.before_model.push(hook::<_, RequestDecision, _, _>(run));
        self
    }

    /// Calls this after each complete answer, before any of its calls starts. The answer has been shown by then; the hook decides
    /// what the conversation has of it.
    ///
    /// ```
    /// # use andon_practice::Practice;
    /// use andon_runtime::{Agent, AnswerDecision};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let agent = Agent::builder()
    ///     .model(Practice::instant())
    ///     .after_model(|moment| match moment.answer.text().contains("password") {
    ///         true => AnswerDecision::Withdraw("This answer was withdrawn.".into()),
    ///         false => AnswerDecision::GoOn,
    ///     })
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn after_model<F, R, K>(mut self, run: F) -> Self
    where
        F: Fn(AfterModel) -> R + Send + Sync + 'static,
        R: HookReply<AnswerDecision, K>,
    {
        self.hooks.after_model.push(hook::<_, AnswerDecision, _, _>(run));
        self
    }

    /// Calls this before each tool call, one after another. It sees the call, and may change it, deny it, answer it, or ask a
    /// person. A changed call is checked as if the model had asked for it.
    ///
    /// After an approval the hooks are called again. A hook that changes its calls does so in the same way each time, or looks at
    /// `moment.is_approved` first: a person is asked about a changed call once, and if the hooks then make something else of it, the run
    /// fails. They begin with the approved call, so a hook that adds to what is there looks at `is_approved`.
    ///
    /// ```
    /// # use andon_practice::Practice;
    /// use andon_runtime::{Agent, CallDecision};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let agent = Agent::builder()
    ///     .model(Practice::instant())
    ///     .before_tool(|moment| async move {
    ///         match moment.call.name.as_str() {
    ///             "shred" => CallDecision::deny("Files are kept here."),
    ///             "pay" => CallDecision::AskApproval,
    ///             "weather" => CallDecision::answer("It rains."),
    ///             _ => CallDecision::GoOn,
    ///         }
    ///     })
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn before_tool<F, R, K>(mut self, run: F) -> Self
    where
        F: Fn(BeforeTool) -> R + Send + Sync + 'static,
        R: HookReply<CallDecision, K>,
    {
        self.hooks.before_tool.push(hook::<_, CallDecision, _, _>(run));
        self
    }

    /// Calls this after each tool call, one after another. It sees the call and its result, and may replace what the model gets.
    ///
    /// It is no place to hide a secret. What the tool returned is on record and in the feed before the hook is called, and if the run is
    /// stopped, its process dies or the hook panics before it has decided, that stays the result in the conversation. What nobody may
    /// see must not be returned by the tool. What must never reach the provider is taken out of every request, with
    /// [`before_model`](Self::before_model).
    ///
    /// ```
    /// # use andon_practice::Practice;
    /// use andon_runtime::{Agent, ResultDecision};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let agent = Agent::builder()
    ///     .model(Practice::instant())
    ///     .after_tool(|moment| async move {
    ///         println!("{} returned {}", moment.call.name, moment.result.to_text());
    ///     })
    ///     .after_tool(|moment| match moment.result.to_text() {
    ///         long if long.len() > 10_000 => ResultDecision::replace(long.chars().take(2_000).collect::<String>()),
    ///         _ => ResultDecision::GoOn,
    ///     })
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn after_tool<F, R, K>(mut self, run: F) -> Self
    where
        F: Fn(AfterTool) -> R + Send + Sync + 'static,
        R: HookReply<ResultDecision, K>,
    {
        self.hooks.after_tool.push(hook::<_, ResultDecision, _, _>(run));
        self
    }
}
