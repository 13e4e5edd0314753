//! Counting what was sent, by the provider's own endpoint.

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::{Figure, Findings, ModelRequest, Provenance, Usage, Used};
use serde_json::{Map, Value, json};
use url::Url;

use super::{Inner, tokens};
use crate::cut::CountEndpoint;
use crate::dialect::join;
use crate::http::ask::ask;
use crate::render;

/// How long it may take.
pub(super) const WITHIN: Duration = Duration::from_secs(20);

/// Counts a request that was sent. The endpoint does not say how much of it came from a cache, so that stays unknown. If the
/// answer had not begun, the provider may never have started: then the cost is anything from nothing to this count.
pub(super) async fn count(
    inner: Arc<Inner>,
    request: Arc<ModelRequest>,
    count: CountEndpoint,
    has_begun: bool,
) -> Findings {
    let (url, body) = count.request(&inner, &request);
    let Some(tokens) = ask(inner.post(url, &body)).await.and_then(|answer| count.tokens(&answer)) else {
        return Findings::default();
    };
    let counted = count.figure(tokens);
    let input = if has_begun { counted } else { Figure::bounded(Some(0), counted.high) };
    Findings::new(Used::whole(Usage::new().input(input)))
}

impl CountEndpoint {
    fn request(self, inner: &Inner, request: &ModelRequest) -> (Url, Value) {
        let (prompt, settings) = (request.prompt(), inner.settings(request));
        let ask = inner.ask(request, &prompt, &settings);
        match self {
            Self::OpenAi => {
                let body = render::openai_responses::body(&ask);
                let body = only(body, &["model", "input", "instructions", "tools", "tool_choice", "reasoning", "text"]);
                (join(&inner.base, ["responses", "input_tokens"]), body)
            }
            Self::Anthropic => {
                let body = render::anthropic::body(&ask);
                let body = only(body, &["model", "messages", "system", "tools", "tool_choice", "thinking"]);
                (join(&inner.base, ["v1", "messages", "count_tokens"]), body)
            }
            Self::Gemini => {
                let body = render::gemini::body(&ask);
                let mut body =
                    only(body, &["contents", "systemInstruction", "tools", "toolConfig", "generationConfig"]);
                let model = format!("models/{}", inner.target.model);
                if let Value::Object(fields) = &mut body {
                    fields.insert("model".to_owned(), json!(model));
                }
                let method = format!("{}:countTokens", inner.target.model);
                (join(&inner.base, ["models", &method]), json!({"generateContentRequest": body}))
            }
        }
    }

    /// What a count is worth: OpenAI says that it is what a request costs, Anthropic that it may be off by a small amount, and
    /// Google neither.
    fn figure(self, tokens: u64) -> Figure {
        let off = match self {
            Self::OpenAi => 0,
            Self::Anthropic | Self::Gemini => 8 + tokens / 50,
        };
        Figure::exact(tokens, Provenance::Counted)
            .low(tokens.saturating_sub(off).max(1))
            .high(tokens.saturating_add(off))
    }

    fn tokens(self, answer: &Value) -> Option<u64> {
        let field = match self {
            Self::OpenAi | Self::Anthropic => "/input_tokens",
            Self::Gemini => "/totalTokens",
        };
        tokens(answer, field).filter(|tokens| *tokens > 0)
    }
}

/// Only the fields that the endpoint knows: it refuses others.
fn only(body: Value, known: &[&str]) -> Value {
    let Value::Object(fields) = body else { return body };
    let fields: Map<String, Value> = fields.into_iter().filter(|(name, _)| known.contains(&name.as_str())).collect();
    Value::Object(fields)
}
