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
//! The server is told, in the way that was negotiated, with the reason and the note of whoever asked: by
//! `notifications/cancelled`, by closing the response stream (2026-07-28 over HTTP), or by `tasks/cancel` for a call that
//! came back as a task. Told is not ended: by the protocol a cancelled request is not answered, so a server that heeds is as
//! silent as one that does not. The call is over when that is proven:
//!
//! - The server answers all the same, or says that the task is over. Such an answer is kept.
//! - The server is a program that was started here, and no other call uses it: it is ended with its whole process tree, and
//!   started again when it is next needed. What it kept in memory is lost. It has half a second to end by itself; with force
//!   `now` it has none.
//!
//! Of any other server the call is named in the receipt as leaked: told, not seen to end. That spends no grace. If other calls
//! use a program it goes on, and ends with the last of them, unless what was leaked has been answered by then.
//!
//! An answer that comes later is thrown away, and never taken for the answer to another call. What a server has done before
//! it heard is done: a stop does not undo it.
//!
//! # What a bad server costs
//!
//! A server that hangs costs its call's grace, and is then replaced: the next call gets a new process or session. One that
//! dies fails the calls it had, and the next call starts it again, bounded by
//! [`connect_timeout`](McpServer::connect_timeout). A call that is stopped meanwhile waits no longer; the start goes on for the
//! next one. Progress without end, requests
//! without end, lines that are no messages, lists of tools without end and messages over 16 MiB are bounded, and the error
//! says what was wrong.
//!
//! # Where a connection lives
//!
//! Connections to programs and over HTTP live on one thread of their own for the whole process, and not in the runtime of
//! whoever made them; a program and its whole process tree end when the last handle is dropped. A connection over a
//! [`stream`](McpServer::stream) lives in the runtime that made it, so that one paused clock rules all.
//!
//! # What is not done
//!
//! Servers may ask for a person's input, a model's answer or a list of folders. None of this is advertised, and it is
//! declined. Resources and prompts are not offered to the model. The experimental tasks of 2025-11-25 are not asked for.

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
