//! `GET /v1/apps`: the apps that can be run.

use crate::http::json::JsonBody;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::principal::Principal;
use crate::admission::apps::{App, why_refused};
use crate::core::Shared;

/// The apps of this server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AppList {
    apps: Vec<AppView>,
}

/// An app.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = App)]
pub(crate) struct AppView {
    /// The name of the app.
    app: String,
    /// The name of its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// What the app is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// Why the app cannot be run at the moment. Only admins see the details.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

/// List the apps.
#[utoipa::path(get, path = "/v1/apps", tag = "apps", responses((status = 200, body = AppList)))]
pub(crate) async fn list(State(core): State<Shared>, principal: Principal) -> JsonBody<AppList> {
    let apps = core.apps.all().into_iter().map(|(app, what)| match what {
        App::Served { agent, description } => {
            AppView { app, model: Some(agent.model_name().to_owned()), description, refused: None }
        }
        App::Refused { why } => {
            AppView { app, model: None, description: None, refused: Some(why_refused(&principal, why)) }
        }
    });
    JsonBody(AppList { apps: apps.collect() })
}
