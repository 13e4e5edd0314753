//! What a client asked.

use bytes::Bytes;
use http::{HeaderMap, Uri};
use serde_json::Value;
use tokio::time::Instant;

/// A whole request.
#[derive(Debug, Clone)]
pub struct Request {
    /// `GET`, `POST` …
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The part after the `?`.
    pub query: Option<String>,
    /// Its headers, without HTTP/2's pseudo-headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// When it was whole.
    pub at: Instant,
}

impl Request {
    /// A request that has just become whole.
    pub(super) fn new(method: &str, target: &Uri, headers: HeaderMap, body: Bytes) -> Self {
        Self {
            method: method.to_owned(),
            path: target.path().to_owned(),
            query: target.query().map(str::to_owned),
            headers,
            body,
            at: Instant::now(),
        }
    }

    /// Its body as JSON; `null` if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// A header, if it came and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Whether a path fits a pattern in which `*` stands for any characters.
pub(super) fn fits(pattern: &str, path: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == path };
    let Some(tail) = path.strip_prefix(head) else { return false };
    tail.char_indices().map(|(place, _)| place).chain([tail.len()]).any(|place| fits(rest, tail.split_at(place).1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters_and_for_none() {
        for (pattern, path) in [("/a", "/a"), ("*", ""), ("*", "/a"), ("*:count", "/v1/m:count"), ("/a*b*", "/aXbbY")] {
            assert!(fits(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [("/a", "/ab"), ("", "/a"), ("*:count", "/v1/m:counts"), ("/a*b", "/xb")] {
            assert!(!fits(pattern, path), "{pattern} {path}");
        }
    }
}
