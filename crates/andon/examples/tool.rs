//! Tools of your own that share something: the methods of a type. This one starts a job elsewhere, which no dropped future would end; its
//! cleanup does, however the call ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use andon::run::Remains;
use andon::tool::Invocation;
use andon::{Agent, Cancel, Event, FeedItem, Practice, tools};
use tokio::time::sleep;

/// Stands in for a service that runs jobs.
struct Jobs(AtomicUsize);

#[tools]
impl Jobs {
    /// Starts a remote job and waits for it.
    #[tool(effect = "idempotent", grace = "100ms", cleanup = Self::end)]
    async fn remote_job(&self, seconds: Option<u64>) -> &'static str {
        self.0.fetch_add(1, Ordering::SeqCst);
        sleep(Duration::from_secs(seconds.unwrap_or(600))).await;
        "the job is done"
    }

    async fn end(&self, _call: Invocation) -> Remains {
        self.0.fetch_sub(1, Ordering::SeqCst);
        Remains::new().notes(vec!["the remote job was told to end".to_owned()])
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let jobs = Arc::new(Jobs(AtomicUsize::new(0)));
    let agent = Agent::builder().model(Practice::instant()).tools(jobs.tools()).build()?;

    let run = agent.start("Please start a remote_job")?;
    let mut feed = run.feed();
    while let Some(item) = feed.next().await {
        if matches!(item, FeedItem::Fact(record) if matches!(record.event, Event::ToolStarted { .. })) {
            break;
        }
    }
    while jobs.0.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    run.cancel(Cancel::graceful());
    let outcome = run.outcome().await;
    for call in &outcome.receipt.calls {
        println!("{}: {:?}, {:?}", call.tool, call.verdict, call.notes);
    }
    // The run has settled, so its cleanup is done.
    assert_eq!(jobs.0.load(Ordering::SeqCst), 0);
    Ok(())
}
