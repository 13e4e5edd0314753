//! A query string, with an error that says what is wrong with it.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::http::problem::Problem;

/// How many items are listed by default, and at most.
const USUAL: usize = 100;
const MOST: usize = 1_000;

/// How many items to list.
pub(crate) fn limit(asked: Option<usize>) -> Result<usize, Problem> {
    match asked.unwrap_or(USUAL) {
        limit @ 1..=MOST => Ok(limit),
        _ => Err(Problem::unprocessable("bad-limit", format!("limit: choose a number from 1 to {MOST}"))),
    }
}

/// A parsed query string.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = axum::extract::Query::from_request_parts(parts, state).await;
        let query = query
            .map_err(|error| Problem::unprocessable("bad-query", format!("invalid query: {}", error.body_text())))?;
        Ok(Self(query.0))
    }
}
