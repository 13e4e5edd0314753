//! Stops runs that take too long: by a limit of the run, by the caller's own clock, and by the caller's own signal.

use std::time::Duration;

use andon::{Agent, Cancel, Limits, Practice, Reason};
use tokio::time::{sleep, timeout};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Practice::new().pace(Duration::from_millis(5));
    let agent = Agent::builder().model(model).build()?;

    // A limit of the run. It also counts the time that the run waits for its session and for people.
    let limits = Limits::new().deadline(Duration::from_millis(300));
    let outcome = agent.prompt("Tell me a long story").limits(limits).run().await?;
    println!("limit: {} ({:?})", outcome.stop_reason(), outcome.receipt.note);
    assert_eq!(outcome.receipt.reason, Some(Reason::Deadline));
    assert!(!outcome.text_so_far().is_empty());

    // The caller's own clock. Dropping the wait does not stop the run; pulling the cord does.
    let run = agent.start("Tell me a long story")?;
    let outcome = match timeout(Duration::from_millis(300), run.outcome()).await {
        Ok(outcome) => outcome,
        Err(_) => {
            run.cancel(Cancel::graceful().note("my own clock"));
            run.outcome().await
        }
    };
    println!("clock: {} ({:?})", outcome.stop_reason(), outcome.receipt.note);
    assert_eq!(outcome.receipt.note.as_deref(), Some("my own clock"));

    // The caller's own signal: any future. It is only watched.
    let signal = sleep(Duration::from_millis(300));
    let outcome = agent.prompt("Tell me a long story").cancel_when(signal).run().await?;
    println!("signal: {} ({:?})", outcome.stop_reason(), outcome.receipt.note);
    assert!(outcome.is_cancelled());
    Ok(())
}
