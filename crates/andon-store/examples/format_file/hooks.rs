//! Runs of agents with hooks: what the hooks changed, withdrew and refused, and a prompt that brought a history along.

use andon_runtime::{
    Agent, AgentBuilder, AnswerDecision, CallDecision, FnTool, Message, RequestDecision, ResultDecision, RunDecision,
    RunId, Runtime,
};
use serde_json::json;

use crate::model::{Script, call, whole};

/// Three runs, each of an app of its own that has the run's name.
pub(crate) async fn live(runtime: &Runtime) -> anyhow::Result<()> {
    let script = [call("Let me look.", "look-2", "look"), whole("It is blue.")];
    let look = FnTool::new("look", "Looks.", json!({"type": "object"}), |_| async { Ok("blue".into()) });
    let agent = Agent::builder()
        .model(Script::new(script))
        .tool(look)
        .before_run(|moment| RunDecision::ChangeInput(Message::user(format!("{} Please.", moment.input.text()))))
        .before_model(|moment| {
            let mut request = moment.request;
            request.instructions = Some("Be brief.".into());
            RequestDecision::Change(request)
        })
        .after_model(|moment| AnswerDecision::ReplaceText(moment.answer.text().to_uppercase()))
        .before_tool(|_| CallDecision::ChangeArguments(json!({"at": "once"})))
        .after_tool(|_| ResultDecision::replace("hidden"));
    run(runtime, agent, "hooked", &[]).await?;
    let agent = Agent::builder()
        .model(Script::new([whole("It is a secret.")]))
        .after_model(|_| AnswerDecision::Withdraw("This answer was withdrawn.".into()));
    let before = [Message::user("I am Cid."), Message::assistant("Hello, Cid.")];
    run(runtime, agent, "withdrawn", &before).await?;
    let agent =
        Agent::builder().model(Script::new([])).before_model(|_| RequestDecision::fail("It is too late today."));
    run(runtime, agent, "failed-by-hook", &[]).await
}

async fn run(runtime: &Runtime, agent: AgentBuilder, name: &str, before: &[Message]) -> anyhow::Result<()> {
    let agent = agent.name(name).runtime(runtime).build()?;
    let prompt = agent.session("cid", "monday")?.prompt("What colour is it?").history(before.iter().cloned());
    prompt.run_id(RunId::new(name)?).run().await?;
    runtime.idle().await;
    Ok(())
}
