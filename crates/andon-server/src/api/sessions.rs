//! `/v1/sessions`: the sessions on record.

use std::sync::Arc;

use crate::http::json::JsonBody;
use andon_runtime::core::time::Wall;
use andon_runtime::{Cancel, Message, RunFilter, SessionFilter, SessionInfo, SessionKey, StateMap};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::forms::IdForm;
use crate::access::principal::{Principal, forbidden};
use crate::access::scopes::Scope;
use crate::core::Shared;
use crate::http::path::PathParams;
use crate::http::problem::{Problem, Refusals};
use crate::http::query::{Query, limit};

/// Which sessions to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SessionQuery {
    /// Only sessions of this app.
    app: Option<String>,
    /// Only sessions of this user.
    user: Option<String>,
    /// The maximum number of sessions.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Sessions, most recently used first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionList {
    sessions: Vec<SessionView>,
}

/// A session in a list.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Session)]
pub(crate) struct SessionView {
    /// The name of the app.
    app: String,
    /// The user whose session it is.
    user: String,
    /// The name of the session.
    session: String,
    /// When the session was created.
    #[schema(value_type = String, format = DateTime)]
    created_at: Wall,
    /// When the session was last used.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Wall,
    /// How many runs the session has.
    runs: u64,
    /// The beginning of the first prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
}

impl From<SessionInfo> for SessionView {
    fn from(info: SessionInfo) -> Self {
        Self {
            app: info.key.app.to_string(),
            user: info.key.user.to_string(),
            session: info.key.session.to_string(),
            created_at: info.created_at,
            updated_at: info.updated_at,
            runs: info.runs,
            title: info.title,
        }
    }
}

/// The state of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionState {
    /// The name of the app.
    app: String,
    /// The user whose session it is.
    user: String,
    /// The name of the session.
    session: String,
    /// The state, as an object of keys and values.
    #[schema(value_type = Object)]
    state: StateMap,
}

/// The messages of a session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct History {
    /// The messages of all runs that have settled.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<Arc<Message>>,
}

/// List sessions, most recently used first.
#[utoipa::path(
    get, path = "/v1/sessions", tag = "sessions", params(SessionQuery),
    responses(
        (status = 200, body = SessionList),
        Refusals,
    )
)]
pub(crate) async fn list(
    State(core): State<Shared>,
    principal: Principal,
    Query(which): Query<SessionQuery>,
) -> Result<JsonBody<SessionList>, Problem> {
    let limit = limit(which.limit)?;
    let tenant = Some(principal.tenant.to_string());
    let Ok(user) = principal.listed(which.user) else { return Ok(JsonBody(SessionList { sessions: Vec::new() })) };
    let filter = SessionFilter::new().tenant(tenant).app(which.app).user(user).limit(limit);
    let sessions = core.runtime.list_sessions(filter).await?;
    Ok(JsonBody(SessionList { sessions: sessions.into_iter().map(Into::into).collect() }))
}

type SessionPath = (String, String, String);

fn key(principal: &Principal, (app, user, session): &SessionPath) -> Result<SessionKey, Problem> {
    let key = SessionKey::new(app, user, session).map_err(|error| Problem::bad_id("app, user or session", &error))?;
    let key = key.tenant(Arc::clone(&principal.tenant));
    if principal.reaches(&key) { Ok(key) } else { Err(unknown()) }
}

fn unknown() -> Problem {
    Problem::not_found("no-such-session", "there is no such session: GET /v1/sessions lists them")
}

/// Get a session with its state.
#[utoipa::path(
    get, path = "/v1/sessions/{app}/{user}/{session}", tag = "sessions",
    params(("app" = inline(IdForm), Path), ("user" = inline(IdForm), Path), ("session" = inline(IdForm), Path)),
    responses(
        (status = 200, body = SessionState),
        Refusals,
    )
)]
pub(crate) async fn one(
    State(core): State<Shared>,
    principal: Principal,
    PathParams(name): PathParams<SessionPath>,
) -> Result<JsonBody<SessionState>, Problem> {
    let state = core.runtime.state(&key(&principal, &name)?).await?.ok_or_else(unknown)?;
    let (app, user, session) = name;
    Ok(JsonBody(SessionState { app, user, session, state }))
}

/// The messages of a session, from all runs that have settled.
#[utoipa::path(
    get, path = "/v1/sessions/{app}/{user}/{session}/history", tag = "sessions",
    params(("app" = inline(IdForm), Path), ("user" = inline(IdForm), Path), ("session" = inline(IdForm), Path)),
    responses(
        (status = 200, body = History),
        Refusals,
    )
)]
pub(crate) async fn history(
    State(core): State<Shared>,
    principal: Principal,
    PathParams(name): PathParams<SessionPath>,
) -> Result<Response, Problem> {
    let key = key(&principal, &name)?;
    core.runtime.state(&key).await?.ok_or_else(unknown)?;
    let reading = core.answers.slot().await?;
    let messages = core.runtime.history(&key).await?;
    reading.answer(|| History { messages }).await
}

/// Delete a session completely. Its runs in progress are cancelled first, which also requires the scope `run:cancel`.
#[utoipa::path(
    delete, path = "/v1/sessions/{app}/{user}/{session}", tag = "sessions",
    params(("app" = inline(IdForm), Path), ("user" = inline(IdForm), Path), ("session" = inline(IdForm), Path)),
    responses(
        (status = 204, description = "The session is deleted"),
        Refusals,
    )
)]
pub(crate) async fn delete(
    State(core): State<Shared>,
    principal: Principal,
    PathParams(name): PathParams<SessionPath>,
) -> Result<StatusCode, Problem> {
    let key = key(&principal, &name)?;
    if delete_session(&core, &principal, key).await? { Ok(StatusCode::NO_CONTENT) } else { Err(unknown()) }
}

/// Deletes a session and removes its runs from the board. Returns whether the session existed.
pub(crate) async fn delete_session(core: &Shared, principal: &Principal, key: SessionKey) -> Result<bool, Problem> {
    may_delete(core, principal, &key).await?;
    let cancel = Cancel::graceful().by(Arc::clone(&principal.name)).note("the session is being deleted");
    let shared = Shared::clone(core);
    // In a task of its own, so that a started delete is finished even if the client disconnects.
    let deleting = core.tasks.spawn(async move {
        let was_there = shared.runtime.delete_session(&key, cancel).await?;
        if let Some(board) = &shared.board {
            board.forget(&key);
        }
        Ok::<_, Problem>(was_there)
    });
    deleting.await.map_err(|_| Problem::unavailable("journal", "the session was not deleted: try again"))?
}

/// Deleting a session cancels its runs, so the principal must be allowed to do both.
async fn may_delete(core: &Shared, principal: &Principal, key: &SessionKey) -> Result<(), Problem> {
    if principal.allows(Scope::RunCancel) {
        return Ok(());
    }
    let runs = core.runtime.in_progress().into_iter().any(|run| run.session() == key);
    if runs || !core.runtime.list_runs(open_runs(key)).await?.is_empty() {
        return Err(forbidden(Scope::RunCancel));
    }
    Ok(())
}

/// A filter that shows whether a session has runs that have not settled.
fn open_runs(key: &SessionKey) -> RunFilter {
    RunFilter::new()
        .tenant(key.tenant.to_string())
        .app(key.app.to_string())
        .user(key.user.to_string())
        .session(key.session.to_string())
        .settled(false)
        .limit(1)
}
