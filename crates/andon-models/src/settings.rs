//! A model's settings, the same for every provider.

use serde_json::{Map, Value};

/// What a user can set for a model. What a provider does not have is left out of its requests.
#[derive(Debug, Clone, Default, PartialEq)]
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

/// How long a model may think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
