//! The web page. Its files are built into the program, or read from a folder during development.
//!
//! # Invariants
//!
//! 1. Anybody may load the page. To show any data, it has to ask the API, with a key if one is needed.
//! 2. Nothing that the page shows can become a script: only scripts from this server are run, no other origin is
//!    contacted, and no text is interpreted as code.
//! 3. The page works wherever the server is mounted: it uses only relative paths, and so do the redirects to it.

pub(crate) mod folder;
mod preloads;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{Arc, LazyLock};

use andon_runtime::Digest;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{OriginalUri, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get};
use flate2::Compression;
use flate2::write::GzEncoder;
use rust_embed::Embed;

use crate::http::path::PathParams;
use crate::http::problem::Problem;
use crate::options::Options;

/// The files of the page, as in the source.
#[derive(Embed)]
#[folder = "web"]
struct Files;

/// What the page may do (invariant 2).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// Where the page is.
pub(crate) const PATH: &str = "/ui/";

/// The routes of the page.
pub(crate) fn routes() -> Vec<(&'static str, MethodRouter<Arc<Options>>)> {
    vec![("/ui", get(to_page)), ("/ui/", get(index)), ("/ui/{*file}", get(file))]
}

/// The page.
pub(crate) fn router(options: &Arc<Options>) -> Router {
    let router = routes().into_iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods));
    router.with_state(Arc::clone(options))
}

/// A root that redirects to a page, which is given by its path.
pub(crate) fn root(page: &'static str) -> Router {
    let page = page.trim_start_matches('/');
    Router::new().route("/", get(async |OriginalUri(asked): OriginalUri| Redirect::temporary(&below(&asked, page))))
}

/// A path below the root of the server, relative to the root as it was asked for (invariant 3).
fn below(asked: &Uri, page: &str) -> String {
    // The requested path ends in a slash, or in the last part of the path where the server is mounted.
    match asked.path().rsplit('/').next().unwrap_or_default() {
        "" => page.to_owned(),
        // Without `./`, a name with a colon in it would be read as a scheme.
        mounted => format!("./{mounted}/{page}"),
    }
}

/// Redirects from the page's path without its last slash.
async fn to_page() -> Redirect {
    Redirect::temporary("ui/")
}

async fn index(State(options): State<Arc<Options>>, headers: HeaderMap) -> Result<Response, Problem> {
    served(&options, "index.html", &headers).await
}

async fn file(
    State(options): State<Arc<Options>>,
    PathParams(file): PathParams<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    served(&options, &file, &headers).await
}

async fn served(options: &Options, file: &str, headers: &HeaderMap) -> Result<Response, Problem> {
    let missing = || Problem::not_found("no-such-file", "the web page has no such file: it starts at /ui/");
    let response = match &options.web_dir {
        Some(dir) => {
            let (kind, bytes) = folder::read_file(dir, file).await.ok_or_else(missing)?;
            ([(header::CONTENT_TYPE, kind)], bytes).into_response()
        }
        None => PAGE.get(file).ok_or_else(missing)?.response(headers),
    };
    Ok((with_policy(), response).into_response())
}

fn with_policy() -> [(HeaderName, HeaderValue); 3] {
    [
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    ]
}

/// A file of the page, prepared once.
struct Asset {
    kind: &'static str,
    /// A hash of the content. It is a weak tag, because the file is the same whether compressed or not.
    tag: String,
    plain: Bytes,
    /// Compressed, for slow links.
    packed: Bytes,
}

static PAGE: LazyLock<HashMap<String, Asset>> = LazyLock::new(|| {
    let files = Files::iter().filter_map(|name| Files::get(&name).map(|file| (name, file)));
    files.map(|(name, file)| (name.to_string(), Asset::new(&name, content(&name, file.data)))).collect()
});

/// The content that is served for a file. `index.html` gets the list of the modules it needs.
fn content(name: &str, file: Cow<'static, [u8]>) -> Bytes {
    match (name, std::str::from_utf8(&file)) {
        ("index.html", Ok(index)) => Bytes::from(preloads::with_preloads(index, text)),
        _ => match file {
            Cow::Borrowed(bytes) => Bytes::from_static(bytes),
            Cow::Owned(bytes) => Bytes::from(bytes),
        },
    }
}

/// The text of a file of the page.
fn text(name: &str) -> Option<String> {
    String::from_utf8(Files::get(name)?.data.into_owned()).ok()
}

impl Asset {
    fn new(name: &str, plain: Bytes) -> Self {
        let mut tag = Digest::of(&plain).to_string();
        tag.truncate(24);
        let packed = packed(&plain).map_or_else(|| plain.clone(), Bytes::from);
        Self { kind: folder::kind(name), tag: format!("W/\"{tag}\""), plain, packed }
    }

    /// The file, unless the browser already has it.
    fn response(&self, asked: &HeaderMap) -> Response {
        let tag = HeaderValue::from_str(&self.tag).unwrap_or(HeaderValue::from_static("W/\"\""));
        // Browsers cache the file but check it every time, because a new version of the program has a new page.
        let keep = (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        let vary = (header::VARY, HeaderValue::from_static("accept-encoding"));
        let common = [(header::ETAG, tag), keep, vary];
        if names(asked, &header::IF_NONE_MATCH, &self.tag) {
            return (StatusCode::NOT_MODIFIED, common).into_response();
        }
        let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(self.kind))];
        if !names(asked, &header::ACCEPT_ENCODING, "gzip") || self.packed.len() >= self.plain.len() {
            return (common, kind, self.plain.clone()).into_response();
        }
        let packing = [(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
        (common, kind, packing, self.packed.clone()).into_response()
    }
}

/// Whether a list in a header contains this item. An item with quality 0 is not wanted.
fn names(asked: &HeaderMap, header: &HeaderName, wanted: &str) -> bool {
    let lists = asked.get_all(header).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|item| {
        let mut parts = item.split(';').map(str::trim);
        let bare = |name: &str| name.strip_prefix("W/").unwrap_or(name).to_owned();
        let is_it = parts.next().is_some_and(|name| bare(name).eq_ignore_ascii_case(&bare(wanted)));
        is_it && !parts.any(|part| matches!(part.strip_prefix("q="), Some("0" | "0.0" | "0.00" | "0.000")))
    })
}

fn packed(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
