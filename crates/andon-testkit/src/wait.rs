//! Waiting until a run is at a place, instead of for a time.

use andon_runtime::core::event::Event;
use andon_runtime::{FeedItem, Run};

/// Reads a run's feed from its beginning until this event.
///
/// # Panics
///
/// If the run settles first.
///
/// # Cancel safety
///
/// Cancel safe: it only waits.
pub async fn until(run: &Run, is_it: impl Fn(&Event) -> bool) {
    until_item(run, |item| matches!(item, FeedItem::Fact(record) if is_it(&record.event))).await;
}

/// Reads a run's feed from its beginning until it has shown this text.
///
/// # Panics
///
/// If the run settles first.
///
/// # Cancel safety
///
/// Cancel safe: it only waits.
pub async fn until_shown(run: &Run, text: &str) {
    let mut shown = String::new();
    let is_it = |item: &FeedItem| {
        if let FeedItem::Delta(delta) = item {
            shown.push_str(&delta.text);
        }
        shown.contains(text)
    };
    until_item(run, is_it).await;
}

#[expect(clippy::panic, reason = "a test that waits for what never comes has failed")]
async fn until_item(run: &Run, mut is_it: impl FnMut(&FeedItem) -> bool) {
    let mut feed = run.feed();
    while let Some(item) = feed.next().await {
        if is_it(&item) {
            return;
        }
    }
    panic!("run {} settled first: {:?}", run.id(), run.try_outcome());
}
