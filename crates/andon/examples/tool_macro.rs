//! Tools from plain functions: their options, what the runtime passes in, and what a stop keeps of them.

use std::time::Duration;

use andon::feed::Kind;
use andon::tool::{AsJson, Progress, Tool};
use andon::{Agent, Cancel, Cord, Delta, FeedItem, Practice, Verdict, tool};
use tokio::time::sleep;

#[tool(effect = "read_only", grace = "1s")]
/// Counts to a number.
async fn count(
    /// Where to end.
    to: u32,
    cord: Cord,
    progress: Progress,
) -> String {
    for number in 1..=to {
        progress.step(number.into(), Some(to.into()), None);
        tokio::select! {
            () = cord.pulled() => return format!("It had counted to {number}."),
            () = sleep(Duration::from_millis(20)) => {}
        }
    }
    format!("counted to {to}")
}

#[derive(serde::Serialize)]
struct Primes {
    below: u32,
    found: Vec<u32>,
}

#[tool(blocking, effect = "read_only", timeout = "30s")]
/// Finds the primes below a number.
fn primes(#[tool(default = 100)] below: u32, cord: Cord) -> Result<AsJson<Primes>, String> {
    let mut found: Vec<u32> = Vec::new();
    for number in 2..below {
        if cord.is_pulled() {
            return Err(format!("stopped at {number}"));
        }
        if found.iter().all(|prime| number % prime != 0) {
            found.push(number);
        }
    }
    Ok(AsJson(Primes { below, found }))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("the model is told: {}", count.spec().schema);
    let agent = Agent::builder().model(Practice::instant()).tools([count, primes]).build()?;

    let session = agent.new_session("ada")?;
    let outcome = session.run("Find the primes below 30").await?;
    assert_eq!(outcome.stop_reason(), "end_turn");
    for message in session.history().await? {
        for result in message.results() {
            println!("the model was told: {}", result.to_text());
        }
    }

    let run = agent.start("Count to 1000")?;
    let mut feed = run.feed();
    while let Some(item) = feed.next().await {
        if let FeedItem::Delta(Delta { kind: Kind::ToolOutput(_), text, .. }) = item {
            print!("it shows: {text}");
            break;
        }
    }
    run.cancel(Cancel::graceful().note("stop button"));
    let outcome = run.outcome().await;
    println!("stopped: {}", outcome.stop_reason());
    assert_eq!(outcome.receipt.calls.first().map(|call| call.verdict), Some(Verdict::Cut));

    Ok(())
}
