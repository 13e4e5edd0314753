//! What a model would be sent, for people to look at.
//!
//! # Invariants
//!
//! 1. An adapter renders with the code that its real calls use: what is shown is what is sent.
//! 2. Nothing is sent, and it contains no secret: keys are not part of a request's body.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::model::ModelRequest;

/// What a model would be sent.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Rendering {
    /// The format, such as `anthropic` or `openai_chat`; `andon` for a model that has none of its own.
    pub form: Cow<'static, str>,
    /// The body.
    pub body: Value,
}

impl Rendering {
    /// A body in the format of this name.
    pub fn new(form: impl Into<Cow<'static, str>>, body: Value) -> Self {
        Self { form: form.into(), body }
    }

    /// Andon's own format, for a model that has none: the instructions, the conversation as it would be sent, and the
    /// tools.
    pub fn plain(request: &ModelRequest) -> Self {
        let mut body = Map::new();
        if let Some(instructions) = &request.instructions {
            body.insert("instructions".to_owned(), json!(&**instructions));
        }
        body.insert("messages".to_owned(), json!(request.prompt()));
        if !request.tools.is_empty() {
            let tools = request
                .tools
                .iter()
                .map(|tool| json!({"name": tool.name, "description": tool.description, "parameters": tool.schema}));
            body.insert("tools".to_owned(), tools.collect());
        }
        if !request.settings.is_default() {
            body.insert("settings".to_owned(), json!(request.settings));
        }
        if !request.tool_choice.is_auto() {
            body.insert("tool_choice".to_owned(), json!(request.tool_choice));
        }
        Self::new("andon", Value::Object(body))
    }
}
