//! A server in memory, made with rmcp: for what the Python SDK does not do, and under a paused clock.

use std::sync::atomic::{AtomicUsize, Ordering};

use andon_runtime::core::message::ResultStatus;
use andon_runtime::{Agent, Cancel, MemoryJournal, Runtime, Session, TestClock};
use andon_testkit::{Act, ScriptedModel};
use andon_tools::mcp::{McpServer, McpTool};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ServerHandler, ServiceExt as _};
use serde_json::json;

use crate::common::*;

/// Lists one tool per page. `wait` waits for its cancel, and counts it.
#[derive(Clone, Default)]
struct InMemory {
    started: Arc<AtomicUsize>,
    cancelled: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    hung_up: Arc<tokio::sync::Notify>,
    gone: Arc<AtomicUsize>,
    starts_after: std::time::Duration,
}

/// Waits until the client closes the connection.
async fn still(running: &rmcp::service::RunningService<RoleServer, InMemory>) {
    while !running.is_transport_closed() {
        tokio::time::sleep(millis(1)).await;
    }
}

impl InMemory {
    fn server(&self) -> McpServer {
        let this = self.clone();
        McpServer::stream("memory", move || {
            let (here, there) = tokio::io::duplex(4096);
            let server = this.clone();
            server.connections.fetch_add(1, Ordering::SeqCst);
            drop(tokio::runtime::Handle::current().spawn(async move {
                let (hung_up, gone) = (server.hung_up.clone(), server.gone.clone());
                tokio::time::sleep(server.starts_after).await;
                let mut running = server.serve(there).await?;
                tokio::select! {
                    () = hung_up.notified() => {
                        running.close().await?;
                        gone.fetch_add(1, Ordering::SeqCst);
                    }
                    () = still(&running) => {}
                }
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
            }));
            here
        })
    }

    /// Closes the connection.
    fn hang_up(&self) {
        self.hung_up.notify_one();
    }
}

impl ServerHandler for InMemory {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let names = ["echo", "wait", "ponder"];
        let at: usize = page.and_then(|page| page.cursor).map_or(0, |cursor| cursor.parse().unwrap());
        let schema = json!({"type": "object"}).as_object().unwrap().clone();
        let mut list = ListToolsResult::with_all_items(vec![Tool::new(names[at], "A tool.", schema)]);
        list.next_cursor = (at + 1 < names.len()).then(|| (at + 1).to_string());
        Ok(list)
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match call.name.as_ref() {
            "wait" => {
                self.started.fetch_add(1, Ordering::SeqCst);
                context.ct.cancelled().await;
                self.cancelled.fetch_add(1, Ordering::SeqCst);
            }
            "ponder" => tokio::time::sleep(std::time::Duration::from_secs(3600)).await,
            _ => {}
        }
        Ok(CallToolResult::success(vec![ContentBlock::text("here")]).into())
    }
}

/// An agent on one lane under the paused clock.
fn quiet(tool: McpTool) -> (Session, andon_runtime::Run) {
    let mut asks = Act::call(0, "c", tool.name(), "{}");
    asks.push(Act::tool_use());
    let model = ScriptedModel::new([asks, vec![Act::text("done"), Act::end()]]);
    let journal = Arc::new(MemoryJournal::new());
    let runtime = Runtime::builder().journal(journal).one_lane().clock(Arc::new(TestClock::new())).seed(1).build();
    let session =
        Agent::builder().model(model).tool(tool).runtime(&runtime).build().unwrap().new_session("ada").unwrap();
    let run = session.start("Go.").unwrap();
    (session, run)
}

#[tokio::test(start_paused = true)]
async fn under_a_paused_clock_a_call_answers_and_takes_no_time() {
    let began = Instant::now();
    let toolset = InMemory::default().server().connect().await.unwrap();
    let names: Vec<_> = toolset.tools().iter().map(|tool| tool.name().to_owned()).collect();
    assert_eq!(names, ["echo", "wait", "ponder"], "every page is read");
    let (session, run) = quiet(tool(&toolset, "echo"));
    let (_, answer) = result(&session, &run).await;
    assert_eq!((answer.status, words(&answer).as_str()), (ResultStatus::Ok, "here"));
    assert_eq!(began.elapsed(), millis(0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_long_to_start_is_waited_for() {
    for seconds in [1, 9, 11, 29] {
        let memory = InMemory { starts_after: std::time::Duration::from_secs(seconds), ..InMemory::default() };
        let toolset = memory.server().connect().await.unwrap();
        let (session, run) = quiet(tool(&toolset, "echo"));
        assert_eq!(words(&result(&session, &run).await.1), "here", "it was ready after {seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn under_a_paused_clock_a_stop_tells_the_server_and_costs_no_grace() {
    for cancel in [Cancel::graceful(), Cancel::now()] {
        let memory = InMemory::default();
        let toolset = memory.server().connect().await.unwrap();
        for stops in 1..=3 {
            let (session, run) = quiet(tool(&toolset, "wait"));
            until_started(&run).await;
            let pulled = Instant::now();
            run.cancel(cancel.clone());
            result(&session, &run).await;
            assert!(pulled.elapsed() <= millis(50), "{:?}", pulled.elapsed());
            assert!(until(|| (memory.cancelled.load(Ordering::SeqCst) == stops).then_some(())).await.is_some());
        }
        assert_eq!(memory.connections.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_stop_at_any_point_nothing_runs_and_the_session_goes_on() {
    let memory = InMemory::default();
    let toolset = memory.server().connect().await.unwrap();
    let mut named = 0;
    for steps in 0..150 {
        for cancel in [Cancel::graceful(), Cancel::now()] {
            let (session, run) = quiet(tool(&toolset, "wait"));
            for _ in 0..steps {
                tokio::task::yield_now().await;
            }
            let pulled = Instant::now();
            run.cancel(cancel);
            let outcome = run.outcome().await;
            assert!(outcome.is_cancelled(), "after {steps} steps");
            // Nobody can see the end of work at the other end of a stream: it is named if it was requested.
            let leaked = "wait (c): the MCP server `memory` was told to stop it (requested); it may still be running";
            assert!(outcome.receipt.leaked.iter().all(|words| words == leaked), "{:?}", outcome.receipt.leaked);
            named += outcome.receipt.leaked.len();
            assert!(pulled.elapsed() <= millis(50), "after {steps} steps: {:?}", pulled.elapsed());
            drop(session);
        }
    }
    let all = || memory.started.load(Ordering::SeqCst) == memory.cancelled.load(Ordering::SeqCst);
    assert!(until(|| all().then_some(())).await.is_some(), "a call runs on");
    let started = memory.started.load(Ordering::SeqCst);
    assert!(started > 100, "the steps do not reach the call");
    assert!(named >= started, "{started} calls were begun, and {named} named");
    assert_eq!(memory.connections.load(Ordering::SeqCst), 1, "the server was connected to again");
    let (session, run) = quiet(tool(&toolset, "echo"));
    assert_eq!(words(&result(&session, &run).await.1), "here");
}

#[tokio::test(start_paused = true)]
async fn a_stop_works_at_any_point_of_a_reconnect() {
    let mut again = 0;
    for steps in 0..60 {
        let memory = InMemory::default();
        let toolset = memory.server().connect().await.unwrap();
        memory.hang_up();
        assert!(until(|| (memory.gone.load(Ordering::SeqCst) == 1).then_some(())).await.is_some());
        let (session, run) = quiet(tool(&toolset, "wait"));
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        let pulled = Instant::now();
        run.cancel(Cancel::graceful());
        // A call that was sent while the connection closed may have failed, and its run may have ended.
        run.outcome().await;
        assert!(pulled.elapsed() <= millis(50), "after {steps} steps: {:?}", pulled.elapsed());
        again += memory.connections.load(Ordering::SeqCst) - 1;
        let all = || memory.started.load(Ordering::SeqCst) == memory.cancelled.load(Ordering::SeqCst);
        assert!(until(|| all().then_some(())).await.is_some(), "after {steps} steps a call runs on");
        drop(session);
    }
    assert!(again > 10, "the steps do not reach the second connection");
}

#[tokio::test(start_paused = true)]
async fn under_a_paused_clock_close_waits_for_the_end() {
    let memory = InMemory::default();
    let toolset = memory.server().connect().await.unwrap();
    let (session, run) = quiet(tool(&toolset, "ponder"));
    until_started(&run).await;
    toolset.close().await;
    let (_, lost) = result(&session, &run).await;
    assert_eq!(lost.status, ResultStatus::Error, "{lost:?}");
}
