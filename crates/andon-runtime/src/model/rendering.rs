//! What a model would be sent, to be looked at.
//!
//! # Invariants
//!
//! 1. An adapter renders with the code that its real calls use: what is shown is what is sent.
//! 2. Nothing is sent, and no secret is in it: keys go with a call, and not with what it says.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::model::Request;

/// What a model would be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendering {
    /// The form, such as `anthropic` or `openai_chat`; `andon` for a model that has none of its own.
    pub form: Cow<'static, str>,
    /// The body.
    pub body: Value,
}

impl Rendering {
    /// A body in a form of this name.
    pub fn new(form: impl Into<Cow<'static, str>>, body: Value) -> Self {
        Self { form: form.into(), body }
    }

    /// The form of this house, for a model that has none of its own: what it is told, the conversation made acceptable, and
    /// its tools.
    pub fn plain(request: &Request) -> Self {
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
        Self::new("andon", Value::Object(body))
    }
}
