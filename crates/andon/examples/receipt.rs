//! Prints the receipt of a run that was stopped while two tools ran: one had finished, one had not.

use std::time::Duration;

use andon::tool::{Effect, FnTool};
use andon::{Agent, Cancel, Practice, Verdict};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = json!({"type": "object", "properties": {}});
    let look = FnTool::new("look", "Looks at the shelf.", schema.clone(), |_| async { Ok("three boxes".into()) });
    let count = FnTool::new("count", "Counts the boxes, slowly.", schema, |call| async move {
        for counted in 0.. {
            tokio::select! {
                () = call.cord.pulled() => return Ok(format!("It had counted {counted}.").into()),
                () = tokio::time::sleep(Duration::from_millis(100)) => {}
            }
        }
        Ok("all counted".into())
    });
    let agent = Agent::builder()
        .model(Practice::new().pace(Duration::from_millis(2)).seed(7))
        .tool(look.effect(Effect::ReadOnly))
        .tool(count.effect(Effect::ReadOnly))
        .build()?;

    let run = agent.start("Look, and count in parallel")?;
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    run.cancel(Cancel::graceful().by("ada").note("stop button"));
    let outcome = run.outcome().await;

    println!("{}", serde_json::to_string_pretty(&outcome.receipt)?);
    let verdicts: Vec<_> = outcome.receipt.calls.iter().map(|call| (call.tool.as_str(), call.verdict)).collect();
    assert_eq!(verdicts, [("look", Verdict::Finished), ("count", Verdict::Cut)]);
    assert!(outcome.receipt.leaked.is_empty());
    Ok(())
}
