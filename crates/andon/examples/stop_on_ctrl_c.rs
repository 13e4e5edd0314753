//! Stops a run on Ctrl-C: the first asks gracefully, the second stops it now.
//!
//! The example presses Ctrl-C itself, by sending SIGINT to its own process. Press it yourself if you are faster.
#![expect(clippy::disallowed_methods, reason = "a program of its own spawns its own tasks")]

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use andon::tool::FnTool;
use andon::{Agent, Cancel, Event, FeedItem, Force, Practice};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let napping = Arc::new(Notify::new());
    let agent = Agent::builder().model(Practice::instant()).tool(nap(&napping)).build()?;

    // Listen before the run starts: until then Ctrl-C ends the program, as it always does.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let run = agent.start("Take a nap")?;
    let cord = run.cord();
    tokio::spawn(async move {
        interrupts.recv().await;
        cord.pull(Cancel::graceful().note("Ctrl-C"));
        interrupts.recv().await;
        cord.pull(Cancel::now().note("second Ctrl-C"));
    });

    napping.notified().await;
    press_ctrl_c()?;
    let mut feed = run.feed();
    while let Some(item) = feed.next().await {
        if matches!(&item, FeedItem::Fact(record) if matches!(record.event, Event::CancelRequested { .. })) {
            break;
        }
    }
    println!("The first Ctrl-C has arrived, and the tool has a grace of a minute.");
    press_ctrl_c()?;

    let outcome = run.outcome().await;
    let notes: Vec<_> = outcome.receipt.requests.iter().filter_map(|request| request.note.as_deref()).collect();
    println!("The run ended: {}, requests: {notes:?}", outcome.stop_reason());
    assert!(outcome.is_cancelled());
    assert_eq!(notes, ["Ctrl-C", "second Ctrl-C"]);
    assert_eq!(outcome.receipt.force, Some(Force::Now));
    Ok(())
}

/// A tool that does not check its cord and has a long grace: the second Ctrl-C is for such tools.
fn nap(napping: &Arc<Notify>) -> FnTool {
    let napping = Arc::clone(napping);
    let schema = json!({"type": "object", "properties": {}});
    let nap = FnTool::new("nap", "Sleeps for ten minutes.", schema, move |_| {
        let napping = Arc::clone(&napping);
        async move {
            napping.notify_one();
            sleep(Duration::from_secs(600)).await;
            Ok("rested".into())
        }
    });
    nap.grace(Duration::from_secs(60))
}

fn press_ctrl_c() -> std::io::Result<()> {
    let pid = std::process::id().to_string();
    Command::new("kill").args(["-INT", &pid]).status().map(drop)
}
