//! Tools: one that stops by itself, one that must be stopped, and one call that is cancelled alone.

use std::time::Duration;

use andon::tool::Effect;
use andon::{Agent, Cancel, Event, FeedItem, Practice, Run, Verdict, schemars, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::sleep;

#[derive(Deserialize, JsonSchema)]
struct Count {
    /// The last number.
    #[schemars(range(min = 1))]
    to: u64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count =
        tool("count", "Counts to a number.").effect(Effect::ReadOnly).run_with(|Count { to }, call| async move {
            for number in 1..=to {
                tokio::select! {
                    () = call.cord.pulled() => return Ok(format!("It had counted to {}.", number - 1)),
                    () = sleep(Duration::from_millis(50)) => {}
                }
            }
            Ok(format!("counted to {to}"))
        });

    let send = tool("send", "Sends a parcel.").effect(Effect::Effect).grace(Duration::from_millis(200)).run_with(
        |(): (), call| async move {
            // With this key the other side can make sure that it happens at most once.
            let _key = call.effect_id();
            sleep(Duration::from_secs(600)).await;
            Ok("sent")
        },
    );

    let agent = Agent::builder().model(Practice::instant()).tool(count).tool(send).build()?;

    // One call is cancelled alone. The other goes on, the model is told, and the run completes.
    let run = agent.start("Count to 10 and send it")?;
    let send_call = started(&run, "send").await.ok_or("the parcel was never sent")?;
    let reply = run.cancel_call(&send_call, Cancel::graceful().by("ada"));
    let outcome = run.outcome().await;
    println!("one call: the reply was {}, the run ended {}", reply.kind().as_str(), outcome.stop_reason());
    print_calls(&outcome.receipt);
    assert_eq!(outcome.stop_reason(), "end_turn");
    assert_eq!(verdict(&outcome.receipt, "count"), Some(Verdict::Finished));
    assert_ne!(verdict(&outcome.receipt, "send"), Some(Verdict::Finished));

    // The whole run is stopped. `count` watches its cord and returns what it has. `send` does not: when its grace is
    // over it is dropped, and since it changes the world, how far it came is unknown.
    let run = agent.start("Count to 1000 and send it")?;
    started(&run, "send").await;
    sleep(Duration::from_millis(300)).await;
    run.cancel(Cancel::graceful().by("ada"));
    let outcome = run.outcome().await;
    println!("the run: it ended {}", outcome.stop_reason());
    print_calls(&outcome.receipt);
    assert_eq!(verdict(&outcome.receipt, "count"), Some(Verdict::Cut));
    assert_eq!(verdict(&outcome.receipt, "send"), Some(Verdict::Unknown));
    Ok(())
}

/// Waits until a tool is on record as started.
async fn started(run: &Run, tool: &str) -> Option<andon::run::CallId> {
    let mut feed = run.feed();
    let mut wanted = None;
    while let Some(item) = feed.next().await {
        let FeedItem::Fact(record) = item else { continue };
        match &record.event {
            Event::Message { message } => {
                wanted = message.calls().find(|call| call.name == tool).map(|call| call.id.clone());
            }
            Event::ToolStarted { call, .. } if Some(call) == wanted.as_ref() => return wanted,
            _ => {}
        }
    }
    None
}

fn verdict(receipt: &andon::Receipt, tool: &str) -> Option<Verdict> {
    receipt.calls.iter().find(|call| call.tool == tool).map(|call| call.verdict)
}

fn print_calls(receipt: &andon::Receipt) {
    for call in &receipt.calls {
        println!("  {}: {:?}", call.tool, call.verdict);
    }
}
