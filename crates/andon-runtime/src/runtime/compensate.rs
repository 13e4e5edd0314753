//! Undoes what a call did, when somebody asks for it.
//!
//! The run has settled, so its record does not change: the start and the result of a compensation are addenda. A
//! compensation has its own time limit, which a cancel of the run does not affect, and is on record before it does
//! anything.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use andon_core::closing::stopped_result;
use andon_core::event::{AddendumKind, Event, HookChange, ToolEnd};
use andon_core::id::{CallId, RunId, SessionKey};
use andon_core::message::{ResultStatus, ToolCall, ToolResult};
use andon_core::receipt::{CallAccount, Compensation, Receipt, Verdict};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::agent::AgentCore;
use crate::agent::{Tool, Undo};
use crate::driver::aside::{drop_caught, poll_caught};
use crate::journal::JournalError;
use crate::lanes::caught::caught;
use crate::live::{AsideEnd, Live, REAP};
use crate::tool::bounded;

/// How a compensation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compensated {
    /// `finished`, `panicked`, or `unknown` if it ran out of time.
    pub end: ToolEnd,
    /// What it returned.
    pub result: Arc<ToolResult>,
}

impl Compensated {
    /// How a compensation ended.
    pub fn new(end: ToolEnd, result: Arc<ToolResult>) -> Self {
        Self { end, result }
    }
}

impl Compensated {
    /// Whether it succeeded.
    pub fn is_done(&self) -> bool {
        self.end == ToolEnd::Finished && self.result.status == ResultStatus::Ok
    }
}

/// Why a call was not compensated. After [`Journal`](Self::Journal) and [`Lost`](Self::Lost) it may have been.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum CompensateError {
    /// The run has not settled.
    #[error("the run has not settled: wait for its outcome first")]
    NotSettled,
    /// The run made no such call.
    #[error("the run made no call {0}: its receipt lists those that it made")]
    NoSuchCall(CallId),
    /// The call did not run.
    #[error("call {0} did not run: there is nothing to undo")]
    NeverStarted(CallId),
    /// The call is still running.
    #[error("call {0} is still running: what it does cannot be undone before it has ended")]
    StillRunning(CallId),
    /// The agent has no such tool, or the tool has no compensation.
    #[error("the tool {0:?} of this agent has no compensation: give it one, or undo what it did by hand")]
    NoCompensation(String),
    /// The call is being compensated.
    #[error("call {0} is being compensated: wait for it to finish")]
    InProgress(CallId),
    /// The call has already been compensated.
    #[error("call {0} has already been compensated")]
    Done(CallId),
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// There was no thread to run it on, or the tokio runtime that it ran on was shut down.
    #[error("the compensation of call {0} began, but its outcome is unknown")]
    Lost(CallId),
}

/// Undoes what a call of a settled run did.
pub(crate) async fn compensate(
    agent: &AgentCore,
    live: &Arc<Live>,
    call: &CallId,
    by: Option<Arc<str>>,
) -> Result<Compensated, CompensateError> {
    // No second compensation of this call can begin from here on, so what is on record now stays true.
    let compensating = Compensating::begin(live, call)?;
    let receipt = receipt_on_record(live).await?.filter(|receipt| receipt.outcome.is_some());
    let receipt = receipt.ok_or(CompensateError::NotSettled)?;
    let ended_late =
        |learned: &AddendumKind| matches!(learned, AddendumKind::LateResult { call: late, .. } if late == call);
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
        session: SessionKey::clone(&live.session),
        input: asked.input().unwrap_or(Value::Null),
        verdict: account.verdict,
        result,
    };
    let (tell, told) = oneshot::channel();
    // A separate task, so that a compensation that has begun ends even if the caller goes away.
    live.services.door.spawn_keeper(async move {
        let compensated = match compensating.on_record(by).await {
            Ok(()) => compensating.undo(budget, tool, undo).await,
            Err(error) => Err(error.into()),
        };
        // The caller may have gone away.
        let _ = tell.send(compensated);
    });
    told.await.map_err(|_| CompensateError::Lost(call.clone()))?
}

/// The run's receipt with every addendum that is on record, including those learned through other handles.
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
        #[cfg(not(andon_whole))]
        _ => {}
    }
    match account.compensation {
        Some(Compensation::Done) => Err(CompensateError::Done(call())),
        // It failed, or its end is unknown: it may be tried again.
        Some(Compensation::Failed | Compensation::Unknown | Compensation::Started) | None => Ok(()),
        #[cfg(not(andon_whole))]
        Some(_) => Ok(()),
    }
}

fn tool_for(agent: &AgentCore, account: &CallAccount) -> Result<(Arc<dyn Tool>, Duration), CompensateError> {
    let checked = agent.tools.iter().find(|checked| checked.tool.spec().name == account.tool);
    let tool = checked.map(|checked| Arc::clone(&checked.tool));
    let with_budget = tool.and_then(|tool| tool.spec().compensation.map(|budget| (Arc::clone(&tool), budget)));
    with_budget.ok_or_else(|| CompensateError::NoCompensation(account.tool.clone()))
}

/// The call as its tool got it, and its result.
fn call_and_result(live: &Live, id: &CallId) -> Option<(ToolCall, Arc<ToolResult>)> {
    live.with_log(|log| {
        let asked = log.facts().iter().rev().find_map(|record| match &record.event {
            Event::Message { message } => message.calls().find(|call| call.id == *id).cloned(),
            // What it did is what the last hook made of it.
            Event::HookFinished { change: Some(change), .. } => match &**change {
                HookChange::Call { call } if call.id == *id => Some(call.clone()),
                _ => None,
            },
            _ => None,
        });
        let result = log.facts().iter().find_map(|record| match &record.event {
            Event::ToolFinished { call, result, .. } if call == id => Some(Arc::clone(result)),
            _ => None,
        });
        asked.zip(result)
    })
}

/// Runs the compensation within its time limit.
async fn undo_within(budget: Duration, tool: Arc<dyn Tool>, undo: Undo) -> Compensated {
    let (call, max) = (undo.call.clone(), tool.spec().max_output);
    let ended = match caught(|| tool.compensate(undo)) {
        Ok(mut undoing) => {
            let ended = timeout(budget, poll_fn(|cx| poll_caught(&mut undoing, cx))).await;
            drop_caught(Some(undoing));
            ended.unwrap_or(AsideEnd::Dropped)
        }
        Err(panic) => AsideEnd::Panicked(panic),
    };
    let (end, result) = match ended {
        AsideEnd::Returned(returned) => match bounded(returned, max) {
            Ok(output) => (ToolEnd::Finished, ToolResult::new(call, ResultStatus::Ok, output.0)),
            Err(error) => (ToolEnd::Finished, ToolResult::text(call, ResultStatus::Error, error.0)),
        },
        AsideEnd::Panicked(panic) => {
            (ToolEnd::Panicked, ToolResult::text(call, ResultStatus::Error, format!("It crashed: {panic}")))
        }
        AsideEnd::Dropped | AsideEnd::Abandoned | AsideEnd::NeverStarted => return unknown(call),
    };
    Compensated { end, result: Arc::new(result) }
}

/// The result of a compensation whose progress is unknown.
fn unknown(call: CallId) -> Compensated {
    let result = stopped_result(call, ToolEnd::Unknown, Vec::new());
    Compensated { end: ToolEnd::Unknown, result: Arc::new(result) }
}

/// Keeps a second compensation of a call from beginning while the first is in progress.
struct Compensating {
    live: Arc<Live>,
    key: (RunId, CallId),
}

impl Compensating {
    fn begin(live: &Arc<Live>, call: &CallId) -> Result<Self, CompensateError> {
        let key = (live.id.clone(), call.clone());
        if !live.services.compensating.lock().insert(key.clone()) {
            return Err(CompensateError::InProgress(call.clone()));
        }
        Ok(Self { live: Arc::clone(live), key })
    }

    async fn on_record(&self, by: Option<Arc<str>>) -> Result<(), JournalError> {
        self.live.learn_on_record(AddendumKind::CompensationStarted { call: self.key.1.clone(), by }).await
    }

    /// Runs the compensation where tools run, and waits no longer than its time limit, even if it blocks its thread.
    async fn undo(self, budget: Duration, tool: Arc<dyn Tool>, undo: Undo) -> Result<Compensated, CompensateError> {
        let call = undo.call.clone();
        let (tell, told) = oneshot::channel();
        self.live.services.door.spawn_aside(async move {
            // The receiver is gone if this took too long.
            let _ = tell.send(undo_within(budget, tool, undo).await);
        });
        let compensated = match timeout(budget + REAP, told).await {
            Ok(Ok(compensated)) => compensated,
            Ok(Err(_)) | Err(_) => unknown(call),
        };
        let Compensated { end, result } = compensated.clone();
        self.live.learn(AddendumKind::CompensationFinished { call: self.key.1.clone(), end, result }).await?;
        Ok(compensated)
    }
}

impl Drop for Compensating {
    fn drop(&mut self) {
        self.live.services.compensating.lock().remove(&self.key);
    }
}
