//! A chunk as servers send it. Whatever may be missing or null may be missing or null.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::{Map, Value};

#[derive(Debug, Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) model: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    pub(super) usage: Option<Report>,
    #[serde(default)]
    pub(super) x_groq: Option<Groq>,
    #[serde(default)]
    pub(super) timings: Option<Timings>,
    #[serde(default)]
    pub(super) error: Option<IgnoredAny>,
}

/// A text that is lent where it has no escapes.
#[derive(Debug, Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(default)]
    pub(super) delta: Option<Delta>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Option<Text<'a>>,
    #[serde(default)]
    pub(super) usage: Option<Report>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Delta {
    #[serde(default)]
    pub(super) content: Option<Words>,
    #[serde(default)]
    pub(super) reasoning_content: Option<Words>,
    #[serde(default)]
    pub(super) reasoning: Option<Words>,
    #[serde(default)]
    pub(super) refusal: Option<String>,
    #[serde(default)]
    pub(super) tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CallDelta {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) function: Option<FunctionDelta>,
}

#[derive(Debug, Deserialize)]
pub(super) struct FunctionDelta {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) arguments: Option<Arguments>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Groq {
    #[serde(default)]
    pub(super) usage: Option<Report>,
}

/// Usage, with the names of all servers.
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    #[serde(default)]
    pub(super) prompt_tokens: Option<u64>,
    #[serde(default)]
    pub(super) completion_tokens: Option<u64>,
    #[serde(default)]
    pub(super) total_tokens: Option<u64>,
    #[serde(default)]
    pub(super) prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    pub(super) completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek.
    #[serde(default)]
    pub(super) prompt_cache_hit_tokens: Option<u64>,
    /// Moonshot.
    #[serde(default)]
    pub(super) cached_tokens: Option<u64>,
    #[serde(default)]
    pub(super) reasoning_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PromptDetails {
    #[serde(default)]
    pub(super) cached_tokens: Option<u64>,
    /// OpenRouter.
    #[serde(default)]
    pub(super) cache_write_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CompletionDetails {
    #[serde(default)]
    pub(super) reasoning_tokens: Option<u64>,
}

/// llama.cpp's own.
#[derive(Debug, Deserialize)]
pub(super) struct Timings {
    /// Read anew.
    #[serde(default)]
    pub(super) prompt_n: Option<u64>,
    /// Found in the cache.
    #[serde(default)]
    pub(super) cache_n: Option<u64>,
    #[serde(default)]
    pub(super) predicted_n: Option<u64>,
}

/// What a model says: a text, or Mistral's list of texts and thoughts.
#[derive(Debug, Default)]
pub(super) struct Words {
    pub(super) thought: String,
    pub(super) text: String,
}

impl Words {
    pub(super) fn is_empty(&self) -> bool {
        self.thought.is_empty() && self.text.is_empty()
    }

    /// All of it is thought.
    pub(super) fn into_thought(self) -> Self {
        Self { thought: self.thought + &self.text, text: String::new() }
    }

    fn add(&mut self, part: &Value) {
        match part {
            Value::String(text) => self.text.push_str(text),
            Value::Object(fields) => {
                if let Some(thinking) = fields.get("thinking") {
                    let mut inner = Self::default();
                    inner.add(thinking);
                    self.thought.push_str(&inner.into_thought().thought);
                } else if let Some(Value::String(text)) = fields.get("text") {
                    self.text.push_str(text);
                }
            }
            Value::Array(parts) => parts.iter().for_each(|part| self.add(part)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Words;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of parts")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Words, E> {
                Ok(Words { text: text.to_owned(), ..Words::default() })
            }

            fn visit_unit<E: de::Error>(self) -> Result<Words, E> {
                Ok(Words::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Words, A::Error> {
                let mut words = Words::default();
                while let Some(part) = parts.next_element::<Value>()? {
                    words.add(&part);
                }
                Ok(words)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// A call's arguments: the next bytes of their JSON, or, from some servers, the JSON itself.
#[derive(Debug, Default)]
pub(super) struct Arguments(pub(super) String);

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Arguments;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or an object")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Arguments, E> {
                Ok(Arguments(text.to_owned()))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Arguments, E> {
                Ok(Arguments::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Arguments, A::Error> {
                let fields: Map<String, Value> =
                    Deserialize::deserialize(de::value::MapAccessDeserializer::new(fields))?;
                Ok(Arguments(Value::Object(fields).to_string()))
            }
        }
        deserializer.deserialize_any(Any)
    }
}
