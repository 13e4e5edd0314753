//! An agent runtime in which any run can be stopped at any moment, from anywhere, and nothing is lost.
//!
//! ```
//! use andon::{Agent, Cancel, Practice};
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
//! // The agent can be used again at once. Whoever wants only a finished answer asks for it.
//! let text = agent.run("Tell me a short one").await?.completed()?.text();
//! assert!(!text.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! [`coming_from`] has it in the words of rig, of Strands Agents and of ADK.
//!
//! Cancelled is an outcome, never an error: see [what a stop keeps](#what-a-stop-keeps-and-what-it-cannot-promise).
//!
//! This crate has no code of its own: depend on it, and on no other crate of Andon but `andon-testkit` in tests. Its root has the names
//! that most programs use, [`prelude`] those that nearly every file uses, and a module has whatever belongs to one subject:
//!
//! | Module | For |
//! |---|---|
//! | [`mod@agent`] | building agents, their sessions, and the errors of both |
//! | [`run`] | prompts, outcomes and receipts in full, and a person's approvals |
//! | [`feed`] | reading a run from any place |
//! | [`mod@tool`] | tools, what they are called with, what they return |
//! | [`hook`] | seeing and changing what happens in a run |
//! | [`model`] | a model of your own, layers around one, settings |
//! | [`journal`] | where runs are recorded, and what is on record |
//! | [`observe`] | being told everything that happens in a runtime |
//! | [`core`] | the rules, as plain values: messages, events, figures |
//!
//! Without features it is the runtime and the practice model. Each feature adds a module:
//!
//! | Feature | Adds |
//! |---|---|
//! | `models` | `andon::models`: Anthropic, OpenAI, Gemini, Ollama and who else speaks their formats |
//! | `bedrock` | Amazon Bedrock, in `andon::models` |
//! | `sqlite` | `andon::sqlite`: a journal on disk |
//! | `postgres` | `andon::postgres`: a journal on a PostgreSQL server |
//! | `tools` | `andon::tools`: processes that are stopped with their whole tree, a shell, files, HTTP |
//! | `mcp` | `andon::mcp`: the tools of MCP servers |
//! | `server` | `andon::server`: runs over HTTP, and the page |
//! | `adk` | `andon::adk`: ADK's dialect on that server |
//! | `telemetry` | `andon::telemetry`: figures, spans and logs of runs |
//! | `otlp` | spans to an OpenTelemetry collector, in `andon::telemetry` |
//! | `json-schema` | tools with any JSON schema, not only what is derived from Rust types |
//!
//! # What a stop keeps, and what it cannot promise
//!
//! A stop has taken effect when `cancel` returns: no piece of an answer is accepted any more, no tool starts, and no model is called, whatever
//! the run is waiting for. The run then comes to rest, and settles when its outcome is recorded. What is kept:
//!
//! - every word that was shown, marked as cut, and the results of tools that had finished;
//! - a conversation that every provider accepts: each tool call has one result, and the model is told next time what was stopped. The session
//!   takes the next prompt at once;
//! - a usage figure for each model call, with how it is known and within what bounds. Unknown is never 0;
//! - a receipt: who stopped it, why and when, where it was cut, what became of each tool call.
//!
//! The connection to the model is closed. A tool is told through its [`Cord`] and has its grace, two seconds unless it says otherwise, to end by
//! itself; then it is dropped. One that may have had an effect is [`Verdict::Unknown`], and nothing runs it again.
//!
//! What nobody can promise:
//!
//! - An effect that has happened is not undone: a parcel that was sent is sent. [`EffectId`](tool::EffectId) lets the other side make sure that
//!   it happens at most once, and a tool may have a compensation.
//! - A provider may bill a little past the cut.
//! - A thread that blocks cannot be killed. It is left alone, and named in the receipt as leaked.
//! - Nobody sees what another machine does after it was told to stop.
//! - The default journal is in memory, and ends with its process. With one on disk (the feature `sqlite`) a run survives `kill -9`, but for the
//!   last 50 ms of what was shown.

#[cfg(any(doc, doctest))]
pub mod coming_from;
#[cfg(doctest)]
mod wrong_programs;

#[cfg(feature = "adk")]
pub use andon_adk as adk;
#[cfg(feature = "models")]
pub use andon_models as models;
pub use andon_practice::{self as practice, Practice};
pub use andon_runtime::core;
pub use andon_runtime::{
    Agent, Cancel, Cord, Delta, Ending, Event, Feed, FeedItem, Force, Limits, Message, NotCompleted, OnDisconnect,
    Outcome, PendingApproval, Prompt, Reason, Receipt, Reply, ReplyKind, Run, RunId, RunState, Runtime, Session,
    SessionKey, ToolError, Usage, Verdict, WhenBusy, tool, tools,
};
/// A program that starts processes calls the first at the beginning of `main`, or names a helper program with the second.
pub use andon_runtime::{init, set_helper};
/// For a tool's arguments: `#[derive(serde::Deserialize, schemars::JsonSchema)]`. A program that has no dependency on `serde` and
/// `schemars` of its own says where they are: `#[serde(crate = "andon::serde")]`, `#[schemars(crate = "andon::schemars")]`.
pub use andon_runtime::{schemars, serde, serde_json};
#[cfg(feature = "server")]
pub use andon_server as server;
#[cfg(feature = "sqlite")]
pub use andon_store as sqlite;
#[cfg(feature = "telemetry")]
pub use andon_telemetry as telemetry;
#[cfg(feature = "tools")]
pub use andon_tools as tools;
#[cfg(feature = "mcp")]
pub use andon_tools::mcp;

/// A journal on a PostgreSQL server.
#[cfg(feature = "postgres")]
pub mod postgres {
    pub use andon_store::{PostgresError, PostgresJournal, PostgresOptions};
}

/// What nearly every file that uses Andon names: `use andon::prelude::*;`.
///
/// ```
/// use andon::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = Agent::builder().model(Practice::instant()).limits(Limits::new().turns(3)).build()?;
/// let text = agent.run("Tell me a short story").await?.completed()?.text();
/// # assert!(!text.is_empty());
/// # Ok(())
/// # }
/// ```
pub mod prelude {
    pub use crate::{
        Agent, Cancel, Cord, Event, FeedItem, Limits, Message, Outcome, Practice, Reason, Run, Runtime, Session,
        ToolError, tool, tools,
    };
}

/// Building agents, their sessions, and the errors of both.
pub mod agent {
    pub use andon_runtime::{
        Agent, AgentBuilder, AgentReply, BuildError, Retry, Runtime, RuntimeBuilder, Session, SessionError, SessionKey,
        SessionReply,
    };
}

/// Prompts, outcomes and receipts in full, and a person's approvals.
pub mod run {
    pub use andon_runtime::{
        ApprovalDecision, CallId, CompensateError, Compensated, Completed, DecideError, Ending, Failure, FailureKind,
        Fate, Figure, ModelStop, NotCompleted, Outcome, Pending, PendingApproval, Phase, Prompt, Provenance, Receipt,
        Recovered, Remains, Run, RunCounts, RunId, RunStanding, RunState, StartError, Undecided, Undo, Usage, Used,
        Verdict, WaitError, WhenBusy,
    };
}

/// Reading a run from any place: the past, then live.
pub mod feed {
    pub use andon_runtime::{Cursor, CursorError, Delta, Event, Feed, FeedFact, FeedItem, Kind, Record, Watcher};
}

/// Tools, what they are called with, what they return. The attribute and the function of this name are about the same thing.
pub mod tool {
    pub use andon_runtime::{
        AsJson, Content, DEFAULT_GRACE, Effect, EffectId, FnTool, Invocation, OnCancel, Progress, Returned,
        SessionState, StateError, Tool, ToolBuilder, ToolCall, ToolError, ToolOutput, ToolResult, ToolReturn, ToolSpec,
        Work, tool, tools,
    };
}

/// Seeing and changing what happens in a run: one type for what each moment has to show, and one for what may be decided there.
pub mod hook {
    pub use andon_runtime::{
        AfterModel, AfterRun, AfterTool, AnswerDecision, BeforeModel, BeforeRun, BeforeTool, CallDecision, EndDecision,
        HookReply, ImmediateReply, LaterReply, RequestDecision, ResultDecision, RunDecision,
    };
}

/// A model of your own, layers around one, and the settings of a call.
pub mod model {
    pub use andon_runtime::{
        Anchor, AnchorSetup, Answer, BoxFuture, FailedAnswer, Findings, FollowUp, Kind, Lesson, Message, Meter,
        MeteredCall, Model, ModelError, ModelErrorKind, ModelLayer, ModelRequest, ModelSettings, ModelStop, Part,
        Piece, Rendering, Retry, Role, Signature, StreamModel, Thinking, ToolCall, ToolChoice, ToolResult,
    };
}

/// Where runs are recorded, and what is on record. A journal of your own is tested by `andon_testkit::conformance`.
pub mod journal {
    pub use andon_runtime::{
        Append, AppendDone, Attachment, BadHistory, Batch, BatchStanding, CALIBRATION, Digest, History, HistoryBefore,
        HistoryFault, HistoryGatherer, IdError, ImportError, Imported, Journal, JournalError, JournalLayer,
        JournaledRun, LastReported, Lease, LeaseHolder, LookingBack, MemoryJournal, MemoryJournalBuilder, Record,
        RequestFate, RunFilter, RunInfo, Scope, SessionCopy, SessionFilter, SessionId, SessionInfo, Sessions, Shelf,
        StateChange, StateMap, title,
    };
}

/// Being told everything that happens in a runtime, once and in order.
pub mod observe {
    pub use andon_runtime::{Clock, Observer, Record, ShownAddendum, ShownFact, SystemClock};
}

/// What the code generated by `#[tool]` uses. Not for direct use.
#[doc(hidden)]
pub use andon_runtime::__private;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
