//! JSON request bodies: complete, not nested too deeply, and without unknown fields.

use std::error::Error as _;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use http_body::Body as _;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use crate::http::idle::{Patience, TooSlow};
use crate::http::problem::Problem;
use crate::options::Options;

/// The limits of a request's body. They are among the extensions of the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimits {
    /// The maximum size in bytes.
    pub(crate) max: usize,
    /// How deeply its JSON may be nested.
    pub(crate) depth: usize,
    /// How long it may take.
    pub(crate) patience: Patience,
}

impl BodyLimits {
    pub(crate) fn new(options: &Options) -> Self {
        let patience = Patience { idle: options.body_idle, total: options.body_time };
        Self { max: options.max_body, depth: options.max_depth, patience }
    }

    /// The limits of a request; the default ones if it did not come through our server.
    fn of(request: &Request) -> Self {
        request.extensions().get().copied().unwrap_or_else(|| Self::new(&Options::default()))
    }
}

/// A request body, parsed as JSON.
pub(crate) struct Body<T>(pub(crate) T);

/// Like [`Body`], but a missing body counts as an empty object.
pub(crate) struct OptionalBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        json_bytes(request).await.and_then(|bytes| deserialize(&bytes)).map(Self)
    }
}

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for OptionalBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        match optional_json_bytes(request).await? {
            Some(bytes) => deserialize(&bytes).map(Self),
            None => Ok(Self(T::default())),
        }
    }
}

/// The raw body of a request that declares it as JSON, if it is not nested too deeply.
///
/// # Cancel safety
///
/// Not cancel safe: what was read of the body is lost.
pub async fn json_bytes(request: Request) -> Result<Bytes, Problem> {
    must_be_json(request.headers())?;
    let depth = BodyLimits::of(&request).depth;
    let bytes = read(request).await?;
    not_too_deep(&bytes, depth)?;
    Ok(bytes)
}

/// Like [`json_bytes`], but the body may be missing.
///
/// # Cancel safety
///
/// Not cancel safe: what was read of the body is lost.
pub async fn optional_json_bytes(request: Request) -> Result<Option<Bytes>, Problem> {
    let kind = must_be_json(request.headers());
    let depth = BodyLimits::of(&request).depth;
    let bytes = read(request).await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    kind?;
    not_too_deep(&bytes, depth)?;
    Ok(Some(bytes))
}

/// Rejects a body that is not declared as JSON. A page of another origin can send anything but JSON without a preflight
/// request.
fn must_be_json(headers: &HeaderMap) -> Result<(), Problem> {
    let mut kinds = headers.get_all(header::CONTENT_TYPE).iter();
    let kind = kinds.next().and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    // Two headers are rejected, because one program would read the first and another the last.
    let kind = if kinds.next().is_some() { "" } else { kind };
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let detail = "send JSON, with exactly one header content-type: application/json";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", detail))
}

/// A request's body, within the limits on size and time.
async fn read(request: Request) -> Result<Bytes, Problem> {
    let limits = BodyLimits::of(&request);
    // If the declared size is too large, the body is not read at all.
    if request.body().size_hint().lower() > u64::try_from(limits.max).unwrap_or(u64::MAX) {
        return Err(too_large(limits.max));
    }
    Bytes::from_request(request, &()).await.map_err(|error| match (too_slow(&error), error) {
        (Some(why), _) => too_late(why, limits.patience),
        (None, BytesRejection::FailedToBufferBody(error)) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            too_large(limits.max)
        }
        _ => Problem::bad_request("body-unreadable", "the body is incomplete: send it again").closing(),
    })
}

fn too_large(max: usize) -> Problem {
    let detail = format!("the body is larger than {max} bytes: send less");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", detail).closing()
}

fn too_late(why: TooSlow, patience: Patience) -> Problem {
    let detail = match why {
        TooSlow::Idle => format!("no part of the body arrived for {:?}: send it again", patience.idle),
        TooSlow::Total => format!("the body took more than {:?}: send it again, faster", patience.total),
    };
    Problem::new(StatusCode::REQUEST_TIMEOUT, "body-timeout", detail).closing()
}

fn too_slow(error: &BytesRejection) -> Option<TooSlow> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(why) = error.downcast_ref::<TooSlow>() {
            return Some(*why);
        }
        source = error.source();
    }
    None
}

/// Parses JSON that is not nested too deeply.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8], max_depth: usize) -> Result<T, Problem> {
    not_too_deep(bytes, max_depth)?;
    deserialize(bytes)
}

fn deserialize<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed: T = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { String::new() } else { format!("{path}: ") };
        problem(&place, &error.into_inner())
    })?;
    reader.end().map_err(|error| problem("", &error))?;
    // A list would be taken for the fields of an object, by their order.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        let detail = "the body is a list: send an object, with the name of each field";
        return Err(Problem::unprocessable("bad-field", detail));
    }
    Ok(parsed)
}

/// Rejects JSON that is nested too deeply.
pub fn not_too_deep(bytes: &[u8], max_depth: usize) -> Result<(), Problem> {
    if depth(bytes) <= max_depth {
        return Ok(());
    }
    let detail = format!("the JSON is nested more than {max_depth} levels deep: flatten it");
    Err(Problem::bad_request("json-too-deep", detail))
}

fn problem(place: &str, error: &serde_json::Error) -> Problem {
    match error.classify() {
        Category::Data => Problem::unprocessable("bad-field", format!("{place}{error}")),
        Category::Syntax | Category::Eof | Category::Io => {
            Problem::bad_request("bad-json", format!("the body is not valid JSON: {error}"))
        }
    }
}

/// How deeply a text is nested, if it is JSON.
fn depth(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0_usize, 0, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_counted_outside_of_texts() {
        assert_eq!(depth(br#"{"a": [1, {"b": "[[[[\"{{"}]}"#), 3);
        assert_eq!(depth(b"]]]["), 1);
        assert_eq!(depth(b"12"), 0);
    }
}
