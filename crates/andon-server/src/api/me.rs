//! `GET /v1/me`: who the server thinks is asking.

use serde::Serialize;
use utoipa::ToSchema;

use crate::access::principal::Principal;
use crate::http::json::Json;
use crate::http::problem::ProblemForm;

/// Who asks.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Me {
    /// The name under which what it does is on record.
    name: String,
    /// Whose data it may see.
    tenant: String,
    /// The user that is meant where none is named.
    user: String,
    /// What it may do.
    scopes: Vec<&'static str>,
}

/// Whom the server takes you for, and what you may do.
#[utoipa::path(get, path = "/v1/me", tag = "access", responses(
    (status = 200, body = Me),
    (status = "4XX", body = ProblemForm, content_type = "application/problem+json"),
))]
pub(crate) async fn me(principal: Principal) -> Json<Me> {
    Json(Me {
        name: principal.name.to_string(),
        tenant: principal.tenant.to_string(),
        user: principal.own_user().to_owned(),
        scopes: principal.scopes.words(),
    })
}
