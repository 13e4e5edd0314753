//! OpenAI's Responses API, without state on the server: the whole conversation is in `input`.
//!
//! A thought is a `reasoning` item: a summary, and its encrypted content, which only OpenAI can read. Its signature holds the
//! item's id and that content, with a colon between. It comes before the message or call that it led to.

use andon_runtime::core::message::{Content, Image, Message, Part, Role, Signature, ToolResult};
use serde_json::{Value, json};

use super::image::{Source, in_words, source};
use super::names::{wire_id, wire_name};
use super::prepare::{Thoughts, contents_in_words, prepare};
use super::{Ask, Body, choice, openai};

/// The name in the signatures of these thoughts.
pub const NAME: &str = "openai-responses";

const MAX_ID: usize = 64;

/// The signature of a thought: the item's id and its encrypted content.
pub fn seal(id: &str, encrypted: &str) -> Signature {
    Signature::new(NAME, format!("{id}:{encrypted}"))
}

/// The body of a request to `POST /responses`.
pub fn body(ask: &Ask<'_>) -> Value {
    let mut body = Body::new();
    body.set("model", ask.model);
    body.set("stream", true);
    body.set("store", false);
    if openai::encrypts_reasoning(ask.model) {
        body.set("include", json!(["reasoning.encrypted_content"]));
    }
    body.set_some("max_output_tokens", ask.settings.max_output);
    body.set_some("temperature", ask.openai_temperature());
    if let Some(effort) = ask.settings.thinking.and_then(|thinking| openai::effort(ask.model, thinking)) {
        // The summary is all that is ever shown of a thought, and only on request.
        body.set("reasoning", json!({"effort": effort, "summary": "auto"}));
    }
    body.set_some("instructions", ask.said_instructions());
    body.set_list("tools", ask.tools.iter().map(|tool| spec(tool)));
    body.set_some("tool_choice", choice::openai_responses(ask));
    body.set("input", input(ask.prompt));
    body.finish(ask.settings)
}

fn input(prompt: &[Message]) -> Vec<Value> {
    let mut input: Vec<Value> = Vec::new();
    for message in prepare(prompt, Thoughts::Bound(NAME)) {
        match message.role {
            Role::User => {
                let content: Value = message.parts.iter().filter_map(user_part).collect();
                input.push(json!({"type": "message", "role": "user", "content": content}));
            }
            Role::Assistant | Role::Tool => input.extend(message.parts.iter().map(item)),
        }
    }
    input
}

fn spec(tool: &andon_runtime::ToolSpec) -> Value {
    let name = wire_name(&tool.name);
    // The server's default is strict, and most schemas are not written for that.
    json!({
        "type": "function",
        "name": name,
        "description": tool.description,
        "parameters": tool.schema,
        "strict": false,
    })
}

fn user_part(part: &Part) -> Option<Value> {
    match part {
        Part::Image(image) => Some(image_part(image)),
        Part::Text { text } => Some(json!({"type": "input_text", "text": text})),
        Part::Thinking { .. } | Part::ToolCall(_) | Part::ToolResult(_) => None,
        #[cfg(not(andon_whole))]
        _ => Some(json!({"type": "input_text", "text": super::UNKNOWN})),
    }
}

fn image_part(image: &Image) -> Value {
    match source(image) {
        Source::Inline(_) | Source::Address(_) => json!({"type": "input_image", "image_url": image.reference}),
        Source::Elsewhere => json!({"type": "input_text", "text": in_words(image)}),
    }
}

fn item(part: &Part) -> Value {
    let said = |text: &str| {
        let content = json!([{"type": "output_text", "text": text}]);
        json!({"type": "message", "role": "assistant", "content": content})
    };
    match part {
        Part::Text { text } => said(text),
        Part::Image(image) => said(&in_words(image)),
        Part::Thinking { text, signature } => {
            let summary = if text.is_empty() { json!([]) } else { json!([{"type": "summary_text", "text": text}]) };
            let value = signature.as_ref().map_or("", |signature| signature.value.as_str());
            let (id, encrypted) = value.split_once(':').unwrap_or_default();
            json!({"type": "reasoning", "id": id, "summary": summary, "encrypted_content": encrypted})
        }
        Part::ToolCall(call) => json!({
            "type": "function_call",
            "call_id": wire_id(call.id.as_str(), MAX_ID),
            "name": wire_name(&call.name),
            "arguments": call.arguments,
        }),
        Part::ToolResult(result) => json!({
            "type": "function_call_output",
            "call_id": wire_id(result.call.as_str(), MAX_ID),
            "output": output(result),
        }),
        #[cfg(not(andon_whole))]
        _ => said(super::UNKNOWN),
    }
}

/// A text where that is enough, else a list with the images in it.
fn output(result: &ToolResult) -> Value {
    let is_text = |content: &Content| matches!(content, Content::Text { .. });
    if result.content.iter().all(is_text) {
        return json!(contents_in_words(result));
    }
    let parts = result.content.iter().map(|content| match content {
        Content::Text { text } => json!({"type": "input_text", "text": text}),
        Content::Image(image) => image_part(image),
        #[cfg(not(andon_whole))]
        _ => json!({"type": "input_text", "text": super::UNKNOWN}),
    });
    parts.collect()
}
