//! `/v1/keys`: create, list and revoke API keys.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::cancel::within;
use crate::access::keys::{KeyError, KeyInfo, NewKey, NewlyMade};
use crate::core::Shared;
use crate::http::body::Body;
use crate::http::json::JsonBody;
use crate::http::path::PathParams;
use crate::http::problem::{Problem, ProblemForm, Refusals};

/// A newly created key.
#[derive(Serialize, ToSchema)]
pub(crate) struct MadeKey<'a> {
    /// The key itself. It is shown only this once.
    key: &'a str,
    /// The key, without its secret.
    #[serde(flatten)]
    info: KeyInfo,
}

/// All keys.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyList {
    keys: Vec<KeyInfo>,
}

/// Create a key.
///
/// The answer contains the key itself, which is shown only once: the server keeps just a hash of it.
#[utoipa::path(
    post, path = "/v1/keys", tag = "access", request_body = NewKey,
    responses(
        (status = 201, description = "The key was created and is on record", body = inline(MadeKey<'static>)),
        Refusals,
    )
)]
pub(crate) async fn create(State(core): State<Shared>, Body(new): Body<NewKey>) -> Result<Response, Problem> {
    let (keys, shelf) = (&core.auth.keys, core.runtime.shelf());
    let NewlyMade { info, key, recorded } = keys.create(new, core.runtime.now().wall, shelf)?;
    if let Err(problem) = within(core.options.record_patience, recorded).await {
        // Nobody has received the key, so it is revoked.
        drop(keys.revoke(&info.id, core.runtime.now().wall, shelf));
        return Err(problem);
    }
    Ok((StatusCode::CREATED, JsonBody(MadeKey { key: key.show(), info })).into_response())
}

/// List the keys, including those that are no longer valid. The list does not contain the keys themselves.
#[utoipa::path(get, path = "/v1/keys", tag = "access", responses(
    (status = 200, body = KeyList),
    (status = "4XX", body = ProblemForm, content_type = "application/problem+json"),
))]
pub(crate) async fn list(State(core): State<Shared>) -> JsonBody<KeyList> {
    JsonBody(KeyList { keys: core.auth.keys.list() })
}

/// Revoke a key.
///
/// The key stops working at once, and the feeds it opened end within five seconds. Repeating the request changes
/// nothing.
#[utoipa::path(
    delete, path = "/v1/keys/{id}", tag = "access", params(("id" = String, Path, description = "The id of the key")),
    responses(
        (status = 200, description = "The key is revoked, and that is on record", body = KeyInfo),
        (status = "4XX", body = ProblemForm, content_type = "application/problem+json"),
        (status = 503, description = "The key is revoked, but that is not on record yet", body = ProblemForm, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn revoke(
    State(core): State<Shared>,
    PathParams(id): PathParams<String>,
) -> Result<JsonBody<KeyInfo>, Problem> {
    let revoked = core.auth.keys.revoke(&id, core.runtime.now().wall, core.runtime.shelf());
    let unknown = || Problem::not_found("no-such-key", "there is no such key: GET /v1/keys lists them");
    let (info, recorded) = revoked.ok_or_else(unknown)?;
    within(core.options.record_patience, recorded).await?;
    Ok(JsonBody(info))
}

impl From<KeyError> for Problem {
    fn from(error: KeyError) -> Self {
        let detail = error.to_string();
        match error {
            KeyError::BadId(..) => Self::bad_request("bad-id", detail),
            KeyError::NoSuchScope(_) | KeyError::NoScope => Self::unprocessable("bad-scope", detail),
            KeyError::Past(_) => Self::unprocessable("bad-expiry", detail),
            KeyError::TooMany => Self::new(StatusCode::CONFLICT, "too-many-keys", detail),
            KeyError::NoRandom(_) => Self::unavailable("no-random", detail),
        }
    }
}
