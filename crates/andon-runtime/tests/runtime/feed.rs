//! A run's events for any number of readers: the past, then live, no gap, no repeat, and nobody holds up the run (P3).

use andon_runtime::{Feed, Kind};
use andon_testkit::check::{check_feed, read_all};

use crate::common::*;

/// All bytes that a reader was shown, in order.
fn shown(items: &[FeedItem]) -> String {
    let text = items.iter().filter_map(|item| match item {
        FeedItem::Delta(delta) => Some(delta.text.as_str()),
        FeedItem::Fact(_) | FeedItem::TextLost { .. } => None,
        #[cfg(not(andon_whole))]
        _ => None,
    });
    text.collect()
}

/// The feed with neighbouring deltas of one kind joined, so that readers of different speeds can be compared.
fn joined(items: Vec<FeedItem>) -> Vec<FeedItem> {
    let mut joined: Vec<FeedItem> = Vec::new();
    for item in items {
        match (joined.last_mut(), item) {
            (Some(FeedItem::Delta(last)), FeedItem::Delta(next)) if last.kind == next.kind => {
                last.text.push_str(&next.text);
                last.at = next.at;
            }
            (_, item) => joined.push(item),
        }
    }
    joined
}

fn all_there(feed: &mut Feed) -> Vec<FeedItem> {
    std::iter::from_fn(|| feed.try_next()).collect()
}

/// A model that thinks, speaks and calls a tool, in drips.
fn rich() -> ScriptedModel {
    let drip = Act::Pause(millis(7));
    let first = answer([
        vec![Act::thinking("Hä"), drip.clone(), Act::thinking("?"), Act::signed(), Act::text("Köl"), drip.clone()],
        vec![Act::text("n "), drip],
        calls(&[("a", "look")]),
    ]);
    ScriptedModel::new([first, says("Done.")])
}

async fn settled_rich_run() -> (Session, Run) {
    let session = agent(&rich()).tool(tools::slow("look", secs(1), &ToolLog::new())).open();
    let (run, _) = run_to_end(&session, "Go.").await;
    (session, run)
}

#[tokio::test(start_paused = true)]
async fn a_reader_gets_the_past_and_then_the_present_without_gap_or_repeat() {
    let session = agent(&rich()).tool(tools::slow("look", secs(1), &ToolLog::new())).open();
    let run = session.start("Go.").unwrap();
    let live = read_all(&mut run.feed()).await;
    assert_eq!(check_feed(&live), Vec::<String>::new());
    assert_eq!(shown(&live), "Hä?Köln {}Done.");
    let after = read_all(&mut run.feed()).await;
    assert_eq!(joined(live), joined(after));
}

#[tokio::test(start_paused = true)]
async fn readers_that_join_at_any_item_of_a_live_run_see_the_same_run() {
    let (_, run) = settled_rich_run().await;
    let whole = joined(read_all(&mut run.feed()).await);

    let session = agent(&rich()).tool(tools::slow("look", secs(1), &ToolLog::new())).open();
    let run = session.start("Go.").unwrap();
    let mut first = run.feed();
    let mut joiners = vec![(Vec::new(), run.feed())];
    let mut seen = Vec::new();
    while let Some(item) = first.next().await {
        seen.push(item);
        joiners.push((Vec::new(), run.feed()));
        for (items, feed) in &mut joiners {
            items.extend(all_there(feed));
        }
    }
    let type_and_text = |items: Vec<FeedItem>| -> Vec<String> {
        let of = |item: &FeedItem| match item {
            FeedItem::Fact(record) => record.seq.to_string(),
            FeedItem::Delta(delta) => delta.text.clone(),
            FeedItem::TextLost { .. } => "lost".to_owned(),
            #[cfg(not(andon_whole))]
            _ => "unknown".to_owned(),
        };
        joined(items).iter().map(of).collect()
    };
    let expected = type_and_text(whole);
    assert_eq!(type_and_text(seen), expected);
    assert!(joiners.len() > 10);
    for (items, _) in joiners {
        assert_eq!(type_and_text(items), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_joins_in_the_middle_of_an_answer_gets_all_of_it() {
    let model = ScriptedModel::new([vec![Act::text("Early "), Act::Pause(secs(1)), Act::text("late."), Act::end()]]);
    let session = agent(&model).open();
    let run = start_until_shown(&session, "Go.", "Early").await;
    let mut late = run.feed();
    let first = all_there(&mut late);
    assert_eq!(shown(&first), "Early ");
    assert_eq!(shown(&read_all(&mut late).await), "late.");
    settled(&session, &run).await;
}

#[tokio::test(start_paused = true)]
async fn resuming_from_every_byte_of_an_answer_gives_exactly_the_rest() {
    let (_, run) = settled_rich_run().await;
    let items = read_all(&mut run.feed()).await;
    let whole = shown(&items);
    let mut before = String::new();
    for item in &items {
        let FeedItem::Delta(delta) = item else { continue };
        for offset in 0..=delta.text.len() {
            let byte = delta.at.byte - delta.text.len() + offset;
            let from = Cursor { seq: delta.at.seq, byte };
            let rest = read_all(&mut run.feed_from(from)).await;
            // A place inside a character moves back to its beginning.
            let kept = delta.text.floor_char_boundary(offset);
            let expected = &whole[before.len() + kept..];
            assert_eq!(shown(&rest), expected, "from {from}");
            assert!(!rest.iter().any(|item| matches!(item, FeedItem::TextLost { .. })));
        }
        before.push_str(&delta.text);
    }
    assert_eq!(before, whole);
}

#[tokio::test(start_paused = true)]
async fn resuming_from_every_item_gives_exactly_the_items_after_it() {
    let (_, run) = settled_rich_run().await;
    let items = read_all(&mut run.feed()).await;
    for (place, item) in items.iter().enumerate() {
        let cursor: Cursor = item.cursor().to_string().parse().unwrap();
        assert_eq!(read_all(&mut run.feed_from(cursor)).await, items[place + 1..]);
    }
    let last = items.last().unwrap().cursor();
    assert_eq!(read_all(&mut run.feed_from(last)).await, []);
}

#[tokio::test(start_paused = true)]
async fn resuming_gives_the_rest_as_one_delta_a_kind() {
    let (_, run) = settled_rich_run().await;
    let items = read_all(&mut run.feed()).await;
    let kinds: Vec<&str> = items
        .iter()
        .filter_map(|item| match item {
            FeedItem::Delta(delta) => Some(match delta.kind {
                Kind::Text => "text",
                Kind::Thinking => "thinking",
                Kind::ToolInput(_) => "tool_input",
                Kind::ToolOutput(_) => "tool_output",
                #[cfg(not(andon_whole))]
                _ => "unknown",
            }),
            FeedItem::Fact(_) | FeedItem::TextLost { .. } => None,
            #[cfg(not(andon_whole))]
            _ => None,
        })
        .collect();
    assert_eq!(kinds, ["thinking", "text", "tool_input", "text"]);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_readers_that_stopped_neither_hold_up_the_run_nor_cost_memory() {
    let model = ScriptedModel::new([answer([
        vec![Act::text("Begin. ")],
        vec![Act::Flood("0123456789", 50_000), Act::usage(1, 1), Act::end()],
    ])]);
    let session = agent(&model).open();
    let run = session.start("Flood.").unwrap();
    let mut stopped: Vec<Feed> = (0..100).map(|_| run.feed()).collect();
    for reader in &mut stopped {
        reader.next().await;
    }
    let outcome = settled(&session, &run).await;
    assert_eq!(outcome.text_so_far().len(), 500_007);
    assert_eq!(model.open(), 0);
    // A reader is a place in the log, without a buffer: the whole flood is one delta when it goes on.
    for reader in &mut stopped {
        let deltas = all_there(reader).into_iter().filter(|item| matches!(item, FeedItem::Delta(_)));
        assert_eq!(deltas.count(), 1);
    }
    assert!(std::mem::size_of::<Feed>() <= 64);
}

#[tokio::test(start_paused = true)]
async fn dropping_every_feed_changes_nothing_for_the_run() {
    let session = agent(&rich()).tool(tools::quick("look", &ToolLog::new())).open();
    let run = session.start("Go.").unwrap();
    let mut feed = run.feed();
    feed.next().await;
    drop(feed);
    assert_eq!(settled(&session, &run).await.text_so_far(), "Done.");
}

#[tokio::test(start_paused = true)]
async fn the_feed_of_a_settled_run_is_read_from_the_journal() {
    let (session, run) = settled_rich_run().await;
    let live = joined(read_all(&mut run.feed()).await);
    let mut stored = session.agent().runtime().feed(run.id(), Cursor::default()).await.unwrap().unwrap();
    assert_eq!(joined(read_all(&mut stored).await), live);

    for item in &live {
        let mut rest = session.agent().runtime().feed(run.id(), item.cursor()).await.unwrap().unwrap();
        let expected: Vec<FeedItem> = live.iter().skip_while(|other| *other != item).skip(1).cloned().collect();
        assert_eq!(joined(read_all(&mut rest).await), expected);
    }
    let nobody = andon_runtime::RunId::new("nobody").unwrap();
    assert!(session.agent().runtime().feed(&nobody, Cursor::default()).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_place_past_what_is_stored_is_told_that_text_was_lost_and_then_gets_what_follows() {
    let (_, run) = settled_rich_run().await;
    let items = read_all(&mut run.feed()).await;
    let place = items.iter().position(|item| matches!(item, FeedItem::Delta(_))).unwrap();
    let end = items[place + 2].cursor();
    assert_eq!(end.seq, items[place].cursor().seq, "thinking, text and tool input follow one event");

    let past = Cursor { byte: end.byte + 1_000, ..end };
    let rest = read_all(&mut run.feed_from(past)).await;
    assert_eq!(rest[0], FeedItem::TextLost { at: end });
    assert_eq!(rest[1..], items[place + 3..]);

    let last = items.last().unwrap().cursor();
    let rest = read_all(&mut run.feed_from(Cursor { seq: last.seq + 7, byte: 3 })).await;
    assert_eq!(rest, [FeedItem::TextLost { at: last }]);
}

#[tokio::test(start_paused = true)]
async fn everything_that_was_started_is_finished_in_the_feed_of_a_stopped_run() {
    let log = ToolLog::new();
    let session = scripted([calls(&[("a", "slow"), ("b", "danger")])])
        .tool(tools::slow("slow", secs(60), &log))
        .tool(tools::quick("danger", &log).needs_approval())
        .before_run(|_| async {})
        .open();
    let run = start_until_tool(&session, "Go.", "a").await;
    stop(&session, &run, Cancel::graceful()).await;
    let types = event_types(&run);
    let times = |name: &str| types.iter().filter(|found| *found == name).count();
    for (begun, ended) in [
        ("run_accepted", "run_settled"),
        ("hook_started", "hook_finished"),
        ("model_started", "model_finished"),
        ("approval_requested", "approval_resolved"),
        ("tool_started", "tool_finished"),
    ] {
        assert_eq!((times(begun), times(ended)), (1, 1), "{begun}: {types:?}");
    }
    assert_eq!(count(&run, |event| matches!(event, Event::RunSettled { .. })), 1);
    assert_eq!(types.last().unwrap(), "run_settled");
}
