//! A second prompt in a busy session.

use andon_runtime::RunState;

use crate::common::*;

fn with(when_busy: &str) -> Value {
    json!({"session": "s", "when_busy": when_busy})
}

#[tokio::test(start_paused = true)]
async fn a_busy_session_refuses_a_second_run_by_default() {
    let inside = Inside::new(agent([endless()])).await;
    let run = inside.start(json!({"session": "s"})).await;
    for more in [json!({"session": "s"}), with("reject")] {
        let (status, problem) = inside.post("/v1/runs", order(more)).await;
        assert_eq!((status, problem["type"].as_str()), (StatusCode::CONFLICT, Some("urn:andon:session-busy")));
        assert_eq!(problem["run_id"].as_str(), Some(run.id().as_str()));
    }
    let elsewhere = inside.start(json!({"session": "t"})).await;
    assert_eq!(reason(&elsewhere).await, "none");
    let (status, _) = inside.post("/v1/runs", order(with("wait"))).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test(start_paused = true)]
async fn queued_runs_wait_and_go_one_after_the_other() {
    let inside = Inside::new(agent([endless()])).await;
    let first = inside.start(with("reject")).await;
    let (second, third) = (inside.start(with("queue")).await, inside.start(with("queue")).await);
    let (_, list) = inside.get("/v1/runs?state=queued").await;
    assert_eq!(list["runs"].as_array().unwrap().len(), 2);
    // The running one is the oldest: the list skips the queued ones, however small its pages are.
    for limit in [1, 2, 3] {
        let (_, list) = inside.get(&format!("/v1/runs?state=running&limit={limit}")).await;
        let ids: Vec<&Value> = list["runs"].as_array().unwrap().iter().map(|run| &run["run_id"]).collect();
        assert_eq!((ids, &list["next"]), (vec![&json!(first.id())], &Value::Null), "limit {limit}");
    }
    let (_, open) = inside.get("/v1/runs?settled=false&limit=2").await;
    let ids: Vec<&Value> = open["runs"].as_array().unwrap().iter().map(|run| &run["run_id"]).collect();
    assert_eq!((ids, &open["next"]), (vec![&json!(third.id()), &json!(second.id())], &json!(second.id())));
    inside.post(&format!("/v1/runs/{}/cancel", first.id()), json!({})).await;
    assert_eq!((reason(&second).await.as_str(), reason(&third).await.as_str()), ("none", "none"));
    assert_eq!(reason(&first).await, "requested");
}

#[tokio::test(start_paused = true)]
async fn superseding_stops_what_runs_and_what_waits_and_then_begins() {
    let inside = Inside::new(agent([endless()])).await;
    let (first, queued) = (inside.start(with("reject")).await, inside.start(with("queue")).await);
    inside.feed(first.id().as_str(), None).await.until_type("delta").await;
    let last = inside.start(with("supersede")).await;
    assert_eq!(reason(&last).await, "none");
    assert_eq!((reason(&first).await.as_str(), reason(&queued).await.as_str()), ("superseded", "superseded"));
}

#[tokio::test(start_paused = true)]
async fn while_a_run_is_cancelling_the_next_prompt_waits_whatever_it_says() {
    for when_busy in ["reject", "queue", "supersede"] {
        let mut acts = Act::call(0, "c1", "slow", "{}");
        acts.push(Act::tool_use());
        let tool = slow("slow", Duration::from_secs(600), &ToolLog::new()).grace(Duration::from_secs(5));
        let model = ScriptedModel::new([acts]);
        let inside = Inside::new(Agent::builder().model(model.clone()).tool(tool)).await;
        let first = inside.start(with("reject")).await;
        inside.feed(first.id().as_str(), None).await.until_type("tool_started").await;
        inside.post(&format!("/v1/runs/{}/cancel", first.id()), json!({})).await;
        let began = Instant::now();
        let next = inside.start(with(when_busy)).await;
        assert_eq!((next.state(), model.calls()), (RunState::Queued, 1), "{when_busy}");
        assert_eq!(reason(&next).await, "none");
        assert_eq!((reason(&first).await.as_str(), began.elapsed().as_secs()), ("requested", 5), "{when_busy}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_full_says_so_and_superseding_still_works() {
    let inside = Inside::new(agent([endless()])).await;
    let first = inside.start(with("reject")).await;
    let mut queued = 0;
    let (status, problem) = loop {
        let (status, told) = inside.post("/v1/runs", order(with("queue"))).await;
        if status != StatusCode::CREATED {
            break (status, told);
        }
        queued += 1;
        assert!(queued < 1000, "a queue has an end");
    };
    assert_eq!((status, problem["type"].as_str()), (StatusCode::TOO_MANY_REQUESTS, Some("urn:andon:queue-full")));
    assert_eq!(inside.runtime.in_progress().len(), queued + 1);
    let last = inside.start(with("supersede")).await;
    assert_eq!((reason(&last).await.as_str(), reason(&first).await.as_str()), ("none", "superseded"));
}
