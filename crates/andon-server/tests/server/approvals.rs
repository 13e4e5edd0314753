//! A person's approval or denial, over HTTP.

use andon_runtime::Digest;

use crate::common::*;
use crate::house::Events;

/// A shop whose first run needs approval for the call `c1`.
fn paying() -> (AgentBuilder, ToolLog, ScriptedModel) {
    let mut acts = Act::call(0, "c1", "pay", r#"{"n": 7}"#);
    acts.push(Act::tool_use());
    let (log, model) = (ToolLog::new(), ScriptedModel::new([acts]));
    (Agent::builder().model(model.clone()).tool(quick("pay", &log).needs_approval()), log, model)
}

/// A server with a run that waits for approval of the call `c1`.
async fn waiting() -> (House, String, Events, ToolLog, ScriptedModel) {
    let (shop, log, model) = paying();
    let house = House::build(Arc::new(MemoryJournal::new()), Options::default(), shop).await;
    let run = house.start(json!({})).await;
    let feed = house.feed_until(&run, "approval_requested").await;
    (house, run, feed, log, model)
}

async fn decide(house: &House, run: &str, body: Value) -> (StatusCode, Value) {
    house.post(&format!("/v1/runs/{run}/approvals/c1"), body).await
}

#[tokio::test]
async fn approving_the_shown_arguments_runs_the_call() {
    let (house, run, mut feed, log, _) = waiting().await;
    let (_, view) = house.get(&format!("/v1/runs/{run}")).await;
    assert_eq!((view["state"].as_str(), view["approvals"][0]["call"].as_str()), (Some("waiting"), Some("c1")));
    let digest = &view["approvals"][0]["digest"];
    let (status, told) = decide(&house, &run, json!({"decision": "approve", "digest": digest})).await;
    assert_eq!((status, told["decision"].as_str()), (StatusCode::OK, Some("approve")), "{told}");
    assert_eq!(feed.until_type("run_settled").await.json["outcome"]["kind"], "completed");
    assert_eq!(log.started(), 1);
    let (status, late) = decide(&house, &run, json!({"decision": "deny"})).await;
    assert_eq!((status, late["type"].as_str()), (StatusCode::CONFLICT, Some("urn:andon:not-awaited")));
}

#[tokio::test]
async fn a_denial_tells_the_model_why_and_the_call_is_not_made() {
    let (house, run, mut feed, log, model) = waiting().await;
    let (status, _) = decide(&house, &run, json!({"decision": "deny", "why": "too dear"})).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(feed.until_type("run_settled").await.json["outcome"]["kind"], "completed");
    assert_eq!(log.started(), 0);
    assert!(format!("{:?}", model.requests()[1]).contains("too dear"));
}

#[tokio::test]
async fn an_approval_of_other_arguments_or_another_call_is_refused() {
    let (house, run, _, log, _) = waiting().await;
    let other = serde_json::to_value(Digest::of(br#"{"n": 8}"#)).unwrap();
    let (status, problem) = decide(&house, &run, json!({"decision": "approve", "digest": other})).await;
    assert_eq!(status, StatusCode::CONFLICT, "{problem}");
    let (status, _) = house.post(&format!("/v1/runs/{run}/approvals/c2"), json!({"decision": "approve"})).await;
    assert_eq!(status, StatusCode::CONFLICT);
    for wrong in [json!({}), json!({"decision": "maybe"}), json!({"decision": "approve", "digest": "x"})] {
        assert_eq!(decide(&house, &run, wrong.clone()).await.0, StatusCode::UNPROCESSABLE_ENTITY, "{wrong}");
    }
    let (status, _) = house.post("/v1/runs/nobody/approvals/c1", json!({"decision": "approve"})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (_, view) = house.get(&format!("/v1/runs/{run}")).await;
    assert_eq!((view["state"].as_str(), log.started()), (Some("waiting"), 0));
}

#[tokio::test]
async fn a_run_that_waits_for_approval_is_cancelled_like_any_other_and_an_approval_is_then_too_late() {
    let (house, run, _, log, _) = waiting().await;
    let (status, told) = house.post(&format!("/v1/runs/{run}/cancel"), json!({"wait": true})).await;
    assert_eq!((status, told["receipt"]["cut_in"].as_str()), (StatusCode::OK, Some("waiting")), "{told}");
    assert_eq!(decide(&house, &run, json!({"decision": "approve"})).await.0, StatusCode::CONFLICT);
    assert_eq!(log.started(), 0);
}

/// A server without the agent of the run `r`, which waits for approval.
pub(crate) async fn parked() -> Inside {
    let (shop, _, _) = paying();
    let journal = TestJournal::new(MemoryJournal::new(), None);
    let first = Inside::build(Arc::new(journal.clone()), Options::default(), shop).await;
    first.start(json!({"run_id": "r"})).await;
    first.feed("r", None).await.until_type("approval_requested").await;
    journal.crash();
    let journal = TestJournal::new(journal.durable(), None);
    Inside::with_app(Arc::new(journal), Options::default(), "other", agent([])).await
}

#[tokio::test(start_paused = true)]
async fn the_feed_of_a_run_that_waits_for_its_agent_stays_open_until_the_run_is_taken_up() {
    let inside = parked().await;
    let mut feed = inside.feed("r", None).await;
    let told = feed.frame().await.unwrap();
    assert!(String::from_utf8_lossy(&told).contains("approval_requested"));
    for _ in 0..100 {
        assert_eq!(feed.frame().await.unwrap(), ": \n\n", "it is alive, and that is all");
    }
    let log = ToolLog::new();
    let shop = Agent::builder().model(ScriptedModel::new([])).tool(quick("pay", &log).needs_approval());
    inside.server.apps().put(shop.name("shop").runtime(&inside.runtime).build().unwrap(), None);
    inside.runtime.recover().await.unwrap();
    assert_eq!(feed.rest().await, []);
    let feed = inside.feed("r", Some("1")).await;
    let (status, told) = inside.post("/v1/runs/r/approvals/c1", json!({"decision": "approve"})).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    assert_eq!(feed.rest().await.last().unwrap().json["type"], "run_settled");
    assert_eq!(log.started(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_feed_of_a_run_that_waits_for_its_agent_ends_when_the_run_is_stopped_or_the_server_closes() {
    let inside = parked().await;
    let feed = inside.feed("r", None).await;
    assert_eq!(inside.post("/v1/runs/r/cancel", json!({"wait": true})).await.0, StatusCode::OK);
    let last = feed.rest().await.pop().unwrap();
    let rest = inside.feed("r", Some(&last.id)).await.rest().await;
    assert_eq!(rest.last().unwrap().json["type"], "run_settled");
    let inside = parked().await;
    let feed = inside.feed("r", None).await;
    inside.server.shut_down().await;
    assert_eq!(feed.rest().await.pop().unwrap().json["type"], "approval_requested");
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_is_not_on_record_is_never_said_to_be() {
    for decision in ["approve", "deny"] {
        let (shop, log, _) = paying();
        let journal = TestJournal::new(MemoryJournal::new(), None);
        let inside = Inside::build(Arc::new(journal.clone()), Options::default(), shop).await;
        inside.start(json!({"run_id": "r"})).await;
        inside.feed("r", None).await.until_type("approval_requested").await;
        journal.fail(JournalError::Storage("disk full".to_owned()));
        let (status, told) = inside.post("/v1/runs/r/approvals/c1", json!({"decision": decision})).await;
        assert_eq!((status, told["recorded"].as_bool()), (StatusCode::SERVICE_UNAVAILABLE, Some(false)), "{told}");
        assert_eq!(log.started(), 0);
    }
}
