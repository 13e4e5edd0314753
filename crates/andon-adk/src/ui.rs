//! ADK's web page, served from a folder in which it has been installed.
//!
//! # Invariants
//!
//! 1. Only files within the folder are served (see [`read_file`]).
//! 2. Before the page can ask, it is told that it may not track anybody.
//! 3. The page works wherever the server is mounted: redirects to it are relative, and it is told the address that it was itself
//!    loaded from.

use std::path::PathBuf;

use andon_server::dialect::{JsonBody, Problem, read_file};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Uri, header};
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

/// Redirects to the page from its path without the last slash (invariant 3).
pub(crate) async fn to_page() -> Redirect {
    Redirect::temporary("dev-ui/")
}

/// The page's first request (invariants 2 and 3).
pub(crate) async fn config(headers: HeaderMap) -> JsonBody<Value> {
    JsonBody(json!({"backendUrl": prefix(&headers).unwrap_or_default(), "telemetry": false}))
}

/// The address of the server as the page sees it, if that has a path. Only the page knows it: a proxy may strip the path.
/// It has to be a whole address, because the page makes that of its WebSocket from it.
fn prefix(headers: &HeaderMap) -> Option<String> {
    let page: Uri = headers.get(header::REFERER)?.to_str().ok()?.parse().ok()?;
    let (mounted, _) = page.path().split_once(PAGE)?;
    let host = headers.get(header::HOST)?.to_str().ok()?;
    let (scheme, authority) = (page.scheme_str()?, page.authority()?.as_str());
    let is_its_own = authority.eq_ignore_ascii_case(host);
    (is_its_own && !mounted.is_empty()).then(|| format!("{scheme}://{authority}{mounted}"))
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

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_page_is_told_the_address_below_which_it_was_loaded() {
        for (page, told) in [
            ("https://tools.example/agents/dev-ui/", Some("https://tools.example/agents")),
            ("http://tools.example/a/b/dev-ui/?app=shop", Some("http://tools.example/a/b")),
            ("https://tools.example/dev-ui/", None),
            ("https://tools.example/", None),
            ("https://other.example/agents/dev-ui/", None),
            ("/agents/dev-ui/", None),
        ] {
            let known = [(header::HOST, "Tools.example"), (header::REFERER, page)];
            let headers = known.map(|(name, value)| (name, HeaderValue::from_static(value)));
            assert_eq!(prefix(&headers.into_iter().collect()).as_deref(), told, "{page}");
        }
        assert_eq!(prefix(&HeaderMap::new()), None);
    }
}
