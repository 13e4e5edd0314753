//! An agent runtime in which any run can be stopped at any moment, from anywhere, and nothing is lost.
//!
//! ```
//! use andon_practice::Practice;
//! use andon_runtime::{Agent, Cancel};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let agent = Agent::builder().model(Practice::instant()).build()?;
//!
//! let run = agent.start("Tell me a long story")?;              // a handle: id, feed, cancel, outcome
//! let reply = run.cancel(Cancel::graceful().note("stop button")); // any thread, never blocks, cannot fail
//! let outcome = run.outcome().await;
//! assert_eq!(outcome.stop_reason(), "cancelled");
//! assert!(reply.is_stopping());
//!
//! let outcome = agent.run("And now a short one").await?;       // the agent can be used again at once
//! assert_eq!(outcome.stop_reason(), "end_turn");
//! # Ok(())
//! # }
//! ```
//!
//! Cancelled is an outcome, never an error. What a stop keeps, and what it cannot promise, is in `docs/stopping.md`.

mod agent;
mod driver;
mod journal;
mod lanes;
mod live;
mod model;
mod recovery;
mod runtime;
mod session;
#[cfg(all(test, feature = "shuttle"))]
mod threads;
mod tool;

pub use agent::BuildError;
pub use agent::hook::{Moment, What};
pub use agent::{EffectId, FnTool, Invocation, Progress, SessionState, StateError, Tool, Undo, tool};
pub use andon_core as core;
pub use andon_core::answer::{Kind, Piece};
pub use andon_core::cancel::{Force, Reason, ReplyKind};
pub use andon_core::digest::Digest;
pub use andon_core::disconnect::OnDisconnect;
pub use andon_core::event::{Effect, Event, Record, Remains};
pub use andon_core::history::History;
pub use andon_core::id::{CallId, IdError, RunId, SessionId, SessionKey};
pub use andon_core::limits::Limits;
pub use andon_core::message::{Content, Message, Part, Role, Signature, ToolCall, ToolResult};
pub use andon_core::outcome::{Ending, Failure, FailureKind, ModelStop, Outcome};
pub use andon_core::progress::{Phase, State};
pub use andon_core::receipt::{Receipt, Verdict};
pub use andon_core::standing::RunStanding;
pub use andon_core::usage::{Figure, Pending, Provenance, Usage, Used};
pub use andon_shim::{init, set_helper};
pub use journal::export::ImportError;
pub use journal::memory::MemoryJournal;
pub use journal::sessions::{
    Kept, Moved, RunFilter, RunInfo, Scope, SessionFilter, SessionInfo, Sessions, StateChange, StateMap, title,
};
pub use journal::shelf::{CALIBRATION, Shelf};
pub use journal::{Append, AppendDone, Batch, Earlier, Gathering, Journal, JournalError, Requested, Standing, Stored};
pub use lanes::BoxFuture;
pub use lanes::clock::{Clock, SystemClock, TestClock};
pub use lanes::probe::{Passed, Probe};
pub use live::DecideError;
pub use live::Decision;
pub use live::cord::{Cancel, Cord, Reply};
pub use live::feed::{Cursor, CursorError, Delta, Feed, FeedFact, FeedItem};
pub use live::observe::{Observer, Seen, SeenLater};
pub use live::presence::Watcher;
pub use live::run::Run;
pub use model::rendering::Rendering;
pub use model::retry::Retry;
pub use model::{
    Afterwards, Anchor, Answer, Learned, Lesson, Meter, Model, ModelError, ModelErrorKind, Request, Sighting,
};
pub use recovery::{Fate, Recovered};
pub use runtime::agent::{Agent, AgentBuilder, AgentReply};
pub use runtime::compensate::{CompensateError, Compensated};
pub use runtime::prompt::{Prompt, StartError};
pub use runtime::sessions::Imported;
pub use runtime::{Runtime, RuntimeBuilder};
pub use session::WhenBusy;
pub use session::registry::Tally;
pub use tool::{DEFAULT_GRACE, Json, OnCancel, Returned, ToolError, ToolOutput, ToolSpec, Work};

/// What the code that `#[tool]` writes stands on. Not for anybody else.
#[doc(hidden)]
pub use agent::macro_support as __private;
