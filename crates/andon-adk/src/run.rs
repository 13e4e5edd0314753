//! `POST /run` and `POST /run_sse`: a run and all its events.
//!
//! # Invariants
//!
//! 1. A session that does not exist is not created, and nothing is run in it.
//! 2. In a busy session a run waits for its turn: the output of two runs never mixes.
//! 3. The client counts as present from the moment at which the run may begin until its last event is written, and its
//!    disconnecting does what the server's policy says. A client whose response ends because a person has to decide, or because
//!    its key or token is no longer valid, has not disconnected.

use std::sync::Arc;

use andon_runtime::{Cursor, Ending, Feed, FeedItem, Run, RunId, Scope, SessionKey, WhenBusy};
use andon_server::App;
use andon_server::dialect::{JsonBody, Principal, Problem, Reading, RunOrder, json_bytes, refused_app, unauthorized};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use uuid::Uuid;

use super::closing::is_providers_answer;
use super::event::AdkEvent;
use super::feed_format::EventByEvent;
use super::render::{Rendering, View};
use super::request::{Decision, RequestInput, RunRequest};
use crate::core::Shared;

/// A run with its client.
pub(crate) struct Followed {
    pub(crate) run: Run,
    pub(crate) rendering: Rendering,
    pub(crate) feed: Feed,
    pub(crate) reading: Reading,
}

/// `POST /run`: all events at once, when the run is over.
pub(crate) async fn run(
    State(core): State<Shared>,
    principal: Principal,
    request: Request,
) -> Result<Response, Problem> {
    let request = RunRequest::read(&json_bytes(request).await?)?;
    let mut followed = begin(&core, &principal, request, View::Caller { pieces: false }).await?;
    let (events, ending) = tokio::select! {
        biased;
        told = to_the_end(&mut followed) => told,
        () = core.host.closing().cancelled() => {
            let detail = "the server is shutting down: check the session to see how far the run got";
            return Err(Problem::unavailable("shutting-down", detail));
        }
        // Like the reader of a feed, it is sent nothing more; the run goes on.
        () = core.host.ended(&principal) => return Err(unauthorized()),
    };
    if !principal.is_valid(core.host.runtime().now().wall) {
        return Err(unauthorized());
    }
    match ending {
        Some(Ending::Failed(failure)) if !is_providers_answer(failure.error) => {
            let text = [(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"))];
            Ok((StatusCode::INTERNAL_SERVER_ERROR, text, "Internal Server Error").into_response())
        }
        _ => Ok(JsonBody(events).into_response()),
    }
}

/// Follows a run until it is over or waits for a person.
async fn to_the_end(followed: &mut Followed) -> (Vec<AdkEvent>, Option<Ending>) {
    let Followed { run, rendering, feed, reading } = followed;
    let mut events = Vec::new();
    while let Some(item) = feed.next().await {
        let FeedItem::Fact(record) = item else { continue };
        events.extend(rendering.fact(&record));
        if rendering.waits() {
            break;
        }
    }
    // The client gets everything so far; if the run goes on, it does so without its client.
    reading.leave_without_disconnect();
    if rendering.waits() {
        return (events, None);
    }
    // Its feed has ended, so its outcome is known, if only in memory.
    let ending = (*run.outcome().await.ending).clone();
    (events, Some(ending))
}

/// `POST /run_sse`: events as they come, each in its own write.
pub(crate) async fn run_sse(
    State(core): State<Shared>,
    principal: Principal,
    request: Request,
) -> Result<Response, Problem> {
    let request = RunRequest::read(&json_bytes(request).await?)?;
    let view = View::Caller { pieces: request.streaming };
    let Followed { rendering, feed, reading, .. } = begin(&core, &principal, request, view).await?;
    let format = EventByEvent::new(rendering, core.host.runtime().clone());
    let body = core.host.sse(feed, format, reading);
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    Ok((headers, Body::new(body)).into_response())
}

/// Begins what was asked for, with the client counted as present.
async fn begin(core: &Shared, principal: &Principal, request: RunRequest, view: View) -> Result<Followed, Problem> {
    let RunRequest { app, user, session, asked, state, .. } = request;
    let place = ExistingSession::find(core, principal, app.as_deref(), &user, &session).await?;
    match asked {
        RequestInput::Run(input) => place.start(core, principal, input, state, view).await,
        RequestInput::Decide(decisions) => place.decide(core, principal, &decisions, view),
    }
}

/// A session that exists, of an app's agent.
#[derive(Clone)]
pub(crate) struct ExistingSession {
    session: andon_runtime::Session,
}

impl ExistingSession {
    pub(crate) async fn find(
        core: &Shared,
        principal: &Principal,
        app: Option<&str>,
        user: &str,
        session: &str,
    ) -> Result<Self, Problem> {
        let app = app.filter(|app| !app.is_empty()).ok_or_else(|| {
            Problem::bad_request("no-app", "app_name is required when ADK_DEFAULT_APP_NAME is not set")
        })?;
        let agent = match core.host.apps().get(app) {
            Some(App::Served { agent, .. }) => agent,
            Some(App::Refused { why }) => return Err(refused_app(principal, app, &why)),
            None => {
                let detail = format!("Agent not found: '{app:.100}'. No matching directory or module exists.");
                return Err(Problem::not_found("no-such-app", detail));
            }
        };
        let key =
            SessionKey::new(app, user, session).map_err(|error| Problem::bad_id("userId or sessionId", &error))?;
        let key = key.tenant(Arc::clone(principal.tenant()));
        if !principal.may_act_for(user) || core.host.runtime().state(&key).await?.is_none() {
            return Err(Problem::not_found("no-such-session", format!("Session not found: {session}")));
        }
        Ok(Self { session: agent.session_by_key(&key)? })
    }

    pub(crate) fn session(&self) -> &andon_runtime::SessionKey {
        self.session.key()
    }

    /// Starts a run, which waits for its turn (invariant 2).
    pub(crate) async fn start(
        &self,
        core: &Shared,
        principal: &Principal,
        input: andon_runtime::Message,
        state: andon_runtime::StateMap,
        view: View,
    ) -> Result<Followed, Problem> {
        let run_id = RunId::new(format!("e-{}", Uuid::now_v7()));
        // Temporary state is not recorded, and no event reports it.
        let state = state.into_iter().filter(|(key, _)| Scope::of(key) != Scope::Temp).collect();
        let order = RunOrder::new(self.session.clone(), run_id.map_err(|error| Problem::bad_id("run", &error))?, input)
            .when_busy(WhenBusy::Queue)
            .on_disconnect(core.on_disconnect)
            .state(state);
        let (run, reading) = core.host.start(principal, order).await?;
        let rendering = Rendering::new(run.id(), self.session.agent().name(), view);
        Ok(Followed { feed: run.feed(), reading, rendering, run })
    }

    /// Gives a waiting run a person's decisions, all of them or none, and follows it from there.
    pub(crate) fn decide(
        &self,
        core: &Shared,
        principal: &Principal,
        decisions: &[Decision],
        view: View,
    ) -> Result<Followed, Problem> {
        let key = self.session.key();
        let awaited = |run: &Run| {
            // In this order: a question that is asked meanwhile has an id of its own, and its answer is about another call.
            let approvals = run.approvals();
            let records = run.records();
            let mut rendering = Rendering::new(run.id(), self.session.agent().name(), view);
            for record in &records {
                // It was sent before.
                let _ = rendering.fact(record);
            }
            let call = |decision: &Decision| {
                let asked = rendering.asked_about(&decision.id)?;
                let open = approvals.iter().find(|open| open.call() == asked)?;
                Some((open.clone(), decision.is_yes))
            };
            let calls = decisions.iter().map(call).collect::<Option<Vec<_>>>()?;
            Some((calls, rendering, records.last().map_or(0, |last| last.seq)))
        };
        let runs = core.host.runtime().in_progress();
        let mut found =
            runs.into_iter().filter(|run| run.session() == key).filter_map(|run| Some((awaited(&run)?, run)));
        let ((calls, mut rendering, seq), run) = found.next().ok_or_else(not_awaited)?;
        let wanted = core.host.want_feed(principal, key)?;
        let feed = run.feed_from(Cursor { seq, byte: 0 });
        run.decide_all(calls.iter().map(|(open, is_yes)| {
            let decision = if *is_yes { open.approve() } else { open.deny() };
            decision.by(&**principal.name())
        }))?;
        // Only now: a client whose decisions are rejected was never present, so it cannot disconnect.
        let reading = core.host.reading(wanted, &run);
        calls.iter().for_each(|(open, _)| rendering.answered(open.call()));
        Ok(Followed { run, rendering, feed, reading })
    }
}

fn not_awaited() -> Problem {
    let detail =
        "newMessage: nothing in this session waits for this confirmation: it was already given, or the run is over";
    Problem::new(StatusCode::CONFLICT, "not-awaited", detail)
}
