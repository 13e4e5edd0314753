//! Requests as JSON: whole, not too deep, and with no field that nobody knows.

use std::error::Error as _;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use http_body::Body as _;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use crate::Shared;
use crate::http::budget::MaxBody;
use crate::http::idle::TooSlow;
use crate::http::problem::Problem;
use crate::options::Options;

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

/// A request's body as it is, of one that says that it is JSON.
pub(crate) async fn json_bytes(request: Request, core: &Shared) -> Result<Bytes, Problem> {
    must_be_json(request.headers())?;
    let bytes = read(request, core).await?;
    not_too_deep(&bytes, core.options.max_depth)?;
    Ok(bytes)
}

/// Refuses a body that does not say that it is JSON. A page of another origin can send anything but JSON without being asked first.
pub(crate) fn must_be_json(headers: &HeaderMap) -> Result<(), Problem> {
    let mut kinds = headers.get_all(header::CONTENT_TYPE).iter();
    let kind = kinds.next().and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    // Two are a trick: who reads the first and who reads the last would not agree.
    let kind = if kinds.next().is_some() { "" } else { kind };
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let detail = "send JSON, with one header content-type: application/json";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", detail))
}

/// A request's body, no larger and no slower than is allowed.
pub(crate) async fn read(request: Request, core: &Shared) -> Result<Bytes, Problem> {
    let options = &core.options;
    let max = request.extensions().get::<MaxBody>().map_or(options.max_body, |max| max.0);
    // One that says so itself is not read at all.
    if request.body().size_hint().lower() > u64::try_from(max).unwrap_or(u64::MAX) {
        return Err(too_large(max));
    }
    Bytes::from_request(request, core).await.map_err(|error| match (too_slow(&error), error) {
        (Some(why), _) => too_late(why, options),
        (None, BytesRejection::FailedToBufferBody(error)) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            too_large(max)
        }
        _ => Problem::bad_request("body-unreadable", "the body broke off: send it again").closing(),
    })
}

fn too_large(max: usize) -> Problem {
    let detail = format!("the body has more than {max} bytes: send less");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", detail).closing()
}

fn too_late(why: TooSlow, options: &Options) -> Problem {
    let detail = match why {
        TooSlow::Idle => format!("nothing of the body came for {:?}: send it again", options.body_idle),
        TooSlow::Total => format!("the body took more than {:?}: send it faster", options.body_time),
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

/// Reads JSON.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8], max_depth: usize) -> Result<T, Problem> {
    not_too_deep(bytes, max_depth)?;
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let parsed: T = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { String::new() } else { format!("{path}: ") };
        problem(&place, &error.into_inner())
    })?;
    reader.end().map_err(|error| problem("", &error))?;
    Ok(parsed)
}

/// Refuses JSON that is nested too deep.
pub(crate) fn not_too_deep(bytes: &[u8], max_depth: usize) -> Result<(), Problem> {
    if depth(bytes) <= max_depth {
        return Ok(());
    }
    let detail = format!("the JSON is nested more than {max_depth} deep: flatten it");
    Err(Problem::bad_request("json-too-deep", detail))
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
pub(crate) fn depth(bytes: &[u8]) -> usize {
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
