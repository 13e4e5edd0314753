//! Path parameters, with an error that says what is wrong with them.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::http::problem::Problem;

/// The parameters of a path.
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = axum::extract::Path::from_request_parts(parts, state).await;
        let path =
            path.map_err(|error| Problem::bad_request("bad-path", format!("invalid path: {}", error.body_text())))?;
        Ok(Self(path.0))
    }
}
