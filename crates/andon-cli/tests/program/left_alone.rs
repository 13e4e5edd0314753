//! `kill -9` of a server, and what happens to its waiting runs, whose readers are gone.

use reqwest::Response;

use crate::adk;
use crate::child::*;
use crate::server::Served;

const RESTARTED: &str = "the server restarted, and its reader was disconnected";

/// The request for a run of the practice agent, in its own session.
fn order(run: &str, input: &str, on_disconnect: Value) -> Value {
    json!({"app": "practice", "session": run, "run_id": run, "input": input, "on_disconnect": on_disconnect})
}

/// The request for a run that needs approval.
fn needs_approval(run: &str, on_disconnect: Value) -> Value {
    order(run, "write a note: buy milk", on_disconnect)
}

/// The request for a run that is queued behind a long one in the session `s`.
fn queued(served: &Served, run: &str, on_disconnect: Value) -> Value {
    let (status, first) = served.post(
        "/v1/runs",
        &json!({"app": "practice", "session": "s", "run_id": "first", "input": "tell me a long story"}),
    );
    assert_eq!(status, 201, "{first}");
    let mut order = order(run, "what time is it", on_disconnect);
    order["session"] = json!("s");
    order["when_busy"] = json!("queue");
    order
}

/// Reads a feed until it contains this text.
fn until(served: &Served, feed: &mut Response, text: &str) {
    let mut seen = String::new();
    while !seen.contains(text) {
        seen.push_str(&served.more(feed).unwrap_or_else(|| panic!("{text:?} did not come; there was:\n{seen}")));
    }
}

/// A run's whole feed. This does not count as a reader.
fn feed_of(served: &Served, run: &str) -> String {
    served.text(&format!("/v1/runs/{run}/events?aside=true"))
}

fn receipt(served: &Served, run: &str) -> Value {
    let told = feed_of(served, run);
    assert!(told.contains("\"type\":\"run_settled\""), "{told}");
    served.get(&format!("/v1/runs/{run}/receipt")).1
}

fn state(served: &Served, run: &str) -> Value {
    served.get(&format!("/v1/runs/{run}")).1["state"].clone()
}

/// Checks that the run was stopped after the restart, and did nothing more.
fn was_left_alone(served: &Served, run: &str, note: &str) {
    let receipt = receipt(served, run);
    assert_eq!(receipt["outcome"], json!({"kind": "cancelled", "reason": "client_disconnected"}), "{receipt}");
    let said = ["reason", "by", "note", "force"].map(|field| receipt[field].as_str().unwrap_or_default().to_owned());
    assert_eq!(said, ["client_disconnected", "server", note, "graceful"], "{receipt}");
}

fn approve(served: &Served, run: &str) {
    let view = served.get(&format!("/v1/runs/{run}")).1;
    let call = view["approvals"][0]["call"].as_str().unwrap_or_else(|| panic!("{view}"));
    let (status, told) = served.post(&format!("/v1/runs/{run}/approvals/{call}"), &json!({"decision": "approve"}));
    assert_eq!(status, 200, "{told}");
}

fn outcome(served: &Served, run: &str) -> Value {
    receipt(served, run)["outcome"]["kind"].clone()
}

#[test]
fn a_queued_adk_run_whose_client_died_with_the_server_does_not_start_after_the_restart() {
    let db = Database::new();
    let served = Served::start(&db, &[]);
    served.post(adk::SESSION, &json!({}));
    let mut first = served.open("/run_sse", &adk::ask("tell me a long story"));
    until(&served, &mut first, "partial");
    // Its stream is open, so it is on record.
    let second = served.open("/run_sse", &adk::ask("what time is it"));
    assert_eq!(second.status().as_u16(), 200);
    served.program.kill();

    let served = Served::start(&db, &["--instant"]);
    let said = "1 run that an earlier program left open has been settled: stopped, because its reader was gone.";
    assert!(served.program.seen.contains(said), "{}", served.program.seen);
    let runs = served.get("/v1/runs?user=ada").1["runs"].as_array().unwrap().clone();
    let [second, first] = runs.as_slice() else { panic!("{runs:?}") };
    assert_eq!(first["outcome"]["kind"], "lost");
    let second = second["run_id"].as_str().unwrap();
    was_left_alone(&served, second, RESTARTED);
    let told = feed_of(&served, second);
    assert!(!told.contains("run_started") && !told.contains("model_started"), "{told}");
    // The conversation does not contain it, and the session goes on.
    let (status, next) = served.post("/run", &adk::ask("roll 3 dice"));
    assert_eq!(status, 200, "{next}");
    let session = served.get(adk::SESSION).1.to_string();
    assert!(session.contains("roll 3 dice") && !session.contains("what time is it"), "{session}");
}

#[test]
fn a_waiting_run_with_on_disconnect_cancel_is_stopped_after_the_restart() {
    let db = Database::new();
    let served = Served::start(&db, &["--instant"]);
    // One reader came with the run, the other one later.
    let mut started = served.run_to_read(&needs_approval("a", json!("cancel")));
    until(&served, &mut started, "approval_requested");
    served.post("/v1/runs", &needs_approval("b", json!("cancel")));
    let mut later = served.read("/v1/runs/b/events");
    until(&served, &mut later, "approval_requested");
    db.wait_for_record("b", "\"line\":\"kept\"");
    served.program.kill();

    let served = Served::start(&db, &["--instant"]);
    for run in ["a", "b"] {
        was_left_alone(&served, run, RESTARTED);
        let receipt = receipt(&served, run);
        assert_eq!(receipt["calls"][0]["verdict"], "never_started", "{receipt}");
        // Its session accepts the next prompt.
        let mut next = order("next", "roll 3 dice", json!("continue"));
        (next["session"], next["run_id"]) = (json!(run), json!(format!("{run}-next")));
        assert_eq!(served.post("/v1/runs", &next).0, 201);
        assert_eq!(outcome(&served, &format!("{run}-next")), "completed");
    }
}

#[test]
fn a_reader_that_comes_back_in_time_keeps_its_run_and_the_time_counts_from_the_restart() {
    let db = Database::new();
    let served = Served::start(&db, &["--instant"]);
    let feeds = ["kept", "left"].map(|run| {
        let mut feed = served.run_to_read(&needs_approval(run, json!({"cancel_after_ms": 5000})));
        until(&served, &mut feed, "approval_requested");
        feed
    });
    served.program.kill();
    drop(feeds);

    let served = Served::start(&db, &["--instant"]);
    let back = served.read("/v1/runs/kept/events");
    assert_eq!(state(&served, "left"), "waiting");
    was_left_alone(&served, "left", &format!("{RESTARTED}; nobody reconnected within 5s"));
    assert_eq!(state(&served, "kept"), "waiting");
    approve(&served, "kept");
    assert_eq!(outcome(&served, "kept"), "completed");
    drop(back);
}

#[test]
fn a_run_that_never_had_a_reader_goes_on_after_the_restart() {
    let db = Database::new();
    let served = Served::start(&db, &[]);
    served.post("/v1/runs", &needs_approval("waiting", json!("cancel")));
    // Somebody who only watches does not count as a reader.
    let mut aside = served.read("/v1/runs/waiting/events?aside=true");
    until(&served, &mut aside, "approval_requested");
    let order = queued(&served, "queued", json!({"cancel_after_ms": 1}));
    assert_eq!(served.post("/v1/runs", &order).0, 201);
    served.program.kill();

    let served = Served::start(&db, &["--instant"]);
    assert_eq!(outcome(&served, "queued"), "completed");
    assert_eq!(state(&served, "waiting"), "waiting");
    approve(&served, "waiting");
    assert_eq!(outcome(&served, "waiting"), "completed");
}

#[test]
fn a_run_with_on_disconnect_continue_goes_on_after_the_restart() {
    let db = Database::new();
    let served = Served::start(&db, &[]);
    let order = queued(&served, "queued", json!("continue"));
    let mut feed = served.run_to_read(&order);
    until(&served, &mut feed, "run_accepted");
    served.program.kill();

    let served = Served::start(&db, &["--instant"]);
    assert_eq!(outcome(&served, "queued"), "completed");
}
