//! What happens to a run, as journaled facts in the past tense.
//!
//! Whatever begins, ends: each `…_started` has its `…_finished` on every path, `run_started` its `run_settled`, and
//! `approval_requested` its `approval_resolved`. So an observer of the feed (telemetry, a page) never has to guess.

mod read;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cancel::CancelRequest;
use crate::digest::Digest;
use crate::disconnect::OnDisconnect;
use crate::id::{CallId, RunId, SessionKey};
use crate::limits::Limits;
use crate::message::{Content, Message, Part, ToolResult};
use crate::outcome::{Ending, Failure, ModelStop};
use crate::time::Stamp;
use crate::usage::{Awaited, Used};

/// An event's place in its run's journal, from 1 without a gap.
pub type Seq = u64;

/// What keys of a session's state were made to hold; null also where one was removed.
pub type Changes = Map<String, Value>;

/// Who owns a run: a writer with an older epoch is refused.
pub type Epoch = u32;

/// A journaled event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The version of this form.
    #[serde(deserialize_with = "crate::known_version")]
    pub v: u16,
    /// Its place.
    pub seq: Seq,
    /// The writer's epoch.
    pub epoch: Epoch,
    /// When it was written.
    pub at: Stamp,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// A fact about a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Event {
    /// The run exists and waits for its session. Always the first event.
    RunAccepted {
        /// What it is.
        accepted: Arc<Accepted>,
    },
    /// The session is its own, and its input is part of the conversation.
    RunStarted,
    /// A hook was called.
    HookStarted {
        /// Which.
        point: HookPoint,
    },
    /// A hook returned, or was left.
    HookFinished {
        /// Which.
        point: HookPoint,
        /// What came of it.
        end: HookEnd,
    },
    /// The model is called.
    ModelStarted {
        /// Its number in the run, from 1; every attempt counts.
        call: u32,
        /// The model's name.
        model: Arc<str>,
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
        /// A better figure is on its way.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pending: Option<Awaited>,
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
    /// A failed call will be tried again after a while.
    BackoffStarted {
        /// How long.
        delay_ms: u64,
    },
    /// The while is over, or was ended.
    BackoffFinished,
    /// A person has to say yes.
    ApprovalRequested {
        /// To this call.
        call: CallId,
        /// With exactly these arguments; nothing in the records of older programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Digest>,
    },
    /// A person, or the stop, has decided.
    ApprovalResolved {
        /// The call.
        call: CallId,
        /// The decision.
        verdict: Box<Approval>,
    },
    /// A tool is about to be started: on record before it can have any effect. A pull right behind it may still keep it
    /// from running, and then it finishes as `never_started`.
    ToolStarted {
        /// The call.
        call: CallId,
        /// What kind of effect it can have.
        effect: Effect,
        /// The key under which its effect can be made to happen at most once, unless it only looks.
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
        /// What its cleanup found, if there is something to say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remains: Option<Box<Remains>>,
        /// What it has changed in its session's state, if anything.
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
    /// Somebody cancelled one call alone.
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
    /// The run is at rest for ever. Always the last event.
    RunSettled {
        /// How it ended.
        outcome: Arc<Ending>,
    },
}

impl Event {
    /// What a model call used, as far as it will be known.
    pub fn usage(call: u32, used: Used) -> Self {
        Self::Usage { call, used: Box::new(used), pending: None }
    }

    /// The word for what happened, as in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::RunAccepted { .. } => "run_accepted",
            Self::RunStarted => "run_started",
            Self::HookStarted { .. } => "hook_started",
            Self::HookFinished { .. } => "hook_finished",
            Self::ModelStarted { .. } => "model_started",
            Self::Message { .. } => "message",
            Self::Usage { .. } => "usage",
            Self::ModelFinished { .. } => "model_finished",
            Self::BackoffStarted { .. } => "backoff_started",
            Self::BackoffFinished => "backoff_finished",
            Self::ApprovalRequested { .. } => "approval_requested",
            Self::ApprovalResolved { .. } => "approval_resolved",
            Self::ToolStarted { .. } => "tool_started",
            Self::ToolFinished { .. } => "tool_finished",
            Self::ToolRefused { .. } => "tool_refused",
            Self::CallCancelRequested { .. } => "call_cancel_requested",
            Self::CancelRequested { .. } => "cancel_requested",
            Self::RunQuieted => "run_quieted",
            Self::GraceEnded { .. } => "grace_ended",
            Self::RunSettled { .. } => "run_settled",
        }
    }

    /// Whether it is the record of a cancel request.
    pub fn is_request(&self) -> bool {
        matches!(self, Self::CancelRequested { .. } | Self::CallCancelRequested { .. })
    }
}

// A run keeps its events in memory while it lives, and most are tiny: big payloads are behind a pointer.
const _: () = assert!(std::mem::size_of::<Event>() <= 64);

/// What a run is: who, where, and what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The run's id.
    pub run: RunId,
    /// The session that it belongs to.
    pub session: SessionKey,
    /// What was asked.
    pub input: Arc<Message>,
    /// What it may use.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// The digest of the request that asked for it, if its sender may repeat it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Digest>,
    /// What came with it for the session's state: changed in the same step in which it is on record that the run started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Box<Changes>>,
    /// What losing the last reader of its feed does to it.
    #[serde(default, skip_serializing_if = "OnDisconnect::is_continue")]
    pub on_disconnect: OnDisconnect,
    /// Whether a reader of its feed came with it, if it minds losing that one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_reader: bool,
}

impl Accepted {
    /// A run of which nothing else is said.
    pub fn new(run: RunId, session: SessionKey, input: Arc<Message>) -> Self {
        Self {
            run,
            session,
            input,
            limits: Limits::NONE,
            request: None,
            state: None,
            on_disconnect: OnDisconnect::Continue,
            has_reader: false,
        }
    }
}

/// Where a hook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookPoint {
    /// Before the first model call.
    BeforeRun,
    /// Before the run settles.
    AfterRun,
    /// Before a model call.
    BeforeModel,
    /// After a model call.
    AfterModel,
    /// Before a tool is started.
    BeforeTool,
    /// After a tool has finished.
    AfterTool,
}

impl HookPoint {
    /// The word for it, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BeforeRun => "before_run",
            Self::AfterRun => "after_run",
            Self::BeforeModel => "before_model",
            Self::AfterModel => "after_model",
            Self::BeforeTool => "before_tool",
            Self::AfterTool => "after_tool",
        }
    }
}

/// What came of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookEnd {
    /// It let the run go on.
    Continued,
    /// It denied the tool call.
    Denied,
    /// It cancelled the run.
    Cancelled,
    /// It panicked.
    Panicked,
    /// The run was stopped while it waited; it was dropped.
    Cut,
    /// The run was stopped while it waited, and it did not yield to be dropped.
    Leaked,
}

/// How a model call ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum ModelEnd {
    /// It came to its end.
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

/// A decision about a call that needs a yes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Approval {
    /// Yes.
    Approved {
        /// Who said so.
        by: Option<String>,
        /// To exactly these arguments; nothing in the records of older programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Digest>,
    },
    /// No.
    Denied {
        /// Who said so.
        by: Option<String>,
        /// Why, for the model.
        why: Option<String>,
    },
    /// The run was stopped before anybody decided.
    Closed,
}

/// What kind of effect a tool can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It only looks.
    ReadOnly,
    /// Doing it twice is doing it once.
    Idempotent,
    /// It changes the world.
    Effect,
}

/// How a started tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolEnd {
    /// It returned, well or with an error of its own.
    Finished,
    /// It panicked.
    Panicked,
    /// It was stopped, or stopped by itself because it was told.
    Cut,
    /// It was stopped or lost, and may have had its effect.
    Unknown,
    /// The pull came between its record and its start: it did not run.
    NeverStarted,
    /// It was stopped and was not seen to end: it may go on somewhere.
    Leaked,
    /// It is declared to outlive the run, and goes on.
    Detached,
}

/// What remains of a tool call once its cleanup is over.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Remains {
    /// What it had started and could not be stopped, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaked: Vec<String>,
    /// Why the call itself is leaked, if it was told to stop and not seen to end: it goes on elsewhere, or may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unended: Option<String>,
    /// What else is to be known of how it was stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What the call had to show for itself, if it was dropped before it could return it. It goes into the call's result.
    #[serde(skip)]
    pub output: Vec<Content>,
}

impl Remains {
    /// Nothing remains, and nothing is to be said.
    pub const NONE: Self = Self { leaked: Vec::new(), unended: None, notes: Vec::new(), output: Vec::new() };

    /// Whether there is nothing to say.
    pub fn is_none(&self) -> bool {
        self.leaked.is_empty() && self.unended.is_none() && self.notes.is_empty()
    }
}

/// Why a call was closed without being started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// There is no tool of that name.
    UnknownTool,
    /// The arguments are no JSON, or break the tool's schema.
    BadArguments,
    /// The model used one id for two calls.
    DuplicateId,
    /// A hook said no.
    DeniedByHook,
    /// A person said no.
    DeniedByPerson,
    /// The call was cancelled alone.
    CallCancelled,
    /// The run was stopped first.
    RunCancelled,
    /// The process died first.
    Lost,
}

/// What was learnt about a run after it had settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addendum {
    /// The version of this form.
    #[serde(deserialize_with = "crate::known_version")]
    pub v: u16,
    /// Its number among the run's addenda, from 1.
    pub number: u32,
    /// When it was learnt.
    pub at: Stamp,
    /// What it is.
    #[serde(flatten)]
    pub what: Learnt,
}

/// What an addendum says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Learnt {
    /// A leaked or detached tool ended after all. Its result is recorded and believed by nobody.
    LateResult {
        /// The call.
        call: CallId,
        /// What it returned.
        result: Arc<ToolResult>,
        /// What its cleanup found, if there is something to say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remains: Option<Box<Remains>>,
    },
    /// Somebody asked to undo what a call did; on record before anything is done about it.
    CompensationStarted {
        /// The call.
        call: CallId,
        /// Who asked.
        by: Option<Arc<str>>,
    },
    /// The compensation is over.
    CompensationFinished {
        /// The call.
        call: CallId,
        /// How: `finished`, `panicked`, or `unknown` if its time was over first.
        end: ToolEnd,
        /// What it returned.
        result: Arc<ToolResult>,
    },
    /// The model went on behind the cut. Nobody was shown this, and it is no part of the conversation.
    Undelivered {
        /// The model call's number.
        call: u32,
        /// What it wrote.
        parts: Vec<Part>,
    },
    /// The last word on what a model call used; the same figures if nothing better was found.
    UsageCorrected {
        /// The call's number.
        call: u32,
        /// The figures.
        used: Box<Used>,
    },
}

/// What a journal holds of a run, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// An event.
    Fact(Arc<Record>),
    /// A part of an answer that streams.
    Lump(Arc<crate::answer::Lump>),
}

impl Entry {
    /// The event, if it is one.
    pub fn fact(&self) -> Option<&Arc<Record>> {
        match self {
            Self::Fact(record) => Some(record),
            Self::Lump(_) => None,
        }
    }
}
