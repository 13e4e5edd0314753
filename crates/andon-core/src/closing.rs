//! What closes everything that is open in a run: the one place that writes the words of a stop.
//!
//! Settling a cancelled run and recovering a lost one need the same events: the answer so far, its usage, one result for
//! each open call. Only who runs, and so whether a running tool can be waited for, differs.

use std::sync::Arc;

use crate::answer::{AnswerEnd, Span, assemble};
use crate::cancel::Reason;
use crate::event::{Approval, Event, HookEnd, ModelEnd, Refusal, ToolEnd};
use crate::id::CallId;
use crate::message::{Content, Cut, Message, ResultStatus, Role, ToolResult};
use crate::outcome::Failure;
use crate::progress::{Call, CallState, Progress};
use crate::usage::Used;

/// Why everything open is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The cord was pulled.
    Cancelled(Reason),
    /// The model's stream broke after something was shown.
    Broken(Box<Failure>),
    /// The process died.
    Lost,
}

impl Why {
    fn cut(&self) -> Cut {
        match self {
            Self::Cancelled(reason) => Cut::Cancelled(*reason),
            Self::Broken(_) => Cut::Broken,
            Self::Lost => Cut::Lost,
        }
    }

    fn model_end(&self) -> ModelEnd {
        match self {
            Self::Cancelled(_) => ModelEnd::Cut,
            Self::Broken(failure) => ModelEnd::Failed { failure: failure.clone() },
            Self::Lost => ModelEnd::Lost,
        }
    }

    fn refusal(&self) -> Refusal {
        match self {
            Self::Cancelled(_) | Self::Broken(_) => Refusal::RunCancelled,
            Self::Lost => Refusal::Lost,
        }
    }
}

/// Closes an open model call: the answer as far as it came, what it used, its end, and a result for each call in it.
///
/// `number` is the model call's, `spans` all that was accepted of its answer.
pub fn close_model<'a>(
    number: u32,
    spans: impl IntoIterator<Item = &'a Span>,
    used: Used,
    first_piece_us: Option<u64>,
    why: &Why,
) -> Vec<Event> {
    let mut events = Vec::with_capacity(4);
    let parts = assemble(spans, AnswerEnd::Cut);
    let mut calls = Vec::new();
    if !parts.is_empty() {
        let message = Message { role: Role::Assistant, parts, cut: Some(why.cut()) };
        calls.extend(message.calls().map(|call| call.id.clone()));
        events.push(Event::Message { message: Arc::new(message) });
    }
    events.push(Event::Usage { call: number, used: Box::new(used) });
    events.push(Event::ModelFinished { call: number, end: why.model_end(), first_piece_us });
    events.extend(calls.into_iter().map(|call| refuse(call, why.refusal())));
    events
}

/// Closes the calls of a turn that have not started, with the approvals that are open for them.
pub fn close_unstarted(calls: &[Call], why: &Why) -> Vec<Event> {
    let mut events = Vec::new();
    for Call { call, state } in calls {
        match state {
            CallState::Ready => {}
            CallState::AwaitingApproval => {
                events.push(Event::ApprovalResolved { call: call.id.clone(), verdict: Box::new(Approval::Closed) });
            }
            CallState::Running(_) | CallState::Closed(_) => continue,
        }
        events.push(refuse(call.id.clone(), why.refusal()));
    }
    events
}

/// Closes everything that a dead process left open. A tool that ran may have had its effect: nobody knows.
pub fn close_lost(progress: &Progress) -> Vec<Event> {
    let mut events = Vec::new();
    if let Some(point) = progress.open_hook() {
        events.push(Event::HookFinished { point, end: HookEnd::Cut });
    }
    if progress.in_backoff() {
        events.push(Event::BackoffFinished);
    }
    if let Some(model) = progress.open_model() {
        if model.answered {
            events.push(Event::ModelFinished { call: model.number, end: ModelEnd::Lost, first_piece_us: None });
        } else {
            let reported = model.spans.iter().filter_map(Span::reported).reduce(|a, b| a.corrected_by(b));
            let used = reported.map_or(Used::UNKNOWN, |usage| Used::cut(usage.running()));
            events.extend(close_model(model.number, &model.spans, used, None, &Why::Lost));
        }
    }
    for Call { call, state } in progress.calls() {
        if let CallState::Running(_) = state {
            let text = "The program that ran this tool ended before the tool did. The call may have had its effect: \
                        check before you repeat it.";
            let result = ToolResult::text(call.id.clone(), ResultStatus::Unknown, text);
            events.push(Event::ToolFinished { call: call.id.clone(), end: ToolEnd::Unknown, result: Arc::new(result) });
        }
    }
    events.extend(close_unstarted(progress.calls(), &Why::Lost));
    events
}

/// Closes one call that did not start.
pub fn refuse(call: CallId, why: Refusal) -> Event {
    refuse_with(call, why, None)
}

/// Closes one call that did not start, with more to say about it.
pub fn refuse_with(call: CallId, why: Refusal, detail: Option<&str>) -> Event {
    let reason = match why {
        Refusal::UnknownTool => "Not run: there is no tool of this name.",
        Refusal::BadArguments => "Not run: the arguments are not what this tool takes.",
        Refusal::DuplicateId => "Not run: two calls had the same id. Use a new id for each call.",
        Refusal::DeniedByHook => "Not run: a rule of this program does not allow it.",
        Refusal::DeniedByPerson => "Not run: a person was asked and said no.",
        Refusal::CallCancelled => "Not run: this call was cancelled before it started.",
        Refusal::RunCancelled => "Not run: the run was stopped before this call started.",
        Refusal::Lost => "Not run: the program ended before this call started.",
    };
    let text = detail.map_or_else(|| reason.to_owned(), |detail| format!("{reason} {detail}"));
    let result = ToolResult::text(call.clone(), ResultStatus::Refused, text);
    Event::ToolRefused { call, why, result: Arc::new(result) }
}

/// What a stopped call is told to the model as, with what it had returned, if anything.
pub fn stopped_result(call: CallId, end: ToolEnd, returned: Vec<Content>) -> ToolResult {
    let (status, text) = match end {
        ToolEnd::Finished => (ResultStatus::Ok, ""),
        ToolEnd::Panicked => (ResultStatus::Error, "The tool crashed."),
        ToolEnd::NeverStarted => (ResultStatus::Refused, "Not run: it was stopped before it started."),
        ToolEnd::Cut => (ResultStatus::Cut, "This call was stopped before it finished."),
        ToolEnd::Unknown | ToolEnd::Leaked => (
            ResultStatus::Unknown,
            "This call was stopped before it finished. It may have had its effect: check before you repeat it.",
        ),
    };
    let mut content = vec![Content::Text { text: text.to_owned() }];
    content.extend(returned);
    ToolResult { call, status, content }
}
