//! Hooks: a program's own code before and after a run, a model call and a tool call.

use std::future::Future;
use std::sync::Arc;

use andon_core::event::HookPoint;
use andon_core::id::{RunId, SessionKey};
use andon_core::message::{Message, ToolCall, ToolResult};
use andon_core::outcome::Ending;

use crate::lanes::BoxFuture;
use crate::live::Decision;
use crate::live::cord::Cord;

/// What a hook is called with.
#[derive(Debug, Clone)]
pub struct Moment {
    /// The run.
    pub run: RunId,
    /// Its session.
    pub session: SessionKey,
    /// The run's cord: a hook may watch it or pull it.
    pub cord: Cord,
    /// What is about to happen, or has happened.
    pub what: What,
}

/// What is about to happen, or has happened.
#[derive(Debug, Clone)]
pub enum What {
    /// The run begins with this input.
    BeforeRun {
        /// The prompt.
        input: Arc<Message>,
    },
    /// The run is about to end.
    AfterRun {
        /// How it will end.
        ending: Arc<Ending>,
    },
    /// The model is about to be called.
    BeforeModel,
    /// The model has answered.
    AfterModel {
        /// The answer.
        message: Arc<Message>,
    },
    /// A tool is about to be started.
    BeforeTool {
        /// The call.
        call: ToolCall,
    },
    /// A tool has finished.
    AfterTool {
        /// The result.
        result: Arc<ToolResult>,
    },
}

impl What {
    pub(crate) fn point(&self) -> HookPoint {
        match self {
            Self::BeforeRun { .. } => HookPoint::BeforeRun,
            Self::AfterRun { .. } => HookPoint::AfterRun,
            Self::BeforeModel => HookPoint::BeforeModel,
            Self::AfterModel { .. } => HookPoint::AfterModel,
            Self::BeforeTool { .. } => HookPoint::BeforeTool,
            Self::AfterTool { .. } => HookPoint::AfterTool,
        }
    }
}

type HookFn = dyn Fn(Moment) -> BoxFuture<Decision> + Send + Sync;

/// One hook: when it is called, and its code.
#[derive(Clone)]
pub(crate) struct Hook {
    pub(crate) point: HookPoint,
    pub(crate) call: Arc<HookFn>,
}

impl Hook {
    pub(crate) fn new<F, R>(point: HookPoint, call: F) -> Self
    where
        F: Fn(Moment) -> R + Send + Sync + 'static,
        R: Future<Output = Decision> + Send + 'static,
    {
        Self { point, call: Arc::new(move |moment| Box::pin(call(moment))) }
    }
}
