//! Refusals in ADK's words.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::problem::Problem;

/// Writes a problem as ADK's server does: `{"detail": …}`.
pub(crate) async fn in_adks_words(mut response: Response) -> Response {
    let Some(problem) = response.extensions_mut().remove::<Problem>() else { return response };
    let (mut parts, _) = response.into_parts();
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    parts.headers.remove(header::CONTENT_LENGTH);
    let detail = problem.to_json().get("detail").cloned().unwrap_or_default();
    (parts, json!({"detail": detail}).to_string()).into_response()
}
