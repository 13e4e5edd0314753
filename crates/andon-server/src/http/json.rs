//! JSON answers, ending in a newline because people read them in terminals.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::http::problem::Problem;

/// A JSON answer.
pub struct JsonBody<T>(pub T);

impl<T: Serialize> IntoResponse for JsonBody<T> {
    fn into_response(self) -> Response {
        // Answers are plain data; a map with keys that are not strings would be a bug.
        let Ok(mut body) = serde_json::to_vec(&self.0) else {
            return Problem::unavailable("defect", "the answer cannot be serialized: please report this")
                .into_response();
        };
        body.push(b'\n');
        ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
    }
}
