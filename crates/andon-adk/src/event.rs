//! ADK's event as JSON: camelCase, no empty fields, the fields in ADK's own order.

use std::sync::Arc;

use andon_runtime::core::message::Image;
use andon_runtime::core::time::Wall;
use andon_runtime::core::usage::{Figure, Usage};
use andon_runtime::{Message, Part, RunId, StateMap};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// An ADK event. Only events outside of runs are stored and read again. They have no content and no model call, so the fields for
/// those are not read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AdkEvent {
    /// The content.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub(crate) content: Option<Content>,
    /// Whether it is a piece of an answer; set on the whole answer only if pieces were sent before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) partial: Option<bool>,
    /// The turn is over; only on a live connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_complete: Option<bool>,
    /// Why the model stopped writing.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub(crate) finish_reason: Option<&'static str>,
    /// The kind of error.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub(crate) error_code: Option<&'static str>,
    /// The error, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error_message: Option<String>,
    /// It was cut short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interrupted: Option<bool>,
    /// What ADK has no field for, under `andon`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) custom_metadata: Option<Value>,
    /// The tokens, as far as they are known.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub(crate) usage_metadata: Option<Tokens>,
    /// The run's id.
    pub(crate) invocation_id: RunId,
    /// `user`, or the agent.
    pub(crate) author: Arc<str>,
    /// What it did besides speaking.
    pub(crate) actions: Actions,
    /// Where in the app it came from.
    pub(crate) node_info: NodeInfo,
    /// The long-running calls; set on every event that has calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) long_running_tool_ids: Option<Vec<String>>,
    /// Its id.
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub(crate) id: Uuid,
    /// When it happened, in seconds since 1970.
    pub(crate) timestamp: f64,
}

/// The content, and whose turn it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Content {
    /// The parts.
    pub(crate) parts: Vec<AdkPart>,
    /// `user` or `model`.
    pub(crate) role: &'static str,
}

/// A part of the content.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum AdkPart {
    FileData(Value),
    FunctionCall(Call),
    FunctionResponse(Response),
    InlineData(Value),
    #[serde(untagged)]
    Text {
        text: String,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        thought: bool,
    },
}

/// The model calls a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) args: Value,
    pub(crate) name: String,
}

/// A tool's response.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Response {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) response: Value,
}

/// What an event did besides speaking.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Actions {
    /// What it changed in the session's state.
    pub(crate) state_delta: StateMap,
    /// The artifacts that it wrote.
    pub(crate) artifact_delta: Map<String, Value>,
    requested_auth_configs: Map<String, Value>,
    /// The calls that need a person's approval.
    pub(crate) requested_tool_confirmations: Map<String, Value>,
}

/// Where in the app an event came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct NodeInfo {
    pub(crate) path: Arc<str>,
}

/// The tokens of a model call. An unknown count is left out, never 0.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tokens {
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_content_token_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    candidates_token_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_token_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thoughts_token_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_token_count: Option<u64>,
}

impl Tokens {
    /// As ADK counts them; `None` if no count is known.
    pub(crate) fn of(usage: &Usage) -> Option<Self> {
        let (prompt, output, thoughts) = (usage.read(), usage.output, usage.reasoning.value.unwrap_or(0));
        let some = |figure: Figure| figure.value.filter(|value| *value > 0);
        let tokens = Self {
            cached_content_token_count: some(usage.cache_read),
            // Thinking that is not counted apart is part of the candidates.
            candidates_token_count: output.value.map(|all| all.saturating_sub(thoughts)),
            prompt_token_count: prompt.value,
            thoughts_token_count: some(usage.reasoning),
            total_token_count: prompt.plus(output).value,
        };
        (tokens != Self::default()).then_some(tokens)
    }
}

impl AdkEvent {
    /// An event without content.
    pub(crate) fn blank(run: RunId, author: Arc<str>, path: Arc<str>, id: Uuid, at: Wall) -> Self {
        Self {
            content: None,
            partial: None,
            turn_complete: None,
            finish_reason: None,
            error_code: None,
            error_message: None,
            interrupted: None,
            custom_metadata: None,
            usage_metadata: None,
            invocation_id: run,
            author,
            actions: Actions::default(),
            node_info: NodeInfo { path },
            long_running_tool_ids: None,
            id,
            timestamp: seconds(at),
        }
    }
}

impl AdkPart {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), thought: false }
    }

    pub(crate) fn thought(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), thought: true }
    }

    pub(crate) fn call(id: impl Into<String>, name: impl Into<String>, args: Value) -> Self {
        Self::FunctionCall(Call { id: id.into(), args, name: name.into() })
    }

    pub(crate) fn response(id: impl Into<String>, name: impl Into<String>, response: Value) -> Self {
        Self::FunctionResponse(Response { id: id.into(), name: name.into(), response })
    }

    /// An image: its bytes if it is a data URL, otherwise its address.
    fn image(Image { media_type, reference, .. }: &Image) -> Self {
        match reference.split_once(";base64,").filter(|(head, _)| head.starts_with("data:")) {
            Some((_, data)) => Self::InlineData(json!({"data": data, "mimeType": media_type})),
            None => Self::FileData(json!({"fileUri": reference, "mimeType": media_type})),
        }
    }
}

/// A message's parts as ADK writes them, and the calls whose arguments are not a JSON object.
pub(crate) fn parts(message: &Message) -> (Vec<AdkPart>, Vec<(String, String)>) {
    let mut unreadable = Vec::new();
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(AdkPart::text(text)),
        Part::Thinking { text, .. } => Some(AdkPart::thought(text)),
        Part::Image(image) => Some(AdkPart::image(image)),
        Part::ToolCall(call) => {
            // ADK's clients accept only an object.
            let args = call.input().ok().filter(Value::is_object).unwrap_or_else(|| {
                unreadable.push((call.id.to_string(), call.arguments.clone()));
                json!({})
            });
            Some(AdkPart::call(call.id.as_str(), &call.name, args))
        }
        // Results are reported with the calls that they answer.
        Part::ToolResult(_) => None,
        #[cfg(not(andon_whole))]
        _ => None,
    });
    (parts.collect(), unreadable)
}

fn as_text<S: Serializer>(id: &Uuid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(id.hyphenated().encode_lower(&mut Uuid::encode_buffer()))
}

fn from_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Uuid, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

/// Seconds since 1970, as ADK writes time.
pub(crate) fn seconds(wall: Wall) -> f64 {
    // Exact to the microsecond for another hundred years or so.
    #[expect(clippy::cast_precision_loss, reason = "a double has 53 bits, and microseconds since 1970 need 51")]
    let micros = wall.0 as f64;
    micros / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use andon_runtime::core::usage::Provenance;

    #[test]
    fn unknown_token_counts_are_omitted() {
        assert_eq!(Tokens::of(&Usage::UNKNOWN), None);
        let output_alone = Usage::new().output(Figure::exact(146, Provenance::Estimated));
        assert_eq!(serde_json::to_string(&Tokens::of(&output_alone)).unwrap(), r#"{"candidatesTokenCount":146}"#);
        let input_alone = Usage::reported(12, 0).output(Figure::UNKNOWN);
        assert_eq!(serde_json::to_string(&Tokens::of(&input_alone)).unwrap(), r#"{"promptTokenCount":12}"#);
        let all = Usage::reported(10, 7)
            .cache_read(Figure::reported(5))
            .cache_write(Figure::reported(1))
            .reasoning(Figure::exact(2, Provenance::Counted));
        let expected = r#"{"cachedContentTokenCount":5,"candidatesTokenCount":5,"promptTokenCount":16,"thoughtsTokenCount":2,"totalTokenCount":23}"#;
        assert_eq!(serde_json::to_string(&Tokens::of(&all)).unwrap(), expected);
    }
}
