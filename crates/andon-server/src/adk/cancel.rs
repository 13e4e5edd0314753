//! `POST /apps/{app}/users/{user}/sessions/{session}:cancel`: stop what runs in a session, and what waits for it.
//!
//! # Invariants
//!
//! 1. It reaches the runs that are there when it arrives, and none that comes later. It creates nothing.
//! 2. It is about one session of one tenant, that of who asks, whatever else who asks may reach.
//! 3. A session in which nothing runs, one that there is not and one that is somebody else's are answered alike.

use andon::{Ending, RunId, State as RunState};
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::form::MaybeBody;
use super::{reach, sessions};
use crate::Shared;
use crate::api::create::CANCEL;
use crate::api::forms::{ForceForm, how};
use crate::api::selector::{self, Selector};
use crate::body::OptionalBody;
use crate::json::Json;
use crate::path::Path;
use crate::principal::Principal;
use crate::problem::Problem;
use crate::scopes::Scope;
use crate::seats::MayWait;

/// How to stop.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CancelSession {
    force: Option<ForceForm>,
    #[serde(alias = "grace_ms")]
    grace_ms: Option<u64>,
    note: Option<String>,
    #[serde(default)]
    wait: bool,
}

/// What was stopped.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CancelledSession {
    status: &'static str,
    app_name: String,
    user_id: String,
    session_id: String,
    /// Whether all of it has come to rest.
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

/// `POST` to a session: a cancel, if the name ends so, and else the beginning of it. axum has no `{session}:cancel`.
pub(crate) async fn dispatch(
    State(core): State<Shared>,
    principal: Principal,
    Path((app, user, name)): Path<(String, String, String)>,
    request: Request,
) -> Result<Response, Problem> {
    match name.strip_suffix(CANCEL) {
        Some(session) => {
            principal.needs(Scope::RunCancel)?;
            cancel(&core, &principal, [&app, &user, session], request).await
        }
        None => {
            principal.needs(Scope::RunCreate)?;
            let key = reach::session(&principal, &app, &user, &name)?;
            let MaybeBody(state) = MaybeBody::from_request(request, &core).await?;
            Ok(sessions::create_with_id(&core, &principal, &key, state).await?.into_response())
        }
    }
}

async fn cancel(
    core: &Shared,
    principal: &Principal,
    [app, user, session]: [&str; 3],
    request: Request,
) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let Ok(MayWait(may_wait)) = MayWait::from_request_parts(&mut parts, core).await;
    let OptionalBody(asked) = OptionalBody::from_request(Request::from_parts(parts, body), core).await?;
    let CancelSession { force, grace_ms, note, wait } = asked;
    let how = how(principal, force, None, note, grace_ms)?;
    let nothing = || Problem::not_found("not-running", format!("Nothing is running in session: {session:.300}"));
    let key = reach::session(principal, app, user, session).map_err(|_| nothing())?;
    let selector = Selector::of_session(&key);
    let stopped = selector::stop(core, principal, &selector, &how, wait && may_wait).await?;
    if stopped.cancelled == 0 {
        return Err(nothing());
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
    Ok(Json(told).into_response())
}
