//! Ollama's own API, `/api/chat`.
//!
//! Arguments are an object here, not a text; an image is base64 next to the text; thoughts are not sent.

use std::collections::HashMap;

use andon_runtime::ToolChoice;
use andon_runtime::core::message::{Content, Image, Message, Part, Role, ToolCall, ToolResult};
use serde_json::{Map, Value, json};

use super::image::{Source, in_words, source};
use super::names::wire_name;
use super::openai_chat::{spec, words};
use super::prepare::{Thoughts, contents_in_words, prepare};
use super::{Ask, Body};
use crate::settings::{Thinking, ThinkingForm as _};

/// The body of a request to `POST /api/chat`.
pub fn body(ask: &Ask<'_>) -> Value {
    let mut body = Body::new();
    body.set("model", ask.model);
    body.set("stream", true);
    body.set_some("think", ask.settings.thinking.map(think));
    let mut options = Body::new();
    options.set_some("num_predict", ask.settings.max_output);
    options.set_some("temperature", ask.settings.temperature.and_then(super::number));
    options.set_list("stop", ask.settings.stop.iter().map(|stop| json!(stop)));
    body.set_object("options", options);
    let may_call = *ask.tool_choice != ToolChoice::None;
    body.set_list("tools", ask.tools.iter().filter(|_| may_call).map(|tool| spec(tool)));
    body.set("messages", messages(ask));
    body.finish(ask.settings)
}

/// Most models know only on and off; some know levels.
fn think(thinking: Thinking) -> Value {
    thinking.word().map_or_else(|| json!(thinking != Thinking::Off), Value::from)
}

fn messages(ask: &Ask<'_>) -> Vec<Value> {
    let system = ask.said_instructions().map(|text| json!({"role": "system", "content": text}));
    let mut messages: Vec<Value> = system.into_iter().collect();
    // A result carries its tool's name: calls have no ids here.
    let mut names: HashMap<String, String> = HashMap::new();
    for message in prepare(ask.prompt, Thoughts::Dropped) {
        names.extend(message.calls().map(|call| (call.id.to_string(), wire_name(&call.name))));
        match message.role {
            Role::User => messages.push(user(&message)),
            Role::Assistant => messages.push(assistant(&message)),
            Role::Tool => messages.extend(message.results().map(|result| answer(result, &names))),
        }
    }
    messages
}

/// A message with its images next to the text.
fn wire_message(role: &str, words: &[String], images: Vec<&str>) -> Map<String, Value> {
    let mut message = Map::new();
    message.insert("role".to_owned(), json!(role));
    message.insert("content".to_owned(), json!(words.join("\n\n")));
    if !images.is_empty() {
        message.insert("images".to_owned(), json!(images));
    }
    message
}

/// The image's bytes, if they are in the reference: the server fetches nothing.
fn bytes(image: &Image) -> Option<&str> {
    match source(image) {
        Source::Inline(base64) => Some(base64),
        Source::Address(_) | Source::Elsewhere => None,
    }
}

fn user(message: &Message) -> Value {
    let (mut words, mut images) = (Vec::new(), Vec::new());
    for part in &message.parts {
        match part {
            Part::Text { text } => words.push(text.clone()),
            Part::Image(image) => match bytes(image) {
                Some(base64) => images.push(base64),
                None => words.push(in_words(image)),
            },
            Part::Thinking { .. } | Part::ToolCall(_) | Part::ToolResult(_) => {}
            #[cfg(not(andon_whole))]
            _ => words.push(super::UNKNOWN.to_owned()),
        }
    }
    Value::Object(wire_message("user", &words, images))
}

fn assistant(message: &Message) -> Value {
    let words = words(message, "");
    let mut written = wire_message("assistant", &[words], Vec::new());
    let call = |call: &ToolCall| {
        let arguments = call.input().unwrap_or_default();
        json!({"function": {"name": wire_name(&call.name), "arguments": arguments}})
    };
    let calls: Vec<Value> = message.calls().map(call).collect();
    if !calls.is_empty() {
        written.insert("tool_calls".to_owned(), json!(calls));
    }
    Value::Object(written)
}

fn answer(result: &ToolResult, names: &HashMap<String, String>) -> Value {
    let images = result.content.iter().filter_map(|content| match content {
        Content::Image(image) => bytes(image),
        Content::Text { .. } => None,
        #[cfg(not(andon_whole))]
        _ => None,
    });
    let mut written = wire_message("tool", &[contents_in_words(result)], images.collect());
    let name = names.get(result.call.as_str()).map_or("unnamed", String::as_str);
    written.insert("tool_name".to_owned(), json!(name));
    Value::Object(written)
}
