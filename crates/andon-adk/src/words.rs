//! Refusals in ADK's words, whichever layer refuses.
//!
//! # Invariants
//!
//! 1. The first segment of a path alone decides its dialect. So requests that are refused before routing, or that match no route,
//!    are also answered in the words of their dialect.
//! 2. The code, and the headers that say what to do, are the same in both dialects.

use andon_server::dialect::Problem;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// The first segments of ADK's paths.
const FIRST: [&str; 11] = [
    "agent-identity",
    "apps",
    "config",
    "dev",
    "dev-ui",
    "health",
    "list-apps",
    "run",
    "run_live",
    "run_sse",
    "version",
];

/// Whether a path is one of ADK's, or below one (invariant 1).
pub(crate) fn belongs_to_adk(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    FIRST.contains(&first)
}

/// Writes a problem as ADK's server does: a few as plain text, all others as `{"detail": …}`.
pub(crate) fn in_adk_format(mut response: Response) -> Response {
    let Some(problem) = response.extensions_mut().remove::<Problem>() else { return response };
    let (mut parts, _) = response.into_parts();
    let (kind, body) = match problem.kind() {
        "unknown-host" => (PLAIN, "Forbidden: host not allowed".to_owned()),
        "foreign-origin" => (PLAIN, "Forbidden: origin not allowed".to_owned()),
        "defect" if problem.status() == StatusCode::INTERNAL_SERVER_ERROR => {
            (PLAIN_UTF8, "Internal Server Error".to_owned())
        }
        "no-such-path" => (JSON, json!({"detail": "Not Found"}).to_string()),
        "wrong-method" => (JSON, json!({"detail": "Method Not Allowed"}).to_string()),
        _ => {
            let detail = problem.to_json().get("detail").cloned().unwrap_or_default();
            (JSON, json!({"detail": detail}).to_string())
        }
    };
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    parts.headers.remove(header::CONTENT_LENGTH);
    (parts, body).into_response()
}

const PLAIN: &str = "text/plain";
const PLAIN_UTF8: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_adks_by_its_first_part_as_a_whole() {
        for adks in ["/run", "/run/", "/apps", "/apps/a/b", "/dev-ui/x.js", "/dev/apps/a", "//apps/a", "/health"] {
            assert!(belongs_to_adk(adks), "{adks}");
        }
        for other in ["", "/", "/v1/runs", "/v1/apps", "/runs", "/healthz", "/Apps/a", "/v1/run", "*", "/metrics"] {
            assert!(!belongs_to_adk(other), "{other}");
        }
    }
}
