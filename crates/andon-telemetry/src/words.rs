//! Words for what facts say, as in their JSON, and what is to be found among a run's earlier facts.

use std::sync::Arc;

use andon_runtime::core::event::{Approval, Event, HookEnd, ModelEnd, Record, Refusal, ToolEnd};
use andon_runtime::core::id::CallId;
use andon_runtime::core::outcome::FailureKind;
use andon_runtime::core::progress::Phase;
use andon_runtime::core::usage::{Provenance, Used};

/// What a model call used.
pub(crate) fn usage_of(past: &[Arc<Record>], call: u32) -> Option<&Used> {
    past.iter().rev().find_map(|record| match &record.event {
        Event::Usage { call: of, used, .. } if *of == call => Some(&**used),
        _ => None,
    })
}

/// The model of a call.
pub(crate) fn model_of(past: &[Arc<Record>], call: u32) -> Option<&Arc<str>> {
    past.iter().rev().find_map(|record| match &record.event {
        Event::ModelStarted { call: of, model } if *of == call => Some(model),
        _ => None,
    })
}

/// The tool of a call: the message that asks for it says it.
pub(crate) fn tool_of<'a>(past: &'a [Arc<Record>], call: &CallId) -> Option<&'a str> {
    past.iter().rev().find_map(|record| match &record.event {
        Event::Message { message } => message.calls().find(|asked| asked.id == *call).map(|asked| asked.name.as_str()),
        _ => None,
    })
}

pub(crate) fn model_end(end: &ModelEnd) -> &'static str {
    match end {
        ModelEnd::Answered { .. } => "answered",
        ModelEnd::Cut => "cut",
        ModelEnd::Failed { .. } => "failed",
        ModelEnd::Lost => "lost",
    }
}

/// The verdict of the receipt.
pub(crate) fn verdict(end: ToolEnd) -> &'static str {
    match end {
        ToolEnd::Finished | ToolEnd::Panicked => "finished",
        ToolEnd::Cut => "cut",
        ToolEnd::Unknown => "unknown",
        ToolEnd::NeverStarted => "never_started",
        ToolEnd::Leaked => "leaked",
        ToolEnd::Detached => "detached",
    }
}

pub(crate) fn refusal(why: Refusal) -> &'static str {
    match why {
        Refusal::UnknownTool => "unknown_tool",
        Refusal::BadArguments => "bad_arguments",
        Refusal::DuplicateId => "duplicate_id",
        Refusal::DeniedByHook => "denied_by_hook",
        Refusal::DeniedByPerson => "denied_by_person",
        Refusal::CallCancelled => "call_cancelled",
        Refusal::RunCancelled => "run_cancelled",
        Refusal::Lost => "lost",
    }
}

pub(crate) fn failure(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Model => "model",
        FailureKind::ContextOverflow => "context_overflow",
        FailureKind::StreamBroken => "stream_broken",
        FailureKind::Journal => "journal",
        FailureKind::Hook => "hook",
        FailureKind::Internal => "internal",
    }
}

pub(crate) fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Queued => "queued",
        Phase::Hook => "hook",
        Phase::Model => "model",
        Phase::Backoff => "backoff",
        Phase::Tools => "tools",
        Phase::Waiting => "waiting",
        Phase::Between => "between",
    }
}

pub(crate) fn provenance(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Reported => "reported",
        Provenance::ReportedRunning => "reported_running",
        Provenance::LookedUp => "looked_up",
        Provenance::Counted => "counted",
        Provenance::Estimated => "estimated",
        Provenance::Bounded => "bounded",
        Provenance::Unknown => "unknown",
    }
}

pub(crate) fn approval(approval: &Approval) -> &'static str {
    match approval {
        Approval::Approved { .. } => "approved",
        Approval::Denied { .. } => "denied",
        Approval::Closed => "closed",
    }
}

pub(crate) fn hook_end(end: HookEnd) -> &'static str {
    match end {
        HookEnd::Continued => "continued",
        HookEnd::Denied => "denied",
        HookEnd::Cancelled => "cancelled",
        HookEnd::Panicked => "panicked",
        HookEnd::Cut => "cut",
        HookEnd::Leaked => "leaked",
    }
}
