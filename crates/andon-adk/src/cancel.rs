//! `POST /apps/{app}/users/{user}/sessions/{session}:cancel`: stop what runs in a session, and what is queued there.
//!
//! # Invariants
//!
//! 1. It reaches the runs that exist when it arrives, and none that come later. It creates nothing.
//! 2. It is about one session in the caller's own tenant, whatever else the caller may reach.
//! 3. A session in which nothing runs, one that does not exist and one that is somebody else's get the same answer. An app that
//!    does not exist is reported as such.
//! 4. A stop is almost never refused for its form: no body, `null` and unknown fields all mean the same.

use andon_runtime::{Ending, Force, Reason, RunId, RunState};
use andon_server::dialect::{JsonBody, MAX_NOTE, MayWait, PathParams, Principal, Problem};
use andon_server::{CancelOrder, Scope};
use axum::extract::{FromRequest, Request, State};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;

use super::form::MaybeBody;
use super::reach::{self, SessionPath};
use super::sessions;
use super::valid::{self, Fields};
use crate::core::Shared;

/// How to stop.
#[derive(Debug, Default, PartialEq, Eq)]
struct CancelSession {
    force: Option<Force>,
    grace_ms: Option<u64>,
    note: Option<String>,
    wait: bool,
}

impl CancelSession {
    fn read(body: &Fields<'_>) -> Result<Self, Problem> {
        let note = body.some_text("note").map(str::to_owned);
        if note.as_ref().is_some_and(|note| note.len() > MAX_NOTE) {
            let words = format!("String should have at most {MAX_NOTE} bytes");
            body.refuse("note", "string_too_long", &words, &Value::Null);
        }
        let force = |value: &Value| Force::deserialize(value).ok();
        let forces = "Input should be 'after_turn', 'graceful' or 'now'";
        let number = "Input should be a valid integer, 0 or more";
        Ok(Self {
            force: body.some("force", force, "literal_error", forces),
            grace_ms: body.some("graceMs", Value::as_u64, "int_type", number),
            note,
            wait: body.is_some_set("wait"),
        })
    }
}

/// What was stopped.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CancelledSession {
    status: &'static str,
    app_name: String,
    user_id: String,
    session_id: String,
    /// Whether all of it has settled.
    settled: bool,
    cancelled: Vec<CancelledRun>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CancelledRun {
    invocation_id: RunId,
    reply: &'static str,
    state: RunState,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Ending>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    leaked: Vec<String>,
}

/// `POST` to a session: a cancel if the name ends in `:cancel`, otherwise it creates the session. axum cannot route
/// `{session}:cancel`.
pub(crate) async fn dispatch(
    State(core): State<Shared>,
    principal: Principal,
    PathParams((app, user, name)): PathParams<SessionPath>,
    MayWait(may_wait): MayWait,
    request: Request,
) -> Result<Response, Problem> {
    match name.strip_suffix(reach::CANCEL) {
        Some(session) => {
            principal.needs(Scope::RunCancel)?;
            let MaybeBody(asked) = MaybeBody::from_request(request, &core).await?;
            cancel(&core, &principal, [&app, &user, session], asked, may_wait).await
        }
        None => {
            principal.needs(Scope::RunCreate)?;
            let key = reach::session(&principal, &app, &user, &name)?;
            let MaybeBody(state) = MaybeBody::from_request(request, &core).await?;
            sessions::create_with_id(&core, &principal, &key, state).await
        }
    }
}

/// Nothing was stopped. Counts only those other runs that the caller may stop (invariant 3).
fn nothing(session: &str, others: usize) -> Problem {
    let others = match others {
        0 => String::new(),
        1 => ". 1 other run that you may stop is in progress".to_owned(),
        many => format!(". {many} other runs that you may stop are in progress"),
    };
    Problem::not_found(
        "not-running",
        format!("Nothing that you may stop is running in session: {session:.300}{others}"),
    )
}

async fn cancel(
    core: &Shared,
    principal: &Principal,
    [app, user, session]: [&str; 3],
    asked: Option<Value>,
    may_wait: bool,
) -> Result<Response, Problem> {
    let asked = asked.as_ref().map(|body| valid::read(body, CancelSession::read)).transpose()?.unwrap_or_default();
    let CancelSession { force, grace_ms, note, wait } = asked;
    let force = force.unwrap_or(Force::Graceful);
    let order = CancelOrder::new(force, Reason::Requested).note(note).grace_ms(grace_ms);
    let stopped = core.host.stop_session(principal, [app, user, session], &order, wait && may_wait).await?;
    if stopped.cancelled == 0 {
        return Err(nothing(session, stopped.aim.others));
    }
    let runs = stopped.runs.into_iter().map(|run| CancelledRun {
        invocation_id: run.run_id,
        reply: run.reply,
        state: run.state,
        outcome: run.outcome,
        leaked: run.leaked,
    });
    let told = CancelledSession {
        status: "cancelled",
        app_name: app.to_owned(),
        user_id: user.to_owned(),
        session_id: session.to_owned(),
        settled: stopped.settled,
        cancelled: runs.collect(),
    };
    Ok(JsonBody(told).into_response())
}
