//! The native API, with one module per resource.

pub(crate) mod aim;
mod approvals;
mod apps;
mod board;
pub(crate) mod cancel;
mod conversation;
pub(crate) mod create;
pub(crate) mod events;
pub(crate) mod forms;
mod keys;
mod line;
mod me;
mod near;
mod operations;
mod runs;
pub(crate) mod selector;
pub(crate) mod sessions;
mod socket;
mod tickets;

use std::sync::LazyLock;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderValue, header};
use axum::routing::get;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::board::BoardMessage;
use crate::core::Shared;

/// The OpenAPI description, without its paths. All paths are relative to the description itself, so it is right wherever
/// the server is mounted.
#[derive(OpenApi)]
#[openapi(
    servers((url = ".")),
    info(
        title = "Andon",
        description = "Start agent runs, watch them, and stop them at any moment with nothing lost."
    ),
    components(schemas(BoardMessage))
)]
struct ApiDescription;

/// The routes of runs and sessions, and their description.
fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(ApiDescription::openapi())
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
}

/// The routes for whoever operates the server, and their description.
fn operations() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(operations::healthz))
        .routes(routes!(operations::readyz))
        .routes(routes!(operations::metrics))
}

/// Routes without a server behind them, and their description as JSON. Both are the same for every server.
type Described = LazyLock<(Router<Shared>, Bytes)>;

static API: Described = LazyLock::new(|| described(routes()));
static OPERATIONS: Described = LazyLock::new(|| described(operations()));
static BOTH: Described = LazyLock::new(|| described(routes().merge(operations())));

fn described(routes: OpenApiRouter<Shared>) -> (Router<Shared>, Bytes) {
    let (routes, description) = routes.split_for_parts();
    (routes, description.to_pretty_json().unwrap_or_default().into())
}

/// The routes of the API, with their description at `/openapi.json`, those for operations, or both.
pub(crate) fn router(core: &Shared, has_api: bool, has_operations: bool) -> Router {
    let (routes, description) = match (has_api, has_operations) {
        (true, true) => &*BOTH,
        (true, false) => &*API,
        (false, true) => return OPERATIONS.0.clone().with_state(Shared::clone(core)),
        (false, false) => return Router::new(),
    };
    let openapi = || {
        let json = HeaderValue::from_static("application/json");
        std::future::ready(([(header::CONTENT_TYPE, json)], description.clone()))
    };
    routes.clone().route("/openapi.json", get(openapi)).with_state(Shared::clone(core))
}
