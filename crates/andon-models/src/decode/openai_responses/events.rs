//! The events of a stream as the provider sends them, with the fields that matter here.

use andon_runtime::ModelError;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::decode::event::{Json, Kind, MAX_CALLS};
use crate::decode::loose::{Count, Few, Text, arguments, object};
use crate::decode::reported::Details;

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct ItemEvent<'a> {
    #[serde(default)]
    pub(super) output_index: Count,
    /// Read only if its kind is known: in other kinds these fields may have other types.
    pub(super) item: &'a RawValue,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct SentItem<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    id: Text<'a>,
    call_id: Text<'a>,
    name: Text<'a>,
    arguments: Option<&'a RawValue>,
    encrypted_content: Text<'a>,
    summary: Few<Words<'a>, MAX_CALLS>,
    content: Few<Words<'a>, MAX_CALLS>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Words<'a> {
    text: Text<'a>,
    refusal: Text<'a>,
}

/// An item, with what it says.
#[derive(Debug, Default)]
pub(super) struct Item {
    pub(super) kind: String,
    pub(super) id: String,
    /// The id that a call's result refers to.
    pub(super) call_id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) sealed: Option<String>,
    /// A thought's paragraphs.
    pub(super) summary: String,
    /// A message's text.
    pub(super) text: String,
    pub(super) is_refusal: bool,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct DeltaEvent<'a> {
    pub(super) output_index: Count,
    pub(super) delta: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct ArgumentsEvent<'a> {
    pub(super) output_index: Count,
    /// More of them, or all of them at their end.
    #[serde(alias = "delta")]
    pub(super) arguments: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PartEvent {
    pub(super) output_index: Count,
    pub(super) summary_index: Count,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct ResponseEvent<'a> {
    pub(super) response: Response<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Response<'a> {
    pub(super) id: Text<'a>,
    pub(super) model: Text<'a>,
    #[serde(deserialize_with = "object")]
    pub(super) usage: Option<Tokens>,
    pub(super) error: Option<Problem<'a>>,
    pub(super) incomplete_details: Option<Incomplete<'a>>,
    pub(super) output: Few<&'a RawValue, MAX_CALLS>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Tokens {
    pub(super) input_tokens: Count,
    #[serde(deserialize_with = "object")]
    pub(super) input_tokens_details: Option<Details>,
    pub(super) output_tokens: Count,
    #[serde(deserialize_with = "object")]
    pub(super) output_tokens_details: Option<Details>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Incomplete<'a> {
    pub(super) reason: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Problem<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) code: Text<'a>,
    pub(super) message: Text<'a>,
}

/// The error is in the event itself or one level deeper.
#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct ErrorEvent<'a> {
    pub(super) error: Option<Problem<'a>>,
    pub(super) code: Text<'a>,
    pub(super) message: Text<'a>,
}

/// The item, if its kind is known.
pub(super) fn item(sent: &RawValue) -> Result<Option<Item>, ModelError> {
    let json = Json::new(sent.get());
    match json.read::<Kind<'_>>()?.name() {
        "message" | "reasoning" | "function_call" => Ok(Some(json.read::<SentItem<'_>>()?.into())),
        _ => Ok(None),
    }
}

impl From<SentItem<'_>> for Item {
    fn from(sent: SentItem<'_>) -> Self {
        let is_refusal = sent.content.0.iter().any(|words| !words.refusal.is_empty());
        let said = sent.content.0.into_iter().filter_map(|words| words.text.some().or(words.refusal.some()));
        let paragraphs: Vec<String> = sent.summary.0.into_iter().filter_map(|words| words.text.some()).collect();
        Self {
            kind: sent.kind.or_empty(),
            id: sent.id.or_empty(),
            call_id: sent.call_id.or_empty(),
            name: sent.name.or_empty(),
            arguments: arguments(sent.arguments),
            sealed: sent.encrypted_content.some(),
            summary: paragraphs.join("\n\n"),
            text: said.collect(),
            is_refusal,
        }
    }
}

impl Item {
    /// The id that a call's result refers to.
    pub(super) fn answered_by(&self) -> &str {
        if self.call_id.is_empty() { &self.id } else { &self.call_id }
    }
}

impl Problem<'_> {
    pub(super) fn as_error(&self) -> ModelError {
        let code = if self.code.is_empty() { &self.kind } else { &self.code };
        super::error(code.as_str(), self.message.as_str())
    }
}
