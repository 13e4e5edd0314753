//! The feed: the past, then live, no gap, no repeat. A reader that left continues where it was.

use std::time::Duration;

use andon::feed::Cursor;
use andon::{Agent, Cancel, Event, FeedItem, Practice};
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Practice::new().pace(Duration::from_millis(5));
    let agent = Agent::builder().model(model).build()?;
    let run = agent.start("Tell me a long story")?;

    // A reader reads a little and goes away. The run does not notice.
    let mut feed = run.feed();
    let mut text = String::new();
    while text.len() < 100 {
        match feed.next().await {
            Some(FeedItem::Delta(delta)) => text.push_str(&delta.text),
            Some(FeedItem::Fact(record)) => println!("event {}", record.seq),
            Some(_) | None => break,
        }
    }
    let place = feed.cursor().to_string();
    drop(feed);
    println!("left at {place}");
    sleep(Duration::from_millis(200)).await;

    // It comes back with nothing but that text, and misses nothing.
    let place: Cursor = place.parse()?;
    run.cancel(Cancel::graceful());
    let mut feed = run.feed_from(place);
    let mut last = None;
    while let Some(item) = feed.next().await {
        match item {
            FeedItem::Delta(delta) => text.push_str(&delta.text),
            FeedItem::Fact(record) => last = Some(record),
            _ => return Err("nothing was lost".into()),
        }
    }
    let outcome = run.outcome().await;
    println!("read {} bytes in two goes, {} are stored", text.len(), outcome.text_so_far().len());
    assert_eq!(text, outcome.text_so_far());
    assert!(last.is_some_and(|record| matches!(record.event, Event::RunSettled { .. })));
    Ok(())
}
