//! Errors as clients see them: `application/problem+json`, which says what is wrong and what to do.

use std::collections::BTreeMap;

use andon_runtime::{DecideError, IdError, JournalError, SessionError, StartError};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::openapi::{self, RefOr};
use utoipa::{IntoResponses, ToSchema};

/// What is wrong with a request, and what to do.
#[derive(Debug, Clone)]
pub struct Problem {
    status: StatusCode,
    kind: &'static str,
    detail: String,
    /// Additional fields. Boxed to keep the type small, because most problems have none and they are passed around a
    /// lot.
    more: Box<Map<String, Value>>,
    retry_after: Option<u64>,
    is_last: bool,
}

/// An error: what is wrong, and what to do.
// Only for the OpenAPI description.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemForm {
    /// The kind of problem, such as `urn:andon:session-busy`.
    r#type: String,
    /// The HTTP status in words.
    title: String,
    /// The HTTP status.
    status: u16,
    /// What is wrong, and what to do.
    detail: String,
    /// The run concerned, if there is one.
    run_id: Option<String>,
    /// The id of the request in the server's log.
    request_id: Option<String>,
}

/// The description of the refusals that almost every route may answer with.
pub(crate) struct Refusals;

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        let problem = |description: &str| {
            let form = openapi::Content::new(Some(openapi::Ref::from_schema_name("Problem")));
            let response = openapi::ResponseBuilder::new().description(description);
            response.content("application/problem+json", form).into()
        };
        BTreeMap::from([("4XX".to_owned(), problem("")), ("503".to_owned(), problem("Temporarily unavailable"))])
    }
}

impl Problem {
    /// A problem with a status, a kind such as `session-busy`, and what to do.
    pub fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>) -> Self {
        Self { status, kind, detail: detail.into(), more: Box::default(), retry_after: None, is_last: false }
    }

    /// The request is malformed.
    pub fn bad_request(kind: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, kind, detail)
    }

    /// The request is well-formed, but asks for something that cannot be done.
    pub fn unprocessable(kind: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, kind, detail)
    }

    /// It does not exist, or is not within reach.
    pub fn not_found(kind: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, kind, detail)
    }

    /// Too many requests; it may work a little later.
    pub fn too_many(kind: &'static str, detail: impl Into<String>) -> Self {
        Self { retry_after: Some(1), ..Self::new(StatusCode::TOO_MANY_REQUESTS, kind, detail) }
    }

    /// Not available now; it may work a little later.
    pub fn unavailable(kind: &'static str, detail: impl Into<String>) -> Self {
        Self { retry_after: Some(1), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, kind, detail) }
    }

    /// This is not a valid id.
    pub fn bad_id(what: &str, error: &IdError) -> Self {
        Self::bad_request("bad-id", format!("{what}: {error}"))
    }

    /// The kind of problem, which is the same in every dialect.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The HTTP status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// What is wrong, and what to do.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The problem as clients see it.
    pub fn to_json(&self) -> Value {
        let mut body = json!({
            "type": format!("urn:andon:{}", self.kind),
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        if let Value::Object(body) = &mut body {
            body.extend((*self.more).clone());
        }
        body
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// Closes the connection after this answer: what the client still sends is not read.
    #[must_use]
    pub fn closing(self) -> Self {
        Self { is_last: true, ..self }
    }

    /// The path does not exist.
    pub(crate) fn unknown_path() -> Self {
        Self::not_found("no-such-path", "there is nothing at this path: GET /openapi.json lists all paths")
    }

    /// The path does not support the method.
    pub(crate) fn wrong_method() -> Self {
        let detail = "this path does not support this method: GET /openapi.json lists the methods it supports";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "wrong-method", detail)
    }

    /// The server panicked.
    pub(crate) fn defect() -> Self {
        let detail = "the server has a bug, and it is not known how far the request got: please report this";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "defect", detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, retry_after, is_last) = (self.status, self.retry_after, self.is_last);
        let mut response = (status, self.to_json().to_string()).into_response();
        // A dialect uses this to report the same problem in its own format.
        response.extensions_mut().insert(self);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if is_last {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl From<JournalError> for Problem {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::RunExists(_) | JournalError::SessionExists(_) => {
                Self::new(StatusCode::CONFLICT, "exists", error.to_string())
            }
            JournalError::SessionBusy { .. } | JournalError::SessionClosing(_) => {
                Self::new(StatusCode::CONFLICT, "session-busy", error.to_string())
            }
            JournalError::Fenced { .. }
            | JournalError::Owned { .. }
            | JournalError::Storage(_)
            | JournalError::Unreadable(_)
            | JournalError::Closed => {
                // An error of the storage may name files on this machine.
                Self::unavailable("journal", "the journal is not available now: try again later")
            }
            #[cfg(not(andon_whole))]
            _ => Self::unavailable("journal", "the journal is not available now: try again later"),
        }
    }
}

impl From<SessionError> for Problem {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Id(error) => Self::bad_id("user or session", &error),
            error => Self::unprocessable("session-refused", error.to_string()),
        }
    }
}

impl From<StartError> for Problem {
    fn from(error: StartError) -> Self {
        let detail = error.to_string();
        match error {
            StartError::Busy { session, run } => {
                let detail = format!(
                    "session {session} is busy with run {run}: wait for it to end, cancel it, or set \
                     when_busy to queue or supersede"
                );
                Self::new(StatusCode::CONFLICT, "session-busy", detail).with("run_id", run.as_str())
            }
            StartError::QueueFull { .. } => Self::too_many("queue-full", detail),
            StartError::SessionClosing { .. } => Self::new(StatusCode::CONFLICT, "session-closing", detail),
            StartError::RunIdTaken(run) => {
                let detail = format!("run id {run} is in use: choose another, or leave it out");
                Self::new(StatusCode::CONFLICT, "run-id-taken", detail).with("run_id", run.as_str())
            }
            StartError::ZeroLimit(_) => Self::unprocessable("bad-limit", detail),
            StartError::BadImage(_) => Self::unprocessable("bad-media", detail),
            StartError::NotAPrompt(_) => Self::unprocessable("bad-input", detail),
            StartError::BadHistory(_) => Self::unprocessable("bad-history", detail),
            StartError::HistoryExists { .. } => Self::new(StatusCode::CONFLICT, "history-exists", detail),
            StartError::Forked => Self::unavailable("forked", detail),
            #[cfg(not(andon_whole))]
            _ => Self::unavailable("not-started", detail),
        }
    }
}

impl From<DecideError> for Problem {
    fn from(error: DecideError) -> Self {
        Self::new(StatusCode::CONFLICT, "not-awaited", error.to_string())
    }
}
