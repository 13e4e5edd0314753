//! Who may call which route: the one place that enforces the table of routes.
//!
//! # Invariants
//!
//! 1. When authentication is on, a route that has no row in the table is served to nobody.
//! 2. A missing, wrong, expired or revoked key always gets the same response.
//! 3. The caller is identified first, then the scope is checked; only then is anything looked up.
//! 4. Only [`Asked`] decides who sent a request without a key: a principal that is already among its extensions is
//!    removed. If the sender is unknown, the request is refused, and never taken for the machine owner's.

use std::sync::Arc;

use andon_runtime::Runtime;
use andon_runtime::core::time::Wall;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::access::auth::Auth;
use crate::access::principal::{Principal, not_signed_in, unauthorized};
use crate::access::table::{Need, Row};
use crate::http::guard::{follows_a_foreign_link, foreign_page};
use crate::http::path::route;
use crate::http::problem::Problem;
use crate::http::requests::Quiet;

/// The state of the access check in front of all routes.
pub(crate) struct Gate {
    pub(crate) auth: Arc<Auth>,
    pub(crate) table: Arc<[Row]>,
    pub(crate) runtime: Runtime,
    pub(crate) asked: Asked,
}

/// Says who sent a request; `None` if that is not known.
pub(crate) type WhoAsks = Arc<dyn Fn(&Parts) -> Option<Principal> + Send + Sync>;

/// Identifies the sender of a request without a key.
pub(crate) enum Asked {
    /// Nobody. Unless keys are needed, it comes from the owner of the machine.
    Nobody,
    /// The program that the server is mounted in.
    Program {
        who: WhoAsks,
        /// Where people sign in to that program.
        sign_in: Option<String>,
    },
}

/// Where a request leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leads {
    /// To a route with this requirement.
    To(Need),
    /// To a path that does not support this method.
    WrongMethod,
    /// To a route that is missing from the table (invariant 1).
    Unlisted,
    /// To no route.
    Nowhere,
}

impl Leads {
    fn of(request: &Request, table: &[Row]) -> Self {
        // The table knows paths without the prefix under which the router is mounted.
        let Some(path) = route(request.extensions()) else { return Self::Nowhere };
        let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
        let mut rows = table.iter().filter(|row| row.path == path).peekable();
        if rows.peek().is_none() {
            return Self::Unlisted;
        }
        let row = rows.find(|row| row.method.as_ref().is_none_or(|known| known == method));
        row.map_or(Self::WrongMethod, |row| Self::To(row.need))
    }
}

/// Lets a request through if its sender may make it, and attaches the principal.
pub(crate) async fn check_access(State(gate): State<Arc<Gate>>, mut request: Request, next: Next) -> Response {
    let leads = Leads::of(&request, &gate.table);
    if matches!(leads, Leads::To(Need::Feed(_))) && follows_a_foreign_link(request.headers()) {
        return foreign_page().into_response();
    }
    // The ticket is removed from the URI even if it is not needed, so that no later handler sees it.
    let ticket = match leads {
        Leads::To(Need::Feed(_)) => take_ticket(request.uri_mut()),
        _ => None,
    };
    let (mut parts, body) = request.into_parts();
    parts.extensions.remove::<Principal>();
    match sender(&gate, &parts, leads, ticket.as_deref()).await {
        Ok(principal) => principal.map(|principal| parts.extensions.insert(principal)),
        Err(problem) => return refused(problem),
    };
    next.run(Request::from_parts(parts, body)).await
}

/// Who sent a request, if they may make it; `None` if anybody may.
async fn sender(gate: &Gate, parts: &Parts, leads: Leads, ticket: Option<&str>) -> Result<Option<Principal>, Problem> {
    match &gate.asked {
        Asked::Nobody if !gate.auth.is_on() => Ok(Some(Principal::local())),
        Asked::Nobody | Asked::Program { .. } if leads == Leads::To(Need::Public) => Ok(None),
        Asked::Nobody | Asked::Program { .. } => identify(gate, parts, leads, ticket).await.map(Some),
    }
}

/// The response to a request that is not allowed. If the issuer does not answer, that has already been logged once, and
/// is not logged again for every request.
fn refused(problem: Problem) -> Response {
    let is_of_the_issuer = problem.status() == StatusCode::SERVICE_UNAVAILABLE;
    let mut told = problem.into_response();
    if is_of_the_issuer {
        told.extensions_mut().insert(Quiet);
    }
    told
}

/// Who sent a request, if they may call the route it leads to (invariant 3).
async fn identify(gate: &Gate, parts: &Parts, leads: Leads, ticket: Option<&str>) -> Result<Principal, Problem> {
    let now: Wall = gate.runtime.now().wall;
    let said = match &gate.asked {
        Asked::Program { who, .. } => who(parts).filter(|principal| principal.is_valid(now)),
        Asked::Nobody => None,
    };
    let shown = match (said, ticket.filter(|_| !parts.headers.contains_key(header::AUTHORIZATION))) {
        (Some(principal), _) => Some(principal),
        (None, Some(ticket)) => gate.auth.tickets.redeem(ticket, now),
        (None, None) if gate.auth.is_on() => gate.auth.principal(&parts.headers, now).await?,
        (None, None) => None,
    };
    let principal = shown.ok_or_else(|| unknown(gate))?;
    match leads {
        Leads::To(Need::Public | Need::Known) | Leads::Nowhere => {}
        Leads::To(Need::Scope(scope) | Need::Feed(scope)) => principal.needs(scope)?,
        Leads::To(Need::Both(one, other)) => principal.needs(one).and_then(|()| principal.needs(other))?,
        Leads::WrongMethod => return Err(Problem::wrong_method()),
        Leads::Unlisted => {
            tracing::error!("a route is missing from the access table, so it is served to nobody");
            return Err(Problem::unknown_path());
        }
    }
    Ok(principal)
}

/// The response to a request whose sender is not known. It says where people sign in, if there is such a place.
fn unknown(gate: &Gate) -> Problem {
    let problem = if gate.auth.is_on() { unauthorized() } else { not_signed_in() };
    match &gate.asked {
        Asked::Program { sign_in: Some(place), .. } => problem.with("sign_in", place.as_str()),
        Asked::Program { sign_in: None, .. } | Asked::Nobody => problem,
    }
}

/// Removes the ticket from a URI and returns it.
fn take_ticket(uri: &mut Uri) -> Option<String> {
    let query = uri.query()?;
    let ticket = query.split('&').find_map(|pair| pair.strip_prefix("ticket="))?.to_owned();
    let rest: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("ticket=")).collect();
    let path = uri.path();
    let bare = if rest.is_empty() { path.to_owned() } else { format!("{path}?{}", rest.join("&")) };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = bare.parse().ok();
    // This cannot fail, because the new URI is part of the old one.
    if let Ok(without) = Uri::from_parts(parts) {
        *uri = without;
    }
    Some(ticket)
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
