//! A process that dies and the one after it: C10 to C12. The journal keeps only what was durable.

use andon_testkit::TestJournal;
use andon_testkit::tools;

use super::*;

/// A server that is about to die, and its journal.
async fn doomed(shop: AgentBuilder) -> (Inside, TestJournal) {
    let journal = TestJournal::new(MemoryJournal::new(), None);
    let inside = Inside::build(Arc::new(journal.clone()), Options::default(), shop).await;
    begin(&inside, "s").await;
    (inside, journal)
}

/// The process dies, and the next one finds what was durable.
async fn reborn(journal: &TestJournal, shop: AgentBuilder) -> Inside {
    journal.crash();
    Inside::build(Arc::new(journal.durable()), Options::default(), shop).await
}

/// C10, C12.
#[tokio::test(start_paused = true)]
async fn a_run_whose_process_died_in_a_tool_is_marked_as_interrupted_and_the_tool_is_not_run_again() {
    let log = ToolLog::new();
    let tool = || tools::slow("slow", Duration::from_secs(60), &log);
    let (inside, journal) = doomed(agent([calls(&[("c", "slow", "{}")])]).tool(tool())).await;
    let mut running = Stream::open(&inside, stream("s", "go")).await;
    let call = running.until("functionCall").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let next = reborn(&journal, agent([says(&["Well."])]).tool(tool())).await;
    let events = stored(&next, "s").await;
    let [_, told, responses, end] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(whole(std::slice::from_ref(told)), whole(std::slice::from_ref(&call)));
    let response = &responses["content"]["parts"][0]["functionResponse"]["response"]["error"];
    assert!(response.as_str().unwrap().contains("may have had its effect"), "{responses}");
    assert_eq!((&end["errorCode"], &end["interrupted"]), (&json!("INVOCATION_INTERRUPTED"), &json!(true)));
    let resumed = with(ask("s", "go"), json!({"invocationId": call["invocationId"]}));
    assert_eq!(next.post("/run", resumed).await.0, StatusCode::BAD_REQUEST);
    let (status, _) = next.post("/run", ask("s", "go on")).await;
    assert_eq!((status, log.started()), (StatusCode::OK, 1));
    is_valid(&stored(&next, "s").await);
}

/// C11.
#[tokio::test(start_paused = true)]
async fn text_that_was_sent_before_the_process_died_is_kept_but_for_the_last_50_ms() {
    let acts = vec![Act::text("Once "), Act::Pause(Duration::from_millis(60)), Act::text("upon "), Act::Silence];
    let (inside, journal) = doomed(agent([acts])).await;
    let mut running = Stream::open(&inside, stream("s", "go")).await;
    let seen = [running.until("Once").await, running.until("upon").await];
    let next = reborn(&journal, agent([says(&["Well."])])).await;
    let events = stored(&next, "s").await;
    let [_, cut, end] = events.as_slice() else { panic!("{events:?}") };
    assert!(pieces(&seen).starts_with(&text(cut)) && text(cut).starts_with("Once "), "{cut}");
    assert_eq!((&cut["interrupted"], &cut["id"]), (&json!(true), &seen[0]["id"]));
    assert_eq!(cut["customMetadata"]["andon"]["usage"]["billed"]["output"]["value"], Value::Null);
    assert_eq!(end["errorCode"], "INVOCATION_INTERRUPTED");
    next.post("/run", ask("s", "go on")).await;
    is_valid(&stored(&next, "s").await);
}

/// A cancel that was acknowledged survives the crash.
#[tokio::test(start_paused = true)]
async fn a_cancel_that_was_answered_is_a_cancel_also_if_the_process_dies_before_the_run_has_settled() {
    let log = ToolLog::new();
    let stuck = || tools::stubborn("stuck", Duration::from_secs(60), &log).grace(Duration::from_secs(30));
    let (inside, journal) = doomed(agent([calls(&[("c", "stuck", "{}")])]).tool(stuck())).await;
    let running = Stream::open(&inside, stream("s", "go")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (status, told) = cancel(&inside, "s").await;
    assert_eq!((status, &told["settled"]), (StatusCode::OK, &json!(false)));
    let next = reborn(&journal, agent([]).tool(stuck())).await;
    drop(running);
    let events = stored(&next, "s").await;
    let seal = events.last().unwrap();
    assert_eq!(
        (&seal["errorCode"], &seal["customMetadata"]["andon"]["reason"]),
        (&json!("INVOCATION_ABORTED"), &json!("requested"))
    );
    is_valid(&events);
}
