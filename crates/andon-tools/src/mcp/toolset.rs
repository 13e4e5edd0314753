//! The tools of a connected server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::Tool as Listed;

use super::error::McpError;
use super::server::McpServer;
use super::session::Session;
use super::tool::McpTool;

/// How many of a server's tools an error names.
const NAMED: usize = 20;

/// The tools of a server. The connection ends when this and all its tools are dropped, or with [`close`](Self::close).
pub struct McpToolset {
    session: Arc<Session>,
    listed: Mutex<List>,
}

struct List {
    tools: Vec<McpTool>,
    unusable: Vec<(String, String)>,
}

impl McpToolset {
    pub(super) async fn connect(server: McpServer) -> Result<Self, McpError> {
        let session = Arc::new(Session::new(server));
        let list = read(&session).await?;
        Ok(Self { session, listed: Mutex::new(list) })
    }

    /// The server's name, as in errors and receipts.
    pub fn server(&self) -> &str {
        &self.session.server.name
    }

    /// The tools, as of the last listing.
    pub fn tools(&self) -> Vec<McpTool> {
        self.listed.lock().tools.clone()
    }

    /// The tools that were left out of the last listing, by the server's own names, and why: a name that no provider accepts,
    /// an invalid schema, or the same name as another of its tools. One bad tool does not affect the others. Tools that
    /// were not wanted are not included.
    pub fn unusable(&self) -> Vec<(String, String)> {
        self.listed.lock().unusable.clone()
    }

    /// Whether the server has said since then that its tools have changed (`notifications/tools/list_changed`). An agent
    /// keeps the tools that it was built with; a tool that the server has removed fails when it is called. Servers of
    /// 2026-07-28 report this only to clients that subscribe, and this one does not.
    pub fn has_changed(&self) -> bool {
        self.session.tools_changed()
    }

    /// Lists the tools again, and returns the new list. Tools from before are unchanged.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if it is dropped, the list stays as it was.
    pub async fn refresh(&self) -> Result<Vec<McpTool>, McpError> {
        let list = read(&self.session).await?;
        let tools = list.tools.clone();
        *self.listed.lock() = list;
        Ok(tools)
    }

    /// Ends the connection and waits until everything is gone: the program and all that it has started, or the HTTP session.
    /// Bounded: a program has half a second to end by itself. Calls in progress and later calls fail.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the server ends as it does when the last handle is dropped.
    pub async fn close(self) {
        self.session.close().await;
    }
}

impl fmt::Debug for McpToolset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpToolset").field("server", &self.session.server).field("tools", &self.tools()).finish()
    }
}

async fn read(session: &Arc<Session>) -> Result<List, McpError> {
    let listed = session.list().await?;
    let server = &session.server;
    let names: BTreeSet<&str> = listed.iter().map(|tool| tool.name.as_ref()).collect();
    if names.is_empty() {
        return Err(McpError::Unusable { server: server.name.clone(), why: "it has no tools".to_owned() });
    }
    if let Some(missing) = server.wanted.missing(&names) {
        let why = format!("the server does not have it; it has {}", in_words(&names));
        return Err(McpError::Name { server: server.name.clone(), tool: missing.to_owned(), why });
    }
    let wanted = listed.into_iter().filter(|tool: &Listed| server.wanted.wants(&tool.name));
    let mut taken = BTreeMap::new();
    let mut list = List { tools: Vec::new(), unusable: Vec::new() };
    for listed in wanted {
        let remote = listed.name.to_string();
        match usable(session, listed, &mut taken) {
            Ok(tool) => list.tools.push(tool),
            Err(why) => list.unusable.push((remote, why)),
        }
    }
    Ok(list)
}

/// The tool, or why no agent could use it. If two would have the same name, the first one gets it.
fn usable(session: &Arc<Session>, listed: Listed, taken: &mut BTreeMap<String, String>) -> Result<McpTool, String> {
    let tool = McpTool::new(session, listed)?;
    tool.spec.check().map_err(|error| error.to_string())?;
    if let Some(other) = taken.get(&tool.spec.name) {
        return Err(format!("its name would be the same as that of `{other}`"));
    }
    taken.insert(tool.spec.name.clone(), tool.remote.clone());
    Ok(tool)
}

/// The first names, and how many more there are.
fn in_words(names: &BTreeSet<&str>) -> String {
    let mut words = names.iter().take(NAMED).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if let Some(more) = names.len().checked_sub(NAMED).filter(|more| *more > 0) {
        words = format!("{words} and {more} more");
    }
    words
}
