//! What reaches the driver of a run from outside.

use std::sync::Arc;

use andon_core::cancel::CancelRequest;
use andon_core::event::{Approval, Remains};
use andon_core::id::CallId;
use andon_core::message::Message;
use serde_json::Value;

use crate::journal::JournalError;
use crate::live::cord::Cancel;
use crate::model::ModelRequest;
use crate::tool::{Returned, ToolOutput};

/// What reaches the driver from outside.
pub(crate) enum News {
    /// The cord was pulled, or pulled harder.
    Pulled(Arc<CancelRequest>),
    /// One call was cancelled alone.
    CallPulled(CallId, Arc<CancelRequest>),
    /// A person decided.
    Decided(CallId, Approval),
    /// A tool's task has ended.
    ToolEnded(u32, Box<ToolDone>),
    /// A hook's task has ended.
    HookEnded(u32, AsideEnd<HookVerdict>),
    /// The run has its session's seat.
    Seated,
    /// Streamed text could not be journaled.
    JournalFailed(JournalError),
}

/// How work beside the driver ended.
#[derive(Debug)]
pub(crate) enum AsideEnd<T> {
    Returned(T),
    Panicked(String),
    /// It was told to stop, had its grace, and was dropped.
    Dropped,
    /// It was told to stop, had its grace, and is still running on its thread.
    Abandoned,
    /// The gate was closed before it began.
    NeverStarted,
}

/// The end of a tool's work, and what its cleanup found.
#[derive(Debug)]
pub(crate) struct ToolDone {
    pub(crate) end: AsideEnd<Returned>,
    pub(crate) remains: Remains,
}

/// What a hook decided, whichever its moment.
#[derive(Debug)]
pub(crate) enum HookVerdict {
    GoOn,
    Change(Changed),
    /// Only before a tool.
    Deny(String),
    /// Only before a tool.
    Answer(ToolOutput),
    /// Only before a tool.
    Ask,
    Cancel(Cancel),
    Fail(String),
}

/// What a hook wants changed. Nothing of it has been checked.
#[derive(Debug)]
pub(crate) enum Changed {
    Input(Message),
    Request(Box<ModelRequest>),
    AnswerText(String),
    Withdrawn(String),
    /// The name stays if there is none.
    Call {
        name: Option<String>,
        arguments: Value,
    },
    Result(ToolOutput),
}
