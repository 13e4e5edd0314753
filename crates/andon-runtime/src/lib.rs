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
mod aside;
mod blocking;
mod clock;
mod compensate;
mod cord;
mod door;
mod driver;
mod export;
mod feed;
mod flusher;
mod hook;
mod journal;
mod learner;
mod limits;
mod live;
mod log;
mod memory;
mod mender;
mod metering;
mod model;
mod observe;
mod orphan;
mod presence;
mod probe;
mod prompt;
mod recovery;
mod registry;
mod rendering;
mod resume;
mod run;
mod runtime;
mod session;
mod sessions;
mod shelf;
mod sync;
#[cfg(all(test, feature = "shuttle"))]
mod threads;
mod tool;
mod warm;

pub use agent::{Agent, AgentBuilder, BuildError};
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
pub use clock::{Clock, SystemClock, TestClock};
pub use compensate::{CompensateError, Compensated};
pub use cord::{Cancel, Cord, Reply};
pub use export::{ImportError, Imported};
pub use feed::{Cursor, CursorError, Delta, Feed, FeedFact, FeedItem};
pub use hook::{Decision, Moment, What};
pub use journal::{Append, AppendDone, Batch, Earlier, Gathering, Journal, JournalError, Requested, Standing, Stored};
pub use limits::Retry;
pub use live::DecideError;
pub use memory::MemoryJournal;
pub use model::{
    Afterwards, Anchor, Answer, Learned, Lesson, Meter, Model, ModelError, ModelErrorKind, Request, Sighting,
};
pub use observe::{Observer, Seen, SeenLater};
pub use presence::Watcher;
pub use probe::{Passed, Probe};
pub use prompt::{Prompt, StartError};
pub use recovery::{Fate, Recovered};
pub use registry::Tally;
pub use rendering::Rendering;
pub use run::{AgentReply, Run};
pub use runtime::{Runtime, RuntimeBuilder};
pub use session::WhenBusy;
pub use sessions::{
    Kept, Moved, RunFilter, RunInfo, Scope, SessionFilter, SessionInfo, Sessions, StateChange, StateMap, title,
};
pub use shelf::{CALIBRATION, Shelf};
pub use tool::{
    BoxFuture, DEFAULT_GRACE, EffectId, FnTool, Invocation, Json, OnCancel, Progress, Returned, SessionState,
    StateError, Tool, ToolError, ToolOutput, ToolSpec, Undo, Work, tool,
};

/// What the code that `#[tool]` writes stands on. Not for anybody else.
#[doc(hidden)]
pub use tool::macro_support as __private;
