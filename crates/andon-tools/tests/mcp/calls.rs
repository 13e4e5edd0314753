//! Calls that nobody stops.

use andon_runtime::core::message::ResultStatus;
use serde_json::json;

use crate::common::*;

/// What must work with every server and transport.
async fn check(toolset: &andon_tools::mcp::McpToolset) {
    let said = call(toolset, "echo", json!({"text": "hello"})).await;
    assert_eq!((said.status, words(&said).as_str()), (ResultStatus::Ok, "hello"));
    let failed = call(toolset, "fail", json!({})).await;
    assert_eq!(failed.status, ResultStatus::Error);
    assert!(words(&failed).contains("it did not work"), "{failed:?}");
    let picture = call(toolset, "picture", json!({})).await;
    assert_eq!(words(&picture), "<data:image/png;base64,iVBORw==>");
    let figures = call(toolset, "figures", json!({})).await;
    let figures: serde_json::Value = serde_json::from_str(&words(&figures)).unwrap();
    assert_eq!(figures, json!({"one": 1}));
    let (session, run) = start(tool(toolset, "steps"), json!({"count": 3}));
    assert_eq!(shown(&run).await, "1/3 step 1\n2/3 step 2\n3/3 step 3\n");
    assert_eq!(words(&result(&session, &run).await.1), "3 steps");
    let asked = call(toolset, "ask", json!({})).await;
    assert!(words(&asked).contains("declined"), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn over_lines_calls_answer_and_show_their_progress_in_order() {
    for protocol in BOTH {
        let python = Python::new();
        let toolset = python.stdio(protocol).connect().await.unwrap();
        check(&toolset).await;
        toolset.close().await;
        spoken(&python, protocol);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_calls_answer_and_show_their_progress_in_order() {
    for protocol in BOTH {
        let python = Python::new();
        let http = python.http(&[]).await;
        let toolset = http.server(protocol).connect().await.unwrap();
        check(&toolset).await;
        toolset.close().await;
        spoken(&python, protocol);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_protocol_that_the_server_supports_is_used() {
    let python = Python::new();
    let toolset = python.stdio(andon_tools::mcp::McpProtocol::Newest).connect().await.unwrap();
    check(&toolset).await;
    spoken(&python, andon_tools::mcp::McpProtocol::Only2026);
}

/// The generation of the protocol that the server has seen.
fn spoken(python: &Python, protocol: andon_tools::mcp::McpProtocol) {
    let call = python.log.find(|entry| entry["what"] == "received" && entry["method"] == "tools/call").unwrap();
    let shaken = python.log.find(|entry| entry["method"] == "initialize");
    match protocol {
        andon_tools::mcp::McpProtocol::Only2025 => assert!(shaken.is_some() && call["version"].is_null(), "{call}"),
        _ => assert!(shaken.is_none() && call["version"] == "2026-07-28", "{call}"),
    }
}
