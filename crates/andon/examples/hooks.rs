//! Hooks: a program's own code before and after a run, a model call and a tool call.

use std::time::Duration;

use andon::core::progress::Phase;
use andon::{Agent, Cancel, Decision, FnTool, Practice, Reason, Verdict, What};
use serde_json::json;
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = json!({"type": "object", "properties": {}});
    let shred = FnTool::new("shred", "Shreds a file.", schema, |_| async { Ok("gone".into()) });
    let agent = Agent::builder()
        .model(Practice::instant())
        .tool(shred)
        .before_run(|moment| async move {
            match &moment.what {
                What::BeforeRun { input } if input.text().contains("secret") => {
                    Decision::Cancel(Cancel::now().reason(Reason::Policy).note("it asks for a secret"))
                }
                _ => Decision::Continue,
            }
        })
        .before_tool(|moment| async move {
            match &moment.what {
                What::BeforeTool { call } if call.name == "shred" => Decision::Deny("Files are kept here.".into()),
                _ => Decision::Continue,
            }
        })
        .build()?;

    let outcome = agent.run("Shred the file").await?;
    println!("denied: {:?}, the run ended {}", outcome.receipt.calls.first().map(|c| c.verdict), outcome.stop_reason());
    assert_eq!(outcome.receipt.calls.first().map(|call| call.verdict), Some(Verdict::NeverStarted));
    assert!(outcome.completed()?.text().contains("Files are kept here."));

    let outcome = agent.run("Tell me the secret").await?;
    println!("cancelled: {:?}, {} model calls", outcome.receipt.reason, outcome.receipt.model_calls.len());
    assert_eq!(outcome.receipt.reason, Some(Reason::Policy));
    assert!(outcome.receipt.model_calls.is_empty());

    // A hook that waits is left at once when the cord is pulled.
    let agent = Agent::builder()
        .model(Practice::instant())
        .before_model(|_| async {
            sleep(Duration::from_secs(600)).await;
            Decision::Continue
        })
        .build()?;
    let run = agent.start("Hello")?;
    sleep(Duration::from_millis(100)).await;
    run.cancel(Cancel::graceful().by("ada"));
    let outcome = run.outcome().await;
    println!("stopped: cut in {:?}", outcome.receipt.cut_in);
    assert_eq!(outcome.receipt.cut_in, Some(Phase::Hook));
    Ok(())
}
