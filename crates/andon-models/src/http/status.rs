//! What a server's status, headers and page mean.

use std::time::{Duration, SystemTime};

use andon_runtime::{ModelError, ModelErrorKind};
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Response, StatusCode};
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::time::timeout;

use super::send::Answered;
use super::wait::{self, header};
use super::{MAX_PAGE, Target, page};
use crate::refusal::{ProviderError, is_retryable, shorten};
use crate::secret::CUT;

/// How long a page that is not an answer may take. What has arrived by then says enough.
const PAGE_WITHIN: Duration = Duration::from_secs(5);

/// How an answer is divided into frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Sse,
    /// Lines of JSON.
    Lines,
}

/// Whether this is the beginning of an answer. Anything else is a page whose text explains the failure.
pub(crate) fn is_answer(response: &Response, framing: Framing) -> bool {
    let kind = content_type(response.headers());
    let is_plain = header(response.headers(), CONTENT_ENCODING.as_str()).is_none_or(|coding| coding == "identity");
    let is_page = match framing {
        Framing::Sse => kind.contains("html") || kind.contains("json"),
        Framing::Lines => kind.contains("html"),
    };
    response.status() == StatusCode::OK && is_plain && !is_page
}

/// The provider's id for an answer, if a header has it.
pub(crate) fn generation(headers: &HeaderMap) -> Option<String> {
    header(headers, "x-generation-id").map(str::to_owned)
}

/// Where providers put the id of a request: OpenRouter, Anthropic, OpenAI and most others, Azure.
const REQUEST_IDS: [&str; 4] = ["x-generation-id", "request-id", "x-request-id", "apim-request-id"];

/// The id that the provider's support asks for, if a header has it.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    REQUEST_IDS.iter().find_map(|name| header(headers, name)).map(str::to_owned)
}

/// The error that a page which is not an answer amounts to.
pub(crate) async fn refusal(mut answered: Answered, target: &Target) -> ModelError {
    let response = &mut answered.response;
    let mut body = Vec::new();
    let read = async {
        loop {
            match response.chunk().await {
                Ok(Some(more)) => {
                    let room = MAX_PAGE - body.len();
                    body.extend_from_slice(more.get(..room.min(more.len())).unwrap_or_default());
                    if more.len() >= room {
                        return false;
                    }
                }
                Ok(None) => return true,
                // An error while reading the page adds nothing to it.
                Err(_) => return false,
            }
        }
    };
    // What arrived in time is enough.
    let is_whole = timeout(PAGE_WITHIN, read).await.unwrap_or(false);
    let mut text = String::from_utf8_lossy(&body).into_owned();
    if !is_whole && serde_json::from_str::<IgnoredAny>(&text).is_err() {
        text.push(CUT);
    }
    judge(response.status().as_u16(), response.headers(), &text, target, SystemTime::now())
}

/// The error that a status, headers and a page amount to.
fn judge(status: u16, headers: &HeaderMap, body: &str, target: &Target, now: SystemTime) -> ModelError {
    let json: Option<Value> = serde_json::from_str(body).ok();
    let said = json.as_ref().and_then(ProviderError::read);
    // A good status with an error object comes from a gateway whose upstream failed: the object's own status is the true one.
    let own = said.as_ref().and_then(|said| said.status).filter(|own| status < 300 && (400..600).contains(own));
    let status = own.unwrap_or(status);
    let kind = match kind(status, said.as_ref()) {
        ModelErrorKind::Retryable { .. } => {
            ModelErrorKind::Retryable { after: wait::asked(headers, json.as_ref(), now) }
        }
        other => other,
    };
    let message = match said {
        Some(said) => words(status, &said, target),
        None => other_page(status, headers, body),
    };
    ModelError::new(kind, message)
}

fn kind(status: u16, said: Option<&ProviderError>) -> ModelErrorKind {
    let retryable = ModelErrorKind::Retryable { after: None };
    let quota =
        |said: &ProviderError| said.kinds.iter().any(|kind| kind == "insufficient_quota" || kind == "billing_error");
    match (status, said.and_then(ProviderError::verdict)) {
        // A rate limit also mentions tokens, but it passes; money does not come back by waiting.
        (429, _) if said.is_some_and(quota) => ModelErrorKind::Fatal,
        (429, _) => retryable,
        (_, Some(ModelErrorKind::ContextOverflow)) => ModelErrorKind::ContextOverflow,
        // For an error object with a good status, only its own words count.
        (200..=299, Some(ModelErrorKind::Retryable { .. })) => retryable,
        (status, _) if is_retryable(status) => retryable,
        (_, _) => ModelErrorKind::Fatal,
    }
}

/// The provider's words, and what can be done.
fn words(status: u16, said: &ProviderError, target: &Target) -> String {
    let text = said.text();
    let key = target.key_variable.map_or_else(|| "the key".to_owned(), |variable| format!("the key in {variable}"));
    let lower = said.message.to_ascii_lowercase();
    let is_about_the_key = lower.contains("api key") && (lower.contains("valid") || lower.contains("incorrect"));
    // Some of OpenAI's models speak only the newer API, or take tools and effort together only there.
    if &*target.provider == "openai" && matches!(status, 400 | 404) && lower.contains("v1/responses") {
        return format!("the request was refused ({status}): {text}; use openai-responses/{}", target.model);
    }
    match status {
        401 => format!("{key} was refused (401): {text}"),
        400 if is_about_the_key => format!("{key} was refused (400): {text}"),
        403 => format!("not allowed (403): {text}; check that {key} may use {:?}", target.model),
        402 => format!("there is no credit left (402): {text}"),
        404 => format!("the model {:?} or the address was not found (404): {text}", target.model),
        429 => format!("too many requests (429): {text}"),
        529 | 503 => format!("overloaded ({status}): {text}"),
        500..=599 => format!("the provider failed ({status}): {text}"),
        _ => format!("the request was refused ({status}): {text}"),
    }
}

/// The error for a page without an error object.
fn other_page(status: u16, headers: &HeaderMap, body: &str) -> String {
    let kind = content_type(headers);
    if page::is_html(&kind, body) {
        let title = page::title(body).map_or_else(String::new, |title| format!(", titled {title:?}"));
        return format!(
            "a web page came back instead of an answer ({status}{title}): it looks like a proxy's page or a login page; check the \
             base address"
        );
    }
    if let Some(to) = header(headers, LOCATION.as_str()).filter(|_| (300..400).contains(&status)) {
        let to = url::Url::parse(to).ok().and_then(|url| url.host_str().map(str::to_owned));
        let to = to.unwrap_or_else(|| "another path".to_owned());
        return format!(
            "the request was redirected to {to} ({status}), and redirects are not followed; set the base address to that"
        );
    }
    if let Some(coding) = header(headers, CONTENT_ENCODING.as_str()).filter(|_| status == 200) {
        return format!("the answer is compressed as {coding}, which was not requested and cannot be read");
    }
    let shown = match shorten(body.trim()) {
        text if text.is_empty() => "nothing more".to_owned(),
        text => text,
    };
    if status == 200 {
        return format!("the answer is not a stream but {kind}: {shown}; perhaps this server cannot stream");
    }
    format!("the server answered {status} and says: {shown}")
}

fn content_type(headers: &HeaderMap) -> String {
    header(headers, CONTENT_TYPE.as_str()).unwrap_or_default().to_ascii_lowercase()
}

#[cfg(test)]
#[path = "status/tests.rs"]
mod tests;
