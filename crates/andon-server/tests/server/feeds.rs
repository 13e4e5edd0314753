//! Feeds as Server-Sent Events.

use std::collections::BTreeMap;

use andon_runtime::FeedItem;
use andon_testkit::tools::talkative;

use crate::common::*;
use crate::house::Event;
use crate::inside::events;

/// An answer with every kind of part, and characters of one to four bytes.
fn rich() -> ScriptedModel {
    let mut first = vec![Act::thinking("Hm — äöü "), Act::thinking("😀?"), Act::signed()];
    first.extend([Act::text("Grüße, "), Act::text("€uro 🦀")]);
    first.extend(Act::call(0, "c1", "chatty", r#"{"n": 1}"#));
    first.extend([Act::usage(3, 2), Act::tool_use()]);
    ScriptedModel::new([first, vec![Act::text("Fertig: ✓"), Act::usage(1, 1), Act::end()]])
}

fn rich_agent() -> andon_runtime::AgentBuilder {
    Agent::builder().model(rich()).tool(talkative("chatty", 3, &ToolLog::new()))
}

/// The text that was streamed after each event.
fn streamed(events: &[Event], first: u64) -> BTreeMap<u64, String> {
    let mut place = first;
    let mut all = BTreeMap::new();
    for event in events {
        match &event.item {
            FeedItem::Fact(record) => place = record.seq,
            FeedItem::Delta(delta) => {
                assert_eq!(delta.at.seq, place);
                all.entry(place).or_insert_with(String::new).push_str(&delta.text);
            }
            FeedItem::TextLost { .. } => panic!("nothing was lost"),
            #[cfg(not(andon_whole))]
            _ => {}
        }
    }
    all
}

fn facts(events: &[Event]) -> Vec<&Event> {
    events.iter().filter(|event| matches!(event.item, FeedItem::Fact(_))).collect()
}

#[tokio::test]
async fn an_id_is_the_events_number_or_a_byte_after_it() {
    let house = House::build(Arc::new(MemoryJournal::new()), Options::default(), rich_agent()).await;
    let run = house.start(json!({})).await;
    let events = house.feed(&run, None).await.rest().await;
    for event in &events {
        let told = if event.json["type"] == "delta" { "at" } else { "seq" };
        let told = event.json[told].as_str().map_or_else(|| event.json[told].to_string(), str::to_owned);
        assert_eq!(event.id, told, "{}", event.json);
        assert_eq!(event.id.contains('.'), event.json["type"] == "delta");
    }
    let numbers: Vec<String> = facts(&events).iter().map(|event| event.id.clone()).collect();
    assert_eq!(numbers, (1..=numbers.len()).map(|number| number.to_string()).collect::<Vec<_>>());
    for kind in ["text", "thinking", "tool_input", "tool_output"] {
        assert!(events.iter().any(|event| event.json[kind].is_string()), "no {kind}");
    }
}

#[tokio::test]
async fn a_reader_resumes_at_every_byte_also_in_mid_character_and_misses_and_repeats_nothing() {
    let inside = Inside::new(rich_agent()).await;
    let run = inside.start(json!({})).await;
    run.outcome().await;
    let whole = inside.feed(run.id().as_str(), None).await.rest().await;
    let all = streamed(&whole, 0);
    assert!(all.len() >= 3, "{all:?}");
    let mut in_mid_character = 0;
    for (seq, text) in &all {
        for byte in 0..=text.len() {
            let rest = inside.feed(run.id().as_str(), Some(&format!("{seq}.{byte}"))).await.rest().await;
            let begin = text.floor_char_boundary(byte);
            in_mid_character += usize::from(begin != byte);
            let expected: BTreeMap<u64, String> = all
                .range(seq..)
                .map(|(place, text)| (*place, if place == seq { text[begin..].to_owned() } else { text.clone() }))
                .filter(|(_, text)| !text.is_empty())
                .collect();
            assert_eq!(streamed(&rest, *seq), expected, "after {seq}.{byte}");
            let later: Vec<&Event> =
                facts(&whole).into_iter().filter(|fact| fact.json["seq"].as_u64() > Some(*seq)).collect();
            assert_eq!(facts(&rest), later);
            // One delta per kind and call.
            let kinds = whole_kinds(&rest, *seq);
            assert!(kinds.windows(2).all(|two| two[0] != two[1]), "{kinds:?}");
        }
    }
    assert!(in_mid_character > 10);
}

/// The kinds of the deltas after one event.
fn whole_kinds(events: &[Event], seq: u64) -> Vec<String> {
    let deltas = events.iter().filter_map(|event| match &event.item {
        FeedItem::Delta(delta) if delta.at.seq == seq => Some(format!("{:?}", delta.kind)),
        _ => None,
    });
    deltas.collect()
}

#[tokio::test]
async fn a_feed_that_is_cut_again_and_again_gives_exactly_the_text_that_is_stored() {
    const PIECES: [&str; 5] = ["ä", "€uro ", "😀😀", "plain words ", "\n\"\\"];
    let acts = (0..400).flat_map(|n| [Act::text(PIECES[n % PIECES.len()]), Act::Pause(Duration::from_millis(1))]);
    let said: String = (0..400).map(|n| PIECES[n % PIECES.len()]).collect();
    let house = House::with([acts.chain([Act::end()]).collect()]).await;
    let run = house.start(json!({})).await;
    let (mut text, mut last, mut seed, mut cuts) = (String::new(), "0".to_owned(), 12_345_u64, 0);
    'cut: loop {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let mut feed = house.feed(&run, Some(&last)).await;
        for _ in 0..=(seed >> 33) % 7 {
            let event = feed.next().await.expect("a feed ends after the run's last event");
            last = event.id;
            text.push_str(event.json["text"].as_str().unwrap_or_default());
            if event.json["type"] == "run_settled" {
                assert!(feed.next().await.is_none());
                break 'cut;
            }
        }
        cuts += 1;
    }
    assert_eq!(text, said);
    assert!(cuts > 5, "{cuts}");
    let (_, history) = house.get(&format!("/v1/runs/{run}/receipt")).await;
    assert_eq!(history["outcome"]["kind"], "completed");
    let stored = house.feed(&run, None).await.rest().await;
    let message = stored.iter().rev().find(|event| event.json["type"] == "message").unwrap();
    assert!(message.json.to_string().contains(serde_json::to_string(&said).unwrap().as_str()), "{}", message.json);
    let again = house.request(Method::GET, &format!("/v1/runs/{run}/events")).header("last-event-id", &last);
    assert_eq!(again.send().await.unwrap().status(), StatusCode::NO_CONTENT);
    for (last, status) in [(last.as_str(), StatusCode::NO_CONTENT), ("1", StatusCode::OK)] {
        let head = house.request(Method::HEAD, &format!("/v1/runs/{run}/events")).header("last-event-id", last);
        assert_eq!(head.send().await.unwrap().status(), status, "a head says what there is");
    }
}

#[tokio::test]
async fn a_place_past_what_is_stored_gets_text_lost_and_then_what_follows() {
    let (house, run) = House::running().await;
    let delta = house.feed(&run, None).await.until_type("delta").await;
    for (past, force) in [("999", "after_turn"), ("999.5", "graceful"), ("1.4000", "now")] {
        let mut feed = house.feed(&run, Some(past)).await;
        let lost = feed.next().await.unwrap();
        assert_eq!((lost.json["type"].as_str(), lost.json["at"].as_str()), (Some("text_lost"), Some(lost.id.as_str())));
        match force {
            "after_turn" => assert_eq!(lost.id, delta.id, "it goes on at the end of what is there"),
            "now" => assert_eq!(lost.id, "1", "nothing was streamed after this event"),
            _ => {}
        }
        house.post(&format!("/v1/runs/{run}/cancel"), json!({"force": force})).await;
        let next = feed.next().await.unwrap();
        assert_ne!(next.json["type"], "text_lost");
    }
}

#[tokio::test]
async fn a_malformed_place_is_refused_and_opens_nothing() {
    let house = House::silent().await;
    let run = house.start(json!({"on_disconnect": "cancel"})).await;
    let path = format!("/v1/runs/{run}/events");
    for wrong in ["x", "1.", ".1", "1.2.3", "-1", "+1", "99999999999999999999", "1 2", "\u{e4}"] {
        let request = house.request(Method::GET, &path).header("last-event-id", wrong.as_bytes());
        assert_eq!(request.send().await.unwrap().status(), StatusCode::BAD_REQUEST, "{wrong}");
        let encoded: String = wrong.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let (status, problem) = house.get(&format!("{path}?after={encoded}")).await;
        assert_eq!((status, problem["type"].as_str()), (StatusCode::BAD_REQUEST, Some("urn:andon:bad-event-id")));
    }
    assert_eq!(house.get(&format!("{path}?behind=1")).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(house.state(&run).await, "running", "none of them was a reader that left");
}

#[tokio::test]
async fn the_feed_of_an_unknown_run_is_not_found() {
    let house = House::silent().await;
    let (status, problem) = house.get("/v1/runs/nobody/events").await;
    assert_eq!((status, problem["type"].as_str()), (StatusCode::NOT_FOUND, Some("urn:andon:no-such-run")));
    assert!(house.server.runtime().runs().is_empty());
}

#[tokio::test]
async fn a_start_whose_feed_cannot_be_had_starts_nothing() {
    let options = Options::new().max_feeds(2).max_feeds_of_user(1);
    let house = House::build(Arc::new(MemoryJournal::new()), options, agent(vec![endless(); 5])).await;
    let start = |user: &'static str| {
        let request = house.request(Method::POST, "/v1/runs").header("accept", "text/event-stream");
        request.json(&json!({"app": "shop", "input": "hello", "user": user}))
    };
    let wrong = start("ada").header("last-event-id", "x").send().await.unwrap();
    assert_eq!(wrong.status(), StatusCode::BAD_REQUEST);
    let ada = start("ada").send().await.unwrap();
    assert_eq!(start("ada").send().await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
    let bob = start("bob").send().await.unwrap();
    assert_eq!(start("eve").send().await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!((ada.status(), bob.status(), house.runtime.runs().len()), (StatusCode::OK, StatusCode::OK, 2));
}

#[tokio::test]
async fn a_run_that_settled_long_ago_is_read_from_the_journal_as_it_was_seen() {
    let journal = Arc::new(MemoryJournal::new());
    let first = Inside::build(journal.clone(), Options::default(), rich_agent()).await;
    let run = first.start(json!({"run_id": "old"})).await;
    let live = first.feed("old", None).await.rest().await;
    run.outcome().await;
    drop(first);
    let second = Inside::build(journal, Options::default(), rich_agent()).await;
    let read = second.feed("old", None).await.rest().await;
    assert_eq!((facts(&live), streamed(&live, 0)), (facts(&read), streamed(&read, 0)));
    let last = &read.last().unwrap().id;
    let response = second.send(Method::GET, &format!("/v1/runs/old/events?after={last}"), None, None).await;
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn a_queued_runs_feed_begins_at_once_and_goes_on_when_its_turn_comes() {
    let house = House::with([endless()]).await;
    let first = house.start(json!({"session": "s"})).await;
    house.feed(&first, None).await.until_type("delta").await;
    let second = house.start(json!({"session": "s", "when_busy": "queue"})).await;
    let mut feed = house.feed(&second, None).await;
    assert_eq!(feed.next().await.unwrap().json["type"], "run_accepted");
    assert_eq!(house.state(&second).await, "queued");
    house.post(&format!("/v1/runs/{first}/cancel"), json!({})).await;
    assert_eq!(feed.until_type("run_settled").await.json["outcome"]["kind"], "completed");
}

#[tokio::test]
async fn what_is_ready_goes_out_in_one_write() {
    let inside = Inside::new(rich_agent()).await;
    let run = inside.start(json!({})).await;
    run.outcome().await;
    let mut feed = inside.feed(run.id().as_str(), None).await;
    let first = events(&feed.frame().await.unwrap());
    assert!(first.len() > 10);
    assert_eq!(first.last().unwrap().json["type"], "run_settled");
    assert!(feed.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_silent_feed_gives_signs_of_life_and_nothing_else() {
    let inside = Inside::new(agent([endless()])).await;
    let run = inside.start(json!({})).await;
    let mut feed = inside.feed(run.id().as_str(), None).await;
    feed.until_type("delta").await;
    let mut last = Instant::now();
    for _ in 0..5 {
        assert_eq!(&*feed.frame().await.unwrap(), b": \n\n");
        assert_eq!(last.elapsed().as_secs(), Options::default().heartbeat.as_secs());
        last = Instant::now();
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stalls_holds_nobody_up_and_then_gets_all_of_it_in_a_few_pieces() {
    let inside = Inside::new(agent([vec![Act::Flood("0123456789", 10_000), Act::end()]])).await;
    let run = inside.start(json!({})).await;
    let mut stalled = inside.feed(run.id().as_str(), None).await;
    let began = stalled.frame().await.unwrap();
    let quick = inside.feed(run.id().as_str(), None).await.rest().await;
    assert_eq!(run.outcome().await.stop_reason(), "end_turn");
    let (mut frames, mut late) = (0, events(&began));
    while let Some(frame) = stalled.frame().await {
        late.extend(events(&frame));
        frames += 1;
    }
    assert_eq!(streamed(&late, 0), streamed(&quick, 0));
    assert_eq!(streamed(&late, 0).values().map(String::len).sum::<usize>(), 100_000);
    assert!(frames < 8, "{frames}");
}

#[tokio::test]
async fn a_feed_ends_itself_when_the_server_shuts_down() {
    let options = Options::new().drain(Duration::ZERO);
    let house = House::build(Arc::new(MemoryJournal::new()), options, agent([endless()])).await;
    let run = house.start(json!({})).await;
    let mut feed = house.feed_until(&run, "delta").await;
    timeout(Duration::from_secs(10), house.serving.shut_down()).await.expect("bounded");
    let end = feed.until_type("run_settled").await;
    assert_eq!(end.json["outcome"]["reason"], "shutdown", "{}", end.json);
    assert!(feed.next().await.is_none());
}
