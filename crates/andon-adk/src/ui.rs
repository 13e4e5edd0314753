//! ADK's web page, served from a folder in which it has been installed.
//!
//! # Invariants
//!
//! 1. Only files within the folder are served (see [`read_file`]).
//! 2. Before the page can ask, it is told that it may not track anybody.

use std::path::PathBuf;

use andon_server::dialect::{Json, Problem, read_file};
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::{Value, json};

use crate::core::Shared;

/// Where the page is.
pub(crate) const PAGE: &str = "/dev-ui/";

/// ADK's web page is not in the configured folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} has no index.html, so ADK's web page is not in it: get it with `pip download --no-deps google-adk` and \
     `unzip google_adk-*.whl 'google/adk/cli/browser/*'`, and use the folder google/adk/cli/browser", .0.display()
)]
pub struct NoPage(pub PathBuf);

/// Checks that a folder has ADK's web page; the error says what to do.
pub fn has_page(folder: &std::path::Path) -> Result<(), NoPage> {
    if folder.join("index.html").is_file() { Ok(()) } else { Err(NoPage(folder.to_owned())) }
}

/// Redirects to the page from every other path.
pub(crate) async fn to_page() -> Redirect {
    Redirect::temporary(PAGE)
}

/// The page's first request (invariant 2).
pub(crate) async fn config() -> Json<Value> {
    Json(json!({"backendUrl": "", "telemetry": false}))
}

pub(crate) async fn index(State(core): State<Shared>) -> Result<Response, Problem> {
    served(&core, "index.html").await
}

pub(crate) async fn file(State(core): State<Shared>, Path(file): Path<String>) -> Result<Response, Problem> {
    served(&core, &file).await
}

async fn served(core: &Shared, file: &str) -> Result<Response, Problem> {
    let missing = || Problem::not_found("no-such-file", "Not Found");
    let Some(folder) = &core.page else {
        let detail = "ADK's web page is not served: start the server with --adk-ui and the folder that contains it";
        return Err(Problem::not_found("no-page", detail));
    };
    let (kind, bytes) = read_file(folder, file).await.ok_or_else(missing)?;
    Ok(([(header::CONTENT_TYPE, kind)], bytes).into_response())
}
