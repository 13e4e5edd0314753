//! Scripts with an MCP server in memory: the real client and the real protocol, on one thread under a paused clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use andon_testkit::explore::{Script, World, explore};
use andon_testkit::model::Act;
use andon_tools::mcp::McpServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ServerHandler, ServiceExt as _};
use serde_json::json;
use tokio::io::DuplexStream;

/// Its grace, the time to be dropped, and the cleanup that tells the server.
const SETTLES_WITHIN: Duration = Duration::from_millis(1_500);

pub(crate) fn all() -> Vec<Script> {
    vec![
        explore("an MCP call that hears its cancel").play(|world| play(world, "wait")).within(SETTLES_WITHIN),
        explore("an MCP call that does not").play(|world| play(world, "ignore")).within(SETTLES_WITHIN),
    ]
}

async fn play(world: World, tool: &'static str) {
    let server = Waiting::default();
    let connect = McpServer::stream("memory", {
        let server = server.clone();
        move || server.open()
    });
    let Ok(toolset) = connect.grace(Duration::from_millis(500)).connect().await else {
        return world.broken("P5: the server in memory could not be reached");
    };
    let first = vec![Act::text("Asking. ")].into_iter().chain(Act::call(0, "m1", tool, "{}"));
    let first = first.chain([Act::call(1, "m2", "echo", "{}"), vec![Act::tool_use()]].concat()).collect();
    let model = world.model([first, vec![Act::text("Done."), Act::usage(5, 2), Act::end()]]);
    let session = world.open(world.agent(&model).tools(toolset.tools()));
    if let Ok(run) = world.start(session.prompt("Ask it.")) {
        world.follow(&run).await;
        let was_cut = run.cord().is_pulled();
        let (started, heard) = (server.started.load(Ordering::SeqCst), server.heard.load(Ordering::SeqCst));
        if tool == "wait" && was_cut && started > heard && run.try_outcome().is_some() {
            // The server is told before the run settles, but its own task may need a moment to notice.
            tokio::time::sleep(Duration::from_millis(100)).await;
            if server.started.load(Ordering::SeqCst) > server.heard.load(Ordering::SeqCst) {
                world.broken("P5: a run has settled, and the server was not told");
            }
        }
    }
    toolset.close().await;
}

/// A server whose tools wait: one hears its cancel, one does not.
#[derive(Clone, Default)]
struct Waiting {
    started: Arc<AtomicUsize>,
    heard: Arc<AtomicUsize>,
}

impl Waiting {
    fn open(&self) -> DuplexStream {
        let (here, there) = tokio::io::duplex(4096);
        let server = self.clone();
        drop(tokio::runtime::Handle::current().spawn(async move {
            if let Ok(running) = server.serve(there).await {
                // It ends when the other side has gone.
                let _ = running.waiting().await;
            }
        }));
        here
    }
}

impl ServerHandler for Waiting {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object"}).as_object().cloned().unwrap_or_default();
        let tools = ["wait", "ignore", "echo"].map(|name| Tool::new(name, "A tool.", schema.clone()));
        Ok(ListToolsResult::with_all_items(tools.into()))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let takes = Duration::from_millis(300);
        match &*call.name {
            "wait" => {
                self.started.fetch_add(1, Ordering::SeqCst);
                tokio::select! {
                    biased;
                    () = context.ct.cancelled() => {}
                    () = tokio::time::sleep(takes) => {}
                }
                self.heard.fetch_add(1, Ordering::SeqCst);
            }
            "ignore" => tokio::time::sleep(takes).await,
            _ => {}
        }
        Ok(CallToolResult::success(vec![ContentBlock::text("answered")]).into())
    }
}
