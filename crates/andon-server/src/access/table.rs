//! What each route requires: one table of all routes.
//!
//! # Invariants
//!
//! 1. Every route has a row.

use std::sync::Arc;

use axum::http::Method;

use crate::access::scopes::Scope;

/// What a route requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Need {
    /// Nothing: health checks, routes that identify the server, and the page, which asks for a key itself.
    Public,
    /// A valid principal. The route checks the scope itself, because it depends on the path or the body.
    Known,
    /// A scope.
    Scope(Scope),
    /// Two scopes, because the route both changes something and shows what others said.
    Both(Scope, Scope),
    /// A scope, for a feed or a WebSocket. A ticket is accepted too.
    Feed(Scope),
}

use Need::{Feed, Public};
use Scope::{Admin, Metrics, RunCancel, RunCreate, RunRead};

/// A row of the table: a method, a path and what they require. HEAD is treated as GET.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The method; `None` if the path accepts every method, with the same requirement.
    pub method: Option<Method>,
    /// The path, as it is routed.
    pub path: &'static str,
    /// What the route requires.
    pub need: Need,
}

impl Row {
    /// A row for one method.
    pub const fn new(method: Method, path: &'static str, need: Need) -> Self {
        Self { method: Some(method), path, need }
    }

    /// A row for a path that accepts every method.
    pub const fn any(path: &'static str, need: Need) -> Self {
        Self { method: None, path, need }
    }
}

/// The native API.
pub(crate) const NATIVE: &[Row] = &[
    Row::new(Method::GET, "/healthz", Public),
    Row::new(Method::GET, "/readyz", Public),
    Row::new(Method::GET, "/openapi.json", Need::Scope(RunRead)),
    Row::new(Method::GET, "/metrics", Need::Scope(Metrics)),
    Row::new(Method::GET, "/v1/apps", Need::Scope(RunRead)),
    Row::new(Method::GET, "/v1/board", Feed(RunRead)),
    Row::new(Method::POST, "/v1/runs", Need::Scope(RunCreate)),
    Row::new(Method::GET, "/v1/runs", Need::Scope(RunRead)),
    Row::new(Method::GET, "/v1/runs/{run_id}", Need::Scope(RunRead)),
    Row::new(Method::GET, "/v1/runs/{run_id}/receipt", Need::Scope(RunRead)),
    Row::new(Method::GET, "/v1/runs/{run_id}/conversation", Need::Scope(RunRead)),
    Row::new(Method::GET, "/v1/runs/{run_id}/events", Feed(RunRead)),
    Row::new(Method::POST, "/v1/runs/{run_id}/cancel", Need::Scope(RunCancel)),
    Row::new(Method::POST, "/v1/runs/{run_id}/calls/{call}/cancel", Need::Scope(RunCancel)),
    Row::new(Method::POST, "/v1/runs/{run_id}/approvals/{call}", Need::Scope(RunCreate)),
    Row::new(Method::POST, "/v1/cancel", Need::Scope(RunCancel)),
    Row::new(Method::GET, "/v1/line", Need::Scope(RunRead)),
    Row::new(Method::PUT, "/v1/line", Need::Scope(Admin)),
    Row::new(Method::GET, "/v1/sessions", Need::Scope(RunRead)),
    Row::new(Method::GET, "/v1/sessions/{app}/{user}/{session}", Need::Scope(RunRead)),
    Row::new(Method::DELETE, "/v1/sessions/{app}/{user}/{session}", Need::Scope(RunCreate)),
    Row::new(Method::GET, "/v1/sessions/{app}/{user}/{session}/history", Need::Scope(RunRead)),
    Row::new(Method::GET, "/v1/usage", Need::Scope(Metrics)),
    Row::new(Method::GET, "/v1/me", Need::Known),
    Row::new(Method::POST, "/v1/tickets", Need::Scope(RunRead)),
    Row::new(Method::POST, "/v1/keys", Need::Scope(Admin)),
    Row::new(Method::GET, "/v1/keys", Need::Scope(Admin)),
    Row::new(Method::DELETE, "/v1/keys/{id}", Need::Scope(Admin)),
];

/// The files of the web page. The page needs a key for the data it shows.
pub(crate) const PAGE: &[Row] = &[
    Row::new(Method::GET, "/", Public),
    Row::new(Method::GET, "/ui", Public),
    Row::new(Method::GET, "/ui/", Public),
    Row::new(Method::GET, "/ui/{*file}", Public),
];

/// The rows of all routes: those of the native API, of the page, and these additional ones.
pub(crate) fn table(more: impl IntoIterator<Item = Row>) -> Arc<[Row]> {
    NATIVE.iter().chain(PAGE).cloned().chain(more).collect()
}
