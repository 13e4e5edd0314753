//! Tools of MCP servers, over standard input and output or streamable HTTP.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use andon_runtime::Agent;
//! use andon_tools::mcp::McpServer;
//!
//! let search = McpServer::http("https://example.org/mcp")
//!     .header("Authorization", "Bearer ...")
//!     .timeout(Duration::from_secs(60))
//!     .connect()
//!     .await?;
//! let agent = Agent::builder().tools(search.tools()).build()?;
//! # Ok(()) }
//! ```
//!
//! # What a stop does
//!
//! The server is told in the way that was negotiated, with the reason and the note of whoever asked: by
//! `notifications/cancelled`, by closing the response stream (2026-07-28 over HTTP), or by `tasks/cancel` for a call that
//! came back as a task. Told is not ended: by the protocol a cancelled request is not answered, so a server that obeys is as
//! silent as one that does not. The call has ended when there is proof:
//!
//! - The server answers anyway, or says that the task has ended. Such an answer is kept.
//! - The server is a program that we started, and no other call uses it: it is ended with its whole process tree, and
//!   started again when it is next needed. What it had in memory is lost. It has half a second to end by itself; with force
//!   `now` it has none.
//!
//! With any other server, the receipt names the call as leaked: the server was told, but the end was not seen. That spends no
//! grace. A program that other calls use goes on, and ends with the last of them, unless the leaked call is answered before that.
//!
//! An answer that comes later is dropped, and never mistaken for the answer to another call. A stop does not undo what a server
//! had already done.
//!
//! # What a bad server costs
//!
//! A server that hangs costs its call's grace, and is then replaced: the next call gets a new process or session. If a server
//! dies, its calls fail, and the next call starts it again, bounded by [`connect_timeout`](McpServer::connect_timeout). A call
//! that is stopped during that does not wait; the start goes on for the next one. Endless progress, requests and lists of tools,
//! lines that are not messages, and messages over 16 MiB are bounded, and the error says what was wrong.
//!
//! # Where a connection lives
//!
//! Connections to programs and over HTTP live on one separate thread for the whole process, and not in the caller's runtime; a
//! program and its whole process tree end when the last handle is dropped. A connection over a [`stream`](McpServer::stream)
//! lives in the caller's runtime, so that tests can pause its clock.
//!
//! # What is not done
//!
//! Servers may ask for a person's input, a model's answer or a list of folders. None of this is advertised, and all of it is
//! declined. Resources and prompts are not offered to the model. The experimental tasks of 2025-11-25 are not used.

mod call;
mod child;
mod connection;
mod content;
mod error;
mod home;
mod http;
mod in_progress;
mod lines;
mod server;
mod session;
mod stop;
mod task;
mod tool;
mod toolset;
mod wire;

pub use error::McpError;
pub use server::{McpProtocol, McpServer};
pub use tool::McpTool;
pub use toolset::McpToolset;
