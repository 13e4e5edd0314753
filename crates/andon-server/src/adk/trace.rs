//! What the page's tab of traces shows: the spans of a session's runs.

use axum::extract::State;
use serde_json::Value;

use crate::Shared;
use crate::json::Json;
use crate::path::Path;
use crate::principal::Principal;
use crate::problem::Problem;

/// The spans of all runs of a session, of whichever user it is within reach.
pub(crate) async fn of_session(
    State(_core): State<Shared>,
    _principal: Principal,
    Path((_app, _session)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    Ok(Json(Value::Array(Vec::new())))
}

/// The span of one event.
pub(crate) async fn of_event(
    State(_core): State<Shared>,
    _principal: Principal,
    Path((_app, _event)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    Err(Problem::not_found("no-trace", "Trace not found"))
}
