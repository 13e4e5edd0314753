//! Cancels that came before their run.

use andon_runtime::Shelf as _;
use tokio::time::sleep;

use crate::common::*;

#[tokio::test(start_paused = true)]
async fn a_cancel_that_comes_before_its_run_is_remembered_and_the_run_is_born_cancelled() {
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::new([]);
    let shop = || Agent::builder().model(model.clone());
    let first = Inside::build(journal.clone(), Options::default(), shop()).await;
    for id in ["early", "restarted"] {
        let path = format!("/v1/runs/{id}/cancel");
        let (status, problem) = first.post(&path, json!({"force": "now", "note": "too early"})).await;
        assert_eq!((status, problem["reply"].as_str()), (StatusCode::NOT_FOUND, Some("not_found")), "{problem}");
        assert_eq!(problem["remembered_for_ms"], 600_000);
    }
    assert!(first.runtime.runs().is_empty());
    assert_eq!(first.get("/v1/runs").await.1["runs"], json!([]));
    assert_eq!(first.get("/v1/sessions").await.1["sessions"], json!([]));
    let run = first.start(json!({"run_id": "early"})).await;
    assert_eq!(reason(&run).await, "requested");
    let receipt = serde_json::to_value(run.receipt().unwrap()).unwrap();
    assert_eq!((receipt["note"].as_str(), receipt["force"].as_str()), (Some("too early"), Some("now")));
    drop(first);
    let second = Inside::build(journal, Options::default(), shop()).await;
    let run = second.start(json!({"run_id": "restarted"})).await;
    assert_eq!(reason(&run).await, "requested");
    assert_eq!(model.calls(), 0, "no model was called for either");
    let other = second.start(json!({"run_id": "another"})).await;
    assert_eq!((reason(&other).await.as_str(), model.calls()), ("none", 1));
}

#[tokio::test(start_paused = true)]
async fn a_remembered_cancel_expires_and_their_number_is_limited() {
    let options = Options::new().remember(Duration::from_millis(30)).max_remembered(2);
    let inside = Inside::build(Arc::new(MemoryJournal::new()), options, agent([])).await;
    for id in ["a", "b", "a"] {
        assert_eq!(inside.post(&format!("/v1/runs/{id}/cancel"), json!({})).await.0, StatusCode::NOT_FOUND);
    }
    let (status, problem) = inside.post("/v1/runs/c/cancel", json!({})).await;
    assert_eq!(
        (status, problem["type"].as_str()),
        (StatusCode::TOO_MANY_REQUESTS, Some("urn:andon:too-many-remembered"))
    );
    sleep(Duration::from_millis(29)).await;
    assert_eq!(reason(&inside.start(json!({"run_id": "b"})).await).await, "requested", "in time");
    sleep(Duration::from_millis(2)).await;
    let run = inside.start(json!({"run_id": "a"})).await;
    assert_eq!(reason(&run).await, "none");
    assert_eq!(inside.post("/v1/runs/c/cancel", json!({})).await.0, StatusCode::NOT_FOUND, "there is room again");
}

/// The number of recorded cancels that wait for their run.
async fn waiting(inside: &Inside) -> usize {
    inside.runtime.shelf().kept("tombstone").await.unwrap().len()
}

/// Checks P9: a run that was cancelled before it came stays cancelled, however often it is sent.
#[tokio::test(start_paused = true)]
async fn a_remembered_cancel_outlives_a_refusal_of_its_run() {
    let inside = Inside::new(agent([endless()])).await;
    inside.post("/v1/runs/r/cancel", json!({})).await;
    let first = inside.start(json!({"session": "s"})).await;
    let (status, _) = inside.post("/v1/runs", order(json!({"session": "s", "run_id": "r"}))).await;
    assert_eq!((status, waiting(&inside).await), (StatusCode::CONFLICT, 1));
    inside.post(&format!("/v1/runs/{}/cancel", first.id()), json!({"wait": true})).await;
    let run = inside.start(json!({"session": "s", "run_id": "r"})).await;
    assert_eq!((reason(&run).await.as_str(), waiting(&inside).await), ("requested", 0));
}

/// Checks P10: whichever of the two is recorded first, the run does not run.
#[tokio::test(start_paused = true)]
async fn a_remembered_cancel_outlives_a_run_that_never_came_on_record() {
    let journal = TestJournal::new(MemoryJournal::new(), None);
    let inside = Inside::build(Arc::new(journal.clone()), Options::default(), agent([])).await;
    inside.post("/v1/runs/r/cancel", json!({})).await;
    journal.fail(JournalError::Storage("disk full".to_owned()));
    let (status, _) = inside.post("/v1/runs", order(json!({"run_id": "r"}))).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let again = Inside::build(Arc::new(journal.durable()), Options::default(), agent([])).await;
    assert_eq!(reason(&again.start(json!({"run_id": "r"})).await).await, "requested", "after a restart");
    journal.heal();
    assert_eq!(reason(&inside.start(json!({"run_id": "r"})).await).await, "requested", "in the same process");
}

#[tokio::test(start_paused = true)]
async fn when_a_remembered_cancel_cannot_be_written_the_client_is_told() {
    let journal = TestJournal::slow(None, Duration::from_secs(5));
    let inside = Inside::build(Arc::new(journal), Options::default(), agent([])).await;
    let (status, problem) = inside.post("/v1/runs/r/cancel", json!({})).await;
    assert_eq!((status, problem["type"].as_str()), (StatusCode::SERVICE_UNAVAILABLE, Some("urn:andon:not-recorded")));
    assert_eq!((problem["pulled"].as_bool(), problem["recorded"].as_bool()), (Some(false), Some(false)), "{problem}");
    assert_eq!(reason(&inside.start(json!({"run_id": "r"})).await).await, "requested");
}

#[tokio::test]
async fn one_that_cannot_be_read_is_left_out_and_named_and_the_server_begins() {
    let journal = MemoryJournal::new();
    journal.keep("tombstone", "x/local/local", json!({"run": 7})).await.unwrap();
    let runtime = Runtime::builder().journal(Arc::new(journal)).build();
    let server = Server::new(&runtime, Options::default()).await.unwrap();
    let warnings = server.warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("x/local/local"), "{warnings:?}");
    assert!(runtime.shelf().kept("tombstone").await.unwrap().is_empty(), "it is told once");
}
