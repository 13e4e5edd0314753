//! Starting runs.

use andon_testkit::Act;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::house::{House, answered};

#[tokio::test]
async fn a_run_is_on_record_when_it_is_answered_and_its_feed_tells_all_of_it() {
    let house = House::with([vec![Act::text("Good day."), Act::usage(3, 2), Act::end()]]).await;
    let run = house.start(json!({"user": "ada", "session": "monday"})).await;
    let events = house.feed(&run, None).await.rest().await;
    let kinds: Vec<&str> = events.iter().map(|event| event.json["type"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], *kinds.last().unwrap()), ("run_accepted", "run_settled"));
    let (status, view) = house.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(status, StatusCode::OK);
    let shown = ["run_id", "app", "user", "session", "state"].map(|field| view[field].as_str().unwrap().to_owned());
    assert_eq!(shown, [run.as_str(), "shop", "ada", "monday", "settled"]);
    assert_eq!(view["outcome"]["kind"], "completed");
}

#[tokio::test]
async fn the_same_request_again_gives_the_same_run_and_another_one_is_refused() {
    let house = House::silent().await;
    let body = json!({"app": "shop", "input": "hello", "run_id": "r1"});
    let (first, run) = house.post("/v1/runs", body.clone()).await;
    let (again, same) = house.post("/v1/runs", body).await;
    assert_eq!((first, again, &run["run_id"]), (StatusCode::CREATED, StatusCode::OK, &same["run_id"]));
    let (other, problem) = house.post("/v1/runs", json!({"app": "shop", "input": "else", "run_id": "r1"})).await;
    assert_eq!((other, problem["type"].as_str()), (StatusCode::CONFLICT, Some("urn:andon:run-id-taken")));
    assert_eq!(house.runtime.runs().len(), 1);
}

#[tokio::test]
async fn with_accept_the_answer_is_the_feed_itself() {
    let house = House::with([vec![Act::text("Good day."), Act::end()]]).await;
    let request = house.request(Method::POST, "/v1/runs").header("accept", "text/event-stream");
    let response = request.json(&json!({"app": "shop", "input": "hello"})).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let (_, text) = answered(response).await;
    assert!(text.as_str().unwrap().contains("run_settled"), "{text}");
}
