//! Told is not ended (P5, P7, P12): a server that ignores a cancel is ended if possible, otherwise its call is named.

use std::time::Duration;

use andon_runtime::core::message::ResultStatus;
use andon_runtime::{Cancel, Verdict};
use andon_tools::mcp::{McpProtocol, McpServer, McpToolset};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::{TcpListener, TcpStream};

use crate::common::*;

/// A grace that no test waits for.
const AN_HOUR: Duration = Duration::from_secs(3600);

async fn answers(toolset: &McpToolset) {
    let said = call(toolset, "echo", json!({"text": "still there"})).await;
    assert_eq!(words(&said), "still there", "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_ignores_a_cancel_has_no_effect_after_the_receipt_and_costs_no_grace() {
    for protocol in BOTH {
        for cancel in [Cancel::graceful(), Cancel::now()] {
            let python = Python::new();
            let toolset = python.stdio(protocol).grace(AN_HOUR).connect().await.unwrap();
            let (session, run) = start(tool(&toolset, "effects"), json!({}));
            python.log.wait("effect").await;
            run.cancel(cancel.clone());
            let (outcome, _) = result(&session, &run).await;
            let effects = python.log.count("effect");
            assert_eq!(outcome.receipt.leaked, Vec::<String>::new());
            assert_eq!(outcome.receipt.calls[0].verdict, Verdict::Unknown);
            assert!(!is_alive(python.log.pids()[0]), "the run has settled, and the server lives on");
            // The next call starts it again, which takes longer than many effects.
            answers(&toolset).await;
            assert_eq!(python.log.count("effect"), effects, "{cancel:?}: effects after the receipt");
            assert_eq!(python.log.pids().len(), 2);
        }
    }
}

/// Checks P7: "cancelled" means that the server has read the cancel, not that it has stopped.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_in_answer_to_a_cancel_proves_nothing() {
    let python = Python::new();
    let toolset = python.stdio(McpProtocol::Only2025).grace(AN_HOUR).connect().await.unwrap();
    let (session, run) = start(tool(&toolset, "denies"), json!({}));
    python.log.wait("denies started").await;
    run.cancel(Cancel::graceful());
    let (outcome, cut) = result(&session, &run).await;
    let effects = python.log.count("effect");
    assert_eq!((&outcome.receipt.leaked, cut.status), (&vec![], ResultStatus::Unknown));
    assert!(!is_alive(python.log.pids()[0]), "the run has settled, and the server works on");
    answers(&toolset).await;
    assert_eq!(python.log.count("effect"), effects, "effects after the receipt");

    // Another call uses the server, so it cannot be ended, and the call is named.
    let (other_agent, other) = start(tool(&toolset, "until"), json!({"path": python.path()}));
    python.log.wait("until started").await;
    let (session, run) = start(tool(&toolset, "denies"), json!({}));
    until(|| (python.log.count("denies started") == 2).then_some(())).await.expect("never started");
    run.cancel(Cancel::graceful());
    let (outcome, _) = result(&session, &run).await;
    assert_eq!(outcome.receipt.leaked.len(), 1, "{:?}", outcome.receipt.leaked);
    std::fs::write(python.path(), "").unwrap();
    assert_eq!(words(&result(&other_agent, &other).await.1), "finished");
    until_gone(python.log.pids()[1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_calls_is_stopped_and_named_and_its_program_ends_with_the_other() {
    for protocol in BOTH {
        for cancel in [Cancel::graceful().note("enough"), Cancel::now().note("enough")] {
            let python = Python::new();
            let toolset = python.stdio(protocol).grace(AN_HOUR).connect().await.unwrap();
            let (other_agent, other) = start(tool(&toolset, "until"), json!({"path": python.path()}));
            python.log.wait("until started").await;
            let (session, run) = start(tool(&toolset, "effects"), json!({}));
            python.log.wait("effect").await;
            run.cancel(cancel);
            let (outcome, cut) = result(&session, &run).await;
            let leaked =
                "effects (c): the MCP server `test` was told to stop it (requested: enough); it may still be running";
            assert_eq!(outcome.receipt.leaked, [leaked]);
            assert_eq!((outcome.receipt.calls[0].verdict, cut.status), (Verdict::Leaked, ResultStatus::Unknown));
            std::fs::write(python.path(), "").unwrap();
            let (_, answer) = result(&other_agent, &other).await;
            assert_eq!((answer.status, words(&answer).as_str()), (ResultStatus::Ok, "finished"));
            // Nobody uses the server any more, so it is ended because of the call that was not seen to end.
            until_gone(python.log.pids()[0]).await;
            let effects = python.log.count("effect");
            answers(&toolset).await;
            assert_eq!(python.log.count("effect"), effects);
            assert_eq!(python.log.pids().len(), 2);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_after_the_run_keeps_the_server() {
    let python = Python::new();
    let toolset = python.stdio(McpProtocol::Only2025).connect().await.unwrap();
    let (other_agent, other) = start(tool(&toolset, "until"), json!({"path": python.path()}));
    python.log.wait("until started").await;
    let (session, run) = start(tool(&toolset, "late"), json!({"after": 0.3}));
    python.log.wait("late started").await;
    run.cancel(Cancel::graceful());
    assert_eq!(result(&session, &run).await.0.receipt.leaked.len(), 1);
    python.log.wait("late answered").await;
    // Requests after the late answer are answered after it.
    answers(&toolset).await;
    std::fs::write(python.path(), "").unwrap();
    assert_eq!(words(&result(&other_agent, &other).await.1), "finished");
    answers(&toolset).await;
    assert_eq!(python.log.pids().len(), 1, "all that was stopped has ended, and the server was started again");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_calls_that_are_stopped_together_end_with_their_program() {
    // Without a grace the first one settles before anybody has asked the second to stop, if the machine is slow enough: the server
    // is still needed then, and the call is named.
    for (cancel, most) in [(Cancel::graceful(), 0), (Cancel::now(), 1)] {
        let python = Python::new();
        let toolset = python.stdio(McpProtocol::Only2025).connect().await.unwrap();
        let (first_agent, first) = start(tool(&toolset, "effects"), json!({}));
        let (second_agent, second) = start(tool(&toolset, "effects"), json!({}));
        until(|| (python.log.count("effects started") == 2).then_some(())).await.expect("never started");
        first.cancel(cancel.clone());
        second.cancel(cancel.clone());
        let ((one, _), (two, _)) = tokio::join!(result(&first_agent, &first), result(&second_agent, &second));
        let leaked: Vec<_> = one.receipt.leaked.iter().chain(&two.receipt.leaked).collect();
        assert!(leaked.len() <= most, "{cancel:?}: {leaked:?}");
        let is_over = !is_alive(python.log.pids()[0]);
        assert!(is_over || !leaked.is_empty(), "the runs have settled, and the server lives on");
        until_gone(python.log.pids()[0]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_started_again_fails_the_next_call() {
    let python = Python::new();
    let script = format!("if [ -e {0}.once ]; then exit 7; fi; touch {0}.once; exec \"$@\"", python.path());
    let toolset = python.stdio_through(&script).connect().await.unwrap();
    let (session, run) = start(tool(&toolset, "slow"), json!({}));
    python.log.wait("slow started").await;
    run.cancel(Cancel::graceful());
    assert_eq!(result(&session, &run).await.0.receipt.leaked, Vec::<String>::new());
    let failed = call(&toolset, "echo", json!({"text": "hello"})).await;
    assert_eq!(failed.status, ResultStatus::Error);
    assert!(words(&failed).contains("the MCP server `test` cannot be used"), "{failed:?}");
    assert!(words(&failed).contains("exit code 7"), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_started_again_can_still_say_that_its_tools_have_changed() {
    let python = Python::new();
    let toolset = python.stdio(McpProtocol::Only2025).connect().await.unwrap();
    let (session, run) = start(tool(&toolset, "slow"), json!({}));
    python.log.wait("slow started").await;
    run.cancel(Cancel::graceful());
    result(&session, &run).await;
    assert!(!toolset.has_changed());
    assert_eq!(words(&call(&toolset, "change", json!({})).await), "changed");
    assert!(toolset.has_changed());
    toolset.refresh().await.unwrap();
    assert!(!toolset.has_changed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_lost_with_its_remote_connection_is_named_although_nobody_stopped_it() {
    let python = Python::new();
    let mut http = python.http(&[]).await;
    let toolset = http.server(McpProtocol::Only2026).connect().await.unwrap();
    let (session, run) = start(tool(&toolset, "slow"), json!({}));
    python.log.wait("slow started").await;
    http.child.kill().await.unwrap();
    let (outcome, lost) = result(&session, &run).await;
    assert_eq!((lost.status, outcome.receipt.calls[0].verdict), (ResultStatus::Error, Verdict::Finished));
    assert_eq!(outcome.receipt.leaked, ["slow (c): the MCP server `test` was lost; it may still be running"]);
}

/// Checks P7: a server may be working on a request that was sent and not answered, but not on one that reached nobody or was
/// refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_no_server_answered_is_named_and_one_that_was_refused_is_not() {
    const LOST: &[&str] = &["slow (c): the MCP server `test` was lost; it may still be running"];
    let cases: [(&str, &[&str]); 6] = [
        ("", LOST),
        ("HTTP/1.1 504 Gateway Timeout\r\ncontent-length: 4\r\nconnection: close\r\n\r\nlate", LOST),
        ("HTTP/1.1 503 Upstream\r\ncontent-length: 4\r\nconnection: close\r\n\r\nlost", LOST),
        ("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 400\r\n\r\n{\"json", LOST),
        ("HTTP/1.1 500 Oops\r\ncontent-length: 4\r\nconnection: close\r\n\r\noops", &[]),
        ("HTTP/1.1 403 No\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno", &[]),
    ];
    for (answer, leaked) in cases {
        let url = a_server_that_answers_calls_with(answer).await;
        let toolset = McpServer::http(&url).protocol(McpProtocol::Only2025).named("test").connect().await.unwrap();
        let (session, run) = start(tool(&toolset, "slow"), json!({}));
        let (outcome, lost) = result(&session, &run).await;
        assert_eq!(lost.status, ResultStatus::Error, "{answer}");
        assert_eq!(outcome.receipt.leaked, leaked, "{answer}");
    }
}

/// Answers everything but calls correctly. A call is answered with these bytes, and its connection is closed.
#[expect(clippy::disallowed_methods, reason = "a server is not part of the runtime")]
async fn a_server_that_answers_calls_with(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_once(BufStream::new(stream), answer));
        }
    });
    url
}

async fn serve_once(mut stream: BufStream<TcpStream>, to_calls: &str) -> std::io::Result<()> {
    let (mut head, mut length) = (String::new(), 0);
    while stream.read_line(&mut head).await? > 2 {
        let line = head.lines().last().unwrap_or_default().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let result = match asked["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "test", "version": "1"},
        }),
        Some("tools/list") => json!({"tools": [{"name": "slow", "inputSchema": {"type": "object"}}]}),
        Some("tools/call") => {
            stream.write_all(to_calls.as_bytes()).await?;
            return stream.flush().await;
        }
        // A notification, or the wait for the server's own messages.
        _ => {
            let status = if head.starts_with("GET") { "405 No" } else { "202 Taken" };
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).await?;
            return stream.flush().await;
        }
    };
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string();
    let length = answer.len();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n");
    stream.write_all(format!("{head}connection: close\r\n\r\n{answer}").as_bytes()).await?;
    stream.flush().await
}
