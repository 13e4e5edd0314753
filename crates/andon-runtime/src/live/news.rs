//! What reaches the driver of a run from outside.

use std::sync::Arc;

use andon_core::cancel::CancelRequest;
use andon_core::event::{Approval, Remains};
use andon_core::id::CallId;

use crate::journal::JournalError;
use crate::live::cord::Cancel;
use crate::tool::Returned;

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
    HookEnded(u32, AsideEnd<Decision>),
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

/// What a hook decides.
#[derive(Debug, Clone)]
pub enum Decision {
    /// Go on.
    Continue,
    /// Do not start this tool; the model is told why. Only for hooks before a tool; elsewhere it means `Continue`.
    Deny(String),
    /// Cancel the run.
    Cancel(Cancel),
}
