//! What a user can set about a model, for every provider in the same words.

use serde_json::{Map, Value};

/// What a user can set about a model. What a provider does not have is left out of its requests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// How many tokens an answer may have, thinking included.
    pub max_output: Option<u32>,
    /// How much chance there is in an answer.
    pub temperature: Option<f32>,
    /// How long the model may think before it speaks.
    pub thinking: Option<Thinking>,
    /// Texts at which the model stops.
    pub stop: Vec<String>,
    /// Whether the provider is asked to cache what does not change, where that must be asked for.
    pub cache: bool,
    /// More fields for the request's body, as the provider names them. They win over all others.
    pub extra: Map<String, Value>,
}

/// How long a model may think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinking {
    /// Not at all, where that can be said.
    Off,
    /// In words that some providers have: little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// At most this many tokens, where that can be said.
    Tokens(u32),
}
