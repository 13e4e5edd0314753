//! Hooks: a program's own code before and after a run, a model call and a tool call.
//!
//! A hook is foreign code: it runs beside the driver like a tool, may take its time, hang or panic, and is left at once when the
//! cord is pulled. Its decision is recorded with its end, in one event, before anything follows from it.

mod decisions;
mod moments;

use std::future::{Future, ready};
use std::sync::Arc;

use andon_core::event::HookPoint;

use crate::lanes::BoxFuture;
use crate::live::HookVerdict;

pub use decisions::{AnswerDecision, CallDecision, EndDecision, RequestDecision, ResultDecision, RunDecision};
pub use moments::{AfterModel, AfterRun, AfterTool, BeforeModel, BeforeRun, BeforeTool};

/// What a hook may return: a decision of its moment, nothing, which means that the run goes on, or a future of either.
///
/// `Kind` says which of these it is, and is always inferred.
#[diagnostic::on_unimplemented(
    message = "this hook cannot return `{Self}`",
    note = "return nothing, or a `{Decision}`, or a future of either"
)]
pub trait HookReply<Decision, Kind>: Send + 'static {
    /// The decision, once it is made.
    fn into_decision(self) -> BoxFuture<Decision>;
}

/// A hook that returns a future.
#[derive(Debug)]
pub struct LaterReply;

/// A hook that returns a decision, or nothing.
#[derive(Debug)]
pub struct ImmediateReply;

impl<D: 'static, F> HookReply<D, LaterReply> for F
where
    F: Future + Send + 'static,
    F::Output: Into<D>,
{
    fn into_decision(self) -> BoxFuture<D> {
        Box::pin(async move { self.await.into() })
    }
}

impl<D: From<()> + Send + 'static> HookReply<D, ImmediateReply> for () {
    fn into_decision(self) -> BoxFuture<D> {
        Box::pin(ready(D::from(())))
    }
}

type HookFn<M> = dyn Fn(M) -> BoxFuture<HookVerdict> + Send + Sync;

/// One hook's code, whatever it returns.
pub(crate) type Hook<M> = Arc<HookFn<M>>;

/// An agent's hooks, those of each moment in the order in which they were added.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) before_run: Vec<Hook<BeforeRun>>,
    pub(crate) after_run: Vec<Hook<AfterRun>>,
    pub(crate) before_model: Vec<Hook<BeforeModel>>,
    pub(crate) after_model: Vec<Hook<AfterModel>>,
    pub(crate) before_tool: Vec<Hook<BeforeTool>>,
    pub(crate) after_tool: Vec<Hook<AfterTool>>,
}

impl Hooks {
    /// Whether there is a hook at this point.
    pub(crate) fn has(&self, point: HookPoint) -> bool {
        let is_empty = match point {
            HookPoint::BeforeRun => self.before_run.is_empty(),
            HookPoint::AfterRun => self.after_run.is_empty(),
            HookPoint::BeforeModel => self.before_model.is_empty(),
            HookPoint::AfterModel => self.after_model.is_empty(),
            HookPoint::BeforeTool => self.before_tool.is_empty(),
            HookPoint::AfterTool => self.after_tool.is_empty(),
            #[cfg(not(andon_whole))]
            _ => true,
        };
        !is_empty
    }
}

/// A hook from its function.
pub(crate) fn hook<M, D, R, K>(call: impl Fn(M) -> R + Send + Sync + 'static) -> Hook<M>
where
    M: 'static,
    D: Into<HookVerdict> + 'static,
    R: HookReply<D, K>,
{
    Arc::new(move |moment| {
        let reply = call(moment).into_decision();
        Box::pin(async move { reply.await.into() })
    })
}
