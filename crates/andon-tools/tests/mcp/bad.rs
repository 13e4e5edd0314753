//! Servers that hang, die, flood or send nonsense cost no more than a grace, and the next call works.

use andon_runtime::Cancel;
use andon_runtime::core::message::ResultStatus;
use andon_tools::mcp::{McpProtocol, McpToolset};
use serde_json::json;

use crate::common::*;

async fn works(toolset: &McpToolset) {
    let said = call(toolset, "echo", json!({"text": "well"})).await;
    assert_eq!(words(&said), "well", "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_costs_its_grace_and_is_replaced() {
    for protocol in BOTH {
        let python = Python::new();
        let toolset = python.stdio(protocol).grace(millis(300)).connect().await.unwrap();
        let (session, run) = start(tool(&toolset, "freeze"), json!({}));
        python.log.wait("freeze started").await;
        let pulled = Instant::now();
        run.cancel(Cancel::graceful());
        let (outcome, result) = result(&session, &run).await;
        let took = pulled.elapsed();
        assert!(took >= millis(300), "{took:?}");
        assert_eq!(result.status, ResultStatus::Unknown, "{result:?}");
        assert_eq!(outcome.receipt.leaked, Vec::<String>::new());
        let account = format!("{:?}", outcome.receipt.calls);
        assert!(account.contains("its program was ended"), "{account}");
        assert!(!is_alive(python.log.pids()[0]), "the run has settled, and the server lives on");
        works(&toolset).await;
        assert_eq!(python.log.pids().len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_ended_with_its_program_is_not_called_leaked() {
    for cancel in [Cancel::graceful(), Cancel::now()] {
        let python = Python::new();
        let toolset = python.stdio(McpProtocol::Newest).grace(millis(300)).connect().await.unwrap();
        let (first_agent, first) = start(tool(&toolset, "freeze"), json!({}));
        python.log.wait("freeze started").await;
        // More than fits into the pipe, so that no cancel can be sent.
        let (second_agent, second) = start(tool(&toolset, "echo"), json!({"text": "x".repeat(300_000)}));
        until_started(&second).await;
        first.cancel(cancel.clone());
        second.cancel(cancel.clone());
        let ((one, _), (two, _)) = tokio::join!(result(&first_agent, &first), result(&second_agent, &second));
        assert_eq!(one.receipt.leaked, Vec::<String>::new(), "{cancel:?}");
        assert_eq!(two.receipt.leaked, Vec::<String>::new(), "{cancel:?}");
        assert!(!is_alive(python.log.pids()[0]), "{cancel:?}: the runs have settled, and the server lives on");
        works(&toolset).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http_server_that_hangs_costs_its_grace_and_the_receipt_names_what_may_go_on() {
    for protocol in BOTH {
        let python = Python::new();
        let http = python.http(&[]).await;
        let toolset = http.server(protocol).grace(millis(300)).connect().await.unwrap();
        let (session, run) = start(tool(&toolset, "freeze"), json!({}));
        python.log.wait("freeze started").await;
        run.cancel(Cancel::graceful());
        let (outcome, _) = result(&session, &run).await;
        let told = match protocol {
            McpProtocol::Only2025 => "was told to stop it and did not confirm it",
            _ => "was told to stop it by closing its stream",
        };
        assert_eq!(
            outcome.receipt.leaked,
            [format!("freeze (c): the MCP server `test` {told}; it may still be running")]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_fails_its_call_with_its_last_words_and_the_next_call_starts_it_again() {
    for protocol in BOTH {
        let python = Python::new();
        let toolset = python.stdio(protocol).connect().await.unwrap();
        for deaths in 1..=3 {
            let dead = call(&toolset, "die", json!({})).await;
            assert_eq!(dead.status, ResultStatus::Error, "{dead:?}");
            assert!(words(&dead).contains("exit code 3"), "{dead:?}");
            assert!(words(&dead).contains("about to die"), "{dead:?}");
            works(&toolset).await;
            assert_eq!(python.log.pids().len(), deaths + 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http_server_that_was_started_again_is_used_again() {
    for protocol in BOTH {
        let python = Python::new();
        let mut http = python.http(&[]).await;
        let toolset = http.server(protocol).connect().await.unwrap();
        works(&toolset).await;
        assert_eq!(call(&toolset, "die", json!({})).await.status, ResultStatus::Error);
        http.child.wait().await.unwrap();
        let lost = call(&toolset, "echo", json!({"text": "anybody?"})).await;
        assert_eq!(lost.status, ResultStatus::Error);
        assert!(!words(&lost).contains("127.0.0.1"), "the address may hold a secret: {lost:?}");
        let port = http.url.trim_end_matches("/mcp").rsplit(':').next().unwrap().to_owned();
        let _again = python.http(&["--port", &port]).await;
        works(&toolset).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_progress_is_cut_off_and_the_next_call_works() {
    for protocol in BOTH {
        let python = Python::new();
        let toolset = python.stdio(protocol).grace(millis(1_000)).connect().await.unwrap();
        let (session, run) = start(tool(&toolset, "flood"), json!({}));
        python.log.wait("flood started").await;
        run.cancel(Cancel::graceful());
        let (_, result) = result(&session, &run).await;
        assert_ne!(result.status, ResultStatus::Ok);
        works(&toolset).await;
        // A flood that nobody wants ends the connection, and with it the server that sends it.
        let flooding = python.log.pids()[0];
        until_gone(flooding).await;
        works(&toolset).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_too_large_is_refused_and_the_session_goes_on() {
    for protocol in BOTH {
        let python = Python::new();
        let toolset = python.stdio(protocol).connect().await.unwrap();
        let large = call(&toolset, "huge", json!({"mebibytes": 17})).await;
        assert_eq!(large.status, ResultStatus::Error);
        assert!(words(&large).contains("more than 16 MiB"), "{:.300}", words(&large));
        works(&toolset).await;
        assert_eq!(python.log.pids().len(), 1);
        // What fits is cut to what a tool may return.
        let fits = call(&toolset, "huge", json!({"mebibytes": 2})).await;
        assert_eq!(fits.status, ResultStatus::Ok);
        assert!(words(&fits).contains("bytes of this result were cut"));
    }
    for protocol in BOTH {
        let python = Python::new();
        let http = python.http(&[]).await;
        let toolset = http.server(protocol).connect().await.unwrap();
        let large = call(&toolset, "huge", json!({"mebibytes": 17})).await;
        assert_eq!(large.status, ResultStatus::Error);
        assert!(words(&large).contains("more than 16 MiB"), "{protocol:?} {:.300}", words(&large));
        works(&toolset).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_on_the_wire_is_skipped() {
    let python = Python::new();
    let toolset = python.stdio(McpProtocol::Newest).connect().await.unwrap();
    let answered = call(&toolset, "garbage", json!({"lines": 10})).await;
    assert_eq!(words(&answered), "answered all the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_nonsense_is_an_error_that_quotes_it_and_the_next_call_works() {
    let python = Python::new();
    let toolset = python.stdio(McpProtocol::Newest).connect().await.unwrap();
    let lost = call(&toolset, "garbage", json!({"lines": 1500, "answer": false})).await;
    assert_eq!(lost.status, ResultStatus::Error);
    assert!(words(&lost).contains("this is no message"), "{lost:?}");
    works(&toolset).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_the_wait_for_a_server_that_does_not_come_back() {
    let python = Python::new();
    // It dies at the first call, and its replacement never answers.
    let again = "touch {0}.again; exec sleep 3600".replace("{0}", &python.path());
    let script = format!("if [ -e {0}.once ]; then {again}; fi; touch {0}.once; exec \"$@\"", python.path());
    let toolset = python.stdio_through(&script).connect().await.unwrap();
    assert_eq!(call(&toolset, "die", json!({})).await.status, ResultStatus::Error);
    let (session, run) = start(tool(&toolset, "echo"), json!({"text": "hello"}));
    let again = python.path() + ".again";
    until(|| std::fs::exists(&again).unwrap().then_some(())).await.expect("the server was not started again");
    run.cancel(Cancel::graceful());
    let (_, cut) = result(&session, &run).await;
    assert!(!spent_its_grace(&run));
    assert!(words(&cut).contains("before the server was asked"), "{cut:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_comes_back_fails_each_call_within_its_time() {
    let python = Python::new();
    let script = format!("if [ -e {0}.once ]; then exit 7; fi; touch {0}.once; exec \"$@\"", python.path());
    let toolset = python.stdio_through(&script).connect().await.unwrap();
    assert_eq!(call(&toolset, "die", json!({})).await.status, ResultStatus::Error);
    for _ in 0..5 {
        let failed = call(&toolset, "echo", json!({"text": "hello"})).await;
        assert_eq!(failed.status, ResultStatus::Error);
        assert!(words(&failed).contains("exit code 7"), "{failed:?}");
    }
}
