//! Health, metrics and usage, for operators and their tools.

use std::sync::atomic::Ordering;

use crate::http::json::JsonBody;
use andon_runtime::CALIBRATION;
use andon_telemetry::Now;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::admission::line::is_held_for_all;
use crate::core::Shared;
use crate::http::problem::{Problem, ProblemForm};

/// The health of the server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`, `shutting_down`, or `journal_failing`.
    status: &'static str,
    /// What is wrong, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl Health {
    const OK: Self = Self { status: "ok", detail: None };
}

/// Whether the process is alive.
#[utoipa::path(get, path = "/healthz", tag = "operations", responses((status = 200, body = Health)))]
pub(crate) async fn healthz() -> JsonBody<Health> {
    JsonBody(Health::OK)
}

/// Whether the server can receive requests. It is ready even while the line is held, because cancels must still get
/// through.
#[utoipa::path(
    get, path = "/readyz", tag = "operations",
    responses(
        (status = 200, body = Health),
        (status = 503, description = "The server is shutting down, or its journal is failing", body = Health),
    )
)]
pub(crate) async fn readyz(State(core): State<Shared>) -> Response {
    let unready = match core.runtime.journal_trouble() {
        _ if core.admission.is_draining() => Health { status: "shutting_down", detail: None },
        Some(trouble) => Health { status: "journal_failing", detail: Some(trouble.to_string()) },
        None => return JsonBody(Health::OK).into_response(),
    };
    (StatusCode::SERVICE_UNAVAILABLE, JsonBody(unready)).into_response()
}

/// Metrics, in the format of Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "operations",
    responses((status = 200, body = String, content_type = "text/plain"))
)]
pub(crate) async fn metrics(State(core): State<Shared>) -> Response {
    let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    core.figures.set_server(Now {
        feeds: count(core.feeds.count() as u64),
        connections: count(core.connections.load(Ordering::Relaxed)),
        is_held: is_held_for_all(&core.admission.holds()),
        cancels_asked: core.cancels.load(Ordering::Relaxed),
    });
    // The state of each run is folded from its events, which takes time if there are many runs.
    let looking = Shared::clone(&core);
    let rendered = tokio::task::spawn_blocking(move || looking.figures.render(&looking.runtime)).await;
    let text = rendered.unwrap_or_default();
    let kind = HeaderValue::from_static("text/plain; version=0.0.4");
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// How accurate the token estimates have been, for each model.
#[utoipa::path(
    get, path = "/v1/usage", tag = "operations",
    responses(
        (status = 200, body = Object),
        (status = 503, description = "Temporarily unavailable", body = ProblemForm, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn usage(State(core): State<Shared>) -> Result<JsonBody<Value>, Problem> {
    let kept = core.runtime.shelf().kept(CALIBRATION).await?;
    let models: Map<String, Value> =
        kept.into_iter().filter_map(|(model, mut page)| Some((model, page.get_mut("standing")?.take()))).collect();
    Ok(JsonBody(json!({ "models": models })))
}
