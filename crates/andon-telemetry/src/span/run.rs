//! The span of a run.

use std::sync::Arc;

use andon_runtime::core::cancel::CancelRequest;
use andon_runtime::core::event::{Event, HookEnd, Record};
use andon_runtime::core::outcome::Ending;
use andon_runtime::core::receipt::Receipt;
use andon_runtime::core::time::Stamp;

use super::calls::set_error;
use super::{Attributes, Kind, Span, SpanEvent, Status, Value, between};
use crate::names;

pub(super) fn settled(past: &[Arc<Record>], end: &Record, outcome: &Ending, at: Option<Stamp>) -> Option<Span> {
    let start = past.first()?;
    let Event::RunAccepted { accepted } = &start.event else { return None };
    let agent = &*accepted.session.app;
    let mut span = between(&accepted.run, start, end, format!("invoke_agent {agent}"), Kind::Internal);
    // A run ends when its outcome is on disk.
    span.end = at.map_or(span.end, |at| at.wall.max(span.end));
    let attributes = &mut span.attributes;
    attributes.set(names::OPERATION, "invoke_agent");
    attributes.set(names::AGENT, agent);
    attributes.set(names::CONVERSATION, accepted.session.session.as_str());
    attributes.set(names::RUN, accepted.run.as_str());
    attributes.set(names::OUTCOME, outcome.as_str());
    attributes.set(names::STOP_REASON, outcome.stop_reason());
    let last = Arc::new(end.clone());
    if let Some(receipt) = Receipt::fold(past.iter().chain([&last]), [], at) {
        set_cancel(attributes, &receipt);
    }
    span.events = past.iter().filter_map(|record| event(record)).collect();
    span.status = match outcome {
        Ending::Completed { .. } | Ending::Cancelled { .. } => Status::Unset,
        Ending::Failed(failure) => Status::Error { what: failure.error.as_str() },
        Ending::Lost => Status::Error { what: "lost" },
        #[cfg(not(andon_whole))]
        _ => Status::Unset,
    };
    set_error(&mut span);
    Some(span)
}

fn set_cancel(attributes: &mut Attributes, receipt: &Receipt) {
    attributes.set_known(names::CANCEL_REASON, receipt.reason.map(|reason| reason.as_str()));
    attributes.set_known(names::CANCEL_FORCE, receipt.force.map(|force| force.as_str()));
    attributes.set_known(names::CANCEL_BY, receipt.by.as_deref());
    attributes.set_known(names::CANCEL_PHASE, receipt.cut_in.map(|phase| phase.as_str()));
    attributes.set_known(names::CANCEL_DELIVERED, receipt.took.delivered_us);
    attributes.set_known(names::CANCEL_QUIET, receipt.took.quiet_us);
    attributes.set_known(names::CANCEL_SETTLED, receipt.took.settled_us);
    if !receipt.leaked.is_empty() {
        // Only the call: the names of what it started may contain parts of the conversation.
        let calls = receipt.leaked.iter().map(|leak| leak.split(": ").next().unwrap_or_default().to_owned());
        attributes.0.push((names::LEAKED, Value::Texts(calls.collect())));
    }
}

fn event(record: &Record) -> Option<SpanEvent> {
    let mut attributes = Attributes::default();
    let mut at = record.at.wall;
    let name = match &record.event {
        Event::CancelRequested { request, .. } => {
            set_request(&mut attributes, request);
            at = request.requested_at.wall;
            names::CANCEL_EVENT
        }
        Event::CallCancelRequested { call, request } => {
            attributes.set(names::TOOL_CALL, call.as_str());
            set_request(&mut attributes, request);
            names::CALL_CANCEL_EVENT
        }
        Event::ApprovalRequested { call, .. } => {
            attributes.set(names::TOOL_CALL, call.as_str());
            names::APPROVAL_REQUESTED_EVENT
        }
        Event::ApprovalResolved { call, verdict } => {
            attributes.set(names::TOOL_CALL, call.as_str());
            attributes.set(names::APPROVAL, verdict.as_str());
            names::APPROVAL_RESOLVED_EVENT
        }
        Event::BackoffStarted { delay_ms } => {
            attributes.set(names::DELAY, *delay_ms);
            names::BACKOFF_EVENT
        }
        Event::HookFinished { point, end, .. } if *end != HookEnd::Continued => {
            attributes.set(names::HOOK, point.as_str());
            attributes.set(names::HOOK_END, end.as_str());
            names::HOOK_EVENT
        }
        Event::RunQuieted => names::QUIET_EVENT,
        _ => return None,
    };
    Some(SpanEvent { name, at, attributes })
}

fn set_request(attributes: &mut Attributes, request: &CancelRequest) {
    attributes.set(names::CANCEL_REASON, request.reason.as_str());
    attributes.set(names::CANCEL_FORCE, request.force.as_str());
    attributes.set_known(names::CANCEL_BY, request.by.as_deref());
}
