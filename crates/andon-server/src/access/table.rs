//! What each route asks for: one table of all routes.
//!
//! # Invariants
//!
//! 1. Every route has a row.

use std::collections::HashMap;

use axum::http::Method;

use crate::access::scopes::Scope;

/// What a route asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: health, what says which server this is, and the page, which asks for a key itself.
    Public,
    /// To be known. What is asked for is in the path or the body, and the route asks for its scope itself.
    Known,
    /// A scope.
    Scope(Scope),
    /// Two scopes: it changes something, and shows what others said.
    Both(Scope, Scope),
    /// A scope, of a feed or a WebSocket: a ticket will do.
    Feed(Scope),
}

use Need::{Feed, Public};
use Scope::{Admin, Metrics, RunCancel, RunCreate, RunRead};

/// A row of the table: a method and a path, and what that asks for. HEAD is as GET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The method; `None` if the path takes every method and asks for the same.
    pub method: Option<Method>,
    /// The path, as it is routed.
    pub path: &'static str,
    /// What that asks for.
    pub need: Need,
}

impl Row {
    /// A row of one method.
    pub const fn new(method: Method, path: &'static str, need: Need) -> Self {
        Self { method: Some(method), path, need }
    }

    /// A row of a path that takes every method.
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

/// The web page, as a program: what it shows it has to ask for, with a key.
pub(crate) const PAGE: &[Row] = &[
    Row::new(Method::GET, "/", Public),
    Row::new(Method::GET, "/ui", Public),
    Row::new(Method::GET, "/ui/", Public),
    Row::new(Method::GET, "/ui/{*file}", Public),
];

/// The rows of all routes, by path.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Row>,
    /// Where the rows of a path are.
    paths: HashMap<&'static str, Vec<usize>>,
}

impl Table {
    /// The rows of the native API and of the page, and these.
    pub(crate) fn with(more: impl IntoIterator<Item = Row>) -> Self {
        let rows: Vec<Row> = NATIVE.iter().chain(PAGE).cloned().chain(more).collect();
        let mut paths: HashMap<_, Vec<usize>> = HashMap::new();
        for (index, row) in rows.iter().enumerate() {
            paths.entry(row.path).or_default().push(index);
        }
        Self { rows, paths }
    }

    /// All rows.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The rows of a path; `None` if it has none.
    pub(crate) fn of(&self, path: &str) -> Option<impl Iterator<Item = &Row>> {
        let places = self.paths.get(path)?;
        Some(places.iter().filter_map(|index| self.rows.get(*index)))
    }
}
