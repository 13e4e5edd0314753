//! Providers' error objects, read for what can be done about them.
//!
//! Every provider has its own format, and servers that speak another's API nest their own inside it. One reader knows them all:
//! it takes the message, and the provider's words for the kind of error.

use andon_runtime::{ModelError, ModelErrorKind};
use serde_json::Value;

use crate::secret::CUT;

/// How many bytes of a provider's message are shown.
const LONGEST: usize = 600;

/// What a provider said about an error.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ProviderError {
    /// The provider's message.
    pub message: String,
    /// Its words for the kind of error: type, code and status, where it has them.
    pub kinds: Vec<String>,
    /// The HTTP status in the object, if there is one.
    pub status: Option<u16>,
}

/// An error that may pass.
const RETRYABLE: ModelErrorKind = ModelErrorKind::Retryable { after: None };

impl ProviderError {
    /// Reads an error object; `None` if there is none.
    pub(crate) fn read(body: &Value) -> Option<Self> {
        // Gemini sends an array with one object when it was asked for a stream without SSE.
        let body = body.get(0).unwrap_or(body);
        let said = match body.get("error") {
            Some(Value::String(message)) => Self { message: message.clone(), ..Self::default() }.and_kinds(body),
            Some(error @ Value::Object(_)) => Self { message: message(error)?, ..Self::default() }.and_kinds(error),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) | None => {
                let is_error = ["detail", "message"].iter().any(|name| body.get(name).is_some());
                is_error
                    .then(|| Self { message: message(body).unwrap_or_default(), ..Self::default() }.and_kinds(body))?
            }
        };
        Some(said)
    }

    fn and_kinds(mut self, error: &Value) -> Self {
        for name in ["type", "code", "status", "error_type"] {
            match error.get(name) {
                Some(Value::String(kind)) if kind != "error" => self.kinds.push(kind.clone()),
                Some(Value::Number(code)) => self.status = code.as_u64().and_then(|code| u16::try_from(code).ok()),
                _ => {}
            }
        }
        self
    }

    /// What can be done about it; `None` if its words do not say.
    pub(crate) fn verdict(&self) -> Option<ModelErrorKind> {
        let has =
            |words: &[&str]| self.kinds.iter().any(|kind| words.iter().any(|word| kind.eq_ignore_ascii_case(word)));
        if has(&OVERFLOW_KINDS) || is_overflow(&self.message) {
            return Some(ModelErrorKind::ContextOverflow);
        }
        if has(&FATAL_KINDS) {
            return Some(ModelErrorKind::Fatal);
        }
        has(&RETRYABLE_KINDS).then_some(RETRYABLE)
    }

    /// The error in the middle of a stream, where there is no HTTP status.
    pub(crate) fn in_stream(&self) -> ModelError {
        let by_status = |status: u16| if is_retryable(status) { RETRYABLE } else { ModelErrorKind::Fatal };
        let by_status = self.status.filter(|status| *status >= 400).map(by_status);
        // The provider had accepted the request: without a word about it, a retry may well succeed.
        let kind = self.verdict().or(by_status).unwrap_or(RETRYABLE);
        ModelError::new(kind, format!("the provider broke off the answer: {}", self.text()))
    }

    /// The message, with the provider's word for the kind, cut to a length that can be shown.
    pub(crate) fn text(&self) -> String {
        let message = shorten(self.message.trim());
        match self.kinds.first().map(|kind| shorten(kind)) {
            Some(kind) if message.is_empty() => kind,
            Some(kind) if !message.contains(kind.as_str()) => format!("{message} ({kind})"),
            _ => message,
        }
    }
}

/// Whether a failure with this status may pass.
pub(crate) fn is_retryable(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500..=599)
}

fn message(error: &Value) -> Option<String> {
    // OpenRouter puts the upstream's own words into the metadata: they say more than its "Provider returned error".
    let inner = error.pointer("/metadata/raw").and_then(Value::as_str);
    let outer =
        ["message", "detail", "msg", "error"].iter().find_map(|name| error.get(name)).map(|words| match words {
            Value::String(words) => words.clone(),
            other => other.to_string(),
        });
    match (outer, inner) {
        (Some(outer), Some(inner)) => Some(format!("{outer}: {inner}")),
        (outer, inner) => outer.or(inner.map(str::to_owned)).or_else(|| error.as_object().map(|_| error.to_string())),
    }
}

/// Cuts a text to what can be shown. A cut text ends in [`CUT`], so that the scrubber also finds half a secret.
pub(crate) fn shorten(text: &str) -> String {
    shorten_to(text, LONGEST)
}

/// Cuts a text to at most `longest` bytes, followed by [`CUT`].
pub(crate) fn shorten_to(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(longest);
    format!("{}{CUT}", text.get(..end).unwrap_or_default())
}

const OVERFLOW_KINDS: [&str; 4] =
    ["context_length_exceeded", "exceed_context_size_error", "request_too_large", "model_context_window_exceeded"];

const FATAL_KINDS: [&str; 14] = [
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "billing_error",
    "insufficient_quota",
    "invalid_api_key",
    "model_not_found",
    "INVALID_ARGUMENT",
    "FAILED_PRECONDITION",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "NOT_FOUND",
    "invalid_prompt",
];

const RETRYABLE_KINDS: [&str; 16] = [
    "overloaded_error",
    "rate_limit_error",
    "rate_limit_exceeded",
    "api_error",
    "timeout_error",
    "server_error",
    "internal_error",
    "internal_server_error",
    "server_is_overloaded",
    "service_unavailable",
    "service_unavailable_error",
    "RESOURCE_EXHAUSTED",
    "UNAVAILABLE",
    "INTERNAL",
    "DEADLINE_EXCEEDED",
    "ABORTED",
];

/// Whether a message says that the conversation is too long.
pub(crate) fn is_overflow(message: &str) -> bool {
    const WORDS: [&str; 21] = [
        // OpenAI, DeepSeek, OpenRouter, vLLM
        "maximum context length",
        "maximum model length",
        "exceeds the context window",
        "exceeds your context window",
        "context_length_exceeded",
        // Anthropic
        "prompt is too long",
        "exceed context limit",
        // Gemini
        "exceeds the maximum number of tokens",
        "token count exceeds",
        // llama.cpp, Ollama, SGLang
        "exceeds the available context size",
        "exceeds context length",
        "exceeds maximum context",
        "exceeded max context length",
        "longer than the model's context length",
        "exceeds the model's context length",
        "larger than the context size",
        // Groq, Mistral, xAI
        "reduce the length of the messages",
        "maximum prompt length",
        "too large for model with",
        // Bedrock
        "input is too long for requested model",
        "too many input tokens",
    ];
    let message = message.to_ascii_lowercase();
    WORDS.iter().any(|words| message.contains(words))
        || (message.contains("input token count") && message.contains("exceeds"))
}

#[cfg(test)]
mod tests {
    use andon_runtime::ModelErrorKind;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_providers_form_is_read() {
        let text = |body: Value| ProviderError::read(&body).map(|said| said.text());
        let openai = json!({"error": {"message": "No such model", "type": "invalid_request_error", "param": null, "code": "model_not_found"}});
        assert_eq!(text(openai).unwrap(), "No such model (invalid_request_error)");
        let anthropic = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
        assert_eq!(text(anthropic).unwrap(), "Overloaded (overloaded_error)");
        let gemini = json!([{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}]);
        assert_eq!(text(gemini).unwrap(), "API key not valid. (INVALID_ARGUMENT)");
        assert_eq!(text(json!({"error": "model 'x' not found"})).unwrap(), "model 'x' not found");
        assert_eq!(text(json!({"detail": "Unauthorized"})).unwrap(), "Unauthorized");
        assert_eq!(text(json!({"object": "error", "message": "Bad", "code": 400})).unwrap(), "Bad");
        let routed =
            json!({"error": {"message": "Provider returned error", "code": 429, "metadata": {"raw": "slow down"}}});
        assert_eq!(text(routed).unwrap(), "Provider returned error: slow down");
        assert_eq!(text(json!({"choices": []})), None);
        assert_eq!(text(json!({"error": null})), None);
    }

    #[test]
    fn a_conversation_that_is_too_long_is_recognised_by_each_providers_words() {
        let messages = [
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
            "prompt is too long: 213462 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 195000 + 8192 > 200000",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "the request exceeds the available context size, try increasing it",
            "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
            "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
            "The input (50000 tokens) is longer than the model's context length (32768 tokens).",
            "Please reduce the length of the messages or completion.",
        ];
        for message in messages {
            let said =
                ProviderError::read(&json!({"error": {"message": message, "type": "invalid_request_error"}})).unwrap();
            assert_eq!(said.verdict(), Some(ModelErrorKind::ContextOverflow), "{message}");
            assert_eq!(said.in_stream().kind, ModelErrorKind::ContextOverflow);
        }
        let said = ProviderError::read(&json!({"error": {"message": "Too long.", "code": "context_length_exceeded"}}))
            .unwrap();
        assert_eq!(said.verdict(), Some(ModelErrorKind::ContextOverflow));
    }

    #[test]
    fn an_error_in_mid_stream_is_retried_unless_it_cannot_help() {
        let kind = |error: Value| ProviderError::read(&json!({"error": error})).unwrap().in_stream().kind;
        let retryable = ModelErrorKind::Retryable { after: None };
        assert_eq!(kind(json!({"type": "overloaded_error", "message": "Overloaded"})), retryable);
        assert_eq!(kind(json!({"code": 502, "message": "Upstream went away"})), retryable);
        assert_eq!(kind(json!({"message": "something"})), retryable);
        assert_eq!(kind(json!({"type": "invalid_request_error", "message": "no"})), ModelErrorKind::Fatal);
        assert_eq!(kind(json!({"code": 401, "message": "no"})), ModelErrorKind::Fatal);
    }

    #[test]
    fn a_message_without_end_is_cut_where_a_character_ends() {
        let said = ProviderError { message: "é".repeat(10_000), ..ProviderError::default() };
        assert!(said.text().len() < 700 && said.text().ends_with('…'));
    }
}
