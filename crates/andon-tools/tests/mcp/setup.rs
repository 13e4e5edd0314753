//! Connecting, choosing tools, and closing.

use andon_runtime::{Effect, Tool as _};
use andon_tools::mcp::{McpError, McpProtocol, McpServer};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::common::*;

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_chosen_named_and_judged_by_their_annotations() {
    let python = Python::new();
    let wanted = ["echo", "slow", "deaf", "odd.name/here"];
    let server = python.stdio(McpProtocol::Newest).only(wanted).without(["deaf"]).prefix("t_").grace(millis(700));
    let toolset = server.effect("odd.name/here", Effect::ReadOnly).connect().await.unwrap();
    let tools = toolset.tools();
    let found: Vec<_> = tools.iter().map(|tool| (tool.name(), tool.spec().effect, tool.spec().grace)).collect();
    let grace = millis(700);
    assert_eq!(
        found,
        [
            ("t_echo", Effect::ReadOnly, grace),
            ("t_slow", Effect::Idempotent, grace),
            ("t_odd_name_here", Effect::ReadOnly, grace)
        ]
    );
    assert_eq!(words(&call(&toolset, "t_odd_name_here", json!({})).await), "odd");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_the_server_does_not_have_is_an_error() {
    let python = Python::new();
    let error = python.stdio(McpProtocol::Newest).only(["echo", "gone"]).connect().await.unwrap_err();
    assert!(matches!(&error, McpError::Name { tool, .. } if tool == "gone"), "{error}");
    until_gone(python.log.pids()[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_has_changed_can_be_read_again() {
    let python = Python::new();
    let toolset = python.stdio(McpProtocol::Only2025).connect().await.unwrap();
    assert!(!toolset.has_changed());
    call(&toolset, "change", json!({})).await;
    assert!(until(|| toolset.has_changed().then_some(())).await.is_some());
    assert_eq!(toolset.refresh().await.unwrap().len(), toolset.tools().len());
    assert!(!toolset.has_changed());
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_go_with_every_request_and_into_no_error() {
    for protocol in [McpProtocol::Newest, McpProtocol::Only2025, McpProtocol::Only2026] {
        let python = Python::new();
        let http = python.http(&["--token", "Bearer hush"]).await;
        let toolset = http.server(protocol).header("Authorization", "Bearer hush").connect().await.unwrap();
        assert_eq!(words(&call(&toolset, "echo", json!({"text": "in"})).await), "in");
        assert!(!format!("{toolset:?}").contains("hush"));
        let error = http.server(protocol).header("Authorization", "Bearer wrong").connect().await.unwrap_err();
        assert!(error.to_string().contains("401"), "{error}");
        assert!(!format!("{error} {error:?}").contains("wrong"), "{error}");
        let error = http.server(protocol).header("Authorization", "two\nlines").connect().await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("two"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_server_is_an_error_at_once() {
    let error = McpServer::stdio("/no/such/program", ["hush"]).connect().await.unwrap_err();
    assert!(matches!(error, McpError::Start { .. }), "{error}");
    assert!(!error.to_string().contains("hush"));
    let error = McpServer::http("http://127.0.0.1:1/mcp?key=hush").connect().await.unwrap_err();
    assert!(matches!(error, McpError::Unusable { .. }), "{error}");
    assert!(!format!("{error} {error:?}").contains("hush"), "{error}");
    let error = McpServer::stdio("false", [""; 0]).connect().await.unwrap_err();
    assert!(error.to_string().contains("exit code 1"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_sees_only_the_variables_that_it_is_given() {
    // Whoever runs the tests sets this one.
    let ours = format!("has [{}]", std::env::var("CARGO_PKG_NAME").unwrap());
    let shows = || McpServer::stdio("sh", ["-c", "echo has [$CARGO_PKG_NAME$OWN] >&2; exit 1"]);
    for (server, seen) in [
        (shows(), "has []"),
        (shows().env("OWN", "mine"), "has [mine]"),
        (shows().pass_env(["CARGO_PKG_NAME"]), ours.as_str()),
    ] {
        let error = server.connect().await.unwrap_err().to_string();
        assert!(error.contains(seen), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_where_something_else_listens_is_an_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    // It accepts the connection and never answers.
    let error = McpServer::http(&url).connect_timeout(millis(300)).connect().await.unwrap_err();
    assert!(matches!(error, McpError::TimedOut { .. }), "{error}");
    // It sends something that is not MCP.
    let page = async {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
            let page =
                b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
            let _ = stream.write_all(page).await;
        }
    };
    tokio::select! {
        () = page => {}
        error = McpServer::http(&url).connect() => {
            let error = error.unwrap_err();
            assert!(error.to_string().contains("text/html"), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_sends_nothing_or_nonsense_is_ended() {
    let python = Python::new();
    let error = python.stdio_with(&["--mute"]).connect_timeout(millis(5_000)).connect().await.unwrap_err();
    assert!(matches!(error, McpError::TimedOut { .. }), "{error}");
    until_gone(python.log.pids()[0]).await;
    let python = Python::new();
    let error = python.stdio_with(&["--babble"]).connect().await.unwrap_err();
    assert!(error.to_string().contains("good morning"), "{error}");
    until_gone(python.log.pids()[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_server_is_left_after_close() {
    let python = Python::new();
    let toolset = python.stdio(McpProtocol::Newest).connect().await.unwrap();
    let (session, run) = start(tool(&toolset, "offspring"), json!({}));
    let started = python.log.wait("offspring started").await;
    let child = u32::try_from(started["child"].as_u64().unwrap()).unwrap();
    let server = python.log.pids()[0];
    assert!(is_alive(server) && is_alive(child));
    run.cancel(andon_runtime::Cancel::graceful());
    result(&session, &run).await;
    toolset.close().await;
    assert!(!is_alive(server), "the server lives on");
    assert!(!is_alive(child), "what it started lives on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_after_close_says_so_and_starts_nothing() {
    let python = Python::new();
    let toolset = python.stdio(McpProtocol::Newest).connect().await.unwrap();
    let echo = tool(&toolset, "echo");
    toolset.close().await;
    let (session, run) = start(echo, json!({"text": "anybody?"}));
    assert!(words(&result(&session, &run).await.1).contains("was closed"));
    assert_eq!(python.log.pids().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_last_handle_is_enough() {
    let python = Python::new();
    let toolset = python.stdio(McpProtocol::Newest).connect().await.unwrap();
    let echo = tool(&toolset, "echo");
    drop(toolset);
    let (session, run) = start(echo, json!({"text": "alive"}));
    assert_eq!(words(&result(&session, &run).await.1), "alive");
    drop((session, run));
    until_gone(python.log.pids()[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_ends_the_http_session() {
    let python = Python::new();
    let http = python.http(&[]).await;
    let toolset = http.server(McpProtocol::Only2025).connect().await.unwrap();
    toolset.close().await;
    let deleted = python.log.find(|entry| entry["http"] == "DELETE").expect("the session was not ended");
    assert!(deleted["session"].is_string());
}

#[test]
fn a_connection_outlives_the_runtime_that_made_it() {
    let python = Python::new();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let toolset = runtime().block_on(python.stdio(McpProtocol::Newest).connect()).unwrap();
    let said = runtime().block_on(call(&toolset, "echo", json!({"text": "later"})));
    assert_eq!(words(&said), "later");
    assert_eq!(python.log.pids().len(), 1);
    runtime().block_on(toolset.close());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_connect_leaves_no_process() {
    let python = Python::new();
    let connecting = python.stdio_with(&["--mute"]).connect();
    tokio::select! {
        _ = connecting => panic!("a mute server cannot be connected to"),
        _ = python.log.wait("started") => {}
    }
    until_gone(python.log.pids()[0]).await;
}

/// A server that only lists these tools.
fn listing(tools: serde_json::Value) -> McpServer {
    McpServer::stream("list", move || {
        let (here, there) = tokio::io::duplex(64 * 1024);
        let tools = tools.clone();
        drop(tokio::runtime::Handle::current().spawn(async move {
            let (reader, mut writer) = tokio::io::split(there);
            let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(reader));
            while let Some(line) = lines.next_line().await.unwrap() {
                let asked: serde_json::Value = serde_json::from_str(&line).unwrap();
                let result = match asked["method"].as_str().unwrap() {
                    "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                        "serverInfo": {"name": "list", "version": "1"}}),
                    "tools/list" => json!({"tools": tools}),
                    _ => continue,
                };
                let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
                writer.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            }
        }));
        here
    })
    .protocol(McpProtocol::Only2025)
}

#[tokio::test]
async fn an_unusable_tool_is_left_out_with_the_reason_and_the_others_are_kept() {
    let good = json!({"type": "object"});
    let toolset = listing(json!([
        {"name": "good", "inputSchema": good},
        {"name": "bad", "inputSchema": {"type": "object", "properties": {"a": {"type": "nonsense"}}}},
        {"name": "", "inputSchema": good},
        {"name": "x".repeat(65), "inputSchema": good},
        {"name": "a.b", "inputSchema": good},
        {"name": "a/b", "inputSchema": good},
    ]))
    .connect()
    .await
    .unwrap();
    let names: Vec<_> = toolset.tools().iter().map(|tool| tool.name().to_owned()).collect();
    assert_eq!(names, ["good", "a_b"]);
    let unusable = toolset.unusable();
    let left_out: Vec<_> = unusable.iter().map(|(tool, _)| tool.clone()).collect();
    assert_eq!(left_out, ["bad", "", &"x".repeat(65), "a/b"]);
    assert!(unusable[0].1.contains("the schema of tool \"bad\" cannot be used: "), "{unusable:?}");
    assert!(unusable[0].1.contains("at /properties/a/type: "), "{unusable:?}");
    assert!(unusable[3].1.contains("`a.b`"), "{unusable:?}");
    let model = andon_testkit::ScriptedModel::new([vec![andon_testkit::Act::end()]]);
    andon_runtime::Agent::builder().model(model).tools(toolset.tools()).build().unwrap();
}

#[tokio::test]
async fn a_missing_tool_is_an_error_that_names_the_others() {
    let tools = json!([{"name": "read", "inputSchema": {"type": "object"}}, {"name": "write", "inputSchema": {}}]);
    let error = listing(tools).only(["raed"]).connect().await.unwrap_err();
    assert!(error.to_string().contains("`raed`") && error.to_string().contains("`read`, `write`"), "{error}");
    let error = listing(json!([])).connect().await.unwrap_err();
    assert!(error.to_string().contains("it has no tools"), "{error}");
}
