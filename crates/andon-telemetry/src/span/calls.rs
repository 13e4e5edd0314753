//! The spans of model calls and tool calls.

use std::sync::Arc;

use andon_runtime::core::event::{Event, ModelEnd, Record, Refusal, ToolEnd};
use andon_runtime::core::id::CallId;
use andon_runtime::core::message::ResultStatus;
use andon_runtime::core::receipt::Verdict;
use andon_runtime::core::usage::Used;

use super::{Attributes, Kind, Span, Status, Value, between, run_id};
use crate::names;
use crate::past;

/// How many bytes of a made-up tool name are kept.
const LONGEST_MADE_UP: usize = 64;

pub(super) fn model(
    past: &[Arc<Record>],
    end: &Record,
    call: u32,
    how: &ModelEnd,
    first_piece_us: Option<u64>,
) -> Option<Span> {
    let (start, model) = past.iter().rev().find_map(|record| match &record.event {
        Event::ModelStarted { call: started, model, .. } if *started == call => Some((record, model)),
        _ => None,
    })?;
    let (provider, model) = names::provider(model);
    let mut span = between(run_id(past)?, start, end, format!("chat {model}"), Kind::Client);
    let attributes = &mut span.attributes;
    attributes.set(names::OPERATION, "chat");
    attributes.set_known(names::PROVIDER, provider);
    attributes.set(names::MODEL, model);
    attributes.set(names::MODEL_CALL, u64::from(call));
    attributes.set(names::MODEL_END, how.as_str());
    if let ModelEnd::Answered { stop } = how {
        attributes.0.push((names::FINISH_REASONS, Value::Texts(vec![stop.as_str().to_owned()])));
    }
    // A float holds microseconds exactly for centuries.
    #[expect(clippy::cast_precision_loss, reason = "no call takes longer than that")]
    let seconds = first_piece_us.map(|us| Value::Float(us as f64 / 1e6));
    attributes.set_known(names::FIRST_PIECE, seconds);
    if let Some((model, request_id)) = past::answerer_of(past, call) {
        attributes.set_known(names::RESPONSE_MODEL, model);
        attributes.set_known(names::REQUEST_ID, request_id);
    }
    if let Some(used) = past::usage_of(past, call) {
        set_usage(attributes, used);
    }
    span.status = match how {
        ModelEnd::Answered { .. } | ModelEnd::Cut => Status::Unset,
        ModelEnd::Failed { failure } => Status::Error { what: failure.error.as_str() },
        ModelEnd::Lost => Status::Error { what: "lost" },
        #[cfg(not(andon_whole))]
        _ => Status::Unset,
    };
    set_error(&mut span);
    Some(span)
}

/// Sets what was delivered. What is unknown is left out, never 0.
fn set_usage(attributes: &mut Attributes, used: &Used) {
    let delivered = &used.delivered;
    attributes.set_known(names::INPUT_TOKENS, delivered.read().value);
    attributes.set_known(names::CACHE_READ_TOKENS, delivered.cache_read.value.filter(|tokens| *tokens > 0));
    attributes.set_known(names::CACHE_WRITE_TOKENS, delivered.cache_write.value.filter(|tokens| *tokens > 0));
    attributes.set_known(names::OUTPUT_TOKENS, delivered.output.value);
    attributes.set_known(names::REASONING_TOKENS, delivered.reasoning.value.filter(|tokens| *tokens > 0));
    attributes.set(names::PROVENANCE, delivered.output.provenance.as_str());
    attributes.set_known(names::BILLED_OUTPUT, used.billed.output.value);
}

pub(super) fn tool(
    past: &[Arc<Record>],
    end: &Record,
    call: &CallId,
    how: ToolEnd,
    result: ResultStatus,
) -> Option<Span> {
    let (start, effect) = past.iter().rev().find_map(|record| match &record.event {
        Event::ToolStarted { call: started, effect, .. } if started == call => Some((record, *effect)),
        _ => None,
    })?;
    let mut span = tool_span(past, start, end, call, true)?;
    span.attributes.set(names::EFFECT, effect.as_str());
    span.attributes.set(names::VERDICT, Verdict::from(how).as_str());
    span.status = match (how, result) {
        (ToolEnd::Panicked, _) => Status::Error { what: "panic" },
        (ToolEnd::Finished, ResultStatus::Error) => Status::Error { what: "tool_error" },
        _ => Status::Unset,
    };
    set_error(&mut span);
    Some(span)
}

/// A call that was closed without being started is a span of zero length: it is part of what the run did.
pub(super) fn refused(past: &[Arc<Record>], end: &Record, call: &CallId, why: Refusal) -> Option<Span> {
    let is_known = has_tool(past, call, why);
    let mut span = tool_span(past, end, end, call, is_known)?;
    span.attributes.set(names::VERDICT, Verdict::NeverStarted.as_str());
    span.attributes.set(names::REFUSED, why.as_str());
    let is_models_mistake = matches!(why, Refusal::UnknownTool | Refusal::BadArguments | Refusal::DuplicateId);
    if is_models_mistake {
        span.status = Status::Error { what: why.as_str() };
    }
    set_error(&mut span);
    Some(span)
}

/// Whether the agent is known to have the tool of a refused call: the call got far enough, or the tool was called before.
fn has_tool(past: &[Arc<Record>], call: &CallId, why: Refusal) -> bool {
    if matches!(why, Refusal::BadArguments | Refusal::DeniedByHook | Refusal::AnsweredByHook | Refusal::DeniedByPerson)
    {
        return true;
    }
    let asked = past::tool_of(past, call);
    let is_asked = |other: &CallId| other == call || past::tool_of(past, other) == asked;
    why != Refusal::UnknownTool
        && past.iter().any(|record| match &record.event {
            Event::ToolStarted { call, .. } | Event::ApprovalRequested { call, .. } => is_asked(call),
            _ => false,
        })
}

/// A name that a model made up is not used in a span's name: there would be no end of them.
fn tool_span(past: &[Arc<Record>], start: &Record, end: &Record, call: &CallId, is_known: bool) -> Option<Span> {
    let tool = past::tool_of(past, call).unwrap_or("?");
    let name = if is_known { tool } else { names::OTHER_TOOL };
    let mut span = between(run_id(past)?, start, end, format!("execute_tool {name}"), Kind::Internal);
    span.attributes.set(names::OPERATION, "execute_tool");
    let shown = if is_known { tool } else { tool.get(..tool.floor_char_boundary(LONGEST_MADE_UP)).unwrap_or_default() };
    span.attributes.set(names::TOOL, shown);
    span.attributes.set(names::TOOL_TYPE, "function");
    span.attributes.set(names::TOOL_CALL, call.as_str());
    Some(span)
}

pub(super) fn set_error(span: &mut Span) {
    if let Status::Error { what } = span.status {
        span.attributes.set(names::ERROR, what);
    }
}
