//! Requests as JSON: whole, not too deep, and with no field that nobody knows.

use std::error::Error as _;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use crate::Shared;
use crate::problem::Problem;

/// A request's body, read as JSON.
pub(crate) struct Body<T>(pub(crate) T);

/// As [`Body`], where no body at all is as good as an empty object.
pub(crate) struct OptionalBody<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Shared> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, core: &Shared) -> Result<Self, Problem> {
        must_be_json(request.headers())?;
        let bytes = read(request, core).await?;
        parse(&bytes, core.options.max_depth).map(Self)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<Shared> for OptionalBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, core: &Shared) -> Result<Self, Problem> {
        let kind = must_be_json(request.headers());
        let bytes = read(request, core).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        kind?;
        parse(&bytes, core.options.max_depth).map(Self)
    }
}

/// A page of another origin can send anything but JSON without being asked first.
fn must_be_json(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let detail = "send JSON, with the header content-type: application/json";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", detail))
}

async fn read(request: Request, core: &Shared) -> Result<Bytes, Problem> {
    Bytes::from_request(request, core).await.map_err(|error| match error {
        BytesRejection::FailedToBufferBody(error) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let detail = format!("the body has more than {} bytes: send less", core.options.max_body);
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", detail)
        }
        error if is_timeout(&error) => {
            let detail = format!("nothing of the body came for {:?}: send it again", core.options.body_idle);
            Problem::new(StatusCode::REQUEST_TIMEOUT, "body-timeout", detail)
        }
        _ => Problem::bad_request("body-unreadable", "the body broke off: send it again"),
    })
}

fn is_timeout(error: &BytesRejection) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if error.downcast_ref::<crate::idle::Idle>().is_some() {
            return true;
        }
        source = error.source();
    }
    false
}

/// Reads JSON.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8], max_depth: usize) -> Result<T, Problem> {
    if depth(bytes) > max_depth {
        let detail = format!("the JSON is nested more than {max_depth} deep: flatten it");
        return Err(Problem::bad_request("json-too-deep", detail));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed: T = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { String::new() } else { format!("{path}: ") };
        problem(&place, &error.into_inner())
    })?;
    reader.end().map_err(|error| problem("", &error))?;
    Ok(parsed)
}

fn problem(place: &str, error: &serde_json::Error) -> Problem {
    match error.classify() {
        Category::Data => Problem::unprocessable("bad-field", format!("{place}{error}")),
        Category::Syntax | Category::Eof | Category::Io => {
            Problem::bad_request("bad-json", format!("the body is no JSON: {error}"))
        }
    }
}

/// How deep a text is nested, if it is JSON.
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
