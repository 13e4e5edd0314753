//! A tool of your own: a closure with typed arguments and a handle that it shares, and a cleanup that ends what a dropped future would leave
//! behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use andon::{Agent, Cancel, Effect, Event, FeedItem, FnTool, Practice, Remains, schemars, tool};
use serde::Deserialize;
use tokio::time::sleep;

#[derive(Deserialize, schemars::JsonSchema)]
struct Job {
    /// How long the job takes; ten minutes by default.
    seconds: Option<u64>,
}

/// The tool. The atomic number stands in for a service that runs jobs.
fn remote_job(service: &Arc<AtomicUsize>) -> FnTool {
    let (starting, ending) = (Arc::clone(service), Arc::clone(service));
    tool("remote_job", "Starts a remote job and waits for it.")
        .effect(Effect::Idempotent)
        .grace(Duration::from_millis(100))
        .cleanup(move |_call| {
            ending.fetch_sub(1, Ordering::SeqCst);
            async { Remains { notes: vec!["the remote job was told to end".to_owned()], ..Remains::NONE } }
        })
        .run(move |job: Job| {
            starting.fetch_add(1, Ordering::SeqCst);
            async move {
                sleep(Duration::from_secs(job.seconds.unwrap_or(600))).await;
                Ok("the job is done")
            }
        })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let service = Arc::new(AtomicUsize::new(0));
    let agent = Agent::builder().model(Practice::instant()).tool(remote_job(&service)).build()?;

    let run = agent.start("Please start a remote_job")?;
    let mut feed = run.feed();
    while let Some(item) = feed.next().await {
        if matches!(item, FeedItem::Fact(record) if matches!(record.event, Event::ToolStarted { .. })) {
            break;
        }
    }
    while service.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    run.cancel(Cancel::graceful());
    let outcome = run.outcome().await;
    for call in &outcome.receipt.calls {
        println!("{}: {:?}, {:?}", call.tool, call.verdict, call.notes);
    }
    // The run has settled, so its cleanup is done.
    assert_eq!(service.load(Ordering::SeqCst), 0);
    Ok(())
}
