//! Amazon Bedrock's Converse API.
//!
//! It serves several makers' models. A thought goes back as it came: a text with its signature, or redacted
//! content, whose base64 is kept as a signature that begins with `redacted:`.

use std::collections::BTreeSet;

use andon_runtime::core::message::{Content, Image, Message, Part, Role};
use serde_json::{Value, json};

use super::image::{Source, in_words, source};
use super::names::{wire_id, wire_name};
use super::prepare::{Thoughts, two_sided};
use super::{Ask, Body, choice, claude};

/// The name in the signatures of these thoughts.
pub const NAME: &str = "bedrock";

/// The beginning of a hidden thought's signature.
pub const REDACTED: &str = "redacted:";

const MAX_ID: usize = 64;

/// The default limit of an answer. A request to Claude always has one; the other models use their own.
pub fn default_max_output(model: &str) -> Option<u32> {
    model.contains("claude").then(|| claude::max_output(model))
}

/// The body of a request to `POST /model/MODEL/converse-stream`. The model is in the address.
pub fn body(ask: &Ask<'_>) -> Value {
    let mut body = Body::new();
    let is_claude = ask.model.contains("claude");
    let max_output = ask.settings.max_output.unwrap_or_else(|| claude::max_output(ask.model));
    let mut messages = two_sided(ask.prompt, Thoughts::InPlace(NAME), block);
    let thinking = claude::thinking(ask.model, ask.settings, max_output)
        .filter(|fields| is_claude && (!fields.wants_thoughts() || opens_with_thought(&messages)));
    let mut config = Body::new();
    // Other makers' models may allow less, so their own limits apply.
    config.set_some("maxTokens", ask.settings.max_output.or(is_claude.then_some(max_output)));
    let temperature = match is_claude {
        true => claude::temperature(ask.model, ask.settings, thinking.as_ref()),
        false => ask.settings.temperature.and_then(super::number),
    };
    config.set_some("temperature", temperature);
    config.set_list("stopSequences", ask.settings.stop.iter().map(|stop| json!(stop)));
    body.set_object("inferenceConfig", config);
    if let Some(fields) = thinking {
        let mut more = Body::new();
        more.set_some("thinking", fields.thinking);
        more.set_some("output_config", fields.output_config);
        body.set_object("additionalModelRequestFields", more);
    }
    let mut system: Vec<Value> = ask.said_instructions().iter().map(|text| json!({"text": text})).collect();
    let mut tools = tool_specs(ask);
    if ask.settings.cache {
        mark(&mut system);
        mark(&mut tools);
        if let Some(Value::Array(last)) = messages.last_mut().and_then(|last| last.get_mut("content")) {
            mark(last);
        }
    }
    body.set_list("system", system);
    if !tools.is_empty() {
        let mut config = Body::new();
        config.set("tools", tools);
        config.set_some("toolChoice", choice::bedrock(ask));
        body.set_object("toolConfig", config);
    }
    body.set("messages", messages);
    body.finish(ask.settings)
}

/// Asks that everything up to here be cached.
fn mark(blocks: &mut Vec<Value>) {
    if !blocks.is_empty() {
        blocks.push(json!({"cachePoint": {"type": "default"}}));
    }
}

/// As with Anthropic: unless the answer that the results belong to opens with a thought, a model with a budget is asked not to
/// think.
fn opens_with_thought(messages: &[Value]) -> bool {
    let first = |message: &Value, kind: &str| {
        message.get("content").and_then(|content| content.as_array()?.first()?.get(kind)).is_some()
    };
    let [.., answer, last] = messages else { return true };
    !first(last, "toolResult") || first(answer, "reasoningContent")
}

/// The tools, or stand-ins for those that the conversation used: Converse refuses calls in a history if no tool is configured.
fn tool_specs(ask: &Ask<'_>) -> Vec<Value> {
    if !ask.tools.is_empty() {
        return ask.tools.iter().map(|tool| spec(&tool.name, &tool.description, &tool.schema)).collect();
    }
    let used: BTreeSet<String> = ask.prompt.iter().flat_map(Message::calls).map(|call| wire_name(&call.name)).collect();
    used.iter().map(|name| spec(name, "No longer available.", &json!({"type": "object"}))).collect()
}

fn spec(name: &str, description: &str, schema: &Value) -> Value {
    let schema = json!({"json": schema});
    json!({"toolSpec": {"name": wire_name(name), "description": description, "inputSchema": schema}})
}

fn block(part: &Part, role: Role) -> Value {
    match part {
        Part::Text { text } => json!({"text": text}),
        // Only a user's message can carry an image.
        Part::Image(image) if role == Role::Assistant => json!({"text": in_words(image)}),
        Part::Image(image) => image_block(image),
        Part::Thinking { text, signature } => {
            let value = signature.as_ref().map_or("", |signature| signature.value.as_str());
            match value.strip_prefix(REDACTED) {
                Some(data) => json!({"reasoningContent": {"redactedContent": data}}),
                None => json!({"reasoningContent": {"reasoningText": {"text": text, "signature": value}}}),
            }
        }
        Part::ToolCall(call) => json!({"toolUse": {
            "toolUseId": wire_id(call.id.as_str(), MAX_ID),
            "name": wire_name(&call.name),
            "input": call.input().unwrap_or_default(),
        }}),
        Part::ToolResult(result) => {
            let content = result.content.iter().map(|content| match content {
                Content::Text { text } => json!({"text": text}),
                Content::Image(image) => image_block(image),
                #[cfg(not(andon_whole))]
                _ => json!({"text": super::UNKNOWN}),
            });
            json!({"toolResult": {
                "toolUseId": wire_id(result.call.as_str(), MAX_ID),
                "status": if result.status.is_error() { "error" } else { "success" },
                "content": content.collect::<Value>(),
            }})
        }
        #[cfg(not(andon_whole))]
        _ => json!({"text": super::UNKNOWN}),
    }
}

fn image_block(image: &Image) -> Value {
    match source(image) {
        Source::Inline(base64) => {
            let format = match image.media_type.strip_prefix("image/").unwrap_or(&image.media_type) {
                "jpg" => "jpeg",
                format => format,
            };
            json!({"image": {"format": format, "source": {"bytes": base64}}})
        }
        // Converse fetches nothing from the web.
        Source::Address(_) | Source::Elsewhere => json!({"text": in_words(image)}),
    }
}
