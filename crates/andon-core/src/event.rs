//! What happens to a run, in the past tense.
//!
//! Whatever begins, ends: each `…_started` has its `…_finished` on every path, `run_started` its `run_settled`, and
//! `approval_requested` its `approval_resolved`. So an observer of the feed (telemetry, a page) never has to guess.

mod accepted;
mod addendum;
mod call;
mod hook;
mod read;
mod record;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cancel::CancelRequest;
use crate::digest::Digest;
use crate::ending::{Ending, Failure, ModelStop};
use crate::id::CallId;
use crate::message::{Message, ToolResult};
use crate::time::Stamp;
use crate::usage::{Awaited, Used};

pub use crate::id::{Epoch, Seq};
pub use accepted::Accepted;
pub use addendum::{Addendum, AddendumKind};
pub use call::{Approval, Effect, Refusal, Remains, ToolEnd};
pub use hook::{HookChange, HookEnd, HookPoint};
pub use record::{Entry, Record};

/// New values of keys in a session's state. A key that was removed has the value null, too.
pub type Changes = Map<String, Value>;

/// A fact about a run: something that happened to it.
///
/// ```
/// use andon_core::event::Event;
/// use serde_json::json;
///
/// let event = Event::model_started(1, "practice");
/// assert_eq!(serde_json::to_value(&event)?, json!({"type": "model_started", "call": 1, "model": "practice"}));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Event {
    /// The run exists and waits for its session. Always the first event.
    RunAccepted {
        /// What the run is.
        accepted: Arc<Accepted>,
    },
    /// The run got its session, and its input is part of the conversation.
    RunStarted,
    /// A hook was called.
    HookStarted {
        /// Which.
        point: HookPoint,
    },
    /// A hook returned, or was abandoned.
    HookFinished {
        /// Which.
        point: HookPoint,
        /// How it ended.
        end: HookEnd,
        /// What it changed, if anything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<Box<HookChange>>,
        /// Why it failed the run, if it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<Arc<str>>,
    },
    /// A model call began.
    ModelStarted {
        /// Its number in the run, from 1; every attempt counts.
        call: u32,
        /// The model's name.
        model: Arc<str>,
        /// Whether a hook changed the request, so that it differs from the conversation.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_changed: bool,
    },
    /// The model's answer, whole or cut.
    Message {
        /// The answer.
        message: Arc<Message>,
    },
    /// What a model call used.
    Usage {
        /// The call's number.
        call: u32,
        /// The figures.
        used: Box<Used>,
        /// How a better figure is being looked for, if it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pending: Option<Awaited>,
        /// The exact model that answered, if the provider named it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answered_by: Option<Arc<str>>,
        /// The provider's id for the request, if it gave one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<Arc<str>>,
        /// Whether a layer around the model has changed the answer: the figures are then not those of the text on record.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        answer_changed: bool,
    },
    /// A model call is over and its connection closed.
    ModelFinished {
        /// The call's number.
        call: u32,
        /// How.
        end: ModelEnd,
        /// Microseconds from the call to its first piece, if one came.
        first_piece_us: Option<u64>,
    },
    /// A failed model call will be tried again after a delay.
    BackoffStarted {
        /// How long.
        delay_ms: u64,
    },
    /// The delay is over, or was cut short.
    BackoffFinished,
    /// A tool call needs a person's approval.
    ApprovalRequested {
        /// The call.
        call: CallId,
        /// What an approval is bound to: the digest of its arguments or, if a hook has given it another name, of the name, a zero byte
        /// and the arguments. `None` in records of older programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Digest>,
    },
    /// A person decided, or the stop closed the approval.
    ApprovalResolved {
        /// The call.
        call: CallId,
        /// The decision.
        verdict: Box<Approval>,
    },
    /// A tool is about to start. This is on record before the tool can have any effect. A pull right after it may still
    /// prevent the start, and then the call finishes as `never_started`.
    ToolStarted {
        /// The call.
        call: CallId,
        /// What kind of effect it can have.
        effect: Effect,
        /// The key under which its effect can be made to happen at most once, unless it is read-only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effect_id: Option<Arc<str>>,
    },
    /// A tool call is over.
    ToolFinished {
        /// The call.
        call: CallId,
        /// How.
        end: ToolEnd,
        /// Its one result.
        result: Arc<ToolResult>,
        /// What its cleanup found, if there is anything to report.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remains: Option<Box<Remains>>,
        /// What it changed in its session's state, if anything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<Box<Changes>>,
    },
    /// A tool call was closed without being started.
    ToolRefused {
        /// The call.
        call: CallId,
        /// Why.
        why: Refusal,
        /// Its one result.
        result: Arc<ToolResult>,
    },
    /// Somebody cancelled one call, not the run.
    CallCancelRequested {
        /// The call.
        call: CallId,
        /// The request.
        request: Arc<CancelRequest>,
    },
    /// Somebody pulled the cord.
    CancelRequested {
        /// The request.
        request: Arc<CancelRequest>,
        /// When the driver saw it.
        delivered_at: Stamp,
    },
    /// Nothing is accepted or started any more.
    RunQuieted,
    /// The grace of these calls is over, and they are stopped.
    GraceEnded {
        /// The calls.
        calls: Arc<[CallId]>,
    },
    /// The run is at rest forever. Always the last event.
    RunSettled {
        /// How it ended.
        outcome: Arc<Ending>,
    },
}

impl Event {
    /// The end of a hook that changed nothing.
    pub fn hook_finished(point: HookPoint, end: HookEnd) -> Self {
        Self::HookFinished { point, end, change: None, why: None }
    }

    /// The beginning of a model call with the agent's own request.
    pub fn model_started(call: u32, model: impl Into<Arc<str>>) -> Self {
        Self::ModelStarted { call, model: model.into(), is_changed: false }
    }

    /// What a model call used, if no better figure is expected and it is not known which model answered.
    pub fn usage(call: u32, used: Used) -> Self {
        Self::Usage {
            call,
            used: Box::new(used),
            pending: None,
            answered_by: None,
            request_id: None,
            answer_changed: false,
        }
    }

    /// Whether it is a cancel request, for the run or for one call.
    pub fn is_request(&self) -> bool {
        matches!(self, Self::CancelRequested { .. } | Self::CallCancelRequested { .. })
    }
}

// A run keeps its events in memory while it lives, and most are tiny: big payloads are behind a pointer.
const _: () = assert!(std::mem::size_of::<Event>() <= 64);

/// How a model call ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum ModelEnd {
    /// The model finished.
    Answered {
        /// Why it stopped writing.
        stop: ModelStop,
    },
    /// The stream was cut by a pull.
    Cut,
    /// It failed.
    Failed {
        /// What went wrong.
        failure: Box<Failure>,
    },
    /// The process that was reading it died.
    Lost,
}
