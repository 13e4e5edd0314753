//! Who may call what: one table of all routes, and the one place that goes by it.
//!
//! # Invariants
//!
//! 1. Every route has a row. One that has none is served to nobody where it matters who asks.
//! 2. Who shows nothing, or something that is wrong, expired or revoked, is told the same.
//! 3. First it is asked who it is, then for the scope; only then is anything looked at.

pub(crate) mod auth;
pub(crate) mod keys;
pub(crate) mod limiter;
pub(crate) mod oidc;
pub(crate) mod principal;
pub(crate) mod scopes;
pub(crate) mod secret;
pub(crate) mod tickets;

use std::collections::HashMap;
use std::sync::LazyLock;

use andon_runtime::core::time::Wall;
use axum::extract::{MatchedPath, NestedPath, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::Shared;
use crate::access::principal::Principal;
use crate::access::scopes::Scope;
use crate::http::problem::Problem;
use crate::http::requests::Quiet;

/// What a route asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
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

/// A method, a path, and what that asks for. HEAD is as GET.
type Row = (Method, &'static str, Need);

/// The native API.
pub(crate) const NATIVE: &[Row] = &[
    (Method::GET, "/healthz", Public),
    (Method::GET, "/readyz", Public),
    (Method::GET, "/openapi.json", Need::Scope(RunRead)),
    (Method::GET, "/metrics", Need::Scope(Metrics)),
    (Method::GET, "/v1/apps", Need::Scope(RunRead)),
    (Method::GET, "/v1/board", Feed(RunRead)),
    (Method::POST, "/v1/runs", Need::Scope(RunCreate)),
    (Method::GET, "/v1/runs", Need::Scope(RunRead)),
    (Method::GET, "/v1/runs/{run_id}", Need::Scope(RunRead)),
    (Method::GET, "/v1/runs/{run_id}/receipt", Need::Scope(RunRead)),
    (Method::GET, "/v1/runs/{run_id}/conversation", Need::Scope(RunRead)),
    (Method::GET, "/v1/runs/{run_id}/events", Feed(RunRead)),
    (Method::POST, "/v1/runs/{run_id}/cancel", Need::Scope(RunCancel)),
    (Method::POST, "/v1/runs/{run_id}/calls/{call}/cancel", Need::Scope(RunCancel)),
    (Method::POST, "/v1/runs/{run_id}/approvals/{call}", Need::Scope(RunCreate)),
    (Method::POST, "/v1/cancel", Need::Scope(RunCancel)),
    (Method::GET, "/v1/line", Need::Scope(RunRead)),
    (Method::PUT, "/v1/line", Need::Scope(Admin)),
    (Method::GET, "/v1/sessions", Need::Scope(RunRead)),
    (Method::GET, "/v1/sessions/{app}/{user}/{session}", Need::Scope(RunRead)),
    (Method::DELETE, "/v1/sessions/{app}/{user}/{session}", Need::Scope(RunCreate)),
    (Method::GET, "/v1/sessions/{app}/{user}/{session}/history", Need::Scope(RunRead)),
    (Method::GET, "/v1/usage", Need::Scope(Metrics)),
    (Method::GET, "/v1/me", Need::Known),
    (Method::POST, "/v1/tickets", Need::Scope(RunRead)),
    (Method::POST, "/v1/keys", Need::Scope(Admin)),
    (Method::GET, "/v1/keys", Need::Scope(Admin)),
    (Method::DELETE, "/v1/keys/{id}", Need::Scope(Admin)),
];

/// The web page, as a program: what it shows it has to ask for, with a key.
pub(crate) const PAGE: &[Row] = &[
    (Method::GET, "/", Public),
    (Method::GET, "/ui", Public),
    (Method::GET, "/ui/", Public),
    (Method::GET, "/ui/{*file}", Public),
];

/// ADK's dialect.
pub(crate) const ADK: &[Row] = &[
    (Method::GET, "/health", Public),
    (Method::GET, "/version", Public),
    (Method::GET, "/list-apps", Need::Scope(RunRead)),
    (Method::GET, "/apps/{app}/app-info", Need::Scope(RunRead)),
    (Method::POST, "/run", Need::Scope(RunCreate)),
    (Method::POST, "/run_sse", Need::Scope(RunCreate)),
    (Method::GET, "/run_live", Feed(RunCreate)),
    // The page itself, as a program: what it shows it has to ask for.
    (Method::GET, "/dev-ui", Need::Known),
    (Method::GET, "/dev-ui/", Need::Known),
    (Method::GET, "/dev-ui/assets/config/runtime-config.json", Need::Known),
    (Method::GET, "/dev-ui/{*file}", Need::Known),
    (Method::GET, "/apps/{app}/users/{user}/sessions", Need::Scope(RunRead)),
    (Method::POST, "/apps/{app}/users/{user}/sessions", Need::Scope(RunCreate)),
    (Method::GET, "/apps/{app}/users/{user}/sessions/{session}", Need::Scope(RunRead)),
    // It creates a session, or cancels what runs in one.
    (Method::POST, "/apps/{app}/users/{user}/sessions/{session}", Need::Known),
    // The answer is the whole conversation.
    (Method::PATCH, "/apps/{app}/users/{user}/sessions/{session}", Need::Both(RunCreate, RunRead)),
    (Method::DELETE, "/apps/{app}/users/{user}/sessions/{session}", Need::Scope(RunCreate)),
    (Method::GET, "/apps/{app}/users/{user}/sessions/{session}/artifacts", Need::Scope(RunRead)),
    (Method::POST, "/apps/{app}/users/{user}/sessions/{session}/artifacts", Need::Scope(RunCreate)),
    (Method::GET, "/apps/{app}/users/{user}/sessions/{session}/artifacts/{*rest}", Need::Scope(RunRead)),
    (Method::DELETE, "/apps/{app}/users/{user}/sessions/{session}/artifacts/{*rest}", Need::Scope(RunCreate)),
    (Method::PATCH, "/apps/{app}/users/{user}/memory", Need::Scope(RunCreate)),
    (Method::GET, "/config/telemetry", Need::Scope(RunRead)),
    (Method::POST, "/config/telemetry", Need::Scope(RunRead)),
    (Method::GET, "/dev/apps/{app}/build_graph", Need::Scope(RunRead)),
    (Method::GET, "/dev/apps/{app}/build_graph_image", Need::Scope(RunRead)),
    (Method::GET, "/dev/apps/{app}/graph", Need::Scope(RunRead)),
    (Method::GET, "/dev/apps/{app}/users/{user}/sessions/{session}/events/{event}/graph", Need::Scope(RunRead)),
    (Method::GET, "/dev/apps/{app}/builder", Need::Scope(RunRead)),
    (Method::GET, "/dev/apps/{app}/eval_sets", Need::Scope(RunRead)),
    (Method::GET, "/dev/apps/{app}/eval_results", Need::Scope(RunRead)),
    (Method::GET, "/dev/apps/{app}/eval-results", Need::Scope(RunRead)),
    (Method::GET, "/dev/apps/{app}/tests", Need::Scope(RunRead)),
    (Method::GET, "/dev/apps/{app}/metrics-info", Need::Scope(RunRead)),
    (Method::GET, "/dev/apps/{app}/debug/trace/session/{session}", Need::Scope(RunRead)),
    (Method::GET, "/dev/apps/{app}/debug/trace/{event}", Need::Scope(RunRead)),
];

/// As that, of paths that take every method.
pub(crate) const ADK_ANY: &[(&str, Need)] = &[
    ("/dev/apps/{app}/eval-sets", Need::Scope(RunRead)),
    ("/dev/apps/{app}/builder/{*rest}", Need::Known),
    ("/dev/apps/{app}/eval_sets/{*rest}", Need::Known),
    ("/dev/apps/{app}/eval-sets/{*rest}", Need::Known),
    ("/dev/apps/{app}/eval_results/{*rest}", Need::Known),
    ("/dev/apps/{app}/eval-results/{*rest}", Need::Known),
    ("/dev/apps/{app}/tests/{*rest}", Need::Known),
    ("/dev/apps/{app}/deploy/{*rest}", Need::Known),
    ("/agent-identity/finalize", Need::Known),
];

/// All of it, by path.
static TABLE: LazyLock<HashMap<&'static str, Path>> = LazyLock::new(|| {
    let mut table: HashMap<_, Path> = HashMap::new();
    for (method, path, need) in NATIVE.iter().chain(PAGE).chain(ADK) {
        table.entry(*path).or_default().methods.push((method.clone(), *need));
    }
    table.extend(ADK_ANY.iter().map(|(path, need)| (*path, Path { methods: Vec::new(), any: Some(*need) })));
    table
});

#[derive(Default)]
struct Path {
    methods: Vec<(Method, Need)>,
    /// What all methods ask for, if it is the same.
    any: Option<Need>,
}

/// Where a request leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leads {
    /// To a route that asks for this.
    To(Need),
    /// To a path that does not take this method.
    WrongMethod,
    /// To a route that nobody has put into the table (invariant 1).
    Unlisted,
    /// Nowhere.
    Nowhere,
}

impl Leads {
    fn of(request: &Request) -> Self {
        let extensions = request.extensions();
        let Some(matched) = extensions.get::<MatchedPath>() else { return Self::Nowhere };
        // Where the router is mounted does not matter.
        let mounted = extensions.get::<NestedPath>().map_or("", |nested| nested.as_str().trim_end_matches('/'));
        let path = matched.as_str().strip_prefix(mounted).unwrap_or(matched.as_str());
        let Some(path) = TABLE.get(path) else { return Self::Unlisted };
        let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
        let row = path.methods.iter().find(|(known, _)| known == method).map(|(_, need)| *need);
        row.or(path.any).map_or(Self::WrongMethod, Self::To)
    }
}

/// Lets a request pass if it may, and says whom it comes from.
pub(crate) async fn admit(State(core): State<Shared>, mut request: Request, next: Next) -> Response {
    let leads = Leads::of(&request);
    // A ticket is taken out of the address, whether or not it is needed: nobody behind this sees it.
    let ticket = match leads {
        Leads::To(Feed(_)) => take_ticket(request.uri_mut()),
        _ => None,
    };
    if core.auth.is_on() && leads != Leads::To(Public) {
        match identify(&core, request.headers(), leads, ticket.as_deref()).await {
            Ok(principal) => drop(request.extensions_mut().insert(principal)),
            Err(problem) => return refused(problem),
        }
    }
    next.run(request).await
}

/// What is said to those who may not. That the issuer of tokens does not answer is in the log already, and not once for each
/// who asks.
fn refused(problem: Problem) -> Response {
    let is_of_the_issuer = problem.status() == StatusCode::SERVICE_UNAVAILABLE;
    let mut told = problem.into_response();
    if is_of_the_issuer {
        told.extensions_mut().insert(Quiet);
    }
    told
}

/// Whom a request comes from, if that one may call what it leads to (invariant 3).
async fn identify(
    core: &Shared,
    headers: &HeaderMap,
    leads: Leads,
    ticket: Option<&str>,
) -> Result<Principal, Problem> {
    let now: Wall = core.runtime.now().wall;
    let shown = match ticket.filter(|_| !headers.contains_key(header::AUTHORIZATION)) {
        Some(ticket) => core.auth.tickets.redeem(ticket, now),
        None => core.auth.principal(core, headers, now).await?,
    };
    let principal = shown.ok_or_else(unauthorized)?;
    match leads {
        Leads::To(Public | Need::Known) | Leads::Nowhere => {}
        Leads::To(Need::Scope(scope) | Feed(scope)) => principal.needs(scope)?,
        Leads::To(Need::Both(one, other)) => principal.needs(one).and_then(|()| principal.needs(other))?,
        Leads::WrongMethod => return Err(crate::api::wrong_method_problem()),
        Leads::Unlisted => {
            tracing::error!("a route is in no row of the table of who may");
            return Err(crate::api::unknown_path_problem());
        }
    }
    Ok(principal)
}

/// What is said to all who show nothing that is good (invariant 2).
pub(crate) fn unauthorized() -> Problem {
    let detail =
        "send a key or a token that is good: the header Authorization: Bearer …; `andon keys create` makes a key";
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
}

/// What is said to those who lack a scope.
pub(crate) fn forbidden(scope: Scope) -> Problem {
    let detail = format!("this key or token lacks the scope {scope}: use one that has it");
    Problem::new(StatusCode::FORBIDDEN, "missing-scope", detail).with("scope", scope.as_str())
}

/// Takes the ticket out of an address.
fn take_ticket(uri: &mut Uri) -> Option<String> {
    let query = uri.query()?;
    let ticket = query.split('&').find_map(|pair| pair.strip_prefix("ticket="))?.to_owned();
    let rest: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("ticket=")).collect();
    let path = uri.path();
    let bare = if rest.is_empty() { path.to_owned() } else { format!("{path}?{}", rest.join("&")) };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = bare.parse().ok();
    // It is a part of what it was before.
    if let Ok(without) = Uri::from_parts(parts) {
        *uri = without;
    }
    Some(ticket)
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "table_tests.rs"]
mod table_tests;

#[cfg(test)]
#[path = "tenant_tests.rs"]
mod tenant_tests;

#[cfg(test)]
#[path = "board_tests.rs"]
mod board_tests;

#[cfg(test)]
#[path = "leave_tests.rs"]
mod leave_tests;
