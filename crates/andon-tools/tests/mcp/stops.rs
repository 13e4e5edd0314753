//! A stop: the server is told, with the right id and our reason, and the session goes on.

use andon::core::message::ResultStatus;
use andon::{Cancel, Verdict};
use andon_tools::mcp::{McpProtocol, McpToolset};
use serde_json::{Value, json};

use crate::common::*;

/// Starts `slow`, stops it, and checks what became of it. Gives the server's own id of the request.
async fn stop_slow(python: &Python, toolset: &McpToolset, cancel: Cancel) -> Value {
    let (agent, run) = start(tool(toolset, "slow"), json!({}));
    let started = python.log.wait("slow started").await;
    run.cancel(cancel);
    let (outcome, result) = result(&agent, &run).await;
    assert!(!spent_its_grace(&run));
    assert!(outcome.is_cancelled());
    assert_eq!(result.status, ResultStatus::Cut, "{result:?}");
    assert_eq!(outcome.receipt.calls[0].verdict, Verdict::Cut);
    assert_eq!(outcome.receipt.leaked, Vec::<String>::new());
    // It did stop over there, too.
    python.log.wait_for("slow stopped", |entry| entry["what"] == "slow stopped" && entry["id"] == started["id"]).await;
    started["id"].clone()
}

async fn goes_on(toolset: &McpToolset) {
    let said = call(toolset, "echo", json!({"text": "still there"})).await;
    assert_eq!(words(&said), "still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn over_lines_the_server_is_told_with_the_right_id_and_our_reason_and_goes_on() {
    for protocol in BOTH {
        let python = Python::new();
        let toolset = python.stdio(protocol).grace(PATIENCE).connect().await.unwrap();
        let id = stop_slow(&python, &toolset, Cancel::graceful().note("stop button")).await;
        let told = python.log.told(&id).await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0]["reason"], "requested: stop button");
        goes_on(&toolset).await;
        assert_eq!(python.log.pids().len(), 1, "the server was started again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_by_the_older_protocol_the_server_is_told_by_a_notification_and_the_session_goes_on() {
    let python = Python::new();
    let http = python.http(&[]).await;
    let toolset = http.server(McpProtocol::Only2025).grace(PATIENCE).connect().await.unwrap();
    let id = stop_slow(&python, &toolset, Cancel::graceful().note("stop button")).await;
    let told = python.log.told(&id).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["reason"], "requested: stop button");
    goes_on(&toolset).await;
    let shaken = python.log.entries().iter().filter(|entry| entry["method"] == "initialize").count();
    assert_eq!(shaken, 1, "a new session was made");
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_by_the_newer_protocol_closing_the_stream_is_the_cancel_and_no_notification_is_sent() {
    let python = Python::new();
    let http = python.http(&[]).await;
    let toolset = http.server(McpProtocol::Only2026).grace(PATIENCE).connect().await.unwrap();
    stop_slow(&python, &toolset, Cancel::graceful().note("stop button")).await;
    python
        .log
        .wait_for("disconnected", |entry| entry["what"] == "disconnected" && entry["method"] == "tools/call")
        .await;
    let notified = python.log.find(|entry| entry["method"] == "notifications/cancelled");
    assert_eq!(notified, None);
    goes_on(&toolset).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_force_now_the_server_is_told_all_the_same() {
    for protocol in BOTH {
        let python = Python::new();
        let toolset = python.stdio(protocol).connect().await.unwrap();
        let (agent, run) = start(tool(&toolset, "slow"), json!({}));
        let started = python.log.wait("slow started").await;
        run.cancel(Cancel::now().note("enough"));
        let (outcome, _) = result(&agent, &run).await;
        assert_eq!(outcome.receipt.leaked, Vec::<String>::new());
        let notes = format!("{:?}", outcome.receipt.calls);
        assert!(notes.contains("was told: requested: enough"), "{notes}");
        python.log.wait("slow stopped").await;
        assert_eq!(python.log.told(&started["id"]).await[0]["reason"], "requested: enough");
        goes_on(&toolset).await;
        assert_eq!(python.log.pids().len(), 1);
    }
    for protocol in BOTH {
        let python = Python::new();
        let http = python.http(&[]).await;
        let toolset = http.server(protocol).connect().await.unwrap();
        let (agent, run) = start(tool(&toolset, "slow"), json!({}));
        python.log.wait("slow started").await;
        run.cancel(Cancel::now());
        result(&agent, &run).await;
        python.log.wait("slow stopped").await;
        goes_on(&toolset).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_hardens_at_once_tells_the_server_once_and_keeps_it() {
    for protocol in BOTH {
        let python = Python::new();
        let toolset = python.stdio(protocol).connect().await.unwrap();
        let (agent, run) = start(tool(&toolset, "deaf"), json!({}));
        let started = python.log.wait("deaf started").await;
        run.cancel(Cancel::graceful());
        run.cancel(Cancel::now());
        let (outcome, _) = result(&agent, &run).await;
        assert_eq!(outcome.receipt.leaked, Vec::<String>::new());
        goes_on(&toolset).await;
        assert_eq!(python.log.told(&started["id"]).await.len(), 1);
        assert_eq!(python.log.pids().len(), 1, "the server was started again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_stopped_in_the_instant_it_is_sent_never_runs_on() {
    // Whether the cancel overtakes its request would show as a `slow` that nobody stops.
    for protocol in BOTH {
        let python = Python::new();
        let toolset = python.stdio(protocol).connect().await.unwrap();
        for _ in 0..20 {
            let (agent, run) = start(tool(&toolset, "slow"), json!({}));
            until_started(&run).await;
            run.cancel(Cancel::graceful());
            result(&agent, &run).await;
        }
        goes_on(&toolset).await;
        let count = |what: &str| python.log.entries().iter().filter(|entry| entry["what"] == what).count();
        let all = until(|| (count("slow started") == count("slow stopped")).then_some(())).await;
        assert!(all.is_some(), "{} started, {} stopped", count("slow started"), count("slow stopped"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_limit_tells_the_server_and_the_run_goes_on() {
    for protocol in BOTH {
        let python = Python::new();
        let toolset = python.stdio(protocol).timeout(millis(2_000)).connect().await.unwrap();
        let (agent, run) = start(tool(&toolset, "slow"), json!({}));
        let (outcome, result) = result(&agent, &run).await;
        assert!(!outcome.is_cancelled(), "{outcome:?}");
        assert_ne!(result.status, ResultStatus::Ok);
        python.log.wait("slow stopped").await;
        let id = python.log.find(|entry| entry["what"] == "slow started").unwrap()["id"].clone();
        let told = python.log.told(&id).await;
        assert_eq!(told.len(), 1);
        assert!(told[0]["reason"].as_str().is_some_and(|reason| !reason.contains("abandoned")), "{told:?}");
        goes_on(&toolset).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_calls_is_stopped_and_the_other_answers() {
    for protocol in BOTH {
        let python = Python::new();
        let toolset = python.stdio(protocol).connect().await.unwrap();
        let (first_agent, first) = start(tool(&toolset, "slow"), json!({}));
        let started = python.log.wait("slow started").await;
        let (second_agent, second) = start(tool(&toolset, "slow"), json!({"seconds": 0.5}));
        first.cancel(Cancel::graceful());
        assert_eq!(result(&first_agent, &first).await.1.status, ResultStatus::Cut);
        let (_, answer) = result(&second_agent, &second).await;
        assert_eq!((answer.status, words(&answer).as_str()), (ResultStatus::Ok, "finished"));
        assert_eq!(python.log.told(&started["id"]).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_late_is_taken_for_no_other_call() {
    for protocol in BOTH {
        let python = Python::new();
        let toolset = python.stdio(protocol).connect().await.unwrap();
        let (agent, run) = start(tool(&toolset, "late"), json!({"after": 0.3}));
        let started = python.log.wait("late started").await;
        run.cancel(Cancel::graceful());
        let (_, cut) = result(&agent, &run).await;
        assert_eq!(cut.status, ResultStatus::Unknown);
        assert!(!words(&cut).contains("late"), "{cut:?}");
        // While the late answer comes, others are asked.
        while python.log.find(|entry| entry["what"] == "late answered").is_none() {
            goes_on(&toolset).await;
        }
        goes_on(&toolset).await;
        assert_eq!(python.log.told(&started["id"]).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_crosses_the_cancel_is_kept() {
    let python = Python::new();
    let toolset = python.stdio(McpProtocol::Only2025).connect().await.unwrap();
    let (agent, run) = start(tool(&toolset, "late"), json!({"after": 0}));
    python.log.wait("late started").await;
    run.cancel(Cancel::graceful());
    let (_, cut) = result(&agent, &run).await;
    assert_eq!(cut.status, ResultStatus::Unknown);
    assert!(words(&cut).contains("late "), "{cut:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_does_not_heed_costs_no_grace_if_its_server_has_heard() {
    for protocol in BOTH {
        let python = Python::new();
        let toolset = python.stdio(protocol).connect().await.unwrap();
        let (agent, run) = start(tool(&toolset, "deaf"), json!({}));
        let started = python.log.wait("deaf started").await;
        run.cancel(Cancel::graceful());
        result(&agent, &run).await;
        assert!(!spent_its_grace(&run));
        assert_eq!(python.log.told(&started["id"]).await.len(), 1);
        goes_on(&toolset).await;
    }
}
