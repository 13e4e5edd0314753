//! Sessions in ADK's words.
//!
//! A session of an app that is not served here is created all the same, as in ADK: the app may be installed later, and nothing
//! runs until then. A session's events are those of its runs, with the changes to its state between them.
//!
//! # Invariants
//!
//! 1. A change to a session's state and the event that reports it are stored together or not at all.
//! 2. No session has a name that a path would read as a cancel.

use std::sync::Arc;

use andon_runtime::core::time::Stamp;
use andon_runtime::{JournalError, Scope, SessionFilter, SessionId, SessionInfo, SessionKey, StateChange, StateMap};
use andon_server::dialect::{JsonBody, PathParams, Principal, Problem, SessionRead};
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::event::{AdkEvent, seconds};
use super::form::{Body, MaybeBody};
use super::reach::{self, CANCEL, SessionPath, is_cancel, no_session};
use super::valid::{self, Fields, noted};
use super::{import, story};
use crate::core::Shared;

/// The most sessions that are listed: the most recently used.
const MOST: usize = 1_000;

/// Prefixes of the sessions that evaluations leave behind, which are not listed.
const OF_EVALUATIONS: [&str; 2] = ["adk-eval-session-", "___eval___session___"];

/// A request to create a session.
#[derive(Default)]
struct Order {
    name: Option<String>,
    state: StateMap,
    told: Vec<import::ImportedTurn>,
}

impl Order {
    fn read(fields: &Fields<'_>, now: Stamp) -> Result<Self, Problem> {
        fields.map("options");
        let name = fields.some_text("sessionId").map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
        let state = fields.map("state").cloned().unwrap_or_default();
        Ok(Self { name, state, told: import::turns(&fields.objects("events"), now)? })
    }
}

pub(crate) async fn create(
    State(core): State<Shared>,
    principal: Principal,
    PathParams((app, user)): PathParams<(String, String)>,
    MaybeBody(body): MaybeBody,
) -> Result<Response, Problem> {
    let now = core.host.runtime().now();
    let order = body.as_ref().map(|body| valid::read(body, |fields| Order::read(fields, now))).transpose()?;
    let Order { name, state, told } = order.unwrap_or_default();
    let name = name.unwrap_or_else(|| Uuid::now_v7().to_string());
    let key = reach::session(&principal, &app, &user, &name)?;
    may_begin(&key)?;
    if told.is_empty() {
        return begin(&core, &principal, &key, state).await;
    }
    let reading = core.host.read_session().await?;
    let moved = import::session(&key, &state, told, now)?;
    match core.host.runtime().put_session(moved).await {
        Ok(()) => {}
        Err(JournalError::SessionExists(_)) => return Err(exists(&key)),
        Err(error) => return Err(error.into()),
    }
    // `put_session` leaves shared state as it is, but creating a session must change it.
    let shared = state.into_iter().filter(|(name, _)| matches!(Scope::of(name), Scope::App | Scope::User));
    let shared: StateChange = shared.map(|(name, value)| (name, Some(value))).collect();
    if !shared.is_empty() {
        core.host.runtime().change_state(&key, shared).await?;
    }
    begun(&core, &principal, &key, reading).await
}

/// Creates a session with this key. The body, if there is one, is its state.
pub(crate) async fn create_with_id(
    core: &Shared,
    principal: &Principal,
    key: &SessionKey,
    body: Option<Value>,
) -> Result<Response, Problem> {
    may_begin(key)?;
    let state = match body {
        None => StateMap::new(),
        Some(Value::Object(state)) => state,
        Some(other) => {
            return Err(valid::invalid("dict_type", &[json!("body")], "Input should be a valid dictionary", &other));
        }
    };
    begin(core, principal, key, state).await
}

/// No session has a name that a path would read as a cancel (invariant 2).
fn may_begin(key: &SessionKey) -> Result<(), Problem> {
    if !is_cancel(key.session.as_str()) {
        return Ok(());
    }
    let detail = format!("Invalid session ID: it must not end with {CANCEL:?}, which cancels a session's runs.");
    Err(Problem::bad_request("bad-id", detail))
}

async fn begin(core: &Shared, principal: &Principal, key: &SessionKey, state: StateMap) -> Result<Response, Problem> {
    let reading = core.host.read_session().await?;
    if !core.host.runtime().create_session(key, state).await? {
        return Err(exists(key));
    }
    begun(core, principal, key, reading).await
}

/// A new session. Shared state that others have set is shown only to callers who may read.
async fn begun(
    core: &Shared,
    principal: &Principal,
    key: &SessionKey,
    reading: SessionRead,
) -> Result<Response, Problem> {
    let may_read = principal.allows(andon_server::Scope::RunRead);
    shown(core, key, reading, move |name| may_read || !matches!(Scope::of(name), Scope::App | Scope::User)).await
}

fn exists(key: &SessionKey) -> Problem {
    let detail = format!("Session already exists: {}", key.session);
    Problem::new(axum::http::StatusCode::CONFLICT, "exists", detail)
}

/// A whole session, with only those keys of its state that may be shown.
async fn shown(
    core: &Shared,
    key: &SessionKey,
    reading: SessionRead,
    is_shown: impl Fn(&str) -> bool + Send + 'static,
) -> Result<Response, Problem> {
    let mut moved =
        core.host.runtime().copy_session_with_attachments(key, story::EVENT).await?.ok_or_else(no_session)?;
    let key = key.clone();
    let make = move || {
        moved.state.retain(|name, _| is_shown(name));
        let (events, last) = story::tell(&moved);
        view(&key, moved.state, events, last)
    };
    reading.answer(make).await
}

/// A session as ADK shows it, with the fields in ADK's own order.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionView {
    id: SessionId,
    app_name: Arc<str>,
    user_id: Arc<str>,
    state: StateMap,
    events: Vec<AdkEvent>,
    last_update_time: f64,
}

fn view(key: &SessionKey, state: StateMap, events: Vec<AdkEvent>, last: f64) -> SessionView {
    let SessionKey { app, user, session, .. } = key.clone();
    SessionView { id: session, app_name: app, user_id: user, state, events, last_update_time: last }
}

pub(crate) async fn one(
    State(core): State<Shared>,
    principal: Principal,
    PathParams((app, user, session)): PathParams<SessionPath>,
) -> Result<Response, Problem> {
    let key = reach::session(&principal, &app, &user, &session)?;
    shown(&core, &key, core.host.read_session().await?, |_| true).await
}

/// A user's sessions without their events, the most recently used last.
pub(crate) async fn list(
    State(core): State<Shared>,
    principal: Principal,
    PathParams((app, user)): PathParams<(String, String)>,
) -> Result<Response, Problem> {
    let key = reach::user(&principal, &app, &user)?;
    let filter = SessionFilter::new().tenant(key.tenant.to_string()).app(app).user(user).limit(MOST);
    let reading = core.host.read_session().await?;
    let listed = core.host.runtime().list_sessions_with_state(filter).await?;
    let is_shown = |info: &SessionInfo| {
        let name = info.key.session.as_str();
        !OF_EVALUATIONS.iter().any(|prefix| name.starts_with(prefix))
    };
    let shown = listed.into_iter().rev().filter(|(info, _)| is_shown(info));
    let views: Vec<_> =
        shown.map(|(info, state)| view(&info.key, state, Vec::new(), seconds(info.updated_at))).collect();
    reading.answer(|| views).await
}

/// Changes a session's state outside of any run.
pub(crate) async fn change(
    State(core): State<Shared>,
    principal: Principal,
    PathParams((app, user, session)): PathParams<SessionPath>,
    Body(body): Body,
) -> Result<Response, Problem> {
    let delta = valid::read(&body, |body| body.needed_map("stateDelta").cloned().ok_or_else(noted))?;
    let key = reach::session(&principal, &app, &user, &session)?;
    let reading = core.host.read_session().await?;
    change_state(&core, &key, delta).await?;
    shown(&core, &key, reading, |_| true).await
}

/// Changes a session's state and stores the event that reports it (invariant 1).
pub(crate) async fn change_state(core: &Shared, key: &SessionKey, delta: StateMap) -> Result<(), Problem> {
    let lasting: StateMap = delta.into_iter().filter(|(name, _)| Scope::of(name) != Scope::Temp).collect();
    let change: StateChange = lasting.iter().map(|(name, value)| (name.clone(), Some(value.clone()))).collect();
    let told = story::state_changed(lasting, core.host.runtime().now().wall);
    let told = told.map_err(|error| Problem::bad_id("event", &error))?;
    let is_there = core.host.runtime().keep(key, vec![told], change).await?;
    if is_there { Ok(()) } else { Err(no_session()) }
}

/// Deletes a session, if it exists; its runs in progress are cancelled and settled first.
pub(crate) async fn delete(
    State(core): State<Shared>,
    principal: Principal,
    PathParams((app, user, session)): PathParams<SessionPath>,
) -> Result<JsonBody<Value>, Problem> {
    let key = reach::session(&principal, &app, &user, &session)?;
    core.host.delete_session(&principal, key).await?;
    Ok(JsonBody(Value::Null))
}
