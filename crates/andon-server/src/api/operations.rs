//! What operators and their machines ask for.

use std::sync::atomic::Ordering;

use crate::json::Json;
use andon::CALIBRATION;
use andon_telemetry::Now;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::Shared;
use crate::line::is_held_for_all;
use crate::problem::{Problem, ProblemForm};

/// How the server is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`, or `shutting_down`.
    status: &'static str,
}

/// Whether the process is alive.
#[utoipa::path(get, path = "/healthz", tag = "operations", responses((status = 200, body = Health)))]
pub(crate) async fn healthz() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Whether requests may be sent here. A held line is ready: cancels still have to come through.
#[utoipa::path(
    get, path = "/readyz", tag = "operations",
    responses((status = 200, body = Health), (status = 503, description = "It is shutting down", body = Health))
)]
pub(crate) async fn readyz(State(core): State<Shared>) -> Response {
    match core.admission.is_draining() {
        false => Json(Health { status: "ok" }).into_response(),
        true => (StatusCode::SERVICE_UNAVAILABLE, Json(Health { status: "shutting_down" })).into_response(),
    }
}

/// Figures, as Prometheus reads them.
#[utoipa::path(
    get, path = "/metrics", tag = "operations",
    responses((status = 200, body = String, content_type = "text/plain"))
)]
pub(crate) async fn metrics(State(core): State<Shared>) -> Response {
    let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    core.figures.set_server(Now {
        feeds: count(core.feeds.count() as u64),
        connections: count(core.counts.connections.load(Ordering::Relaxed)),
        is_held: is_held_for_all(&core.admission.holds()),
        cancels_asked: core.counts.cancels.load(Ordering::Relaxed),
    });
    // The state of each run is folded from its events: with many runs that takes its time.
    let looking = Shared::clone(&core);
    let rendered = tokio::task::spawn_blocking(move || looking.figures.render(&looking.runtime)).await;
    let text = rendered.unwrap_or_default();
    let kind = HeaderValue::from_static("text/plain; version=0.0.4");
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// How good the estimates of tokens have been, model by model, as it is kept.
#[utoipa::path(
    get, path = "/v1/usage", tag = "operations",
    responses(
        (status = 200, body = Object),
        (status = 503, description = "Not now", body = ProblemForm, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn usage(State(core): State<Shared>) -> Result<Json<Value>, Problem> {
    let kept = core.runtime.shelf().kept(CALIBRATION).await?;
    let models: Map<String, Value> = kept.into_iter().collect();
    Ok(Json(json!({ "models": models })))
}
