//! From a stored history to a request's body that its provider accepts: pure, one module for each provider.
//!
//! # Invariants
//!
//! 1. The same history gives the same bytes each time, and what is appended to a history changes nothing before it:
//!    prompt caches compare prefixes. Only the mark for the cache moves, with the last message.
//! 2. A thought is sent back only to the provider that signed it (`NAME` of each module); the others' thoughts are left out. A
//!    thought without a signature goes only to DeepSeek, which signs nothing and wants its words back.
//! 3. The user's `extra` fields are merged last, and override the rest.

pub mod anthropic;
pub mod bedrock;
pub mod choice;
mod claude;
pub mod gemini;
mod image;
mod names;
pub mod ollama;
mod openai;
pub mod openai_chat;
pub mod openai_responses;
mod prepare;

use andon_runtime::{Message, ToolChoice, ToolSpec};
use serde_json::{Map, Value};

use crate::settings::Settings;

/// What a provider is told in place of a part that a newer program has made.
#[cfg(not(andon_whole))]
const UNKNOWN: &str = "[something that this program does not know]";

/// What a request is made from.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Ask<'a> {
    /// The provider, by its name in [`names`](crate::names): servers with the same API differ.
    pub provider: &'a str,
    /// The model, as its provider calls it.
    pub model: &'a str,
    /// The agent's instructions.
    pub instructions: Option<&'a str>,
    /// The conversation, made acceptable by [`andon_runtime::core::prompt`].
    pub prompt: &'a [Message],
    /// The tools that the model may ask for.
    pub tools: &'a [std::sync::Arc<ToolSpec>],
    /// Whether the model may call tools, or must.
    pub tool_choice: &'a ToolChoice,
    /// What the user has set.
    pub settings: &'a Settings,
}

andon_runtime::core::with!(Ask<'a>: model: &'a str, instructions: into Option<&'a str>, tools: &'a [std::sync::Arc<ToolSpec>],
    tool_choice: &'a ToolChoice);

impl<'a> Ask<'a> {
    /// A prompt for a model, without instructions and tools.
    pub fn new(provider: &'a str, model: &'a str, prompt: &'a [Message], settings: &'a Settings) -> Self {
        Self { provider, model, instructions: None, prompt, tools: &[], tool_choice: &ToolChoice::Auto, settings }
    }

    /// The instructions, if they say anything: no provider takes a blank text.
    fn said_instructions(&self) -> Option<&'a str> {
        self.instructions.filter(|text| !text.trim().is_empty())
    }

    /// The temperature, where an OpenAI model takes one.
    fn openai_temperature(&self) -> Option<Value> {
        self.settings.temperature.filter(|_| openai::takes_temperature(self.model)).and_then(number)
    }
}

/// A request's body while it is being built.
struct Body(Map<String, Value>);

impl Body {
    fn new() -> Self {
        Self(Map::new())
    }

    fn set(&mut self, field: &str, value: impl Into<Value>) {
        self.0.insert(field.to_owned(), value.into());
    }

    fn set_some(&mut self, field: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(field, value);
        }
    }

    /// Sets a list, unless it is empty: several providers refuse an empty one.
    fn set_list(&mut self, field: &str, list: impl IntoIterator<Item = Value>) {
        let list: Vec<Value> = list.into_iter().collect();
        if !list.is_empty() {
            self.set(field, list);
        }
    }

    fn set_object(&mut self, field: &str, inner: Self) {
        if !inner.0.is_empty() {
            self.set(field, inner.0);
        }
    }

    /// The body with the user's `extra` fields.
    fn finish(mut self, settings: &Settings) -> Value {
        merge(&mut self.0, &settings.extra);
        Value::Object(self.0)
    }
}

/// Merges `more` into `into`: objects field by field, anything else is replaced, and `null` removes a field.
fn merge(into: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (field, value) in more {
        match (into.get_mut(field), value) {
            (_, Value::Null) => drop(into.remove(field)),
            (Some(Value::Object(inner)), Value::Object(more)) => merge(inner, more),
            _ => drop(into.insert(field.clone(), value.clone())),
        }
    }
}

/// A number as people write it: `0.7`, not `0.699999988079071`.
fn number(value: f32) -> Option<Value> {
    value.to_string().parse::<f64>().ok().filter(|value| value.is_finite()).map(Value::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_user_adds_is_merged_into_what_is_there_and_null_takes_a_field_away() {
        let mut body = Body::new();
        body.set("options", json!({"a": 1, "b": 2}));
        body.set("stream", true);
        body.set("kept", "yes");
        let extra = json!({"options": {"b": 3, "c": {"d": 4}}, "stream": null, "new": [1]});
        let settings = Settings { extra: extra.as_object().unwrap().clone(), ..Settings::default() };
        let expected = json!({"options": {"a": 1, "b": 3, "c": {"d": 4}}, "kept": "yes", "new": [1]});
        assert_eq!(body.finish(&settings), expected);
    }

    #[test]
    fn a_temperature_is_sent_as_it_was_written() {
        assert_eq!(number(0.7), Some(json!(0.7)));
        assert_eq!(number(1.0), Some(json!(1.0)));
        assert_eq!(number(f32::NAN), None);
    }
}
