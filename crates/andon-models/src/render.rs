//! From a stored history to a request's body that its provider accepts: pure, one module a provider.

use andon::{Message, ToolSpec};

use crate::settings::Settings;

/// What a request is made from.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The model, as its provider calls it.
    pub model: &'a str,
    /// The agent's instructions.
    pub instructions: Option<&'a str>,
    /// The conversation, made acceptable by [`andon::core::prompt`].
    pub prompt: &'a [Message],
    /// The tools that the model may ask for.
    pub tools: &'a [std::sync::Arc<ToolSpec>],
    /// What the user has set.
    pub settings: &'a Settings,
}
