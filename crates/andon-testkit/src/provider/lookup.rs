//! The endpoints beside the stream: counting tokens, and looking up an answer afterwards.

use serde_json::json;

use super::dialect::Dialect;
use super::reply::Tokens;
use super::script::Script;
use super::{BadProvider, Refusal};

/// What OpenRouter says about an answer afterwards.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// The answer's id.
    pub id: String,
    /// The exact model.
    pub model: String,
    /// What it used.
    pub tokens: Tokens,
    /// What it cost, in dollars.
    pub cost: f64,
    /// Whether the client went away before its end.
    pub cancelled: bool,
}

impl BadProvider {
    /// From now on, the dialect's counting endpoint says that a request has this many tokens. Ollama has none.
    pub fn counts(&self, dialect: Dialect, tokens: u64) {
        let Some(pattern) = Self::counting_path(dialect) else { return };
        let document = match dialect {
            Dialect::OpenAiChat | Dialect::OpenAiResponses => {
                json!({"object": "response.input_tokens", "input_tokens": tokens})
            }
            Dialect::Gemini => json!({
                "totalTokens": tokens,
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}],
            }),
            Dialect::Anthropic | Dialect::Ollama => json!({"input_tokens": tokens}),
        };
        self.always_at(pattern, Script::json(200, &document));
    }

    /// The pattern of the dialect's counting endpoint, to bind a script of your own to.
    pub fn counting_path(dialect: Dialect) -> Option<&'static str> {
        match dialect {
            Dialect::Anthropic => Some("*/messages/count_tokens"),
            Dialect::OpenAiChat | Dialect::OpenAiResponses => Some("*/responses/input_tokens"),
            Dialect::Gemini => Some("*:countTokens"),
            Dialect::Ollama => None,
        }
    }

    /// From now on, OpenRouter's `GET …/generation` does not know the answer `unknown_first` times, and then does.
    pub fn generation(&self, generation: &Generation, unknown_first: usize) {
        let message = format!("Generation {} not found", generation.id);
        let unknown = Script::json(404, &json!({"error": {"code": 404, "message": message}}));
        for _ in 0..unknown_first {
            self.answer_at(GENERATION, unknown.clone());
        }
        self.always_at(GENERATION, Script::json(200, &record(generation)));
    }

    /// From now on, the dialect's counting endpoint refuses.
    pub fn refuses_to_count(&self, dialect: Dialect, refusal: Refusal) {
        if let Some(pattern) = Self::counting_path(dialect) {
            self.always_at(pattern, Script::refuse(dialect, refusal));
        }
    }
}

/// OpenRouter's endpoint for looking up an answer.
const GENERATION: &str = "*/generation";

fn record(generation: &Generation) -> serde_json::Value {
    let Generation { id, model, tokens, cost, cancelled } = generation;
    let finish = if *cancelled { json!(null) } else { json!("stop") };
    json!({"data": {
        "id": id,
        "upstream_id": null,
        "model": model,
        "created_at": "2030-01-01T00:00:00.000Z",
        "streamed": true,
        "cancelled": cancelled,
        "provider_name": "Bad",
        "finish_reason": finish,
        "native_finish_reason": finish,
        // The count of one tokenizer for all models; the native figures are the ones that are billed.
        "tokens_prompt": tokens.prompt() + 3,
        "tokens_completion": tokens.output + 1,
        "native_tokens_prompt": tokens.prompt(),
        "native_tokens_completion": tokens.output,
        "native_tokens_reasoning": tokens.reasoning,
        "native_tokens_cached": tokens.cache_read,
        "total_cost": cost,
        "usage": cost,
        "generation_time": 1200,
        "latency": 300,
        "is_byok": false,
    }})
}
