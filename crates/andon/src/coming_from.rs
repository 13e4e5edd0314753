//! Andon in the words of rig, of Strands Agents and of ADK.
//!
//! # From rig
//!
//! | rig | Andon |
//! |---|---|
//! | `client.agent(MODEL).preamble("…").tool(t).build()` | `Agent::builder().model(…).instructions("…").tool(t).build()?` |
//! | `agent.prompt("…").await?` | `agent.run("…").await?.completed()?.text()`: one question, in a session of its own |
//! | `agent.chat("…", history).await?` | `agent.session(user, id)?.run("…")`: the session keeps the history |
//! | a history from elsewhere | `agent.prompt("…").history(messages)` |
//! | `agent.stream_prompt("…")` | `agent.start("…")?`, then `run.feed()`; the feed can be read again, by anybody, from any place |
//! | `.max_turns(n)` | the limit `turns`, beside `deadline`, `silence` and `tokens` |
//! | `#[rig_tool]`, `impl Tool` | `#[tool]` on a function, `#[tools]` on an `impl`, `tool(name, description)` for a closure |
//! | `AgentHook` | `before_run`, `before_model`, `after_model`, `before_tool`, `after_tool`, `after_run` |
//! | a hook that stops the run | any hook's `Cancel`, or `run.cancel(…)` from anywhere |
//! | `CompletionModel` | `StreamModel` for a model from a stream, `Model` for all that a model can do, `ModelLayer` around another one |
//! | dropping the future to stop | the same for `agent.run(…)`: it cancels, and the run has a receipt. Dropping a `Run` or a feed does not |
//! | extractors, vector stores, pipelines | not here |
//!
//! ```
//! use andon::{Agent, Practice, tool};
//!
//! /// Adds two numbers.
//! #[tool(effect = "read_only")]
//! async fn add(x: i64, y: i64) -> String {
//!     (x + y).to_string()
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let agent = Agent::builder().model(Practice::instant()).instructions("Be brief.").tool(add).build()?;
//! let answer = agent.run("What is 2 and 3?").await?.completed()?.text();
//!
//! let ada = agent.session("ada", "monday")?;
//! ada.run("My name is Ada.").await?;
//! ada.run("What is my name?").await?;
//! # assert!(!answer.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! # From Strands Agents
//!
//! | Strands | Andon |
//! |---|---|
//! | `Agent(model=…, tools=[…])` | `Agent::builder().model(…).tool(…).build()?` |
//! | `agent("Hello")` | `agent.run("Hello").await?`; a second call does not continue the first: for that there is a session |
//! | `agent.messages` | `session.history().await?` |
//! | `agent.cancel()` | `agent.cancel()`: every run of the agent, and with none in progress the next one |
//! | cancelling one conversation | `session.cancel()`, or `run.cancel(…)` |
//! | `result.stop_reason == "cancelled"` | `outcome.stop_reason() == "cancelled"` |
//! | `str(result)` | `outcome.completed()?.text()`, an error if the answer is not whole (stopped, failed, `max_tokens`, refused); or `outcome.text_so_far()` if it may be half |
//! | `cancel_signal=event` | `agent.prompt("…").cancel_when(future)` |
//! | hooks, `interrupt` | hooks; approvals, where a run waits for a person |
//!
//! ```
//! # use andon::{Agent, Practice};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let agent = Agent::builder().model(Practice::new()).build()?;
//! let run = agent.start("Be silent, then answer")?;
//! let from_a_thread = agent.clone();
//! std::thread::spawn(move || from_a_thread.cancel());
//! assert_eq!(run.outcome().await.stop_reason(), "cancelled");
//! # Ok(())
//! # }
//! ```
//!
//! # From ADK
//!
//! | ADK | Andon |
//! |---|---|
//! | `LlmAgent(name, model, instruction, tools)` | `Agent::builder().name(…).model(…).instructions(…).tool(…)`, or the same `root_agent.yaml` |
//! | `Runner.run_async(user_id, session_id, new_message)` | `agent.session(user_id, session_id)?.start(message)?` |
//! | the events of `run_async` | `run.feed()` |
//! | `InvocationContext`, an invocation | a `Run` and its id |
//! | `session.state`, `tool_context.state` | `session.state().await?`, and `state` of what a tool is called with |
//! | `before_model_callback` and the others | hooks of the same moments |
//! | `max_llm_calls` | the limit `turns` |
//! | `require_confirmation` | `needs_approval`, and `run.approvals()` |
//! | `SqliteSessionService` | a journal: `Runtime::builder().journal(…)`, which all agents of a runtime share |
//! | `adk api_server`, `/run_sse`, `:cancel` | the server with the feature `adk`, at ADK's own paths |
//!
//! ```
//! # use andon::{Agent, FeedItem, Practice};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let agent = Agent::builder().name("shop").model(Practice::instant()).build()?;
//! let run = agent.session("ada", "s1")?.start("Tell me a long story")?;
//! let mut feed = run.feed();
//! while let Some(item) = feed.next().await {
//!     if let FeedItem::Delta(_) = item {
//!         run.cancel(andon::Cancel::graceful().by("ada")); // what ADK's users wish for as `:cancel`
//!     }
//! }
//! assert!(run.outcome().await.text_so_far().len() > 0, "what was shown is kept");
//! # Ok(())
//! # }
//! ```
