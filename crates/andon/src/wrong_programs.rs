//! Programs that must not compile, because they would do something else than they say. A match without a `_` is not among them: only our own
//! builds see enums whole.

/// An agent has no conversation, so one that is shared by all visitors cannot tell one what another has said.
///
/// ```compile_fail,E0599
/// # use andon::{Agent, Practice};
/// # async fn wrong() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = Agent::builder().model(Practice::instant()).build()?;
/// let said = agent.history().await?;
/// # Ok(())
/// # }
/// ```
struct AnAgentWithHistory;

/// Half an answer is not taken for a whole one: ask for `completed()?.text()`, or for `text_so_far()`.
///
/// ```compile_fail,E0599
/// # use andon::{Agent, Practice};
/// # async fn wrong() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = Agent::builder().model(Practice::instant()).build()?;
/// let text = agent.run("Hello").await?.text();
/// # Ok(())
/// # }
/// ```
struct TextThatMayBeHalf;

/// A run that was refused cannot be cancelled.
///
/// ```compile_fail,E0599
/// # use andon::{Agent, Cancel, Practice};
/// # fn wrong() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = Agent::builder().model(Practice::instant()).build()?;
/// let run = agent.start("Hello");
/// run.cancel(Cancel::now());
/// # Ok(())
/// # }
/// ```
struct StartWithoutQuestionMark;

/// A function is a tool with `#[tool]` before it, which makes its schema.
///
/// ```compile_fail,E0277
/// # use andon::{Agent, Practice};
/// async fn weather(city: String) -> String {
///     city
/// }
/// let builder = Agent::builder().model(Practice::instant()).tool(weather);
/// ```
struct PlainFunctionAsTool;

/// What a tool shares with others must be fit for threads.
///
/// ```compile_fail,E0277
/// # use andon::tool;
/// # use std::rc::Rc;
/// let shared = Rc::new(5);
/// let add = tool("add", "Adds.").run(move |(): ()| {
///     let sum = *shared + 1;
///     async move { Ok(sum.to_string()) }
/// });
/// ```
struct ToolThatSharesAnRc;

/// A hook decides what can be decided at its moment.
///
/// ```compile_fail,E0277
/// # use andon::hook::CallDecision;
/// # use andon::{Agent, Practice};
/// let builder = Agent::builder().model(Practice::instant()).before_run(|_| CallDecision::deny("No."));
/// ```
struct DecisionOfAnotherMoment;
