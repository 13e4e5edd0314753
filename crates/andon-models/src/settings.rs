//! A model's settings, the same for every provider.

use serde_json::{Map, Value};

/// What a user can set for a model. What a provider does not have is left out of its requests.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// How many tokens an answer may have, thinking included.
    pub max_output: Option<u32>,
    /// How random an answer is.
    pub temperature: Option<f32>,
    /// How long the model may think before it speaks.
    pub thinking: Option<Thinking>,
    /// Texts at which the model stops.
    pub stop: Vec<String>,
    /// Whether to ask the provider to cache what does not change, where it must be asked.
    pub cache: bool,
    /// More fields for the request's body, as the provider names them. They override all others.
    pub extra: Map<String, Value>,
}

andon_runtime::core::with!(Settings: max_output: into Option<u32>, temperature: into Option<f32>, thinking: into Option<Thinking>,
    stop: Vec<String>, cache: bool, extra: Map<String, Value>);

/// How long a model may think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Thinking {
    /// Not at all, where the provider allows it.
    Off,
    /// A little.
    Low,
    /// A moderate amount.
    Medium,
    /// A lot.
    High,
    /// At most this many tokens, where the provider takes a number.
    Tokens(u32),
}

impl Thinking {
    /// In a word, for providers that take words.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            Self::Off | Self::Tokens(_) => None,
            Self::Low => Some("low"),
            Self::Medium => Some("medium"),
            Self::High => Some("high"),
        }
    }

    /// As a number of tokens, for providers that take a number.
    pub(crate) fn tokens(self) -> u32 {
        match self {
            Self::Off => 0,
            Self::Low => 2_048,
            Self::Medium => 8_192,
            Self::High => 24_576,
            Self::Tokens(tokens) => tokens,
        }
    }
}
