//! A real server made with the official Python SDK, and an agent that calls its tools.
#![allow(dead_code, reason = "each test program uses some of these")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use andon_runtime::core::event::Event;
use andon_runtime::core::message::{Content, ToolResult};
use andon_runtime::{Agent, CallId, FeedItem, Outcome, Run, Session, Tool};
use andon_testkit::{Act, ScriptedModel};
use andon_tools::mcp::{McpProtocol, McpServer, McpTool, McpToolset};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) use std::sync::Arc;
pub(crate) use tokio::time::Instant;

pub(crate) const BOTH: [McpProtocol; 2] = [McpProtocol::Only2025, McpProtocol::Only2026];
/// Longer than anything here takes on a busy machine; only a failing test waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The Python that has the SDK.
fn python() -> String {
    std::env::var("ANDON_TEST_PYTHON").expect(
        "ANDON_TEST_PYTHON is not set: run these tests with `cargo xtask test`, or set it to what `cargo xtask venv` prints",
    )
}

/// Uses the shim in ANDON_TEST_SHIM, or builds it: cargo does not build the programs of other packages for a test.
fn use_shim() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let built = std::env::var_os("ANDON_TEST_SHIM").map(PathBuf::from);
        andon_shim::set_helper(built.unwrap_or_else(build_shim));
    });
}

fn build_shim() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let mut build = std::process::Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--package", "andon-shim", "--target-dir"]).arg(profile.parent().unwrap());
    if profile.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success(), "the shim could not be built");
    profile.join("andon-shim")
}

/// What a test server writes down.
#[derive(Clone)]
pub(crate) struct Log(PathBuf);

impl Log {
    pub(crate) fn entries(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        // A line may be read while it is written.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"))).collect()
    }

    pub(crate) fn find(&self, wanted: impl Fn(&Value) -> bool) -> Option<Value> {
        self.entries().into_iter().find(|entry| wanted(entry))
    }

    /// Waits for an entry of this kind.
    pub(crate) async fn wait(&self, what: &str) -> Value {
        self.wait_for(what, |entry| entry["what"] == what).await
    }

    pub(crate) async fn wait_for(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let found = until(|| self.find(&wanted)).await;
        found.unwrap_or_else(|| panic!("the server never wrote `{what}`: {:#?}", self.entries()))
    }

    /// How many entries of this kind there are.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.entries().iter().filter(|entry| entry["what"] == what).count()
    }

    /// Everything that the server was told about this request. It logs that a moment after it obeys.
    pub(crate) async fn cancel_notices(&self, id: &Value) -> Vec<Value> {
        let cancels = |entry: &Value| entry["method"] == "notifications/cancelled" && &entry["cancels"] == id;
        self.wait_for("notifications/cancelled", cancels).await;
        self.entries().into_iter().filter(cancels).collect()
    }

    /// The processes that have served, in order.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let started = self.entries().into_iter().filter(|entry| entry["what"] == "started");
        started.map(|entry| u32::try_from(entry["pid"].as_u64().unwrap()).unwrap()).collect()
    }
}

/// Polls until there is something.
pub(crate) async fn until<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(found) = look() {
            return Some(found);
        }
        tokio::time::sleep(millis(2)).await;
    }
    None
}

/// A folder with a log in it, and how to start the server.
pub(crate) struct Python {
    folder: TempDir,
    pub(crate) log: Log,
}

impl Python {
    pub(crate) fn new() -> Self {
        use_shim();
        let folder = tempfile::tempdir().unwrap();
        let log = Log(folder.path().join("log"));
        Self { folder, log }
    }

    fn args(&self, more: &[&str]) -> Vec<String> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/server.py");
        let log = self.log.0.to_str().unwrap();
        [script, "--log", log].iter().chain(more).map(ToString::to_string).collect()
    }

    pub(crate) fn stdio(&self, protocol: McpProtocol) -> McpServer {
        self.stdio_with(&[]).protocol(protocol)
    }

    pub(crate) fn stdio_with(&self, more: &[&str]) -> McpServer {
        McpServer::stdio(python(), self.args(more)).named("test")
    }

    /// Whether a server was started here that is reached by HTTP.
    pub(crate) fn is_http(&self) -> bool {
        self.folder.path().join("port").exists()
    }

    /// A path in the folder.
    pub(crate) fn path(&self) -> String {
        self.folder.path().join("file").to_str().unwrap().to_owned()
    }

    /// The server, started by a shell script that finds it in its arguments.
    pub(crate) fn stdio_through(&self, script: &str) -> McpServer {
        let mut args = vec!["-c".to_owned(), script.to_owned(), "sh".to_owned(), python()];
        args.extend(self.args(&[]));
        McpServer::stdio("sh", args).named("test")
    }

    /// Starts a server that is reached by HTTP.
    pub(crate) async fn http(&self, more: &[&str]) -> HttpServer {
        let port_file = self.folder.path().join("port");
        let _ = std::fs::remove_file(&port_file);
        let mut args = vec!["--http", "--port-file", port_file.to_str().unwrap()];
        args.extend(more);
        let mut command = tokio::process::Command::new(python());
        command.args(self.args(&args)).stdin(Stdio::null()).kill_on_drop(true);
        let child = command.spawn().unwrap();
        let port = until(|| std::fs::read_to_string(&port_file).ok()).await.expect("the server never listened");
        HttpServer { child, url: format!("http://127.0.0.1:{port}/mcp") }
    }
}

pub(crate) struct HttpServer {
    pub(crate) child: tokio::process::Child,
    pub(crate) url: String,
}

impl HttpServer {
    pub(crate) fn server(&self, protocol: McpProtocol) -> McpServer {
        McpServer::http(&self.url).protocol(protocol).named("test")
    }
}

pub(crate) fn tool(toolset: &McpToolset, name: &str) -> McpTool {
    toolset.tools().into_iter().find(|tool| tool.name() == name).unwrap_or_else(|| panic!("no tool {name}"))
}

/// An agent whose model asks for one tool once, and the run.
pub(crate) fn start(tool: impl Tool, input: Value) -> (Session, Run) {
    let name = tool.spec().name.clone();
    let mut asks = Act::call(0, "c", &name, &input.to_string());
    asks.push(Act::tool_use());
    let model = ScriptedModel::new([asks, vec![Act::text("done"), Act::end()]]);
    let session = Agent::builder().model(model).tool(tool).build().unwrap().new_session("ada").unwrap();
    let run = session.start("Go.").unwrap();
    (session, run)
}

/// The result of the only call.
pub(crate) async fn result(session: &Session, run: &Run) -> (Arc<Outcome>, ToolResult) {
    let outcome = tokio::time::timeout(PATIENCE, run.outcome()).await.expect("the run never settled");
    let history = session.history().await.unwrap();
    let results: Vec<_> = history.iter().flat_map(|message| message.results().cloned().collect::<Vec<_>>()).collect();
    assert_eq!(results.len(), 1, "one result a call");
    (outcome, results[0].clone())
}

/// Whether the grace of a run's calls was over before they were.
pub(crate) fn spent_its_grace(run: &Run) -> bool {
    run.records().iter().any(|record| matches!(record.event, Event::GraceEnded { .. }))
}

/// Calls a tool and waits for its result.
pub(crate) async fn call(toolset: &McpToolset, name: &str, input: Value) -> ToolResult {
    let (session, run) = start(tool(toolset, name), input);
    result(&session, &run).await.1
}

pub(crate) fn words(result: &ToolResult) -> String {
    let words = result.content.iter().map(|content| match content {
        Content::Text { text } => text.clone(),
        Content::Image(image) => format!("<{}>", image.reference),
        #[cfg(not(andon_whole))]
        _ => String::new(),
    });
    words.collect::<Vec<_>>().join("|")
}

/// Waits until the call has started.
pub(crate) async fn until_started(run: &Run) {
    let call = CallId::new("c").unwrap();
    let started = |record: &Event| matches!(record, Event::ToolStarted { call: started, .. } if *started == call);
    until(|| run.records().iter().any(|record| started(&record.event)).then_some(())).await.expect("never started");
}

/// What the call showed, until the run's end.
pub(crate) async fn shown(run: &Run) -> String {
    let mut feed = run.feed();
    let mut shown = String::new();
    while let Some(item) = feed.next().await {
        if let FeedItem::Delta(delta) = item
            && matches!(delta.kind, andon_runtime::Kind::ToolOutput(_))
        {
            shown.push_str(&delta.text);
        }
    }
    shown
}

/// Whether a process lives and is not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

pub(crate) async fn until_gone(pid: u32) {
    until(|| (!is_alive(pid)).then_some(())).await.unwrap_or_else(|| panic!("process {pid} lives on"));
}
