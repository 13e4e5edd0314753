//! The native API: one module for each thing that is asked for.

mod aim;
mod approvals;
mod apps;
mod board;
pub(crate) mod cancel;
mod conversation;
pub(crate) mod create;
pub(crate) mod events;
pub(crate) mod forms;
mod keys;
pub(crate) mod line;
mod me;
mod near;
mod operations;
mod runs;
pub(crate) mod selector;
pub(crate) mod sessions;
pub(crate) mod socket;
mod tickets;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::board::MessageForm;
use crate::access::admit;
use crate::http::answers::bound_answers;
use crate::http::guard::{guard, is_named};
use crate::http::idle::{Patience, TimedBody};
use crate::http::problem::Problem;
use crate::http::requests::{self, REQUEST_ID};
use crate::http::seats::{Guest, HURRY, Reserved, keep_the_reserve};
use crate::{Shared, adk, page};

/// The description of the API, but for its paths.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Andon",
        description = "Start agent runs, watch them, and stop them at any moment with nothing lost."
    ),
    components(schemas(MessageForm))
)]
struct Description;

/// All routes, and their description.
fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(create::create, runs::list))
        .routes(routes!(runs::one))
        .routes(routes!(runs::receipt))
        .routes(routes!(conversation::conversation))
        .routes(routes!(events::events))
        .routes(routes!(cancel::cancel_run))
        .routes(routes!(cancel::cancel_call))
        .routes(routes!(approvals::decide))
        .routes(routes!(selector::cancel_many))
        .routes(routes!(line::status, line::change))
        .routes(routes!(board::board))
        .routes(routes!(apps::list))
        .routes(routes!(sessions::list))
        .routes(routes!(sessions::one, sessions::delete))
        .routes(routes!(sessions::history))
        .routes(routes!(me::me))
        .routes(routes!(tickets::issue))
        .routes(routes!(keys::create, keys::list))
        .routes(routes!(keys::revoke))
        .routes(routes!(operations::usage))
        .routes(routes!(operations::healthz))
        .routes(routes!(operations::readyz))
        .routes(routes!(operations::metrics))
}

/// All routes, with what stands before each of them.
pub(crate) fn router(core: &Shared) -> Router {
    let (routes, description) = routes().split_for_parts();
    let description = description.to_pretty_json().unwrap_or_default();
    let openapi = move || {
        let json = HeaderValue::from_static("application/json");
        std::future::ready(([(header::CONTENT_TYPE, json)], description.clone()))
    };
    let routes = routes.route("/openapi.json", get(openapi));
    guarded(routes.merge(page::router(core)).merge(adk::router()), core)
}

/// Routes, with what stands before each of them.
fn guarded(routes: Router<Shared>, core: &Shared) -> Router {
    routes
        .method_not_allowed_fallback(wrong_method)
        .fallback(unknown_path)
        .layer(middleware::from_fn_with_state(Shared::clone(core), bound_answers))
        .layer(middleware::from_fn_with_state(Shared::clone(core), bound_bodies))
        .layer(middleware::from_fn_with_state(Shared::clone(core), admit))
        .layer(CatchPanicLayer::custom(|_| defect()))
        .layer(middleware::from_fn(keep_the_reserve))
        .layer(cors(core))
        .layer(middleware::from_fn_with_state(Shared::clone(core), guard))
        .layer(middleware::from_fn(adk::in_the_words_of_its_path))
        .layer(middleware::from_fn_with_state(Shared::clone(core), requests::account))
        .with_state(Shared::clone(core))
}

/// Lets pages of the origins that were named ask for more than a form could.
fn cors(core: &Shared) -> CorsLayer {
    let named = Shared::clone(core);
    let is_allowed =
        move |origin: &HeaderValue, _: &_| origin.to_str().is_ok_and(|origin| is_named(origin, &named.options));
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(is_allowed))
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .allow_headers([header::CONTENT_TYPE, header::AUTHORIZATION, HeaderName::from_static("last-event-id")])
        .expose_headers([header::LOCATION, header::RETRY_AFTER, HeaderName::from_static("andon-run-id"), REQUEST_ID])
        .max_age(Duration::from_secs(600))
}

/// No body takes too long, and all of them together no more room than there is.
async fn bound_bodies(State(core): State<Shared>, mut request: Request, next: Next) -> Response {
    // Given back when the request is answered.
    let _room = match core.bodies.take(&mut request, &core.options) {
        Ok(room) => room,
        Err(problem) => return problem.into_response(),
    };
    let patience = Patience { idle: core.options.body_idle, total: core.options.body_time };
    let is_reserved = request.extensions().get::<Reserved>().is_some();
    let patience = if is_reserved { patience.at_most(HURRY) } else { patience };
    let guest = request.extensions().get::<Arc<Guest>>().cloned();
    next.run(request.map(|body| Body::new(TimedBody::new(body, patience, guest)))).await
}

async fn unknown_path() -> Problem {
    unknown_path_problem()
}

pub(crate) fn unknown_path_problem() -> Problem {
    Problem::not_found("no-such-path", "there is nothing at this path: GET /openapi.json lists all paths")
}

async fn wrong_method() -> Problem {
    wrong_method_problem()
}

pub(crate) fn wrong_method_problem() -> Problem {
    let detail = "this path does not take this method: GET /openapi.json tells which it takes";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "wrong-method", detail)
}

fn defect() -> Response {
    let detail = "the server has a defect here, and it is not known how far the request came: please report it";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "defect", detail).into_response()
}

#[cfg(test)]
#[path = "guarded_tests.rs"]
mod tests;
