//! What a model is sent: the stored history made acceptable for all providers, in one place.
//!
//! History is stored as it was, cut answers included. Providers are strict about what they take back. This module makes
//! the one from the other and changes nothing that is stored, so that a provider's adapter only translates.
//!
//! # Promises
//!
//! 1. It begins with a user message and ends with a user or tool message.
//! 2. Roles alternate: user or tool, then assistant. A user message may follow a tool message.
//! 3. Every call has exactly one result, in the tool message right after it, in the model's order; every result has its call.
//! 4. Call ids are unique; arguments are a JSON object.
//! 5. No part is empty, no message is without parts, no text of a result is blank.
//! 6. A thought of a cut answer is there with its signature, or not at all; no answer ends with a thought.
//! 7. A model whose last answer was stopped is told so, in the user message that follows.

use serde_json::{Map, Value};

use crate::message::{Content, Cut, Message, Part, Role, ToolCall, ToolResult};
use crate::reason::Reason;

/// Turns a stored history into what a model may be sent. See the module's promises.
pub fn prompt<'a>(history: impl IntoIterator<Item = &'a Message>) -> Vec<Message> {
    let mut prompt: Vec<Message> = Vec::new();
    let mut stopped: Option<Cut> = None;
    let mut before: Option<Role> = None;
    for message in history {
        let parts = match message.role {
            Role::Assistant => {
                stopped = message.cut;
                answer(message)
            }
            Role::Tool => sendable_parts(message),
            Role::User => {
                // No answer was stored between them, not even an empty one: the earlier prompt was stopped before an answer began.
                let unanswered = (before == Some(Role::User)).then_some(UNANSWERED);
                input(message, stopped.take().map(note).or(unanswered))
            }
        };
        before = Some(message.role);
        push(&mut prompt, message.role, parts);
    }
    prompt
}

/// Leaving something out can make two messages of one role neighbours: they become one message.
fn push(prompt: &mut Vec<Message>, role: Role, parts: Vec<Part>) {
    if parts.is_empty() {
        return;
    }
    match prompt.last_mut() {
        Some(last) if last.role == role => last.parts.extend(parts),
        _ => prompt.push(Message { role, parts, cut: None }),
    }
}

/// The user's message, with the note before it if there is one.
fn input(message: &Message, note: Option<&str>) -> Vec<Part> {
    let mut parts = sendable_parts(message);
    if parts.is_empty() {
        // Without it, its answer would be an answer to nothing.
        parts.push(Part::text("(no text)"));
    }
    note.map(Part::text).into_iter().chain(parts).collect()
}

/// An answer up to its last word or call: providers refuse a thought that nothing follows.
fn answer(message: &Message) -> Vec<Part> {
    let mut parts = sendable_parts(message);
    while let Some(Part::Thinking { .. }) = parts.last() {
        parts.pop();
    }
    parts
}

fn sendable_parts(message: &Message) -> Vec<Part> {
    message.parts.iter().filter_map(|part| sendable(part, message.cut)).collect()
}

const UNANSWERED: &str = "[The previous request ended before an answer began.]";

/// What the model is told about the answer that was stopped.
fn note(cut: Cut) -> &'static str {
    match cut {
        Cut::Cancelled(Reason::Requested | Reason::ClientDisconnected | Reason::Operator) => {
            "[Your previous answer was stopped by the user and is incomplete. Do not resume it unless asked to.]"
        }
        Cut::Cancelled(Reason::Superseded) => {
            "[Your previous answer was stopped because the user sent a new request, and is incomplete. Do not resume it unless asked to.]"
        }
        Cut::Cancelled(_) => "[Your previous answer was stopped before its end and is incomplete.]",
        Cut::Broken => "[Your previous answer broke off because of an error, and is incomplete.]",
        Cut::Lost => "[Your previous answer broke off because the program ended, and is incomplete.]",
    }
}

/// The part as it may be sent, or `None` if it may not.
fn sendable(part: &Part, cut: Option<Cut>) -> Option<Part> {
    match part {
        Part::Text { text } if text.trim().is_empty() => None,
        Part::Thinking { signature: None, .. } if cut.is_some() => None,
        Part::Thinking { text, signature: None } if text.is_empty() => None,
        Part::ToolCall(call) => Some(Part::ToolCall(with_object_arguments(call))),
        Part::ToolResult(result) => Some(Part::ToolResult(with_words(result))),
        Part::Text { .. } | Part::Image(_) | Part::Thinking { .. } => Some(part.clone()),
    }
}

/// A result cannot be left out, so an empty one says that it is empty.
fn with_words(result: &ToolResult) -> ToolResult {
    let is_blank = |content: &&Content| matches!(content, Content::Text { text } if text.trim().is_empty());
    let mut content: Vec<Content> = result.content.iter().filter(|content| !is_blank(content)).cloned().collect();
    if content.is_empty() {
        content.push(Content::Text { text: "(no output)".to_owned() });
    }
    ToolResult { content, ..result.clone() }
}

/// Arguments that are not a JSON object are shown to the model inside an object that quotes them.
fn with_object_arguments(call: &ToolCall) -> ToolCall {
    let arguments = match call.input() {
        // As the model wrote them: a provider's prompt cache compares bytes.
        Ok(Value::Object(_)) if !call.arguments.trim().is_empty() => call.arguments.clone(),
        Ok(Value::Object(empty)) => Value::Object(empty).to_string(),
        Ok(_) | Err(_) => {
            let quoted = Value::String(call.arguments.clone());
            Value::Object(Map::from_iter([("malformed_arguments".to_owned(), quoted)])).to_string()
        }
    };
    ToolCall { arguments, ..call.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::CallId;

    #[test]
    fn a_cut_answer_stays_the_assistants_words_and_the_note_is_in_the_users_message() {
        let cut = Message { cut: Some(Cut::Cancelled(Reason::Requested)), ..Message::assistant("One, two") };
        let prompt = prompt(&[Message::user("Count"), cut, Message::user("Go on")]);
        let expected = vec![
            Message::user("Count"),
            Message::assistant("One, two"),
            Message {
                role: Role::User,
                parts: vec![
                    Part::text(
                        "[Your previous answer was stopped by the user and is incomplete. Do not resume it unless asked to.]",
                    ),
                    Part::text("Go on"),
                ],
                cut: None,
            },
        ];
        assert_eq!(prompt, expected);
    }

    #[test]
    fn a_prompt_without_any_answer_is_never_followed_by_a_second_user_message() {
        let prompt = prompt(&[Message::user("A"), Message::user("B")]);
        assert_eq!(prompt.len(), 1);
        assert_eq!(prompt[0].parts, vec![Part::text("A"), Part::text(UNANSWERED), Part::text("B")]);
    }

    #[test]
    fn an_unsigned_thought_of_a_cut_answer_is_not_sent_and_leaves_no_empty_message() {
        let thought = Part::Thinking { text: "hm".into(), signature: None };
        let cut = Message { role: Role::Assistant, parts: vec![thought], cut: Some(Cut::Lost) };
        let prompt = prompt(&[Message::user("A"), cut, Message::user("B")]);
        assert_eq!(prompt.len(), 1);
        assert_eq!(prompt[0].parts.len(), 3);
    }

    #[test]
    fn arguments_are_always_sent_as_an_object() {
        let call =
            |arguments: &str| ToolCall { id: CallId::new("c").unwrap(), name: "t".into(), arguments: arguments.into() };
        assert_eq!(with_object_arguments(&call("")).arguments, "{}");
        assert_eq!(with_object_arguments(&call("{\"b\": 1, \"a\":2}")).arguments, "{\"b\": 1, \"a\":2}");
        assert_eq!(with_object_arguments(&call("[1]")).arguments, "{\"malformed_arguments\":\"[1]\"}");
        assert_eq!(with_object_arguments(&call("{oops")).arguments, "{\"malformed_arguments\":\"{oops\"}");
    }
}
