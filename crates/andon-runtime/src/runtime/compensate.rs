//! Undoing what a call did, when somebody asks for it.
//!
//! The run has settled, so nothing of it changes: that a compensation was begun and what came of it are addenda. It has a
//! time of its own, outside what was cancelled, and is on record before it does anything.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use andon_core::closing::stopped_result;
use andon_core::event::{Event, Learnt, ToolEnd};
use andon_core::id::{CallId, RunId};
use andon_core::message::{ResultStatus, ToolCall, ToolResult};
use andon_core::receipt::{CallAccount, Compensation, Receipt, Verdict};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::agent::AgentCore;
use crate::agent::{Tool, Undo};
use crate::driver::aside::panic_text;
use crate::journal::JournalError;
use crate::lanes::BoxFuture;
use crate::live::{Live, REAP};
use crate::tool::{Returned, bounded};

/// What came of a compensation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compensated {
    /// `finished`, `panicked`, or `unknown` if its time was over first.
    pub end: ToolEnd,
    /// What it returned.
    pub result: Arc<ToolResult>,
}

impl Compensated {
    /// Whether it did what it was asked.
    pub fn is_done(&self) -> bool {
        self.end == ToolEnd::Finished && self.result.status == ResultStatus::Ok
    }
}

/// Why a call was not compensated. Nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompensateError {
    /// The run goes on.
    #[error("the run has not settled: wait for its outcome first")]
    NotSettled,
    /// The run made no such call.
    #[error("the run made no call {0}: its receipt lists those that it made")]
    NoSuchCall(CallId),
    /// It did not run.
    #[error("call {0} did not run: there is nothing to undo")]
    NeverStarted(CallId),
    /// It goes on.
    #[error("call {0} goes on: what it does cannot be undone before it has ended")]
    StillRunning(CallId),
    /// The agent has no such tool, or the tool has no compensation.
    #[error("the tool {0:?} of this agent has no compensation: give it one, or undo what it did by hand")]
    NoCompensation(String),
    /// Another one is at it.
    #[error("call {0} is being compensated: wait for that to end")]
    InProgress(CallId),
    /// It was done before.
    #[error("call {0} was compensated before")]
    Done(CallId),
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// No thread could be had for it, or the tokio runtime that it ran on was shut down.
    #[error("the compensation of call {0} was begun, and its end is not known")]
    Lost(CallId),
}

/// Undoes what a call of a settled run did.
pub(crate) async fn compensate(
    agent: &AgentCore,
    live: &Arc<Live>,
    call: &CallId,
    by: Option<Arc<str>>,
) -> Result<Compensated, CompensateError> {
    // Nobody else is at it from here on: what is on record now stays true.
    let at_it = AtIt::begin(live, call)?;
    let receipt = receipt_on_record(live).await?.filter(|receipt| receipt.outcome.is_some());
    let receipt = receipt.ok_or(CompensateError::NotSettled)?;
    let ended_late = |learnt: &Learnt| matches!(learnt, Learnt::LateResult { call: late, .. } if late == call);
    let is_late = receipt.addenda.iter().any(|addendum| ended_late(&addendum.what));
    let account = receipt.calls.iter().find(|account| account.call == *call);
    let account = account.ok_or_else(|| CompensateError::NoSuchCall(call.clone()))?;
    may_be_undone(account, is_late)?;
    let (tool, budget) = tool_for(agent, account)?;
    let (asked, result) = call_and_result(live, call).ok_or_else(|| CompensateError::NoSuchCall(call.clone()))?;
    let undo = Undo {
        tool: asked.name.clone(),
        call: call.clone(),
        run: live.id.clone(),
        session: live.session.clone(),
        input: asked.input().unwrap_or(Value::Null),
        verdict: account.verdict,
        result,
    };
    let (tell, told) = oneshot::channel();
    // A task of its own: who asked may go away, and what was begun comes to its end all the same.
    live.services.door.spawn_keeper(async move {
        let compensated = match at_it.on_record(by).await {
            Ok(()) => at_it.undo(budget, tool, undo).await,
            Err(error) => Err(error.into()),
        };
        // Nobody may be there to hear it any more.
        let _ = tell.send(compensated);
    });
    told.await.map_err(|_| CompensateError::Lost(call.clone()))?
}

/// The account of a run with all that was learnt of it, by whatever handle.
async fn receipt_on_record(live: &Live) -> Result<Option<Receipt>, JournalError> {
    let stored = live.services.journal.read(&live.id).await?;
    live.catch_up(stored.map(|stored| stored.addenda).unwrap_or_default());
    Ok(live.receipt())
}

fn may_be_undone(account: &CallAccount, is_late: bool) -> Result<(), CompensateError> {
    let call = || account.call.clone();
    match account.verdict {
        Verdict::NeverStarted => return Err(CompensateError::NeverStarted(call())),
        Verdict::Leaked => return Err(CompensateError::StillRunning(call())),
        Verdict::Detached if !is_late => return Err(CompensateError::StillRunning(call())),
        Verdict::Finished | Verdict::Cut | Verdict::Unknown | Verdict::Late | Verdict::Detached => {}
    }
    match account.compensation {
        Some(Compensation::Done) => Err(CompensateError::Done(call())),
        // It failed, or nobody knows: whoever asks again knows that, too.
        Some(Compensation::Failed | Compensation::Unknown | Compensation::Started) | None => Ok(()),
    }
}

fn tool_for(agent: &AgentCore, account: &CallAccount) -> Result<(Arc<dyn Tool>, Duration), CompensateError> {
    let armoured = agent.tools.iter().find(|armoured| armoured.tool.spec().name == account.tool);
    let tool = armoured.map(|armoured| Arc::clone(&armoured.tool));
    let with_budget = tool.and_then(|tool| tool.spec().compensation.map(|budget| (Arc::clone(&tool), budget)));
    with_budget.ok_or_else(|| CompensateError::NoCompensation(account.tool.clone()))
}

/// What the model asked for, and what it was told.
fn call_and_result(live: &Live, id: &CallId) -> Option<(ToolCall, Arc<ToolResult>)> {
    live.with_log(|log| {
        let asked = log.facts().iter().find_map(|record| match &record.event {
            Event::Message { message } => message.calls().find(|call| call.id == *id).cloned(),
            _ => None,
        });
        let result = log.facts().iter().find_map(|record| match &record.event {
            Event::ToolFinished { call, result, .. } if call == id => Some(Arc::clone(result)),
            _ => None,
        });
        asked.zip(result)
    })
}

/// Runs the compensation, and no longer than it may take.
async fn undo_within(budget: Duration, tool: Arc<dyn Tool>, undo: Undo) -> Compensated {
    let (call, max) = (undo.call.clone(), tool.spec().max_output);
    let mut undoing: Option<BoxFuture<Returned>> = None;
    let mut undo = Some(undo);
    let returned = timeout(
        budget,
        poll_fn(|cx| {
            let polled = catch_unwind(AssertUnwindSafe(|| {
                if let Some(undo) = undo.take() {
                    undoing = Some(tool.compensate(undo));
                }
                undoing.as_mut().map_or(Poll::Pending, |undoing| undoing.as_mut().poll(cx))
            }));
            match polled {
                Ok(poll) => poll.map(Ok),
                Err(panic) => Poll::Ready(Err(panic_text(&*panic))),
            }
        }),
    )
    .await;
    // What it leaves when it is dropped is its own affair, and so is a panic in it.
    let _ = catch_unwind(AssertUnwindSafe(move || drop(undoing)));
    let (end, result) = match returned {
        Err(_) => return unknown(call),
        Ok(Err(panic)) => {
            (ToolEnd::Panicked, ToolResult::text(call, ResultStatus::Error, format!("It crashed: {panic}")))
        }
        Ok(Ok(returned)) => match bounded(returned, max) {
            Ok(output) => (ToolEnd::Finished, ToolResult { call, status: ResultStatus::Ok, content: output.0 }),
            Err(error) => (ToolEnd::Finished, ToolResult::text(call, ResultStatus::Error, error.0)),
        },
    };
    Compensated { end, result: Arc::new(result) }
}

/// Nobody knows how far it came.
fn unknown(call: CallId) -> Compensated {
    let result = stopped_result(call, ToolEnd::Unknown, Vec::new());
    Compensated { end: ToolEnd::Unknown, result: Arc::new(result) }
}

/// Keeps a second one from beginning while the first is at it.
struct AtIt {
    live: Arc<Live>,
    key: (RunId, CallId),
}

impl AtIt {
    fn begin(live: &Arc<Live>, call: &CallId) -> Result<Self, CompensateError> {
        let key = (live.id.clone(), call.clone());
        if !live.services.compensating.lock().insert(key.clone()) {
            return Err(CompensateError::InProgress(call.clone()));
        }
        Ok(Self { live: Arc::clone(live), key })
    }

    async fn on_record(&self, by: Option<Arc<str>>) -> Result<(), JournalError> {
        self.live.learn_on_record(Learnt::CompensationStarted { call: self.key.1.clone(), by }).await
    }

    /// Runs the compensation where tools run, and waits no longer than it may take: one that blocks is not waited for.
    async fn undo(self, budget: Duration, tool: Arc<dyn Tool>, undo: Undo) -> Result<Compensated, CompensateError> {
        let call = undo.call.clone();
        let (tell, told) = oneshot::channel();
        self.live.services.door.spawn_aside(async move {
            // Nobody waits any more for one that took too long.
            let _ = tell.send(undo_within(budget, tool, undo).await);
        });
        let compensated = match timeout(budget + REAP, told).await {
            Ok(Ok(compensated)) => compensated,
            Ok(Err(_)) | Err(_) => unknown(call),
        };
        self.finish(compensated).await
    }

    async fn finish(self, compensated: Compensated) -> Result<Compensated, CompensateError> {
        let Compensated { end, result } = compensated.clone();
        self.live.learn(Learnt::CompensationFinished { call: self.key.1.clone(), end, result }).await?;
        Ok(compensated)
    }
}

impl Drop for AtIt {
    fn drop(&mut self) {
        self.live.services.compensating.lock().remove(&self.key);
    }
}
