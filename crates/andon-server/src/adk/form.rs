//! Bodies that clients of ADK send: JSON, which some requests may do without.

use axum::extract::{FromRequest, Request};
use serde_json::{Value, json};

use super::valid;
use crate::Shared;
use crate::http::body::{must_be_json, not_too_deep, read};
use crate::http::problem::Problem;

/// A request's body, which must be there.
pub(crate) struct Body(pub(crate) Value);

/// A request's body; nothing at all and `null` are the same.
pub(crate) struct MaybeBody(pub(crate) Option<Value>);

impl FromRequest<Shared> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, core: &Shared) -> Result<Self, Problem> {
        let body = MaybeBody::from_request(request, core).await?.0;
        body.map(Self).ok_or_else(|| valid::invalid("missing", &[json!("body")], "Field required", &Value::Null))
    }
}

impl FromRequest<Shared> for MaybeBody {
    type Rejection = Problem;

    async fn from_request(request: Request, core: &Shared) -> Result<Self, Problem> {
        let kind = must_be_json(request.headers());
        let bytes = read(request, core).await?;
        if bytes.is_empty() {
            return Ok(Self(None));
        }
        kind?;
        not_too_deep(&bytes, core.options.max_depth)?;
        let value = valid::json(&bytes)?;
        Ok(Self(Some(value).filter(|value| !value.is_null())))
    }
}
