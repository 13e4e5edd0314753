//! Metrics and a log line for every request, and an id by which a client's problem can be found in the log.
//!
//! # Invariants
//!
//! 1. Nothing that a client sent is logged: no path, no query, no header and no body. A route is named by its template.
//! 2. An id given by a client is used only if it is short and plain, so that it is safe in a log.
//! 3. Every request is logged and counted exactly once, even if its client disconnects before the answer.

use std::sync::Arc;

use andon_runtime::RunId;
use andon_telemetry::Figures;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;
use tracing::{Instrument, Span, debug, error, error_span, field, info};
use uuid::Uuid;

use crate::http::path::route;
use crate::http::problem::Problem;

/// The header with a request's id, in requests and responses.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The maximum length of an id given by a client.
const LONGEST: usize = 64;

/// The id of a request in the log: the one that the client gave, if it is short and plain, or else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let named = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let is_plain = |id: &&str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
        !id.is_empty() && id.len() <= LONGEST && id.bytes().all(plain)
    };
    named.filter(is_plain).map_or_else(|| Uuid::now_v7().to_string(), str::to_owned)
}

/// Marks a response that, whatever its status, is not an error of this server and has already been logged elsewhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quiet;
/// The status that is logged for a client that disconnected before the answer. It is never sent.
const GONE: u16 = 499;

/// Logs and counts a request.
pub(crate) async fn account(State(figures): State<Arc<Figures>>, request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    // A span of the highest level, so that log lines of every level carry it.
    let span = error_span!("request", request_id = id, run = field::Empty);
    let mut account = Account {
        began: Instant::now(),
        method: request.method().clone(),
        route: route(request.extensions()).map(Arc::from),
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

/// Adds the run that the current request has started to its log line.
pub(crate) fn started(run: &RunId) {
    Span::current().record("run", run.as_str());
    info!("run requested");
}

/// Logs and counts a request when it is dropped: after the answer, or when the client disconnects before it (invariant
/// 3).
struct Account {
    figures: Arc<Figures>,
    began: Instant,
    method: Method,
    route: Option<Arc<str>>,
    span: Span,
    status: Option<u16>,
    is_quiet: bool,
}

impl Drop for Account {
    fn drop(&mut self) {
        let unanswered = if std::thread::panicking() { 500 } else { GONE };
        let status = self.status.unwrap_or(unanswered);
        let route = self.route.as_deref().unwrap_or("(none)");
        let took = self.began.elapsed();
        self.figures.request(self.method.as_str(), route, status, took);
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.span.in_scope(|| log(self.method.as_str(), route, status, took_us, self.is_quiet));
    }
}

fn log(method: &str, route: &str, status: u16, took_us: u64, is_quiet: bool) {
    match (status, route) {
        _ if is_quiet => debug!(method, route, status, took_us, "request"),
        // 503 is a normal answer, not a bug.
        (500..=502 | 504.., _) => error!(method, route, status, took_us, "request"),
        // Machines ask for these all day.
        (_, "/healthz" | "/readyz" | "/metrics" | "/health") => debug!(method, route, status, took_us, "request"),
        _ => info!(method, route, status, took_us, "request"),
    }
}

/// Adds the id of the request to the response.
fn named(mut response: Response, id: &str) -> Response {
    let is_problem =
        response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/problem+json");
    if let Some(problem) = response.extensions_mut().remove::<Problem>().filter(|_| is_problem) {
        let body = problem.with("request_id", id).to_json().to_string();
        let (mut parts, _) = response.into_parts();
        parts.headers.remove(header::CONTENT_LENGTH);
        response = (parts, body).into_response();
    }
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, value);
    }
    // Prevents clickjacking: no page may show this in a frame.
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
        request_id(&headers)
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
