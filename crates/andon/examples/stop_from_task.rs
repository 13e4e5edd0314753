//! Stops a run from another async task, while the model is silent. The stop does not wait for the model.
#![expect(clippy::disallowed_methods, reason = "a program of its own spawns its own tasks")]

use std::time::Duration;

use andon::{Agent, Cancel, Practice};
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let agent = Agent::builder().model(Practice::new()).build()?;

    // The practice model says nothing for 30 seconds when it is asked to be silent.
    let run = agent.start("Be silent, then answer")?;
    let cord = run.cord();
    let stopper = tokio::spawn(async move {
        sleep(Duration::from_millis(300)).await;
        cord.pull(Cancel::graceful().by("ada").note("another task"))
    });
    let outcome = run.outcome().await;
    let reply = stopper.await?;

    let settled_us = outcome.receipt.took.settled_us.ok_or("a stopped run says how long it took")?;
    println!("the reply: {}", reply.kind().as_str());
    println!("the run ended: {}, {settled_us} µs after the request", outcome.stop_reason());
    assert!(reply.is_stopping());
    assert!(outcome.is_cancelled());
    assert!(settled_us < 5_000_000, "the model would have been silent for 30 s");

    // The reply comes from memory at once. This waits until the request is in the journal.
    reply.recorded().await?;
    Ok(())
}
