//! Why a server's tools cannot be used.

use std::time::Duration;

/// Why a server's tools cannot be used. No message contains a header, an argument or an environment variable.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum McpError {
    /// Its program could not be started.
    #[error("the MCP server `{server}` could not be started: {why}")]
    Start {
        /// The server's name.
        server: String,
        /// The system's error.
        why: String,
    },
    /// It was reached, but the handshake or the list of its tools failed.
    #[error("the MCP server `{server}` cannot be used: {why}")]
    Unusable {
        /// The server's name.
        server: String,
        /// What was wrong.
        why: String,
    },
    /// It took too long.
    #[error("the MCP server `{server}` was not ready within {within:?}{why}")]
    TimedOut {
        /// The server's name.
        server: String,
        /// The time it had.
        within: Duration,
        /// What it did instead, if that is known; begins with a comma.
        why: String,
    },
    /// A tool that was asked for by name cannot be used.
    #[error("the tool `{tool}` of the MCP server `{server}` cannot be used: {why}")]
    Name {
        /// The server's name.
        server: String,
        /// The name that was asked for.
        tool: String,
        /// What is wrong with it, and which tools there are.
        why: String,
    },
    /// The toolset was closed.
    #[error("the MCP server `{server}` was closed")]
    Closed {
        /// The server's name.
        server: String,
    },
}
