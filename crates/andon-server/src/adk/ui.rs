//! ADK's web page, served from a folder in which somebody has installed it.
//!
//! # Invariants
//!
//! 1. Nothing is served but files that are within the folder, wherever links in it point.
//! 2. The page is told that it may not watch anybody, before it can ask.

use std::path::{Component, Path as FilePath, PathBuf};

use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use serde_json::{Value, json};

use super::Route;
use crate::Shared;
use crate::json::Json;
use crate::problem::Problem;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        ("/dev-ui", get(to_page)),
        ("/dev-ui/", get(index)),
        ("/dev-ui/assets/config/runtime-config.json", get(config)),
        ("/dev-ui/{*file}", get(file)),
    ]
}

/// Where a reader who names no page is sent, if there is a page.
pub(crate) fn front() -> Route {
    ("/", get(to_page))
}

async fn to_page() -> Redirect {
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
    let place = within(folder, file).await.ok_or_else(missing)?;
    let bytes = tokio::fs::read(&place).await.map_err(|_| missing())?;
    Ok(([(header::CONTENT_TYPE, kind(&place))], bytes).into_response())
}

/// Where a file is, if it is within the folder (invariant 1).
async fn within(folder: &FilePath, file: &str) -> Option<PathBuf> {
    let asked = FilePath::new(file);
    if !asked.components().all(|step| matches!(step, Component::Normal(_))) {
        return None;
    }
    let folder = tokio::fs::canonicalize(folder).await.ok()?;
    let place = tokio::fs::canonicalize(folder.join(asked)).await.ok()?;
    let is_file = tokio::fs::metadata(&place).await.is_ok_and(|found| found.is_file());
    (is_file && place.starts_with(&folder)).then_some(place)
}

fn kind(file: &FilePath) -> &'static str {
    match file.extension().and_then(|end| end.to_str()).unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "ico" => "image/x-icon",
        "wasm" => "application/wasm",
        "woff2" => "font/woff2",
        "woff" => "font/woff",
        "ttf" => "font/ttf",
        "txt" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_outside_of_the_folder_is_found_by_steps_or_by_links() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("page");
        std::fs::create_dir_all(folder.join("assets")).unwrap();
        std::fs::write(outer.path().join("secret"), "s").unwrap();
        std::fs::write(folder.join("index.html"), "page").unwrap();
        std::fs::write(folder.join("assets/a.js"), "js").unwrap();
        std::os::unix::fs::symlink(outer.path().join("secret"), folder.join("link")).unwrap();
        std::os::unix::fs::symlink(outer.path(), folder.join("up")).unwrap();
        std::os::unix::fs::symlink(folder.join("index.html"), folder.join("inner")).unwrap();
        for found in ["index.html", "assets/a.js", "inner"] {
            assert!(within(&folder, found).await.is_some(), "{found}");
        }
        let secret = outer.path().join("secret");
        for hidden in [
            "link",
            "up/secret",
            "../secret",
            "assets/../../secret",
            "assets",
            "",
            ".",
            "none",
            secret.to_str().unwrap(),
            "a\0b",
        ] {
            assert!(within(&folder, hidden).await.is_none(), "{hidden:?}");
        }
    }
}
