//! Closes everything that is open in a run. Only this file writes the texts of a stop.
//!
//! Settling a cancelled run and recovering a lost one need the same events: the answer so far, its usage, one result for
//! each open call. They differ only in whether the process is alive, so that a running tool can be waited for.

use std::sync::Arc;

use crate::answer::{AnswerEnd, Answerer, Span, assemble};
use crate::ending::Failure;
use crate::event::{Approval, Event, HookEnd, ModelEnd, Refusal, ToolEnd};
use crate::id::CallId;
use crate::message::{Content, Cut, Message, ResultStatus, Role, ToolResult};
use crate::progress::{Call, CallState, OpenModel, RunProgress};
use crate::reason::Reason;
use crate::usage::{Awaited, Used};

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

/// Closes an open model call: the partial answer, its usage, its end, and a result for each call in it.
///
/// `number` is the number of the model call, `spans` are everything that was accepted of its answer, and `usage` is the event that says
/// what it used.
pub fn close_model<'a>(
    number: u32,
    spans: impl IntoIterator<Item = &'a Span>,
    usage: Event,
    first_piece_us: Option<u64>,
    why: &Why,
) -> Vec<Event> {
    let finished = Event::ModelFinished { call: number, end: why.model_end(), first_piece_us };
    cut_answer(spans, [usage, finished], why)
}

/// The partial answer, the end of its model call, and a result for each call in it.
fn cut_answer<'a>(
    spans: impl IntoIterator<Item = &'a Span>,
    end: impl IntoIterator<Item = Event>,
    why: &Why,
) -> Vec<Event> {
    let parts = assemble(spans, AnswerEnd::Cut);
    if parts.is_empty() {
        return end.into_iter().collect();
    }
    let message = Message { role: Role::Assistant, parts, cut: Some(why.cut()) };
    let refusals: Vec<Event> = message.calls().map(|call| refuse(call.id.clone(), why.refusal())).collect();
    [Event::Message { message: Arc::new(message) }].into_iter().chain(end).chain(refusals).collect()
}

/// Closes the calls of a turn that have not started, and the approvals that are open for them.
pub fn close_unstarted(calls: &[Call], why: &Why) -> Vec<Event> {
    let mut events = Vec::new();
    for Call { call, state, .. } in calls {
        let id = call.id.clone();
        match state {
            CallState::Ready => events.push(refuse(id, why.refusal())),
            CallState::AwaitingApproval => {
                events.push(Event::ApprovalResolved { call: id.clone(), verdict: Box::new(Approval::Closed) });
                events.push(refuse(id, why.refusal()));
            }
            // The decision is on record and stands; only the refusal that belongs to it is missing.
            CallState::Denied(verdict) => events.push(refuse_denied(id, verdict, why)),
            CallState::Running(_) | CallState::Closed(_) => {}
        }
    }
    events
}

fn refuse_denied(call: CallId, verdict: &Approval, why: &Why) -> Event {
    match verdict {
        Approval::Denied { why, .. } => refuse_with(call, Refusal::DeniedByPerson, why.as_deref()),
        Approval::Closed | Approval::Approved { .. } => refuse(call, why.refusal()),
    }
}

/// Closes everything that a dead process left open. Nobody knows whether a tool that ran had its effect. `pending` says how a better
/// figure is looked for than what is on record about an open model call.
pub fn close_lost(progress: &RunProgress, pending: Option<Awaited>) -> Vec<Event> {
    let mut events = Vec::new();
    if let Some(point) = progress.open_hook() {
        events.push(Event::hook_finished(point, HookEnd::Cut));
    }
    if progress.in_backoff() {
        events.push(Event::BackoffFinished);
    }
    events.extend(progress.open_model().map(|model| close_lost_model(model, pending)).unwrap_or_default());
    for Call { call, state, .. } in progress.calls() {
        if let CallState::Running(_) = state {
            let text = "The program that ran this tool ended before the tool did. The call may have had its effect: \
                        check before you repeat it.";
            let result = ToolResult::text(call.id.clone(), ResultStatus::Unknown, text);
            events.push(tool_finished(ToolEnd::Unknown, result));
        }
    }
    events.extend(close_unstarted(progress.calls(), &Why::Lost));
    events
}

/// The events of a model call that the journal lacks. An answer and a usage are each recorded only once.
fn close_lost_model(model: &OpenModel, pending: Option<Awaited>) -> Vec<Event> {
    let usage = (!model.accounted).then(|| {
        let Answerer { model: answered_by, request_id } = model.answerer().cloned().unwrap_or_default();
        let used = Box::new(Used::cut(model.reported()));
        Event::Usage { call: model.number, used, pending, answered_by, request_id, answer_changed: false }
    });
    let finished = Event::ModelFinished { call: model.number, end: ModelEnd::Lost, first_piece_us: None };
    let end = usage.into_iter().chain([finished]);
    if model.answered { end.collect() } else { cut_answer(&model.spans, end, &Why::Lost) }
}

/// The end of a call whose cleanup has nothing to report.
pub fn tool_finished(end: ToolEnd, result: ToolResult) -> Event {
    Event::ToolFinished { call: result.call.clone(), end, result: Arc::new(result), remains: None, state: None }
}

/// Closes one call that did not start.
pub fn refuse(call: CallId, why: Refusal) -> Event {
    refuse_with(call, why, None)
}

/// Closes one call that did not start, with `detail` added to the usual text.
pub fn refuse_with(call: CallId, why: Refusal, detail: Option<&str>) -> Event {
    let reason = match why {
        Refusal::UnknownTool => "Not run: there is no tool of this name.",
        Refusal::BadArguments => "Not run: the arguments are not what this tool takes.",
        Refusal::DuplicateId => "Not run: two calls had the same id. Use a new id for each call.",
        Refusal::DeniedByHook => "Not run: a rule of this program does not allow it.",
        Refusal::AnsweredByHook => "Not run: this program answered instead.",
        Refusal::DeniedByPerson => "Not run: a person was asked and said no.",
        Refusal::CallCancelled => "Not run: this call was cancelled before it started.",
        Refusal::RunCancelled => "Not run: the run was stopped before this call started.",
        Refusal::Lost => "Not run: the program ended before this call started.",
    };
    let text = detail.map_or_else(|| reason.to_owned(), |detail| format!("{reason} {detail}"));
    let result = ToolResult::text(call.clone(), ResultStatus::Refused, text);
    Event::ToolRefused { call, why, result: Arc::new(result) }
}

/// A person's decision about a call, which closes it if the answer was no.
pub fn decided(call: CallId, approval: Approval) -> Vec<Event> {
    let refused = match &approval {
        Approval::Denied { why, .. } => Some(refuse_with(call.clone(), Refusal::DeniedByPerson, why.as_deref())),
        Approval::Approved { .. } | Approval::Closed => None,
    };
    let resolved = Event::ApprovalResolved { call, verdict: Box::new(approval) };
    std::iter::once(resolved).chain(refused).collect()
}

/// The result that tells the model about a stopped call, with anything that the call had returned.
pub fn stopped_result(call: CallId, end: ToolEnd, returned: Vec<Content>) -> ToolResult {
    let (status, text) = match end {
        ToolEnd::Finished => (ResultStatus::Ok, None),
        ToolEnd::Panicked => (ResultStatus::Error, Some("The tool crashed.")),
        ToolEnd::NeverStarted => (ResultStatus::Refused, Some("Not run: it was stopped before it started.")),
        ToolEnd::Cut => (ResultStatus::Cut, Some("This call was stopped before it finished.")),
        ToolEnd::Unknown | ToolEnd::Leaked => (
            ResultStatus::Unknown,
            Some("This call was stopped before it finished. It may have had its effect: check before you repeat it."),
        ),
        ToolEnd::Detached => (
            ResultStatus::Unknown,
            Some(
                "This call keeps running in the background, as intended. Its result will not appear here: check before \
                  you repeat it.",
            ),
        ),
    };
    let told = text.map(|text| Content::Text { text: text.to_owned() });
    ToolResult { call, status, content: told.into_iter().chain(returned).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_call_that_had_finished_says_what_it_returned_and_nothing_else() {
        let call = CallId::new("a").unwrap();
        let returned = vec![Content::Text { text: "seen".into() }];
        let finished = stopped_result(call.clone(), ToolEnd::Finished, returned.clone());
        assert_eq!(finished, ToolResult { call: call.clone(), status: ResultStatus::Ok, content: returned });
        assert_eq!(stopped_result(call, ToolEnd::Finished, vec![]).content, vec![]);
    }

    #[test]
    fn a_decision_is_one_event_and_a_no_closes_its_call_with_the_persons_words() {
        let call = CallId::new("a").unwrap();
        let yes = Approval::Approved { by: None, arguments: None, why: None };
        let resolved =
            |verdict: &Approval| Event::ApprovalResolved { call: call.clone(), verdict: Box::new(verdict.clone()) };
        assert_eq!(decided(call.clone(), yes.clone()), [resolved(&yes)]);
        let no = Approval::Denied { by: None, why: Some("too dear".into()) };
        let refused = refuse_with(call.clone(), Refusal::DeniedByPerson, Some("too dear"));
        assert_eq!(decided(call.clone(), no.clone()), [resolved(&no), refused]);
    }
}
