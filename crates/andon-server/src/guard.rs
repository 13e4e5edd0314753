//! Who may call at all: the host that is asked for, and the page that asks.
//!
//! # Invariants
//!
//! 1. A request names a host that this server answers to. A page whose name was bent to point here (DNS rebinding) names its own.
//! 2. A request that comes from a page comes from one of this server, or of an origin that was named. One that says nothing of
//!    a page comes from no browser, and passes.

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::Shared;
use crate::options::Options;
use crate::problem::Problem;

/// Refuses requests that are not meant for this server, or come from a page that may not call it.
pub(crate) async fn guard(State(core): State<Shared>, request: Request, next: Next) -> Response {
    match check(request.headers(), request.uri().authority(), &core.options) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn check(headers: &HeaderMap, asked: Option<&Authority>, options: &Options) -> Result<(), Problem> {
    let host = one(headers, header::HOST)?.map(str::to_owned).or_else(|| asked.map(ToString::to_string));
    let host =
        host.ok_or_else(|| Problem::bad_request("no-host", "the request names no host: send the header Host"))?;
    if !answers_to(&host, options) {
        let detail = "this server does not answer to that host: name it with --host, or ask for localhost";
        return Err(Problem::new(StatusCode::FORBIDDEN, "unknown-host", detail));
    }
    let Some(origin) = one(headers, header::ORIGIN)? else { return Ok(()) };
    let is_own = ["http://", "https://"].iter().any(|scheme| origin.strip_prefix(scheme) == Some(host.as_str()));
    if is_own || options.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
        return Ok(());
    }
    let detail = "pages of that origin may not call this server: allow it with --origin";
    Err(Problem::new(StatusCode::FORBIDDEN, "foreign-origin", detail))
}

/// The one value of a header. Two are a trick: who reads the first and who reads the last would not agree.
fn one(headers: &HeaderMap, name: header::HeaderName) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(&name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Problem::bad_request("two-headers", format!("the header {name} is there twice: send it once")));
    }
    let text = first.map(|value| value.to_str()).transpose();
    text.map_err(|_| Problem::bad_request("bad-header", format!("the header {name} is no plain text")))
}

fn answers_to(host: &str, options: &Options) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    if authority.as_str().contains('@') {
        return false;
    }
    let name = authority.host();
    let is_own = ["localhost", "127.0.0.1", "[::1]"].iter().any(|own| own.eq_ignore_ascii_case(name));
    is_own || options.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
}
