//! A reader that comes back continues exactly where it was, wherever that is.

use std::sync::Arc;

use andon_runtime::core::answer::{Kind, MarkKind};
use andon_runtime::core::event::{Entry, Event, ToolEnd};
use andon_runtime::core::message::{ResultStatus, Signature, ToolResult};
use andon_runtime::core::outcome::ModelStop;
use andon_runtime::core::usage::Usage;
use andon_runtime::{Cursor, Delta, Effect, FeedItem, Runtime};

use super::story::{Story, call, input, request};
use super::subject::Subject;
use crate::check::{facts, read_all};

/// A run with thoughts, text and the input of two calls, which streams in pieces after several events.
fn streaming_run(story: &mut Story) -> Vec<Entry> {
    let mut entries = story.begun();
    entries.push(story.model_started());
    entries.push(story.streamed(&Kind::Thinking, "så "));
    entries.push(story.streamed(&Kind::Thinking, "här: 日"));
    entries.push(story.marked(MarkKind::ThinkingEnded { signature: Some(Signature::new("maker", "seal")) }));
    entries.push(story.marked(MarkKind::Used(Box::new(Usage::reported(2, 1)))));
    entries.push(story.streamed(&Kind::Text, "gör "));
    entries.push(story.streamed(&Kind::Text, "vi 🙂🙂"));
    entries.push(story.streamed(&input(0, "c1"), "{\"ä\":"));
    entries.push(story.streamed(&input(1, "c2"), "{\"n\""));
    entries.push(story.streamed(&input(0, "c1"), "1}"));
    entries.push(story.marked(MarkKind::CallEnded { index: 0 }));
    let asked = Arc::new(request("not that one"));
    entries.push(story.fact(Event::CallCancelRequested { call: call("c2"), request: asked }));
    entries.push(story.streamed(&input(1, "c2"), ":\"é\"}"));
    entries.push(story.marked(MarkKind::CallEnded { index: 1 }));
    entries.extend(story.answered(ModelStop::ToolUse));
    for id in ["c1", "c2"] {
        let result = Arc::new(ToolResult::text(call(id), ResultStatus::Ok, "done"));
        entries.push(story.fact(Event::ToolStarted { call: call(id), effect: Effect::ReadOnly, effect_id: None }));
        entries.push(story.fact(Event::ToolFinished {
            call: call(id),
            end: ToolEnd::Finished,
            result,
            remains: None,
            state: None,
        }));
    }
    entries.push(story.model_started());
    entries.push(story.streamed(&Kind::Text, "Färdigt."));
    entries.extend(story.answered(ModelStop::EndTurn));
    entries.push(story.settled());
    entries
}

/// All items of a feed from a place on.
async fn read_from(runtime: &Runtime, story: &Story, from: Cursor) -> Vec<FeedItem> {
    let mut feed = runtime.feed(story.run(), from).await.unwrap().expect("the run is known");
    read_all(&mut feed).await
}

/// What follows a place in a feed that was read from its beginning.
fn after(full: &[FeedItem], from: Cursor) -> Vec<FeedItem> {
    let rest = |item: &FeedItem| match item {
        FeedItem::Fact(record) => (record.seq > from.seq).then(|| item.clone()),
        FeedItem::TextLost { .. } => Some(item.clone()),
        FeedItem::Delta(delta) if delta.at.seq != from.seq => (delta.at.seq > from.seq).then(|| item.clone()),
        FeedItem::Delta(delta) => {
            let begins = delta.at.byte - delta.text.len();
            // In the middle of a character, a reader gets the whole character.
            let skipped = delta.text.floor_char_boundary(from.byte.saturating_sub(begins));
            let text = delta.text[skipped..].to_owned();
            (!text.is_empty()).then(|| FeedItem::Delta(Delta::new(delta.at, delta.kind.clone(), text)))
        }
        #[cfg(not(andon_whole))]
        _ => None,
    };
    full.iter().filter_map(rest).collect()
}

/// How many bytes streamed after an event.
fn streamed(full: &[FeedItem], seq: u64) -> usize {
    let ends = full.iter().map(FeedItem::cursor).filter(|at| at.seq == seq);
    ends.map(|at| at.byte).max().unwrap_or_default()
}

async fn told_to(subject: &Subject) -> (Runtime, Story, Vec<FeedItem>) {
    let mut story = Story::new("r");
    let entries = streaming_run(&mut story);
    story.write(subject, entries.clone()).await;
    let runtime = Runtime::builder().journal(Arc::clone(subject.journal())).build();
    let full = read_from(&runtime, &story, Cursor::default()).await;
    let told: Vec<_> = entries.iter().filter_map(Entry::fact).cloned().collect();
    assert_eq!(facts(&full), told, "the feed has every event once");
    (runtime, story, full)
}

fn text(item: &FeedItem) -> Option<(u64, &str, &str)> {
    let FeedItem::Delta(delta) = item else { return None };
    let kind = match &delta.kind {
        Kind::Text => "text",
        Kind::Thinking => "thinking",
        Kind::ToolInput(head) => head.id.as_str(),
        Kind::ToolOutput(call) => call.as_str(),
        #[cfg(not(andon_whole))]
        _ => "unknown",
    };
    Some((delta.at.seq, kind, &delta.text))
}

pub(super) async fn a_feed_can_be_resumed_at_every_byte(subject: Subject) {
    let (runtime, story, full) = told_to(&subject).await;
    let deltas: Vec<_> = full.iter().filter_map(text).collect();
    let expected = [
        (3, "thinking", "så här: 日"),
        (3, "text", "gör vi 🙂🙂"),
        (3, "c1", "{\"ä\":"),
        (3, "c2", "{\"n\""),
        (3, "c1", "1}"),
        (4, "c2", ":\"é\"}"),
        (12, "text", "Färdigt."),
    ];
    assert_eq!(deltas, expected);
    for seq in 0..=story.seq {
        for byte in 0..=streamed(&full, seq) {
            let from = Cursor { seq, byte };
            let items = read_from(&runtime, &story, from).await;
            assert_eq!(items, after(&full, from), "resumed at {from}");
        }
    }
}

pub(super) async fn a_place_past_what_is_stored_is_reported_as_lost_text(subject: Subject) {
    let (runtime, story, full) = told_to(&subject).await;
    for seq in 0..=story.seq {
        let at = Cursor { seq, byte: streamed(&full, seq) };
        let past = Cursor { seq, byte: at.byte + 1 };
        let mut expected = vec![FeedItem::TextLost { at }];
        expected.extend(after(&full, at));
        assert_eq!(read_from(&runtime, &story, past).await, expected, "resumed at {past}");
    }
    let at = Cursor { seq: story.seq, byte: 0 };
    let far = Cursor { seq: story.seq + 1, byte: 0 };
    assert_eq!(read_from(&runtime, &story, far).await, [FeedItem::TextLost { at }]);
}
