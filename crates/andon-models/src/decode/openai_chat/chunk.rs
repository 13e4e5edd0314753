//! A chunk as servers send it. Any field may be missing, null or odd.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::decode::event::MAX_CALLS;
use crate::decode::loose::{Count, Few, Text, object};
use crate::decode::repair::as_words;
use crate::decode::reported::Details;

/// We ask for one choice; some servers split it.
const CHOICES: usize = 16;

#[derive(Debug, Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Chunk<'a> {
    pub(super) id: Text<'a>,
    pub(super) model: Text<'a>,
    pub(super) choices: Few<Choice<'a>, CHOICES>,
    #[serde(deserialize_with = "object")]
    pub(super) usage: Option<Report>,
    #[serde(deserialize_with = "object")]
    pub(super) x_groq: Option<Groq>,
    #[serde(deserialize_with = "object")]
    pub(super) timings: Option<Timings>,
    pub(super) error: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Choice<'a> {
    pub(super) index: Count,
    pub(super) delta: Option<Delta<'a>>,
    /// Some servers' name for a delta.
    pub(super) message: Option<Delta<'a>>,
    pub(super) finish_reason: Text<'a>,
    #[serde(deserialize_with = "object")]
    pub(super) usage: Option<Report>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Delta<'a> {
    pub(super) content: Words,
    pub(super) reasoning_content: Words,
    pub(super) reasoning: Words,
    pub(super) refusal: Text<'a>,
    pub(super) tool_calls: Few<CallDelta<'a>, MAX_CALLS>,
    /// A call, from before there could be several.
    pub(super) function_call: Option<FunctionDelta<'a>>,
}

impl Delta<'_> {
    /// Whether it says nothing.
    pub(super) fn is_empty(&self) -> bool {
        let words = [&self.content, &self.reasoning_content, &self.reasoning];
        words.iter().all(|words| words.is_empty())
            && self.refusal.is_empty()
            && self.tool_calls.0.is_empty()
            && self.function_call.is_none()
    }
}

#[derive(Debug, Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct CallDelta<'a> {
    pub(super) index: Count,
    pub(super) id: Text<'a>,
    pub(super) function: Option<FunctionDelta<'a>>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct FunctionDelta<'a> {
    pub(super) name: Text<'a>,
    /// The next part of the JSON as a text, or, from some servers, the JSON itself.
    pub(super) arguments: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub(super) struct Groq {
    #[serde(deserialize_with = "object")]
    pub(super) usage: Option<Report>,
}

/// Usage, under every server's names.
#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub(super) struct Report {
    pub(super) prompt_tokens: Count,
    pub(super) completion_tokens: Count,
    pub(super) total_tokens: Count,
    #[serde(deserialize_with = "object")]
    pub(super) prompt_tokens_details: Option<Details>,
    #[serde(deserialize_with = "object")]
    pub(super) completion_tokens_details: Option<Details>,
    /// DeepSeek.
    pub(super) prompt_cache_hit_tokens: Count,
    /// Moonshot.
    pub(super) cached_tokens: Count,
    pub(super) reasoning_tokens: Count,
}

/// llama.cpp's own figures.
#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub(super) struct Timings {
    /// Tokens not found in the cache.
    pub(super) prompt_n: Count,
    /// Tokens found in the cache.
    pub(super) cache_n: Count,
    pub(super) predicted_n: Count,
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

    /// The same words, all as thought.
    pub(super) fn into_thought(self) -> Self {
        Self { thought: self.thought + &self.text, text: String::new() }
    }

    fn add(&mut self, more: &Self) {
        self.thought.push_str(&more.thought);
        self.text.push_str(&more.text);
    }
}

struct WordsVisitor;

impl<'de> Visitor<'de> for WordsVisitor {
    type Value = Words;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of parts")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Words, E> {
        Ok(Words { text: as_words(text).into_owned(), ..Words::default() })
    }

    fn visit_unit<E: Error>(self) -> Result<Words, E> {
        Ok(Words::default())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Words, E> {
        Ok(Words::default())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Words, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Words, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Words, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Words, A::Error> {
        let mut words = Words::default();
        while let Some(part) = parts.next_element::<Words>()? {
            words.add(&part);
        }
        Ok(words)
    }

    /// A part: a thought or a text.
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Words, A::Error> {
        let mut words = Words::default();
        while let Some(name) = fields.next_key::<Text<'de>>()? {
            match name.as_str() {
                "thinking" => words.thought = fields.next_value::<Words>()?.into_thought().thought,
                "text" => words.text = fields.next_value::<Text<'de>>()?.or_empty(),
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        if !words.thought.is_empty() {
            words.text.clear();
        }
        Ok(words)
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordsVisitor)
    }
}
