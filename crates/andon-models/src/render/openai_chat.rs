//! OpenAI's Chat Completions API, and the many servers that speak it.
//!
//! It has no place for a thought, and a tool's result is a text. What some servers want besides is in `Server`.

use std::borrow::Cow;

use andon_runtime::core::id::CallId;
use andon_runtime::core::message::{Message, Part, Role, ToolCall};
use serde_json::{Map, Value, json};

use super::image::{Source, in_words, source};
use super::names::{nine, wire_id, wire_name};
use super::prepare::{Thoughts, contents_in_words, prepare};
use super::{Ask, Body, choice, openai};
use crate::settings::Thinking;

const MAX_ID: usize = 40;

/// Takes the place of an answer that never began, between a tool's result and the user's next message, where a server does not
/// allow them to be neighbours. It says nothing, because it is in the model's voice.
const NO_ANSWER: &str = "[…]";

/// A server that is stricter than the others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Server {
    /// Like OpenAI, or more lenient.
    Plain,
    /// No user message directly after a tool's, and ids in its own format. Other servers of its models use its templates, which
    /// check the same.
    Mistral,
    /// It wants back what it thought before a call. It signs nothing: the words go back in the clear, and a call without a
    /// thought, or with another model's, gets an empty one.
    DeepSeek,
}

impl Server {
    fn of(ask: &Ask<'_>) -> Self {
        const FAMILY: [&str; 7] = ["mistral", "ministral", "mixtral", "codestral", "devstral", "magistral", "pixtral"];
        let model = ask.model.to_ascii_lowercase();
        let is_mistral = ask.provider == "mistral" || FAMILY.iter().any(|name| model.contains(name));
        // Under the name `deepseek-chat` it does not think.
        let thinks = ask.settings.thinking != Some(Thinking::Off) && model != "deepseek-chat";
        match ask.provider {
            _ if is_mistral => Self::Mistral,
            "deepseek" if thinks => Self::DeepSeek,
            _ => Self::Plain,
        }
    }

    fn id(self, id: &CallId) -> String {
        match self {
            Self::Plain | Self::DeepSeek => wire_id(id.as_str(), MAX_ID),
            Self::Mistral => nine(id.as_str()),
        }
    }

    /// Which thoughts it accepts.
    fn thoughts(self) -> Thoughts {
        match self {
            Self::Plain | Self::Mistral => Thoughts::Dropped,
            Self::DeepSeek => Thoughts::Unsigned,
        }
    }
}

/// The body of a request to `POST /chat/completions`.
pub fn body(ask: &Ask<'_>) -> Value {
    let mut body = Body::new();
    body.set("model", ask.model);
    body.set("stream", true);
    body.set("stream_options", json!({"include_usage": true}));
    body.set_some(max_field(ask), ask.settings.max_output);
    body.set_some("temperature", ask.openai_temperature());
    body.set_some("reasoning_effort", effort(ask));
    if ask.provider == "deepseek" && ask.settings.thinking == Some(Thinking::Off) {
        body.set("thinking", json!({"type": "disabled"}));
    }
    body.set_list("stop", ask.settings.stop.iter().map(|stop| json!(stop)));
    body.set_list("tools", ask.tools.iter().map(|tool| spec(tool)));
    body.set_some("tool_choice", choice::openai_chat(ask));
    body.set("messages", messages(ask));
    body.finish(ask.settings)
}

/// The field for an answer's limit: OpenAI's own models refuse the old name, other servers know only that. At Azure the model's
/// name says nothing, and all models accept the new field.
fn max_field(ask: &Ask<'_>) -> &'static str {
    if ask.provider == "azure" || openai::is_own(ask.model) { "max_completion_tokens" } else { "max_tokens" }
}

/// How long to think. OpenAI's newest models accept tools here only if told not to think: with tools they are better used through
/// Responses. OpenRouter does that itself.
fn effort(ask: &Ask<'_>) -> Option<&'static str> {
    if !ask.tools.is_empty() && ask.provider != "openrouter" && openai::reasons_or_has_tools(ask.model) {
        return Some("none");
    }
    openai::effort(ask.model, ask.settings.thinking?)
}

fn messages(ask: &Ask<'_>) -> Vec<Value> {
    let server = Server::of(ask);
    let system = ask.said_instructions().map(|text| json!({"role": "system", "content": text}));
    let mut messages: Vec<Value> = system.into_iter().collect();
    let mut before = None;
    for message in prepare(ask.prompt, server.thoughts()) {
        match message.role {
            Role::User => {
                if server == Server::Mistral && before == Some(Role::Tool) {
                    messages.push(json!({"role": "assistant", "content": NO_ANSWER}));
                }
                messages.push(json!({"role": "user", "content": user_content(&message)}));
            }
            Role::Assistant => {
                let mut said = assistant(&message, server);
                let thought = thoughts(&message);
                // The answer after the last result belongs to the calls before it.
                let is_wanted = said.contains_key("tool_calls") || (before == Some(Role::Tool) && !thought.is_empty());
                if server == Server::DeepSeek && is_wanted {
                    said.insert("reasoning_content".to_owned(), json!(thought));
                }
                messages.push(Value::Object(said));
            }
            Role::Tool => messages.extend(message.results().map(|result| {
                let id = server.id(&result.call);
                json!({"role": "tool", "tool_call_id": id, "content": contents_in_words(result)})
            })),
        }
        before = Some(message.role);
    }
    messages
}

pub(super) fn spec(tool: &andon_runtime::ToolSpec) -> Value {
    let name = wire_name(&tool.name);
    let function = json!({"name": name, "description": tool.description, "parameters": tool.schema});
    json!({"type": "function", "function": function})
}

/// One text where that is enough: some servers accept nothing else.
fn user_content(message: &Message) -> Value {
    let is_text = |part: &Part| matches!(part, Part::Text { .. });
    if message.parts.iter().all(is_text) {
        return json!(words(message, "\n\n"));
    }
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(json!({"type": "text", "text": text})),
        Part::Image(image) => Some(match source(image) {
            Source::Inline(_) | Source::Address(_) => {
                json!({"type": "image_url", "image_url": {"url": image.reference}})
            }
            Source::Elsewhere => json!({"type": "text", "text": in_words(image)}),
        }),
        Part::Thinking { .. } | Part::ToolCall(_) | Part::ToolResult(_) => None,
        #[cfg(not(andon_whole))]
        _ => Some(json!({"type": "text", "text": super::UNKNOWN})),
    });
    parts.collect()
}

fn assistant(message: &Message, server: Server) -> Map<String, Value> {
    let text = words(message, "");
    let call = |call: &ToolCall| {
        let function = json!({"name": wire_name(&call.name), "arguments": call.arguments});
        json!({"id": server.id(&call.id), "type": "function", "function": function})
    };
    let calls: Vec<Value> = message.calls().map(call).collect();
    let content = if text.is_empty() { Value::Null } else { json!(text) };
    let mut said = Map::from_iter([("role".to_owned(), json!("assistant")), ("content".to_owned(), content)]);
    if !calls.is_empty() {
        said.insert("tool_calls".to_owned(), json!(calls));
    }
    said
}

/// A message's thoughts as one text.
fn thoughts(message: &Message) -> String {
    let thoughts = message.parts.iter().filter_map(|part| match part {
        Part::Thinking { text, .. } => Some(text.as_str()),
        Part::Text { .. } | Part::Image(_) | Part::ToolCall(_) | Part::ToolResult(_) => None,
        #[cfg(not(andon_whole))]
        _ => None,
    });
    thoughts.collect()
}

/// The words of a message as one text.
pub(super) fn words(message: &Message, between: &str) -> String {
    let words = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(Cow::Borrowed(text.as_str())),
        Part::Image(image) => Some(Cow::Owned(in_words(image))),
        Part::Thinking { .. } | Part::ToolCall(_) | Part::ToolResult(_) => None,
        #[cfg(not(andon_whole))]
        _ => Some(Cow::Borrowed(super::UNKNOWN)),
    });
    words.collect::<Vec<_>>().join(between)
}
