//! A model's settings, the same for every provider.

use std::borrow::Cow;

use andon_runtime::ModelSettings;
pub use andon_runtime::Thinking;
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

impl Settings {
    /// The settings of one call: its own, and these for what it leaves open.
    pub(crate) fn with(&self, call: &ModelSettings) -> Cow<'_, Self> {
        if call.is_default() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self {
            max_output: call.max_output.or(self.max_output),
            temperature: call.temperature.or(self.temperature),
            thinking: call.thinking.or(self.thinking),
            stop: if call.stop.is_empty() { self.stop.clone() } else { call.stop.clone() },
            ..self.clone()
        })
    }
}

/// [`Thinking`] in the forms that providers take.
pub(crate) trait ThinkingForm {
    /// In a word, for providers that take words.
    fn word(self) -> Option<&'static str>;

    /// As a number of tokens, for providers that take a number.
    fn tokens(self) -> u32;
}

impl ThinkingForm for Thinking {
    fn word(self) -> Option<&'static str> {
        match self {
            Self::Off | Self::Tokens(_) => None,
            Self::Low => Some("low"),
            Self::Medium => Some("medium"),
            Self::High => Some("high"),
            #[cfg(not(andon_whole))]
            _ => None,
        }
    }

    fn tokens(self) -> u32 {
        match self {
            Self::Off => 0,
            Self::Low => 2_048,
            Self::Medium => 8_192,
            Self::High => 24_576,
            Self::Tokens(tokens) => tokens,
            #[cfg(not(andon_whole))]
            _ => 8_192,
        }
    }
}
