//! Many starts and stops of MCP calls leave nothing behind (P5). A program of its own, because it counts what is open.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[path = "mcp/common.rs"]
mod common;

use andon_runtime::Cancel;
use andon_runtime::core::message::ResultStatus;
use andon_tools::mcp::{McpProtocol, McpToolset};
use serde_json::json;

use common::*;

fn entries(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// One test at a time: each counts what the whole process has open.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Descriptors and threads of this process.
fn counted() -> (usize, usize) {
    (entries("/proc/self/fd"), entries("/proc/self/task"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_stops_leave_no_descriptor_thread_or_process() {
    let _turn = TURN.lock().await;
    let python = Python::new();
    let toolset = python.stdio(McpProtocol::Newest).connect().await.unwrap();
    let http_python = Python::new();
    let http = http_python.http(&[]).await;
    let http_toolset = http.server(McpProtocol::Newest).connect().await.unwrap();
    // Two more calls keep the servers in use, so that they are told and not ended.
    let (_agent, kept) = start(tool(&toolset, "slow"), json!({}));
    let (_http_agent, http_kept) = start(tool(&http_toolset, "slow"), json!({}));
    python.log.wait("slow started").await;
    http_python.log.wait("slow started").await;
    let mut before = None;
    for cycle in 0..200 {
        let toolset = if cycle % 4 == 3 { &http_toolset } else { &toolset };
        let (agent, run) = start(tool(toolset, "slow"), json!({}));
        until_started(&run).await;
        let cancel = if cycle % 2 == 0 { Cancel::graceful() } else { Cancel::now() };
        run.cancel(cancel);
        result(&agent, &run).await;
        if cycle == 20 {
            before = Some(counted());
        }
    }
    let (descriptors, threads) = before.unwrap();
    // A connection that was just closed may take a moment to be released.
    let settled = until(|| (entries("/proc/self/fd") <= descriptors + 4).then_some(())).await;
    println!("after 20 cycles {descriptors} descriptors, {threads} threads; after 200 {:?}", counted());
    assert!(settled.is_some(), "{descriptors} descriptors became {}", entries("/proc/self/fd"));
    assert!(counted().1 <= threads + 2, "{threads} threads became {}", counted().1);
    // A server that does not answer within half a second of a stop is not used again, which on a busy machine may happen now and then.
    let servers = python.log.pids();
    assert!(servers.len() <= 20, "the server was started {} times", servers.len());
    // Calls on it were not seen to end, so it ends with the last call that uses it.
    kept.cancel(Cancel::graceful());
    http_kept.cancel(Cancel::graceful());
    kept.outcome().await;
    http_kept.outcome().await;
    assert!(!is_alive(servers[0]));
    toolset.close().await;
    http_toolset.close().await;
    for server in servers {
        until_gone(server).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_are_started_stopped_and_dropped_leave_no_process() {
    let _turn = TURN.lock().await;
    let mut pids = Vec::new();
    let mut before = None;
    for cycle in 0..12 {
        let python = Python::new();
        let toolset = python.stdio(McpProtocol::Newest).grace(millis(100)).connect().await.unwrap();
        let name = ["slow", "freeze", "die"][cycle % 3];
        let (agent, run) = start(tool(&toolset, name), json!({}));
        until_started(&run).await;
        run.cancel(if cycle % 2 == 0 { Cancel::graceful() } else { Cancel::now() });
        result(&agent, &run).await;
        pids.extend(python.log.pids());
        toolset.close().await;
        drop((agent, run));
        if cycle == 2 {
            before = Some(counted());
        }
    }
    for pid in pids {
        until_gone(pid).await;
    }
    let (descriptors, _) = before.unwrap();
    let settled = until(|| (entries("/proc/self/fd") <= descriptors + 4).then_some(())).await;
    assert!(settled.is_some(), "{descriptors} descriptors became {}", entries("/proc/self/fd"));
}

/// A figure from this process's status, in MiB.
fn mebibytes(what: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(what)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// Calls a tool that sends requests without end, and gives by how many MiB the most memory in use grew.
async fn nagged(toolset: &McpToolset, kind: &str) -> u64 {
    // The peak is measured from here.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = mebibytes("VmRSS");
    let (agent, run) = start(tool(toolset, "nag"), json!({"kind": kind}));
    let ended = tokio::time::timeout(PATIENCE, result(&agent, &run)).await;
    let grown = mebibytes("VmHWM") - before;
    let (_, lost) = ended.unwrap_or_else(|_| panic!("{kind} went on and on; memory grew by {grown} MiB"));
    assert_eq!(lost.status, ResultStatus::Error, "{lost:?}");
    assert!(words(&lost).contains("endless requests"), "{lost:?}");
    let said = call(toolset, "echo", json!({"text": "well"})).await;
    assert_eq!(words(&said), "well", "{said:?}");
    grown
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_sends_endless_requests_is_disconnected_before_memory_grows() {
    let _turn = TURN.lock().await;
    for protocol in BOTH {
        let python = Python::new();
        let toolset = python.stdio(protocol).connect().await.unwrap();
        let http_python = Python::new();
        let http = http_python.http(&[]).await;
        let http_toolset = http.server(protocol).connect().await.unwrap();
        for kind in ["ping", "sampling/createMessage"] {
            for (way, toolset) in [("lines", &toolset), ("HTTP", &http_toolset)] {
                let grown = nagged(toolset, kind).await;
                println!("{kind} over {way} by {protocol:?}: {grown} MiB");
                assert!(grown < 100, "{kind} over {way} by {protocol:?}: {grown} MiB");
            }
        }
        // Each flood ended the program that sent it.
        let pids = python.log.pids();
        assert_eq!(pids.len(), 3);
        assert!(!is_alive(pids[0]) && !is_alive(pids[1]));
    }
}
