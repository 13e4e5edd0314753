//! A tool that needs a person's approval: approved, denied, and stopped while it waits.

use std::time::Duration;

use andon::run::DecideError;
use andon::tool::FnTool;
use andon::{Agent, Cancel, Event, FeedItem, PendingApproval, Practice, Run, RunState, Verdict};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = json!({"type": "object", "properties": {}});
    let launch = FnTool::new("launch", "Launches it.", schema, |_| async { Ok("launched".into()) }).needs_approval();
    let model = Practice::new().pace(Duration::from_millis(2));
    let agent = Agent::builder().model(model).tool(launch).build()?;

    let run = agent.start("Launch")?;
    let call = question(&run).await.ok_or("nobody was asked")?;
    println!("{} wants to run with {}", call.tool(), call.arguments());
    call.approve().by("ada").send()?;
    let outcome = run.outcome().await;
    println!("yes: {:?}, the run ended {}", verdict(&outcome.receipt), outcome.stop_reason());
    assert_eq!(verdict(&outcome.receipt), Some(Verdict::Finished));

    let run = agent.start("Launch")?;
    let call = question(&run).await.ok_or("nobody was asked")?;
    call.deny().by("ada").note("The weather is bad.").send()?;
    let outcome = run.outcome().await;
    println!("no: {:?}, the run ended {}", verdict(&outcome.receipt), outcome.stop_reason());
    assert_eq!(verdict(&outcome.receipt), Some(Verdict::NeverStarted));
    assert!(outcome.completed()?.text().contains("The weather is bad."));

    let run = agent.start("Launch")?;
    let call = question(&run).await.ok_or("nobody was asked")?;
    println!("while it waits its state is {:?}", run.state());
    assert_eq!(run.state(), RunState::Waiting);
    run.cancel(Cancel::graceful().by("ada"));
    assert_eq!(call.approve().by("bob").send(), Err(DecideError::TooLate));
    let outcome = run.outcome().await;
    println!("stop: {:?}, the run ended {}", verdict(&outcome.receipt), outcome.stop_reason());
    assert_eq!(verdict(&outcome.receipt), Some(Verdict::NeverStarted));
    Ok(())
}

/// Waits until a call needs approval.
async fn question(run: &Run) -> Option<PendingApproval> {
    let mut feed = run.feed();
    while let Some(item) = feed.next().await {
        if matches!(item, FeedItem::Fact(record) if matches!(record.event, Event::ApprovalRequested { .. })) {
            return run.approvals().into_iter().next();
        }
    }
    None
}

fn verdict(receipt: &andon::Receipt) -> Option<Verdict> {
    receipt.calls.first().map(|call| call.verdict)
}
