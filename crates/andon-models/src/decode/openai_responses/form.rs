//! The events of a stream, in the provider's form: only what is looked at.

use andon::ModelError;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::decode::event::{kind, read};

#[derive(Deserialize)]
pub(super) struct ItemEvent<'a> {
    #[serde(default)]
    pub(super) output_index: u64,
    /// Read only if it is of a kind that is known: the others' fields have forms of their own.
    #[serde(borrow)]
    pub(super) item: &'a RawValue,
}

#[derive(Deserialize, Default)]
pub(super) struct Item {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    pub(super) id: Option<String>,
    pub(super) call_id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) arguments: Option<String>,
    pub(super) encrypted_content: Option<String>,
    pub(super) summary: Option<Vec<Words>>,
    pub(super) content: Option<Vec<Words>>,
}

#[derive(Deserialize)]
pub(super) struct Words {
    pub(super) text: Option<String>,
    pub(super) refusal: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct DeltaEvent {
    #[serde(default)]
    pub(super) output_index: u64,
    #[serde(default)]
    pub(super) delta: String,
}

#[derive(Deserialize)]
pub(super) struct PartEvent {
    #[serde(default)]
    pub(super) output_index: u64,
    #[serde(default)]
    pub(super) summary_index: u64,
}

#[derive(Deserialize)]
pub(super) struct ArgumentsDone {
    #[serde(default)]
    pub(super) output_index: u64,
    pub(super) arguments: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct ResponseEvent {
    pub(super) response: Response,
}

#[derive(Deserialize)]
pub(super) struct Response {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) usage: Option<Tokens>,
    pub(super) error: Option<Problem>,
    pub(super) incomplete_details: Option<Incomplete>,
}

#[derive(Deserialize)]
pub(super) struct Tokens {
    pub(super) input_tokens: Option<u64>,
    pub(super) input_tokens_details: Option<InputDetails>,
    pub(super) output_tokens: Option<u64>,
    pub(super) output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
pub(super) struct InputDetails {
    pub(super) cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct OutputDetails {
    pub(super) reasoning_tokens: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct Incomplete {
    pub(super) reason: Option<String>,
}

#[derive(Deserialize, Default)]
pub(super) struct Problem {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) code: Option<String>,
    pub(super) message: Option<String>,
}

/// It stands in the event itself, or one level deeper.
#[derive(Deserialize)]
pub(super) struct ErrorEvent {
    pub(super) error: Option<Problem>,
    pub(super) code: Option<String>,
    pub(super) message: Option<String>,
}

impl ItemEvent<'_> {
    /// The item, if it is of a kind that is known.
    pub(super) fn item(&self) -> Result<Option<Item>, ModelError> {
        match &*kind(self.item.get())? {
            "message" | "reasoning" | "function_call" => Ok(Some(read(self.item.get())?)),
            _ => Ok(None),
        }
    }
}

/// Several paragraphs as one text.
pub(super) fn joined(words: Option<Vec<Words>>) -> String {
    let texts: Vec<String> = words.into_iter().flatten().filter_map(|words| words.text).collect();
    texts.join("\n\n")
}

impl Problem {
    pub(super) fn as_error(&self) -> ModelError {
        let code = self.code.as_deref().or(self.kind.as_deref()).unwrap_or_default();
        super::error(code, self.message.as_deref().unwrap_or_default())
    }
}
