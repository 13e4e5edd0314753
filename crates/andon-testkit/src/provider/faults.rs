//! Refusals and wrong answers, in each provider's own format.

use serde_json::Value;

use super::dialect::Dialect;
use super::script::Script;

/// Why a provider refuses a request or gives up a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// 400.
    BadRequest,
    /// 401.
    WrongKey,
    /// 404.
    UnknownModel,
    /// 413; 400 at OpenAI, Google and Ollama.
    TooLong,
    /// 429, with `retry-after` and the provider's rate-limit headers.
    RateLimited,
    /// 500.
    Internal,
    /// 529 at Anthropic, 503 at the others.
    Overloaded,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::BadRequest,
        Self::WrongKey,
        Self::UnknownModel,
        Self::TooLong,
        Self::RateLimited,
        Self::Internal,
        Self::Overloaded,
    ];

    /// The status that the dialect's provider gives it.
    pub fn status(self, dialect: Dialect) -> u16 {
        match (self, dialect) {
            (Self::TooLong, Dialect::Anthropic) => 413,
            (Self::BadRequest | Self::TooLong, _) => 400,
            // Google calls a wrong key a bad argument.
            (Self::WrongKey, Dialect::Gemini) => 400,
            (Self::WrongKey, _) => 401,
            (Self::UnknownModel, _) => 404,
            (Self::RateLimited, _) => 429,
            (Self::Internal, _) => 500,
            (Self::Overloaded, Dialect::Anthropic) => 529,
            (Self::Overloaded, _) => 503,
        }
    }

    pub(super) fn message(self) -> &'static str {
        match self {
            Self::BadRequest => "The request is malformed.",
            Self::WrongKey => "The API key is not valid.",
            Self::UnknownModel => "There is no such model.",
            Self::TooLong => "The prompt is too long.",
            Self::RateLimited => "Too many requests.",
            Self::Internal => "Something went wrong on our side.",
            Self::Overloaded => "The model is overloaded.",
        }
    }

    pub(super) fn anthropic(self) -> &'static str {
        match self {
            Self::BadRequest => "invalid_request_error",
            Self::WrongKey => "authentication_error",
            Self::UnknownModel => "not_found_error",
            Self::TooLong => "request_too_large",
            Self::RateLimited => "rate_limit_error",
            Self::Internal => "api_error",
            Self::Overloaded => "overloaded_error",
        }
    }

    /// OpenAI's type and code.
    pub(super) fn openai(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::BadRequest => ("invalid_request_error", None),
            Self::WrongKey => ("invalid_request_error", Some("invalid_api_key")),
            Self::UnknownModel => ("invalid_request_error", Some("model_not_found")),
            Self::TooLong => ("invalid_request_error", Some("context_length_exceeded")),
            Self::RateLimited => ("requests", Some("rate_limit_exceeded")),
            Self::Internal => ("server_error", Some("server_error")),
            Self::Overloaded => ("service_unavailable_error", Some("server_is_overloaded")),
        }
    }

    pub(super) fn google(self) -> &'static str {
        match self {
            Self::BadRequest | Self::TooLong | Self::WrongKey => "INVALID_ARGUMENT",
            Self::UnknownModel => "NOT_FOUND",
            Self::RateLimited => "RESOURCE_EXHAUSTED",
            Self::Internal => "INTERNAL",
            Self::Overloaded => "UNAVAILABLE",
        }
    }
}

impl Script {
    /// A refusal in the provider's own format. A rate limit says to try again after 7 seconds; set the header for another time.
    pub fn refuse(dialect: Dialect, refusal: Refusal) -> Self {
        let mut script = Self::json(refusal.status(dialect), &error(dialect, refusal));
        if refusal == Refusal::RateLimited {
            for (name, value) in limits(dialect) {
                script = script.header(name, value);
            }
        }
        script
    }

    /// The page that a proxy shows when it cannot reach its upstream.
    pub fn html_page(status: u16) -> Self {
        let page = "<!DOCTYPE html>\n<html><head><title>Bad gateway</title></head>\n<body><h1>The origin is down</h1>\
                    <p>Try again in a few minutes.</p></body></html>\n";
        Self::new(status).header("content-type", "text/html; charset=UTF-8").bytes(page)
    }
}

/// The body of a refusal. Google says here when to try again, the others in a header.
fn error(dialect: Dialect, refusal: Refusal) -> Value {
    let mut body = dialect.error_body(refusal);
    if let (Dialect::Gemini, Refusal::RateLimited, Some(error)) = (dialect, refusal, body.get_mut("error")) {
        let retry = serde_json::json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}]);
        if let Some(error) = error.as_object_mut() {
            error.insert("details".to_owned(), retry);
        }
    }
    body
}

/// The headers of a rate limit.
fn limits(dialect: Dialect) -> &'static [(&'static str, &'static str)] {
    match dialect {
        Dialect::Anthropic => &[
            ("retry-after", "7"),
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "0"),
            ("anthropic-ratelimit-requests-reset", "2030-01-01T00:00:07Z"),
            ("anthropic-ratelimit-tokens-limit", "40000"),
            ("anthropic-ratelimit-tokens-remaining", "39000"),
            ("anthropic-ratelimit-tokens-reset", "2030-01-01T00:00:01Z"),
        ],
        Dialect::OpenAiChat | Dialect::OpenAiResponses => &[
            ("retry-after", "7"),
            ("retry-after-ms", "7000"),
            ("x-ratelimit-limit-requests", "50"),
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-reset-requests", "7s"),
            ("x-ratelimit-limit-tokens", "40000"),
            ("x-ratelimit-remaining-tokens", "39000"),
            ("x-ratelimit-reset-tokens", "1s"),
        ],
        // Google says it in the body.
        Dialect::Gemini => &[],
        Dialect::Ollama => &[("retry-after", "7")],
    }
}
