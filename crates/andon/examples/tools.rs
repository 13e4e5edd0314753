//! Tools: one that stops by itself, one that must be stopped, and one call that is cancelled alone.

use std::time::Duration;

use andon::{Agent, Cancel, Effect, Event, FeedItem, FnTool, Practice, Run, Verdict};
use serde_json::{Value, json};
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = FnTool::new(
        "count",
        "Counts to a number.",
        json!({
            "type": "object",
            "properties": { "to": { "type": "integer", "minimum": 1 } },
            "required": ["to"],
        }),
        |call| async move {
            let to = call.input.get("to").and_then(Value::as_u64).unwrap_or(1);
            for number in 1..=to {
                tokio::select! {
                    () = call.cord.pulled() => return Ok(format!("It had counted to {}.", number - 1).into()),
                    () = sleep(Duration::from_millis(50)) => {}
                }
            }
            Ok(format!("counted to {to}").into())
        },
    )
    .effect(Effect::ReadOnly);

    let send = FnTool::new("send", "Sends a parcel.", json!({"type": "object", "properties": {}}), |call| async move {
        // With this key the other side can make sure that it happens at most once.
        let _key = call.effect_id();
        sleep(Duration::from_secs(600)).await;
        Ok("sent".into())
    })
    .effect(Effect::Effect)
    .grace(Duration::from_millis(200));

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
async fn started(run: &Run, tool: &str) -> Option<andon::CallId> {
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
