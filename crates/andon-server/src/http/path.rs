//! Path parameters, with an error that says what is wrong with them, and the route that a path leads to.

use axum::extract::{FromRequestParts, MatchedPath, NestedPath};
use axum::http::Extensions;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::http::problem::Problem;

/// The parameters of a path.
pub struct PathParams<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = axum::extract::Path::from_request_parts(parts, state).await;
        let path =
            path.map_err(|error| Problem::bad_request("bad-path", format!("invalid path: {}", error.body_text())))?;
        Ok(Self(path.0))
    }
}

/// The template of the route that a request leads to, such as `/v1/runs/{run_id}`, without the prefix under which the
/// server is mounted. `None` if it leads nowhere.
pub(crate) fn route(extensions: &Extensions) -> Option<&str> {
    let matched = extensions.get::<MatchedPath>()?.as_str();
    let prefix = extensions.get::<NestedPath>().map_or("", |nested| nested.as_str().trim_end_matches('/'));
    let path = matched.strip_prefix(prefix).unwrap_or(matched);
    // `/prefix/` leads to the same route as `/prefix`, and axum then gives the route as `//`.
    Some(if matches!(path, "" | "//") { "/" } else { path })
}
