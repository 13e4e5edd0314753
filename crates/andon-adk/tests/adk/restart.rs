//! A process that dies and the one after it: what becomes of runs whose readers the crash disconnected.

use std::pin::pin;

use andon_runtime::{Agent, RunState};
use andon_testkit::tools::quick;
use andon_testkit::{ScriptedModel, TestJournal};
use tokio::time::{sleep, timeout};

use super::*;
use crate::inside::{Frames, order, reason};

const LONG: Duration = Duration::from_secs(3600);

/// An agent that asks a person before it pays.
fn paying(answers: impl IntoIterator<Item = Vec<Act>>) -> (AgentBuilder, ToolLog) {
    let log = ToolLog::new();
    let shop = Agent::builder().model(ScriptedModel::new(answers)).tool(quick("pay", &log).needs_approval());
    (shop, log)
}

fn pays() -> Vec<Act> {
    calls(&[("c1", "pay", "{}")])
}

/// A server that is about to die.
async fn doomed(answers: impl IntoIterator<Item = Vec<Act>>) -> (Inside, TestJournal) {
    let journal = TestJournal::new(MemoryJournal::new(), None);
    let inside = Inside::build(Arc::new(journal.clone()), Options::default(), paying(answers).0).await;
    (inside, journal)
}

/// The process dies, and another one with this app finds what was durable.
async fn reborn(journal: &TestJournal, app: &str, answers: impl IntoIterator<Item = Vec<Act>>) -> (Inside, ToolLog) {
    journal.crash();
    let (shop, log) = paying(answers);
    let journal = TestJournal::new(journal.durable(), None);
    (Inside::with_app(Arc::new(journal), Options::default(), app, shop).await, log)
}

/// A run that waits for approval, and its reader.
async fn waiting(inside: &Inside, more: Value) -> Frames {
    inside.start(more).await;
    let mut feed = inside.feed("r", None).await;
    feed.until_type("approval_requested").await;
    sleep(Duration::from_secs(1)).await;
    feed
}

async fn is_waiting(inside: &Inside, run: &str) -> bool {
    sleep(LONG).await;
    inside.run(run).await.state() == RunState::Waiting
}

#[tokio::test(start_paused = true)]
async fn a_restart_loses_all_readers() {
    for (policy, goes_on) in
        [(json!("cancel"), false), (json!({"cancel_after_ms": 10}), false), (json!("continue"), true)]
    {
        let (first, journal) = doomed([pays()]).await;
        let _feed = waiting(&first, json!({"run_id": "r", "on_disconnect": policy})).await;
        let (next, _) = reborn(&journal, "shop", []).await;
        match goes_on {
            true => assert!(is_waiting(&next, "r").await, "{policy}"),
            false => assert_eq!(reason(&next.run("r").await).await, "client_disconnected", "{policy}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn readers_aside_and_requests_for_the_state_are_not_counted_as_lost() {
    let (first, journal) = doomed([pays()]).await;
    first.start(json!({"run_id": "r", "on_disconnect": "cancel"})).await;
    let mut aside = first.feed_with("r", "?aside=true").await;
    aside.until_type("approval_requested").await;
    first.send(Method::HEAD, "/v1/runs/r/events", None, None).await;
    first.get("/v1/runs/r").await;
    sleep(Duration::from_secs(1)).await;
    let (next, _) = reborn(&journal, "shop", []).await;
    assert!(is_waiting(&next, "r").await);
}

#[tokio::test(start_paused = true)]
async fn a_run_of_adks_that_was_queued_does_not_begin_without_its_client() {
    for path in ["/run", "/run_sse"] {
        let (first, journal) = doomed([endless()]).await;
        begin(&first, "s").await;
        let mut running = Stream::open(&first, stream("s", "go")).await;
        running.next().await;
        let mut queued = pin!(first.send(Method::POST, path, None, Some(ask("s", "and then"))));
        // `/run` sends nothing until its run is over. Neither request is dropped: it is the process that dies.
        let answer = timeout(Duration::from_secs(1), &mut queued).await;
        assert_eq!(answer.is_ok(), path == "/run_sse");
        let run = first.runtime.runs().pop().unwrap();
        assert_eq!(first.run(run.as_str()).await.state(), RunState::Queued);

        let (next, _) = reborn(&journal, "shop", [says(&["Well."])]).await;
        assert_eq!(reason(&next.run(run.as_str()).await).await, "client_disconnected", "{path}");
        let (status, told) = next.post("/run", ask("s", "go on")).await;
        assert_eq!((status, crate::text(&told[0])), (StatusCode::OK, "Well.".to_owned()), "{told}");
    }
}

/// A client whose response ended so that it can ask a person has not disconnected.
#[tokio::test(start_paused = true)]
async fn a_run_of_adks_that_waits_for_a_person_waits_on_and_its_next_client_is_missed_again() {
    let (first, journal) = doomed([pays()]).await;
    begin(&first, "s").await;
    let events = crate::streamed(&first, stream("s", "pay")).await;
    sleep(Duration::from_secs(1)).await;

    let (next, log) = reborn(&journal, "shop", [vec![Act::text("Once"), Act::Silence]]).await;
    let run = next.runtime.runs().pop().unwrap().to_string();
    assert!(is_waiting(&next, &run).await);
    let id = &events[1]["content"]["parts"][0]["functionCall"]["id"];
    let yes = json!({"id": id, "name": "adk_request_confirmation", "response": {"confirmed": true}});
    let parts = json!({"newMessage": {"role": "user", "parts": [{"functionResponse": yes}]}, "streaming": true});
    let mut rest = Stream::open(&next, crate::with(ask("s", ""), parts)).await;
    rest.until("Once").await;
    assert_eq!(log.started(), 1);
    drop(rest);
    assert_eq!(reason(&next.run(&run).await).await, "client_disconnected");
}

/// When a feed ends because its run is taken up, its reader has not disconnected.
#[tokio::test(start_paused = true)]
async fn a_reader_of_a_run_that_waits_for_its_agent_does_not_stop_it_when_the_agent_comes() {
    let (first, journal) = doomed([pays()]).await;
    first.start(json!({"run_id": "r", "on_disconnect": "cancel"})).await;
    first.feed_with("r", "?aside=true").await.until_type("approval_requested").await;
    let (next, _) = reborn(&journal, "other", []).await;
    let mut feed = next.feed("r", None).await;
    feed.until_type("approval_requested").await;
    let (shop, _) = paying([]);
    next.server.apps().put(shop.name("shop").runtime(&next.runtime).build().unwrap(), None);
    next.runtime.recover().await.unwrap();
    feed.rest().await;
    assert!(is_waiting(&next, "r").await);
}

/// The receipt says what happened, for whoever comes back.
#[tokio::test(start_paused = true)]
async fn a_reader_that_returns_too_late_learns_that_the_server_restarted() {
    let (first, journal) = doomed([pays()]).await;
    let body = order(json!({"run_id": "r", "on_disconnect": "cancel"}));
    let response = first.send(Method::POST, "/v1/runs", Some("text/event-stream"), Some(body)).await;
    let mut feed = Frames { body: response.into_body() };
    feed.until_type("approval_requested").await;
    let (next, log) = reborn(&journal, "shop", []).await;
    assert_eq!(reason(&next.run("r").await).await, "client_disconnected");
    let told = next.feed("r", None).await.rest().await;
    assert_eq!(told.last().unwrap().json["outcome"], json!({"kind": "cancelled", "reason": "client_disconnected"}));
    let (_, receipt) = next.get("/v1/runs/r/receipt").await;
    let said = ["by", "force", "cut_in", "note"].map(|field| receipt[field].as_str().unwrap_or_default());
    let note = "the server restarted, and its reader was disconnected";
    assert_eq!(said, ["server", "graceful", "waiting", note], "{receipt}");
    let instants = ["requested_at", "delivered_at", "settled_at"];
    assert!(instants.iter().all(|instant| receipt[instant].is_string()), "{receipt}");
    assert_eq!((&receipt["calls"][0]["verdict"], log.started()), (&json!("never_started"), 0));
    let (status, late) = next.post("/v1/runs/r/approvals/c1", json!({"decision": "approve"})).await;
    assert_eq!(status, StatusCode::CONFLICT, "{late}");
}
