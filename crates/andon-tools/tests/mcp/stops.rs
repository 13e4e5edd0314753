//! A stop: the server is told, with the right id and our reason, and the next call works.

use andon_runtime::core::message::ResultStatus;
use andon_runtime::{Cancel, Receipt, Verdict};
use andon_tools::mcp::{McpProtocol, McpToolset};
use serde_json::{Value, json};

use crate::common::*;

/// Starts `slow`, stops it, and checks that it stopped there. Returns the server's id of the request, and the receipt.
async fn stop_slow(python: &Python, toolset: &McpToolset, cancel: Cancel) -> (Value, Receipt) {
    let (session, run) = start(tool(toolset, "slow"), json!({}));
    let started = python.log.wait("slow started").await;
    run.cancel(cancel);
    let (outcome, _) = result(&session, &run).await;
    assert!(!spent_its_grace(&run));
    assert!(outcome.is_cancelled());
    // It stopped on the server, too.
    python.log.wait_for("slow stopped", |entry| entry["what"] == "slow stopped" && entry["id"] == started["id"]).await;
    (started["id"].clone(), outcome.receipt.clone())
}

/// The verdict on the only call, and what leaked.
fn verdict_and_leaks(receipt: &Receipt) -> (Verdict, &[String]) {
    (receipt.calls[0].verdict, &receipt.leaked)
}

async fn goes_on(toolset: &McpToolset) {
    let said = call(toolset, "echo", json!({"text": "still there"})).await;
    assert_eq!(words(&said), "still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn over_lines_the_server_is_told_with_the_right_id_and_our_reason_ends_and_starts_again() {
    for protocol in BOTH {
        let python = Python::new();
        let toolset = python.stdio(protocol).grace(PATIENCE).connect().await.unwrap();
        let (id, receipt) = stop_slow(&python, &toolset, Cancel::graceful().note("stop button")).await;
        assert_eq!(verdict_and_leaks(&receipt), (Verdict::Cut, &[][..]));
        let note = "the MCP server `test` was told: requested: stop button; its program was ended, and is started again when \
                    needed";
        assert_eq!(receipt.calls[0].notes, [note]);
        assert!(!is_alive(python.log.pids()[0]), "the run has settled, and the server lives on");
        let told = python.log.cancel_notices(&id).await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0]["reason"], "requested: stop button");
        goes_on(&toolset).await;
        assert_eq!(python.log.pids().len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_with_the_older_protocol_a_notification_tells_the_server_and_the_session_goes_on() {
    let python = Python::new();
    let http = python.http(&[]).await;
    let toolset = http.server(McpProtocol::Only2025).grace(PATIENCE).connect().await.unwrap();
    let (id, receipt) = stop_slow(&python, &toolset, Cancel::graceful().note("stop button")).await;
    let leaked =
        "slow (c): the MCP server `test` was told to stop it (requested: stop button); it may still be running";
    assert_eq!(verdict_and_leaks(&receipt), (Verdict::Leaked, &[leaked.to_owned()][..]));
    let told = python.log.cancel_notices(&id).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["reason"], "requested: stop button");
    goes_on(&toolset).await;
    let shaken = python.log.entries().iter().filter(|entry| entry["method"] == "initialize").count();
    assert_eq!(shaken, 1, "a new session was made");
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_with_the_newer_protocol_closing_the_stream_is_the_cancel_and_no_notification_is_sent() {
    let python = Python::new();
    let http = python.http(&[]).await;
    let toolset = http.server(McpProtocol::Only2026).grace(PATIENCE).connect().await.unwrap();
    let (_, receipt) = stop_slow(&python, &toolset, Cancel::graceful().note("stop button")).await;
    let leaked = "slow (c): the MCP server `test` was told to stop it by closing its stream; it may still be running";
    assert_eq!(verdict_and_leaks(&receipt), (Verdict::Leaked, &[leaked.to_owned()][..]));
    python
        .log
        .wait_for("disconnected", |entry| entry["what"] == "disconnected" && entry["method"] == "tools/call")
        .await;
    let notified = python.log.find(|entry| entry["method"] == "notifications/cancelled");
    assert_eq!(notified, None);
    goes_on(&toolset).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_force_now_a_program_is_killed_at_once() {
    for protocol in BOTH {
        let python = Python::new();
        let toolset = python.stdio(protocol).connect().await.unwrap();
        let (session, run) = start(tool(&toolset, "slow"), json!({}));
        python.log.wait("slow started").await;
        run.cancel(Cancel::now().note("enough"));
        let (outcome, _) = result(&session, &run).await;
        assert_eq!(verdict_and_leaks(&outcome.receipt), (Verdict::Cut, &[][..]));
        let notes = format!("{:?}", outcome.receipt.calls);
        assert!(notes.contains("was told: requested: enough; its program was ended"), "{notes}");
        assert!(!is_alive(python.log.pids()[0]), "the run has settled, and the server lives on");
        goes_on(&toolset).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_force_now_a_remote_server_is_told_too_and_its_call_is_named() {
    for protocol in BOTH {
        let python = Python::new();
        let http = python.http(&[]).await;
        let toolset = http.server(protocol).connect().await.unwrap();
        let (session, run) = start(tool(&toolset, "slow"), json!({}));
        python.log.wait("slow started").await;
        run.cancel(Cancel::now());
        let (outcome, _) = result(&session, &run).await;
        assert_eq!(outcome.receipt.calls[0].verdict, Verdict::Leaked);
        assert!(outcome.receipt.leaked[0].ends_with("it may still be running"), "{:?}", outcome.receipt.leaked);
        python.log.wait("slow stopped").await;
        goes_on(&toolset).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_hardens_at_once_ends_the_program() {
    for protocol in BOTH {
        let python = Python::new();
        let toolset = python.stdio(protocol).connect().await.unwrap();
        let (session, run) = start(tool(&toolset, "deaf"), json!({}));
        python.log.wait("deaf started").await;
        run.cancel(Cancel::graceful());
        run.cancel(Cancel::now());
        let (outcome, _) = result(&session, &run).await;
        assert_eq!(verdict_and_leaks(&outcome.receipt), (Verdict::Unknown, &[][..]));
        assert!(!is_alive(python.log.pids()[0]), "the run has settled, and the server lives on");
        goes_on(&toolset).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_stopped_as_it_is_sent_does_not_keep_running() {
    // If the cancel overtook its request, `slow` would never stop. Another call keeps the server in use.
    for protocol in BOTH {
        let python = Python::new();
        let toolset = python.stdio(protocol).connect().await.unwrap();
        let (_other_agent, _other) = start(tool(&toolset, "slow"), json!({}));
        python.log.wait("slow started").await;
        for _ in 0..20 {
            let (session, run) = start(tool(&toolset, "slow"), json!({}));
            until_started(&run).await;
            run.cancel(Cancel::graceful());
            result(&session, &run).await;
        }
        goes_on(&toolset).await;
        let count = |what: &str| python.log.count(what);
        let all = until(|| (count("slow started") == count("slow stopped") + 1).then_some(())).await;
        assert!(all.is_some(), "{} started, {} stopped", count("slow started"), count("slow stopped"));
        assert_eq!(python.log.pids().len(), 1, "the server was started again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_limit_tells_the_server_and_the_run_goes_on() {
    for protocol in BOTH {
        let python = Python::new();
        let toolset = python.stdio(protocol).timeout(millis(2_000)).connect().await.unwrap();
        let (session, run) = start(tool(&toolset, "slow"), json!({}));
        let (outcome, result) = result(&session, &run).await;
        assert!(!outcome.is_cancelled(), "{outcome:?}");
        assert_ne!(result.status, ResultStatus::Ok);
        python.log.wait("slow stopped").await;
        let id = python.log.find(|entry| entry["what"] == "slow started").unwrap()["id"].clone();
        let told = python.log.cancel_notices(&id).await;
        assert_eq!(told.len(), 1);
        assert!(told[0]["reason"].as_str().is_some_and(|reason| !reason.contains("abandoned")), "{told:?}");
        // The server takes longer to restart than a call may take, but in the end a call finds it ready.
        let mut words = String::new();
        while words != "still there" {
            words = self::words(&call(&toolset, "echo", json!({"text": "still there"})).await);
        }
        assert_eq!(python.log.pids().len(), 2, "it was started more than once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_is_never_mistaken_for_another_calls() {
    for protocol in BOTH {
        let python = Python::new();
        let toolset = python.stdio(protocol).connect().await.unwrap();
        // Another call keeps the server in use.
        let (_other_agent, _other) = start(tool(&toolset, "slow"), json!({}));
        python.log.wait("slow started").await;
        let (session, run) = start(tool(&toolset, "late"), json!({"after": 0.3}));
        let started = python.log.wait("late started").await;
        run.cancel(Cancel::graceful());
        let (outcome, cut) = result(&session, &run).await;
        assert_eq!((cut.status, outcome.receipt.leaked.len()), (ResultStatus::Unknown, 1));
        assert!(!words(&cut).contains("late"), "{cut:?}");
        // Other calls are made while the late answer comes.
        while python.log.find(|entry| entry["what"] == "late answered").is_none() {
            goes_on(&toolset).await;
        }
        goes_on(&toolset).await;
        assert_eq!(python.log.cancel_notices(&started["id"]).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_crosses_the_cancel_is_kept() {
    let python = Python::new();
    let toolset = python.stdio(McpProtocol::Only2025).connect().await.unwrap();
    let (session, run) = start(tool(&toolset, "late"), json!({"after": 0}));
    python.log.wait("late started").await;
    run.cancel(Cancel::graceful());
    let (_, cut) = result(&session, &run).await;
    assert_eq!(cut.status, ResultStatus::Unknown);
    assert!(words(&cut).contains("late "), "{cut:?}");
}
