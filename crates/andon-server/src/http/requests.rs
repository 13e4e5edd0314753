//! An account of every request: a figure, a line in the log, and an id by which a client's trouble is found there.
//!
//! # Invariants
//!
//! 1. What a client sent is not logged: no path, no query, no header and no body. A route is named by its template.
//! 2. An id that a client names is taken only if it is short and plain, so that it can stand in a log.
//! 3. Every request is accounted for once, also one whose client leaves before the answer.

use std::fmt;
use std::sync::Arc;

use andon_runtime::RunId;
use andon_telemetry::Figures;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;
use tracing::{Instrument, Span, debug, error, error_span, field, info};
use uuid::Uuid;

use crate::http::problem::Problem;

/// The header with a request's id, both ways.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// How long an id may be that a client names.
const LONGEST: usize = 64;

/// What a request is called in the log.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(Arc<str>);

impl RequestId {
    fn of(headers: &HeaderMap) -> Self {
        let named = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
        let is_plain = |id: &&str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
            !id.is_empty() && id.len() <= LONGEST && id.bytes().all(plain)
        };
        named.filter(is_plain).map_or_else(|| Self(Uuid::now_v7().to_string().into()), |id| Self(id.into()))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A mark on a response: whatever its status, it is no trouble of this server, and was told once elsewhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quiet;
/// The status of a request whose client left before it was answered. It is on no wire: nobody is there to read it.
const GONE: u16 = 499;

/// Accounts for a request.
pub(crate) async fn account(State(figures): State<Arc<Figures>>, request: Request, next: Next) -> Response {
    let id = RequestId::of(request.headers());
    // Of the highest level, so that a line of any level has it.
    let span = error_span!("request", request_id = %id, run = field::Empty);
    let mut account = Account {
        began: Instant::now(),
        method: request.method().clone(),
        matched: request.extensions().get::<MatchedPath>().cloned(),
        span: span.clone(),
        status: None,
        is_quiet: false,
        figures,
    };
    let response = next.run(request).instrument(span).await;
    account.status = Some(response.status().as_u16());
    account.is_quiet = response.extensions().get::<Quiet>().is_some();
    drop(account);
    named(response, &id)
}

/// Says in the account of the request in progress that it has started this run.
pub(crate) fn started(run: &RunId) {
    Span::current().record("run", run.as_str());
    info!("run asked for");
}

/// What is to be told of a request. It is told when this is dropped: at the answer, or when the client leaves before (invariant 3).
struct Account {
    figures: Arc<Figures>,
    began: Instant,
    method: Method,
    matched: Option<MatchedPath>,
    span: Span,
    status: Option<u16>,
    is_quiet: bool,
}

impl Drop for Account {
    fn drop(&mut self) {
        let unanswered = if std::thread::panicking() { 500 } else { GONE };
        let status = self.status.unwrap_or(unanswered);
        let route = self.matched.as_ref().map_or("(none)", |matched| matched.as_str());
        let took = self.began.elapsed();
        self.figures.request(self.method.as_str(), route, status, took);
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.span.in_scope(|| log(self.method.as_str(), route, status, took_us, self.is_quiet));
    }
}

fn log(method: &str, route: &str, status: u16, took_us: u64, is_quiet: bool) {
    match (status, route) {
        _ if is_quiet => debug!(method, route, status, took_us, "request"),
        // Not now is an answer, and no defect.
        (500..=502 | 504.., _) => error!(method, route, status, took_us, "request"),
        // Machines ask these all day.
        (_, "/healthz" | "/readyz" | "/metrics" | "/health") => debug!(method, route, status, took_us, "request"),
        _ => info!(method, route, status, took_us, "request"),
    }
}

/// Tells the client what its request is called.
fn named(mut response: Response, id: &RequestId) -> Response {
    let is_problem =
        response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/problem+json");
    if let Some(problem) = response.extensions_mut().remove::<Problem>().filter(|_| is_problem) {
        let body = problem.with("request_id", &*id.0).to_json().to_string();
        let (mut parts, _) = response.into_parts();
        parts.headers.remove(header::CONTENT_LENGTH);
        response = (parts, body).into_response();
    }
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&id.0) {
        headers.insert(REQUEST_ID, value);
    }
    // No page shows this in a frame, where somebody could be made to click what they do not see.
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static("frame-ancestors 'none'"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(named: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::from_str(named).unwrap());
        RequestId::of(&headers).to_string()
    }

    #[test]
    fn an_id_that_can_stand_in_a_log_is_taken_and_any_other_replaced() {
        assert_eq!(id("abc-123_X.y:z"), "abc-123_X.y:z");
        let long = "x".repeat(65);
        for bad in ["", " ", "a b", "a\"b", "{\"a\":1}", "a/b", &long] {
            let made = id(bad);
            assert!(made != bad && Uuid::parse_str(&made).is_ok(), "{bad} became {made}");
        }
    }
}
