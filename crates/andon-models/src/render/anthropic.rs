//! Anthropic's Messages API.
//!
//! A thought goes back as it came: `thinking` with its signature, or `redacted_thinking`, whose data is kept as a signature that
//! begins with `redacted:`. An answer with thoughts goes back in its original order: thoughts may come between text and calls,
//! and the server refuses an answer whose thoughts were moved.

use andon_runtime::core::message::{Content, Image, Part, Role};
use serde_json::{Value, json};

use super::image::{Source, in_words, source};
use super::names::{wire_id, wire_name};
use super::prepare::{Thoughts, two_sided};
use super::{Ask, Body, choice, claude};

/// The name in the signatures of these thoughts.
pub const NAME: &str = "anthropic";

/// The beginning of a hidden thought's signature. The provider's own is base64 and has no colon.
pub const REDACTED: &str = "redacted:";

/// The default limit of an answer, because a request must have one. It is the most that every model of the fourth generation and
/// later takes; a smaller number would cut answers short for no reason. The third generation takes less, and gets less.
pub const DEFAULT_MAX_OUTPUT: u32 = 32_000;

const MAX_ID: usize = 64;

/// The body of a request to `POST /v1/messages`.
pub fn body(ask: &Ask<'_>) -> Value {
    let max_output = ask.settings.max_output.unwrap_or_else(|| claude::max_output(ask.model));
    let mut body = Body::new();
    body.set("model", ask.model);
    body.set("stream", true);
    body.set("max_tokens", max_output);
    let mut messages = two_sided(ask.prompt, Thoughts::InPlace(NAME), block);
    let thinking = claude::thinking(ask.model, ask.settings, max_output)
        .filter(|fields| !fields.wants_thoughts() || opens_with_thought(&messages));
    body.set_some("temperature", claude::temperature(ask.model, ask.settings, thinking.as_ref()));
    if let Some(fields) = thinking {
        body.set_some("thinking", fields.thinking);
        body.set_some("output_config", fields.output_config);
    }
    body.set_list("stop_sequences", ask.settings.stop.iter().map(|stop| json!(stop)));
    let mut system: Vec<Value> =
        ask.said_instructions().iter().map(|text| json!({"type": "text", "text": text})).collect();
    let mut tools: Vec<Value> = ask.tools.iter().map(|tool| spec(tool)).collect();
    if ask.settings.cache {
        mark(system.last_mut());
        mark(tools.last_mut());
        mark(messages.last_mut().and_then(|last| last.get_mut("content")?.as_array_mut()?.last_mut()));
    }
    body.set_list("system", system);
    body.set_list("tools", tools);
    body.set_some("tool_choice", choice::anthropic(ask));
    body.set("messages", messages);
    body.finish(ask.settings)
}

/// Asks that everything up to here be cached.
fn mark(block: Option<&mut Value>) {
    if let Some(block) = block.and_then(Value::as_object_mut) {
        block.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    }
}

/// Whether the results at the end belong to an answer that opens with a thought. If it does not, because the thoughts are another
/// provider's or were never written, a model with a budget is asked not to think.
fn opens_with_thought(messages: &[Value]) -> bool {
    let kind = |message: &Value| -> Option<String> {
        Some(message.get("content")?.as_array()?.first()?.get("type")?.as_str()?.to_owned())
    };
    let [.., answer, last] = messages else { return true };
    let is_result = kind(last).is_some_and(|kind| kind == "tool_result");
    !is_result || kind(answer).is_some_and(|kind| kind.ends_with("thinking"))
}

fn spec(tool: &andon_runtime::ToolSpec) -> Value {
    json!({"name": wire_name(&tool.name), "description": tool.description, "input_schema": tool.schema})
}

fn block(part: &Part, role: Role) -> Value {
    match part {
        Part::Text { text } => json!({"type": "text", "text": text}),
        // Only a user's message can carry an image.
        Part::Image(image) if role == Role::Assistant => json!({"type": "text", "text": in_words(image)}),
        Part::Image(image) => image_block(image),
        Part::Thinking { text, signature } => {
            let value = signature.as_ref().map_or("", |signature| signature.value.as_str());
            match value.strip_prefix(REDACTED) {
                Some(data) => json!({"type": "redacted_thinking", "data": data}),
                None => json!({"type": "thinking", "thinking": text, "signature": value}),
            }
        }
        Part::ToolCall(call) => json!({
            "type": "tool_use",
            "id": wire_id(call.id.as_str(), MAX_ID),
            "name": wire_name(&call.name),
            "input": call.input().unwrap_or_default(),
        }),
        Part::ToolResult(result) => {
            let content = result.content.iter().map(|content| match content {
                Content::Text { text } => json!({"type": "text", "text": text}),
                Content::Image(image) => image_block(image),
                #[cfg(not(andon_whole))]
                _ => json!({"type": "text", "text": super::UNKNOWN}),
            });
            json!({
                "type": "tool_result",
                "tool_use_id": wire_id(result.call.as_str(), MAX_ID),
                "is_error": result.status.is_error(),
                "content": content.collect::<Value>(),
            })
        }
        #[cfg(not(andon_whole))]
        _ => json!({"type": "text", "text": super::UNKNOWN}),
    }
}

fn image_block(image: &Image) -> Value {
    match source(image) {
        Source::Inline(base64) => {
            json!({"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": base64}})
        }
        Source::Address(url) => json!({"type": "image", "source": {"type": "url", "url": url}}),
        Source::Elsewhere => json!({"type": "text", "text": in_words(image)}),
    }
}
