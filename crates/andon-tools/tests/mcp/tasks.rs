//! A call that comes back as a task, by the extension of 2026-07-28.

use andon_runtime::core::message::ResultStatus;
use andon_runtime::{Cancel, Verdict};
use andon_tools::mcp::{McpProtocol, McpToolset};
use serde_json::json;

use crate::common::*;

/// Both transports to the same server.
async fn each(check: impl AsyncFn(&Python, &McpToolset)) {
    let python = Python::new();
    let toolset = python.stdio(McpProtocol::Only2026).grace(millis(400)).connect().await.unwrap();
    check(&python, &toolset).await;
    let python = Python::new();
    let http = python.http(&[]).await;
    let toolset = http.server(McpProtocol::Only2026).grace(millis(400)).connect().await.unwrap();
    check(&python, &toolset).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_followed_to_its_end() {
    each(async |_, toolset| {
        let done = call(toolset, "errand", json!({"polls": 3})).await;
        assert_eq!((done.status, words(&done).as_str()), (ResultStatus::Ok, "errand done"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_cancelled_as_a_task_and_not_by_a_notification() {
    each(async |python, toolset| {
        let (session, run) = start(tool(toolset, "errand"), json!({}));
        python.log.wait_for("tasks/get", |entry| entry["method"] == "tasks/get").await;
        run.cancel(Cancel::graceful());
        let (outcome, cut) = result(&session, &run).await;
        assert_eq!(cut.status, ResultStatus::Unknown);
        assert_eq!(outcome.receipt.leaked, Vec::<String>::new());
        assert!(python.log.find(|entry| entry["method"] == "tasks/cancel").is_some());
        assert_eq!(python.log.find(|entry| entry["method"] == "notifications/cancelled"), None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_force_now_a_task_is_cancelled_too() {
    each(async |python, toolset| {
        let (session, run) = start(tool(toolset, "errand"), json!({}));
        python.log.wait_for("tasks/get", |entry| entry["method"] == "tasks/get").await;
        run.cancel(Cancel::now());
        let (outcome, _) = result(&session, &run).await;
        assert_eq!(outcome.receipt.leaked, Vec::<String>::new(), "the server says that it is over, or its program is");
        python.log.wait_for("tasks/cancel", |entry| entry["method"] == "tasks/cancel").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_goes_on_ends_with_its_program_or_is_named_in_the_receipt() {
    each(async |python, toolset| {
        let (session, run) = start(tool(toolset, "errand"), json!({"stubborn": true}));
        until_started(&run).await;
        let mut feed = run.feed();
        while let Some(item) = feed.next().await {
            if matches!(item, andon_runtime::FeedItem::Delta(delta) if delta.text.contains("errand working")) {
                break;
            }
        }
        run.cancel(Cancel::graceful());
        let (outcome, _) = result(&session, &run).await;
        if python.is_http() {
            assert_eq!(outcome.receipt.leaked.len(), 1, "{:?}", outcome.receipt);
            assert!(outcome.receipt.leaked[0].contains("task `errand-1`"), "{:?}", outcome.receipt.leaked);
            assert_eq!(outcome.receipt.calls[0].verdict, Verdict::Leaked);
        } else {
            // Its program has ended with it.
            assert_eq!(outcome.receipt.leaked, Vec::<String>::new());
            assert!(!is_alive(python.log.pids()[0]));
        }
        let said = call(toolset, "echo", json!({"text": "next"})).await;
        assert_eq!(words(&said), "next");
    })
    .await;
}
