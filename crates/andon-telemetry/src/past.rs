//! Lookups in a run's earlier facts.

use std::sync::Arc;

use andon_runtime::core::event::{Event, HookChange, Record};
use andon_runtime::core::id::CallId;
use andon_runtime::core::usage::Used;

/// What a model call used.
pub(crate) fn usage_of(past: &[Arc<Record>], call: u32) -> Option<&Used> {
    past.iter().rev().find_map(|record| match &record.event {
        Event::Usage { call: of, used, .. } if *of == call => Some(&**used),
        _ => None,
    })
}

/// The exact model that answered a call, and the provider's id for the request.
pub(crate) fn answerer_of(past: &[Arc<Record>], call: u32) -> Option<(Option<&str>, Option<&str>)> {
    past.iter().rev().find_map(|record| match &record.event {
        Event::Usage { call: of, answered_by, request_id, .. } if *of == call => {
            Some((answered_by.as_deref(), request_id.as_deref()))
        }
        _ => None,
    })
}

/// The model of a call.
pub(crate) fn model_of(past: &[Arc<Record>], call: u32) -> Option<&Arc<str>> {
    past.iter().rev().find_map(|record| match &record.event {
        Event::ModelStarted { call: of, model, .. } if *of == call => Some(model),
        _ => None,
    })
}

/// The tool of a call, as the message that asks for the call names it, or as a hook has changed it.
pub(crate) fn tool_of<'a>(past: &'a [Arc<Record>], call: &CallId) -> Option<&'a str> {
    past.iter().rev().find_map(|record| match &record.event {
        Event::Message { message } => message.calls().find(|asked| asked.id == *call).map(|asked| asked.name.as_str()),
        Event::HookFinished { change: Some(change), .. } => match &**change {
            HookChange::Call { call: changed } if changed.id == *call => Some(changed.name.as_str()),
            _ => None,
        },
        _ => None,
    })
}
