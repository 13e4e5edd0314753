//! The changes that hooks ask for, checked and in the form in which they are recorded.

use std::collections::HashSet;
use std::sync::Arc;

use andon_core::event::HookChange;
use andon_core::history::check_sendable;
use andon_core::message::{Message, Part, Role};
use andon_core::request::{MessagesChange, RequestChange, ToolChoice};

use crate::live::Changed;
use crate::model::ModelRequest;

/// The change of a run's prompt.
pub(super) fn input(input: Message) -> Result<Option<HookChange>, String> {
    let bad = |why: String| format!("the hook's prompt cannot be used: {why}");
    if input.role != Role::User {
        return Err(bad("it must be a user message".to_owned()));
    }
    check_sendable([&input]).map_err(|error| bad(error.why.to_string()))?;
    if input.cut.is_some() {
        return Err(bad("it is marked as cut".to_owned()));
    }
    Ok(Some(HookChange::Input { input: Arc::new(input) }))
}

/// The change of an answer, if it is one.
pub(super) fn answer(before: &Arc<Message>, changed: Changed) -> Option<HookChange> {
    let (answer, is_withdrawn) = match changed {
        Changed::AnswerText(text) => (with_text(before, text), false),
        Changed::Withdrawn(text) => (Message::clone(before).parts(texts(text)), true),
        Changed::Input(_) | Changed::Request(_) | Changed::Call { .. } | Changed::Result(_) => return None,
    };
    (is_withdrawn || answer != **before).then(|| HookChange::Answer { answer: Arc::new(answer), is_withdrawn })
}

/// The answer with this text where its first one was; before its calls, if it had none.
fn with_text(before: &Message, text: String) -> Message {
    let is_text = |part: &Part| matches!(part, Part::Text { .. });
    let is_before_text = |part: &Part| matches!(part, Part::Thinking { .. });
    let first = before.parts.iter().position(is_text);
    let place = first.unwrap_or_else(|| before.parts.iter().take_while(|part| is_before_text(part)).count());
    let (head, tail) = before.parts.split_at_checked(place).unwrap_or((&before.parts, &[]));
    let tail = tail.iter().filter(|part| !is_text(part)).cloned();
    let parts = head.iter().cloned().chain(texts(text)).chain(tail).collect();
    before.clone().parts(parts)
}

/// A text as parts: an empty one has no parts.
fn texts(text: String) -> Vec<Part> {
    if text.is_empty() { Vec::new() } else { vec![Part::text(text)] }
}

/// How a request differs from the agent's own.
#[derive(Debug, PartialEq)]
pub(super) struct Difference(pub(super) RequestChange);

/// How one request differs from the agent's own.
pub(super) fn between(own: &ModelRequest, wanted: &ModelRequest) -> Difference {
    let text = |request: &ModelRequest| request.instructions.clone().unwrap_or_default();
    let names = |request: &ModelRequest| request.tools.iter().map(|tool| tool.name.clone()).collect::<Arc<[String]>>();
    let change = RequestChange::new()
        .instructions((text(own) != text(wanted)).then(|| text(wanted)))
        .messages(MessagesChange::between(&own.history, &wanted.history).map(Box::new))
        .tools((names(own) != names(wanted)).then(|| names(wanted)))
        .settings(wanted.settings.clone())
        .tool_choice(wanted.tool_choice.clone());
    Difference(change)
}

impl Difference {
    /// The request as it is sent, or why it cannot be.
    pub(super) fn checked(self, own: &ModelRequest, wanted: ModelRequest) -> Result<(ModelRequest, Self), String> {
        let bad = |why: String| format!("the hook's request cannot be sent: {why}");
        if self.0.messages.is_some() {
            let messages = wanted.history.iter().map(|message| &**message);
            check_sendable(messages).map_err(|error| bad(error.to_string()))?;
        }
        check_tools(own, &wanted).map_err(bad)?;
        wanted.settings.check().map_err(bad)?;
        let instructions = wanted.instructions.filter(|text| !text.is_empty());
        // It has no anchor: no earlier call was sent the same.
        let request = ModelRequest { run: own.run.clone(), number: own.number, instructions, anchor: None, ..wanted };
        Ok((request, self))
    }
}

/// A model can only ask for the agent's tools, unchanged.
fn check_tools(own: &ModelRequest, wanted: &ModelRequest) -> Result<(), String> {
    let mut names = HashSet::new();
    for tool in wanted.tools.iter() {
        let name = &tool.name;
        let Some(known) = own.tools.iter().find(|known| known.name == *name) else {
            return Err(format!("the agent has no tool {name:?}: a hook may remove tools, not add them"));
        };
        if known.description != tool.description || known.schema != tool.schema {
            return Err(format!(
                "the tool {name:?} differs from the agent's: a hook may remove tools, not change them"
            ));
        }
        if !names.insert(name.as_str()) {
            return Err(format!("the tool {name:?} is listed twice"));
        }
    }
    match &wanted.tool_choice {
        ToolChoice::Auto | ToolChoice::None => Ok(()),
        ToolChoice::Required if names.is_empty() => Err("a tool must be called, but there are none".to_owned()),
        ToolChoice::Required => Ok(()),
        ToolChoice::Tool { name } if names.contains(name.as_str()) => Ok(()),
        ToolChoice::Tool { name } => {
            Err(format!("the tool {name:?} must be called, but is not among the request's tools"))
        }
        #[cfg(not(andon_whole))]
        _ => Ok(()),
    }
}

/// The agent's own request with a change that is on record; messages that are not known any more are left as they are.
pub(super) fn apply(own: ModelRequest, change: &RequestChange) -> ModelRequest {
    let find = |name: &String| own.tools.iter().find(|tool| tool.name == *name).cloned();
    let changed = change.messages.as_ref().and_then(|messages| messages.apply(&own.history));
    ModelRequest {
        instructions: match &change.instructions {
            Some(text) => Some(Arc::clone(text)).filter(|text| !text.is_empty()),
            None => own.instructions,
        },
        history: changed.unwrap_or(own.history),
        // In the order of the change: a reordering is one, too.
        tools: match &change.tools {
            Some(names) => names.iter().filter_map(find).collect(),
            None => Arc::clone(&own.tools),
        },
        settings: change.settings.clone(),
        tool_choice: change.tool_choice.clone(),
        anchor: None,
        ..own
    }
}

#[cfg(test)]
mod tests {
    use andon_core::history::History;
    use andon_core::id::RunId;
    use serde_json::json;

    use super::*;
    use crate::tool::ToolSpec;

    #[test]
    fn a_change_on_record_gives_the_request_that_was_sent_with_its_tools_in_the_same_order() {
        let tool = |name: &str| Arc::new(ToolSpec::new(name, "Looks.", json!({"type": "object"})));
        let tools: Arc<[Arc<ToolSpec>]> = ["a", "b", "c"].map(tool).into();
        let own = ModelRequest {
            tools: Arc::clone(&tools),
            ..ModelRequest::new(RunId::new("r").unwrap(), 1, History::new())
        };
        for order in [&[2, 0][..], &[2, 1, 0], &[], &[0, 1, 2]] {
            let wanted = order.iter().map(|place: &usize| Arc::clone(&tools[*place])).collect();
            let wanted = ModelRequest { tools: wanted, ..own.clone() };
            let Difference(change) = between(&own, &wanted);
            assert_eq!(apply(own.clone(), &change).tools, wanted.tools, "{order:?}");
        }
    }
}
