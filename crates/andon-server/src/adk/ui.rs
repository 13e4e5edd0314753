//! ADK's web page, served from a folder in which somebody has installed it.
//!
//! # Invariants
//!
//! 1. Nothing is served but files that are within the folder (see [`folder`]).
//! 2. The page is told that it may not watch anybody, before it can ask.

use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use serde_json::{Value, json};

use super::Route;
use crate::Shared;
use crate::http::json::Json;
use crate::http::problem::Problem;
use crate::page::folder;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        ("/dev-ui", get(to_page)),
        ("/dev-ui/", get(index)),
        ("/dev-ui/assets/config/runtime-config.json", get(config)),
        ("/dev-ui/{*file}", get(file)),
    ]
}

/// To the page, by whichever way.
pub(crate) async fn to_page() -> Redirect {
    Redirect::temporary("/dev-ui/")
}

/// What the page wants to know before anything else (invariant 2).
async fn config() -> Json<Value> {
    Json(json!({"backendUrl": "", "telemetry": false}))
}

async fn index(State(core): State<Shared>) -> Result<Response, Problem> {
    served(&core, "index.html").await
}

async fn file(State(core): State<Shared>, Path(file): Path<String>) -> Result<Response, Problem> {
    served(&core, &file).await
}

async fn served(core: &Shared, file: &str) -> Result<Response, Problem> {
    let missing = || Problem::not_found("no-such-file", "Not Found");
    let Some(folder) = &core.options.adk_ui else {
        let detail = "ADK's web page is not served: start the server with --adk-ui and the folder that it is in";
        return Err(Problem::not_found("no-page", detail));
    };
    let (kind, bytes) = folder::read(folder, file).await.ok_or_else(missing)?;
    Ok(([(header::CONTENT_TYPE, kind)], bytes).into_response())
}
