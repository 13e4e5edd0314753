//! The routes, and the layers in front of them.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::access::gate::{Asked, Gate, check_access};
use crate::dialect::{Dialect, Host};
use crate::http::answers::bound_answers;
use crate::http::budget::bound_bodies;
use crate::http::guard::{guard, is_named};
use crate::http::problem::Problem;
use crate::http::requests::{self, REQUEST_ID};
use crate::http::slots::{IsVital, enforce_reserve, is_vital};
use crate::options::Options;
use crate::server::Server;
use crate::server::mount::Part;
use crate::{api, page};

/// The routes of these parts.
pub(super) fn router(server: &Server, parts: &[Part], asked: Asked) -> Router {
    let core = &server.core;
    let dialects = if parts.contains(&Part::Dialects) { Arc::clone(&server.dialects) } else { Arc::new([]) };
    let front = dialects.iter().find_map(|dialect| dialect.front_page());
    let (has_api, has_page) = (parts.contains(&Part::Api), parts.contains(&Part::Page));
    let mut routes = api::router(core, has_api || has_page, parts.contains(&Part::Operations));
    if has_page {
        routes = routes.merge(page::router(&core.options));
    }
    if let Some(front) = front.or(has_page.then_some(page::PATH)) {
        routes = routes.merge(page::root(front));
    }
    let host = Host::new(core);
    let all = dialects.iter().fold(routes, |routes, dialect| routes.merge(dialect.router(&host)));
    guarded(all, server, &dialects, asked)
}

/// Adds the layers in front of all routes.
fn guarded(routes: Router, server: &Server, dialects: &Arc<[Arc<dyn Dialect>]>, asked: Asked) -> Router {
    let Server { core, table, .. } = server;
    let gate = Gate { auth: Arc::clone(&core.auth), table: Arc::clone(table), runtime: core.runtime.clone(), asked };
    routes
        .method_not_allowed_fallback(async || Problem::wrong_method())
        .fallback(async || Problem::unknown_path())
        .layer(middleware::from_fn_with_state(Arc::clone(&core.answers), bound_answers))
        .layer(middleware::from_fn_with_state(Arc::clone(&core.bodies), bound_bodies))
        .layer(middleware::from_fn_with_state(Arc::new(gate), check_access))
        .layer(CatchPanicLayer::custom(|_| Problem::defect().into_response()))
        .layer(middleware::from_fn_with_state(vital(dialects), enforce_reserve))
        .layer(cors(&core.options))
        .layer(middleware::from_fn_with_state(Arc::clone(&core.options), guard))
        .layer(middleware::from_fn_with_state(Arc::clone(dialects), in_the_format_of_its_path))
        .layer(middleware::from_fn_with_state(Arc::clone(&core.figures), requests::account))
}

/// Which requests cancel a run, concern the line or check health, in every dialect.
fn vital(dialects: &Arc<[Arc<dyn Dialect>]>) -> IsVital {
    let dialects = Arc::clone(dialects);
    Arc::new(move |method, path| {
        is_vital(method, path) || dialects.iter().any(|dialect| dialect.is_vital(method, path))
    })
}

/// Wraps everything that can refuse a request, so that on the paths of a dialect the error has the format of that
/// dialect.
async fn in_the_format_of_its_path(
    State(dialects): State<Arc<[Arc<dyn Dialect>]>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let dialect = dialects.iter().find(|dialect| dialect.speaks(path)).cloned();
    let response = next.run(request).await;
    match dialect {
        Some(dialect) => dialect.in_own_words(response),
        None => response,
    }
}

/// Lets pages of the allowed origins send requests that a form could not.
fn cors(options: &Arc<Options>) -> CorsLayer {
    let named = Arc::clone(options);
    let is_allowed = move |origin: &HeaderValue, _: &_| origin.to_str().is_ok_and(|origin| is_named(origin, &named));
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(is_allowed))
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .allow_headers([header::CONTENT_TYPE, header::AUTHORIZATION, HeaderName::from_static("last-event-id")])
        .expose_headers([header::LOCATION, header::RETRY_AFTER, HeaderName::from_static("andon-run-id"), REQUEST_ID])
        .max_age(Duration::from_secs(600))
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
