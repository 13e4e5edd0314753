//! Stops a run from another thread. A pull needs no async runtime: this thread has none.

use std::time::Duration;

use andon::core::message::Cut;
use andon::{Agent, Cancel, FeedItem, Practice, Reason};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Practice::new().pace(Duration::from_millis(5));
    let agent = Agent::builder().model(model).build()?;

    let run = agent.start("Tell me a long story")?;
    let cord = run.cord();
    let mut feed = run.feed();
    let (mut shown, mut stopper) = (String::new(), None);
    while let Some(item) = feed.next().await {
        let FeedItem::Delta(delta) = item else { continue };
        shown.push_str(&delta.text);
        if stopper.is_none() && shown.len() > 200 {
            let cord = cord.clone();
            stopper = Some(std::thread::spawn(move || cord.pull(Cancel::graceful().by("ada").note("a thread"))));
        }
    }
    let outcome = run.outcome().await;

    let reply = stopper.ok_or("the story was too short")?.join().map_err(|_| "the thread panicked")?;
    println!("the reply: {}", reply.kind().as_str());
    println!("the run ended: {}", outcome.stop_reason());
    println!("kept: {} bytes, all that was shown", outcome.text_so_far().len());
    assert!(reply.is_stopping());
    assert_eq!(outcome.stop_reason(), "cancelled");
    assert_eq!(outcome.text_so_far(), shown);
    let cut = outcome.message.as_ref().and_then(|message| message.cut);
    assert_eq!(cut, Some(Cut::Cancelled(Reason::Requested)));

    let next = agent.run("Tell me a short one").await?.completed()?.text();
    println!("the next answer: {next}");
    assert!(!next.is_empty());
    Ok(())
}
