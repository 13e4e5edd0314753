//! Checks the host that a request asks for, and the web page that it comes from.
//!
//! # Invariants
//!
//! 1. A request names exactly one host, and this server answers to it. A page whose name was made to point here (DNS
//!    rebinding) names its own host.
//! 2. A request that comes from a page comes from a page of this server, or of an allowed origin. A request that says
//!    nothing about a page does not come from a browser, and passes, unless it could be a form that an old browser
//!    submits with somebody's cookie.
//! 3. Following a link from another site shows a page or an answer, and does nothing: above all it does not open a feed,
//!    because closing one can stop a run.
//! 4. No answer is interpreted as another content type than its own, and none is cached by default.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::http::problem::Problem;
use crate::options::Options;

/// The site and mode of a request. Browsers send these even where they send no origin, such as with images and scripts.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Refuses requests that are not meant for this server, or that come from a page that may not call it.
pub(crate) async fn guard(State(options): State<Arc<Options>>, request: Request, next: Next) -> Response {
    let (method, headers) = (request.method(), request.headers());
    let mut response = match check(method, headers, request.uri().authority(), &options) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn check(method: &Method, headers: &HeaderMap, asked: Option<&Authority>, options: &Options) -> Result<(), Problem> {
    let host = host(headers, asked)?;
    if !answers_to(&host, options) {
        let detail = "this server does not answer to that host: allow it with --host (Options::hosts in a program), or use \
                      localhost";
        return Err(Problem::new(StatusCode::FORBIDDEN, "unknown-host", detail));
    }
    let is_foreign = match single_header(headers, header::ORIGIN)? {
        Some(origin) => !is_own(origin, &host) && !is_named(origin, options),
        None => comes_from_another_page(method, headers)?,
    };
    if is_foreign {
        return Err(foreign_page());
    }
    if may_be_a_form(method, headers)? {
        let detail = "a request with a cookie must say which page it comes from: send it as application/json, or with \
                      the header Origin or Sec-Fetch-Site";
        return Err(Problem::new(StatusCode::FORBIDDEN, "unknown-page", detail));
    }
    Ok(())
}

/// The response to a request from a page that may not make it.
pub(crate) fn foreign_page() -> Problem {
    let detail =
        "pages of that origin may not call this server: allow it with --origin (Options::origins in a program)";
    Problem::new(StatusCode::FORBIDDEN, "foreign-origin", detail)
}

/// Whether a request may be a form that an old browser submits from another page, with the cookie that signs its user in to
/// the program in which the server is mounted. Newer browsers say where a request comes from, and no form sends JSON.
fn may_be_a_form(method: &Method, headers: &HeaderMap) -> Result<bool, Problem> {
    if method.is_safe() || !headers.contains_key(header::COOKIE) {
        return Ok(false);
    }
    let says_where = headers.contains_key(header::ORIGIN) || headers.contains_key(FETCH_SITE);
    let kind = single_header(headers, header::CONTENT_TYPE)?.unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    Ok(!says_where && !essence.eq_ignore_ascii_case("application/json"))
}

/// Whether a browser follows a link on a page of another site (invariant 3).
pub(crate) fn follows_a_foreign_link(headers: &HeaderMap) -> bool {
    let is = |name: &HeaderName, words: &[&str]| {
        headers.get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| words.contains(&value))
    };
    is(&FETCH_MODE, &["navigate"]) && headers.contains_key(FETCH_SITE) && !is(&FETCH_SITE, &["same-origin", "none"])
}

/// The one host that a request names (invariant 1).
fn host(headers: &HeaderMap, asked: Option<&Authority>) -> Result<String, Problem> {
    let named = single_header(headers, header::HOST)?;
    match (named, asked) {
        (Some(host), None) => Ok(host.to_owned()),
        (None, Some(asked)) => Ok(asked.to_string()),
        (Some(host), Some(asked)) if host.eq_ignore_ascii_case(asked.as_str()) => Ok(host.to_owned()),
        (Some(_), Some(_)) => {
            let detail =
                "the request line and the header Host name different hosts: send only the path in the request line";
            Err(Problem::bad_request("two-hosts", detail))
        }
        (None, None) => Err(Problem::bad_request("no-host", "the request names no host: send a header Host")),
    }
}

/// The value of a header that may appear only once. Two are rejected, because one program would read the first and
/// another the last.
fn single_header(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(&name).iter();
    let first = values.next();
    if values.next().is_some() {
        let detail = format!("the header {name} appears more than once: send it once");
        return Err(Problem::bad_request("two-headers", detail));
    }
    let text = first.map(|value| value.to_str()).transpose();
    text.map_err(|_| Problem::bad_request("bad-header", format!("the header {name} must be plain ASCII")))
}

fn answers_to(host: &str, options: &Options) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    // It may contain a port, but no user and nothing else.
    let rest = authority.as_str().strip_prefix(name);
    if rest.is_none_or(|rest| !rest.is_empty() && authority.port_u16().is_none()) {
        return false;
    }
    let is_loopback = |name: &str| name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback());
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    // Somebody else's name can be made to point here; an address cannot.
    name.eq_ignore_ascii_case("localhost")
        || is_loopback(bare)
        || options.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn is_own(origin: &str, host: &str) -> bool {
    let named = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    named.is_some_and(|named| named.eq_ignore_ascii_case(host))
}

/// Whether the pages of this origin may call the server.
pub(crate) fn is_named(origin: &str, options: &Options) -> bool {
    options.origins.iter().any(|known| known.trim_end_matches('/').eq_ignore_ascii_case(origin))
}

/// Whether a browser says that the request comes from a page of another site. Following a link from there is allowed,
/// but only to look: another page's form is submitted in just this way, and not every browser says whose it is.
fn comes_from_another_page(method: &Method, headers: &HeaderMap) -> Result<bool, Problem> {
    let is_elsewhere = single_header(headers, FETCH_SITE)?.is_some_and(|site| !matches!(site, "same-origin" | "none"));
    let follows_a_link = single_header(headers, FETCH_MODE)? == Some("navigate") && method.is_safe();
    Ok(is_elsewhere && !follows_a_link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_page_may_link_here_and_do_nothing_else() {
        let options = Options::default();
        let passes = |method: Method, headers: &[(&'static str, &'static str)]| {
            let all = headers.iter().chain(&[("host", "localhost:8000")]);
            let headers = all.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            check(&method, &headers.collect(), None, &options).is_ok()
        };
        let (site, mode) = ("sec-fetch-site", "sec-fetch-mode");
        for elsewhere in ["cross-site", "same-site", "somewhere-new"] {
            assert!(passes(Method::GET, &[(site, elsewhere), (mode, "navigate")]), "a link from {elsewhere}");
            for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                assert!(!passes(method.clone(), &[(site, elsewhere), (mode, "navigate")]), "{method} from {elsewhere}");
            }
            for mode_of in ["cors", "no-cors", "websocket"] {
                assert!(!passes(Method::GET, &[(site, elsewhere), (mode, mode_of)]), "{mode_of} from {elsewhere}");
            }
            assert!(!passes(Method::GET, &[(site, elsewhere)]), "a browser that does not say how");
        }
        for own in ["same-origin", "none"] {
            assert!(passes(Method::POST, &[(site, own), (mode, "cors")]), "{own}");
        }
        // What a form in a browser that says nothing could send with a cookie, and what it could not.
        let cookie = ("cookie", "session=1");
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""] {
            assert!(!passes(Method::POST, &[cookie, ("content-type", kind)]), "{kind}");
        }
        assert!(!passes(Method::POST, &[cookie]) && passes(Method::GET, &[cookie]));
        assert!(passes(Method::POST, &[cookie, ("content-type", "Application/JSON; charset=utf-8")]));
        assert!(passes(Method::POST, &[cookie, (site, "same-origin"), (mode, "cors")]));
        // Not a browser: curl, and ADK clients.
        assert!(passes(Method::POST, &[]) && passes(Method::GET, &[]));
        let own = ("origin", "http://localhost:8000");
        assert!(passes(Method::POST, &[own, (site, "same-origin"), (mode, "navigate")]));
        assert!(!passes(Method::POST, &[("origin", "null"), (site, "cross-site"), (mode, "navigate")]));
    }

    #[test]
    fn it_answers_to_this_machine_and_to_the_names_it_was_given() {
        let options = Options::new().hosts(vec!["andon.example".to_owned()]);
        for own in [
            "localhost",
            "LocalHost:8000",
            "127.0.0.1:8000",
            "127.0.0.2",
            "[::1]:8000",
            "[::ffff:127.0.0.1]",
            "andon.example",
            "ANDON.example:80",
        ] {
            assert!(answers_to(own, &options), "{own}");
        }
        for other in [
            "",
            "evil.example",
            "localhost.",
            "localhost.evil.example",
            "evil@localhost",
            "localhost@evil.example",
            "localhost:",
            "localhost:port",
            "localhost:99999",
            "localhost/path",
            "[::1",
            "10.0.0.1",
            "0.0.0.0",
            "[::]",
            "2130706433",
            "andon.example.",
        ] {
            assert!(!answers_to(other, &options), "{other}");
        }
    }
}
