//! Short names for events and runs, for the tests of the fold.
#![allow(dead_code, unused_imports, reason = "each test program uses some of these")]

pub(crate) use std::sync::Arc;

pub(crate) use andon_core::answer::{CallHead, Kind, Lump, MarkKind, Span};
pub(crate) use andon_core::cancel::{CancelRequest, Force, Reason};
pub(crate) use andon_core::closing::refuse;
pub(crate) use andon_core::event::{
    Accepted, Approval, Effect, Entry, Event, HookChange, HookEnd, HookPoint, ModelEnd, Record, Refusal, Seq, ToolEnd,
};
pub(crate) use andon_core::id::{CallId, RunId, SessionKey};
pub(crate) use andon_core::message::{Cut, Message, Part, ResultStatus, Role, Signature, ToolCall, ToolResult};
pub(crate) use andon_core::outcome::{Ending, Failure, FailureKind, ModelStop};
pub(crate) use andon_core::progress::{CallState, FoldError, Phase, RunProgress, RunState, Step};
pub(crate) use andon_core::time::{Stamp, Wall};
pub(crate) use andon_core::usage::{Usage, Used};

pub(crate) fn id(text: &str) -> CallId {
    CallId::new(text).unwrap()
}

pub(crate) fn session() -> SessionKey {
    SessionKey::new("app", "user", "s").unwrap()
}

pub(crate) fn accepted() -> Arc<Accepted> {
    let run = RunId::new("r").unwrap();
    Arc::new(Accepted::new(run, session(), Arc::new(Message::user("Look."))))
}

pub(crate) fn hook_started(point: HookPoint) -> Event {
    Event::HookStarted { point }
}

pub(crate) fn hook_finished(point: HookPoint) -> Event {
    Event::hook_finished(point, HookEnd::Continued)
}

pub(crate) fn model_started(call: u32) -> Event {
    Event::model_started(call, "practice")
}

pub(crate) fn answered(call: u32, stop: ModelStop) -> Event {
    Event::ModelFinished { call, end: ModelEnd::Answered { stop }, first_piece_us: None }
}

pub(crate) fn failure() -> Failure {
    Failure::new(FailureKind::Model, "The model is out.")
}

pub(crate) fn failed(call: u32) -> Event {
    let end = ModelEnd::Failed { failure: Box::new(failure()) };
    Event::ModelFinished { call, end, first_piece_us: None }
}

/// A hook that changes something.
pub(crate) fn changed(point: HookPoint, change: HookChange) -> [Event; 2] {
    let end = Event::HookFinished { point, end: HookEnd::Changed, change: Some(Box::new(change)), why: None };
    [hook_started(point), end]
}

pub(crate) fn message(message: Message) -> Event {
    Event::Message { message: Arc::new(message) }
}

pub(crate) fn reported() -> Used {
    Used::whole(Usage::reported(10, 5))
}

pub(crate) fn usage(call: u32) -> Event {
    Event::usage(call, reported())
}

pub(crate) fn backoff_started() -> Event {
    Event::BackoffStarted { delay_ms: 100 }
}

pub(crate) fn asking(ids: &[&str]) -> Message {
    let call = |text: &&str| Part::ToolCall(ToolCall::new(id(text), "look", "{}"));
    Message::new(Role::Assistant, ids.iter().map(call).collect())
}

pub(crate) fn approval_requested(call: &str) -> Event {
    Event::ApprovalRequested { call: id(call), arguments: None }
}

pub(crate) fn approval_resolved(call: &str, verdict: Approval) -> Event {
    Event::ApprovalResolved { call: id(call), verdict: Box::new(verdict) }
}

pub(crate) fn approved(call: &str) -> Event {
    approval_resolved(call, Approval::Approved { by: None, arguments: None, why: None })
}

pub(crate) fn denied(call: &str) -> Event {
    approval_resolved(call, Approval::Denied { by: None, why: None })
}

pub(crate) fn tool_started(call: &str) -> Event {
    Event::ToolStarted { call: id(call), effect: Effect::Effect, effect_id: None }
}

pub(crate) fn result(call: &str) -> ToolResult {
    ToolResult::text(id(call), ResultStatus::Ok, format!("{call} was seen"))
}

pub(crate) fn tool_finished(call: &str) -> Event {
    finished_with(call, result(call))
}

pub(crate) fn finished_with(call: &str, result: ToolResult) -> Event {
    Event::ToolFinished { call: id(call), end: ToolEnd::Finished, result: Arc::new(result), remains: None, state: None }
}

pub(crate) fn refused_with(call: &str, result: ToolResult) -> Event {
    Event::ToolRefused { call: id(call), why: Refusal::UnknownTool, result: Arc::new(result) }
}

pub(crate) fn refused(call: &str) -> Event {
    refuse(id(call), Refusal::UnknownTool)
}

pub(crate) fn request(force: Force) -> Arc<CancelRequest> {
    let requested_at = Stamp { wall: Wall(1_000_000_000), mono_us: 500 };
    Arc::new(CancelRequest::new(Reason::Requested, force, requested_at))
}

pub(crate) fn cancel_requested(force: Force) -> Event {
    Event::CancelRequested { request: request(force), delivered_at: Stamp::default() }
}

pub(crate) fn settled(ending: Ending) -> Event {
    Event::RunSettled { outcome: Arc::new(ending) }
}

pub(crate) fn cancelled() -> Ending {
    Ending::Cancelled { reason: Reason::Requested }
}

pub(crate) fn completed() -> Ending {
    Ending::Completed { stop: ModelStop::EndTurn }
}

/// Folds events after `run_accepted`.
pub(crate) fn fold(events: impl IntoIterator<Item = Event>) -> Result<RunProgress, FoldError> {
    let mut progress = RunProgress::new(accepted());
    for event in events {
        progress.apply(&event)?;
    }
    Ok(progress)
}

/// A run that started, and then these events.
pub(crate) fn run(events: impl IntoIterator<Item = Event>) -> RunProgress {
    fold([Event::RunStarted].into_iter().chain(events)).unwrap()
}

/// A run whose model asked for these calls.
pub(crate) fn asked(ids: &[&str], events: impl IntoIterator<Item = Event>) -> RunProgress {
    let turn = [model_started(1), message(asking(ids)), answered(1, ModelStop::ToolUse)];
    run(turn.into_iter().chain(events))
}

pub(crate) fn step(progress: &RunProgress) -> Step {
    progress.next_step(8).unwrap()
}

pub(crate) fn start(ids: &[&str]) -> Step {
    Step::CallTools { start: ids.iter().map(|text| id(text)).collect() }
}

pub(crate) fn settle(ending: Ending) -> Step {
    Step::Settle(Arc::new(ending))
}

pub(crate) fn record(seq: Seq, event: Event) -> Record {
    let at = Stamp { wall: Wall(1_000_000_000 + seq), mono_us: 100 * seq };
    Record::new(seq, 1, at, event)
}

/// A journal of these events after `run_accepted`.
pub(crate) fn journal(events: impl IntoIterator<Item = Event>) -> Vec<Entry> {
    let all = [Event::RunAccepted { accepted: accepted() }].into_iter().chain(events);
    all.zip(1..).map(|(event, seq)| Entry::Fact(Arc::new(record(seq, event)))).collect()
}

pub(crate) fn head(index: usize, call: &str) -> Arc<CallHead> {
    Arc::new(CallHead { index, id: id(call), name: "look".into() })
}
