//! One tool of a server.

use std::fmt;
use std::sync::Arc;

use andon_runtime::{Effect, Invocation, Tool, ToolSpec, Work};
use rmcp::model::Tool as Listed;
use serde_json::Value;

use super::call;
use super::server::McpServer;
use super::session::Session;
use super::stop;

/// The longest name that a model may use.
const MAX_NAME: usize = 64;

/// One tool of an MCP server, ready for an agent. It keeps the connection alive.
#[derive(Clone)]
pub struct McpTool {
    pub(super) spec: Arc<ToolSpec>,
    pub(super) remote: String,
    pub(super) session: Arc<Session>,
}

impl McpTool {
    /// The name that the model uses.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    pub(super) fn new(session: &Arc<Session>, listed: Listed) -> Result<Self, String> {
        let server = &session.server;
        let remote = listed.name.to_string();
        let name = local_name(server, &remote)?;
        let description = listed.description.as_deref().or(listed.title.as_deref()).unwrap_or(&remote).to_owned();
        let mut schema = listed.input_schema.as_ref().clone();
        schema.entry("type").or_insert_with(|| Value::from("object"));
        let mut spec = ToolSpec::new(name, description, Value::Object(schema));
        spec.effect = server.call_options.effects.get(&remote).copied().unwrap_or_else(|| hinted(&listed));
        spec.grace = server.call_options.grace;
        spec.timeout = server.call_options.timeout;
        spec.cleanup = stop::CLEANUP;
        Ok(Self { spec: Arc::new(spec), remote, session: Arc::clone(session) })
    }
}

impl Tool for McpTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, invocation: Invocation) -> Work {
        call::work(self, invocation)
    }
}

impl fmt::Debug for McpTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpTool").field("name", &self.spec.name).field("server", &self.session.server.name).finish()
    }
}

/// The name for the model: the prefix and the server's name, with an underscore for each character that is not allowed.
fn local_name(server: &McpServer, remote: &str) -> Result<String, String> {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let mapped = remote.chars().map(|letter| if allowed(letter) { letter } else { '_' });
    let name: String = server.wanted.prefix.chars().chain(mapped).collect();
    if remote.is_empty() {
        return Err("it has no name".to_owned());
    }
    if !server.wanted.prefix.chars().all(allowed) {
        return Err(format!("the prefix `{}` has characters other than a-z, A-Z, 0-9, _ and -", server.wanted.prefix));
    }
    if name.len() > MAX_NAME {
        return Err(format!("with its prefix, the name is longer than {MAX_NAME} characters"));
    }
    Ok(name)
}

/// The effect according to the server, which is only a hint: `McpServer::effect` overrides it.
fn hinted(listed: &Listed) -> Effect {
    match &listed.annotations {
        Some(hints) if hints.read_only_hint == Some(true) => Effect::ReadOnly,
        Some(hints) if hints.idempotent_hint == Some(true) => Effect::Idempotent,
        _ => Effect::Effect,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_allowed_is_mapped_or_refused() {
        let server = McpServer::http("http://x").prefix("a_");
        assert_eq!(local_name(&server, "files.read/all").unwrap(), "a_files_read_all");
        assert!(local_name(&server, "").is_err());
        assert!(local_name(&server, &"x".repeat(63)).is_err());
        assert_eq!(local_name(&server, &"x".repeat(62)).unwrap().len(), 64);
        assert!(local_name(&McpServer::http("http://x").prefix("a b"), "x").is_err());
    }
}
