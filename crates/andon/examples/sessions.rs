//! Sessions: each is a conversation of its own, and a stop of one leaves the others alone. And what a prompt does when
//! its session is busy: it is refused, waits, or takes over.

use std::time::Duration;

use andon::agent::AgentReply;
use andon::core::cancel::ReplyKind;
use andon::run::StartError;
use andon::{Agent, Cancel, Practice, Reason, WhenBusy};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Practice::new().pace(Duration::from_millis(5));
    let agent = Agent::builder().name("teller").model(model).build()?;
    let ada = agent.session("ada", "monday")?;
    let bob = agent.session("bob", "monday")?;

    // Sessions do not wait for each other; one session has one run at a time.
    let first = ada.start("Tell me a long story")?;
    let other = bob.start("Tell me a long story")?;
    let refused = ada.start("Hello");
    println!("a second prompt: {}", refused.as_ref().err().map(ToString::to_string).unwrap_or_default());
    assert!(matches!(refused, Err(StartError::Busy { .. })));

    let second = ada.prompt("Hello").when_busy(WhenBusy::Supersede).start()?;
    let (first, second) = (first.outcome().await, second.outcome().await);
    println!("the first ended {} ({:?})", first.stop_reason(), first.receipt.reason);
    println!("the second ended {}", second.stop_reason());
    assert_eq!(first.receipt.reason, Some(Reason::Superseded));
    assert_eq!(second.stop_reason(), "end_turn");
    assert!(other.try_outcome().is_none());

    // A prompt that comes while the run is stopping waits for it, whatever the policy.
    other.cancel(Cancel::graceful());
    let next = bob.run("Hello").await?;
    println!("bob's next prompt ended {}", next.stop_reason());
    assert_eq!(next.stop_reason(), "end_turn");
    assert_eq!(bob.history().await?.len(), 4);

    // A stop of one session reaches nobody else. If nothing runs there, it says so and does nothing.
    let (hers, his) = (ada.start("Tell me a long story")?, bob.start("Tell me a long story")?);
    println!("ada's session: {}", ada.cancel().kind().as_str());
    assert!(hers.outcome().await.is_cancelled());
    assert_eq!(ada.cancel().kind(), ReplyKind::NotRunning);
    assert_eq!(his.outcome().await.stop_reason(), "end_turn");

    // `agent.cancel()` is for every run of the agent. With none in progress it arms the agent: the next run, whoever
    // starts it, is cancelled before it calls its model.
    let reply: AgentReply = agent.cancel();
    println!("with nothing in progress: {}", reply.kind().as_str());
    assert_eq!(reply.kind(), ReplyKind::Armed);
    let stopped = agent.run("Hello").await?;
    let normal = agent.run("Hello").await?;
    println!("then: {}, then: {}", stopped.stop_reason(), normal.stop_reason());
    assert!(stopped.is_cancelled() && stopped.receipt.model_calls.is_empty());
    assert_eq!(normal.stop_reason(), "end_turn");
    Ok(())
}
