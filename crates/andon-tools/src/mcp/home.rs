//! Where connections live.
//!
//! A connection outlives the call that opened it, and the caller's runtime may end before the next call. So connections to
//! programs and over HTTP live in a separate runtime with one thread for the whole process, which is started when needed.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};

use super::server::{McpServer, ServerKind};

static HOME: OnceLock<Option<Runtime>> = OnceLock::new();

/// Where the connections to a server live. Those over a stream live in the caller's runtime, so that tests can pause its clock,
/// and so do the others if the thread cannot be started.
pub(super) fn place(server: &McpServer) -> Handle {
    match (&server.kind, home()) {
        (ServerKind::Stream(_), _) | (_, None) => Handle::current(),
        (_, Some(home)) => home.clone(),
    }
}

/// The runtime; `None` if its thread cannot be started.
fn home() -> Option<&'static Handle> {
    let runtime = HOME.get_or_init(|| {
        Builder::new_multi_thread().thread_name("andon-mcp").worker_threads(1).enable_all().build().ok()
    });
    runtime.as_ref().map(Runtime::handle)
}
