//! The JSON bodies that ADK's clients send; for some requests the body is optional.

use andon_server::dialect::{Problem, optional_json_bytes};
use axum::extract::{FromRequest, Request};
use serde_json::{Value, json};

use super::valid;

/// A request's body, which is required.
pub(crate) struct Body(pub(crate) Value);

/// A request's optional body; no body and `null` mean the same.
pub(crate) struct MaybeBody(pub(crate) Option<Value>);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let body = MaybeBody::from_request(request, state).await?.0;
        body.map(Self).ok_or_else(|| valid::invalid("missing", &[json!("body")], "Field required", &Value::Null))
    }
}

impl<S: Send + Sync> FromRequest<S> for MaybeBody {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let Some(bytes) = optional_json_bytes(request).await? else { return Ok(Self(None)) };
        let value = valid::json(&bytes)?;
        Ok(Self(Some(value).filter(|value| !value.is_null())))
    }
}
