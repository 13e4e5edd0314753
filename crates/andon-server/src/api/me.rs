//! `GET /v1/me`: who the server thinks you are.

use serde::Serialize;
use utoipa::ToSchema;

use crate::access::principal::Principal;
use crate::http::json::JsonBody;
use crate::http::problem::ProblemForm;

/// The caller.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Me {
    /// The name under which your requests are recorded.
    name: String,
    /// The tenant whose data you may see.
    tenant: String,
    /// The user that is meant when a request names none.
    user: String,
    /// Your scopes.
    scopes: Vec<&'static str>,
}

/// Who the server thinks you are, and what you may do.
#[utoipa::path(get, path = "/v1/me", tag = "access", responses(
    (status = 200, body = Me),
    (status = "4XX", body = ProblemForm, content_type = "application/problem+json"),
))]
pub(crate) async fn me(principal: Principal) -> JsonBody<Me> {
    JsonBody(Me {
        name: principal.name.to_string(),
        tenant: principal.tenant.to_string(),
        user: principal.own_user().to_owned(),
        scopes: principal.scopes.words(),
    })
}
