//! `/run_live`: a conversation over a WebSocket, turn by turn. Text only; a client that sends audio or images is told so.
//!
//! # Invariants
//!
//! 1. Each incoming message with content is a run; one that comes during another waits for its turn.
//! 2. Nothing is buffered for a client that does not read: the next item is taken from a run's feed only once the client has
//!    taken all earlier ones. A client that takes nothing for too long counts as gone.
//! 3. A client whose socket is gone has left all runs that it asked for.
//! 4. A socket closes itself: when the run that it waits for was cancelled, when the server closes, at the first invalid message,
//!    and within five seconds after its client's key or token becomes invalid. Neither a long backlog nor a slow client delays
//!    any of this, and nothing is begun or sent for an invalid key.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use andon_runtime::{BoxFuture, Ending, FeedItem, Outcome, StateMap};
use andon_server::dialect::{Close, Principal, Problem, SocketEnd, SocketHandler, Written, not_too_deep};
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{WebSocketUpgrade, close_code};
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use futures_core::Stream as _;
use percent_encoding::percent_decode_str;
use serde::Serialize;

use super::closing::is_providers_answer;
use super::event::AdkEvent;
use super::render::View;
use super::request::{RequestInput, message};
use super::run::{ExistingSession, Followed};
use super::sessions;
use super::valid::{self, Fields, json};
use crate::core::Shared;

const VIEW: View = View::Caller { pieces: true };

/// The query parameters.
#[derive(Debug, Default)]
struct Address {
    app: String,
    user: String,
    session: String,
    wants_more_than_text: bool,
}

impl Address {
    /// Reads a query string; `None` if it is invalid.
    fn read(query: &str) -> Option<Self> {
        let (mut app, mut user, mut session, mut wants_more) = (None, None, None, false);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = value.replace('+', " ");
            let value = percent_decode_str(&value).decode_utf8().ok()?.into_owned();
            match name {
                "app_name" => app = Some(value),
                "user_id" => user = Some(value),
                "session_id" => session = Some(value),
                "modalities" => match value.as_str() {
                    "TEXT" => {}
                    "AUDIO" | "VIDEO" => wants_more = true,
                    _ => return None,
                },
                _ => {}
            }
        }
        let app = app.filter(|app| !app.is_empty())?;
        Some(Self { app, user: user?, session: session?, wants_more_than_text: wants_more })
    }
}

/// Answers with a conversation over a WebSocket.
pub(crate) async fn run_live(
    State(core): State<Shared>,
    principal: Principal,
    RawQuery(query): RawQuery,
    written: Written,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let upgrade = upgrade.map_err(|_| Problem::not_found("not-a-websocket", "Not Found"))?;
    let address = Address::read(query.as_deref().unwrap_or_default()).ok_or_else(|| {
        let detail = "send app_name, user_id and session_id; modalities must be TEXT";
        Problem::new(StatusCode::FORBIDDEN, "bad-query", detail)
    })?;
    let (shared, asking) = (Shared::clone(&core), principal.clone());
    let live = async move {
        let place = enter(&shared, &asking, &address).await?;
        Ok(Live::new(shared, asking, place))
    };
    Ok(core.host.talk(&principal, (upgrade, written), live))
}

/// The place that an address names, or why the conversation cannot start.
async fn enter(core: &Shared, principal: &Principal, address: &Address) -> Result<ExistingSession, Close> {
    if address.wants_more_than_text {
        return Err(text_only());
    }
    let Address { app, user, session, .. } = address;
    ExistingSession::find(core, principal, Some(app), user, session).await.map_err(|problem| {
        let is_unknown = problem.status() == StatusCode::NOT_FOUND && core.host.apps().get(app).is_some();
        if is_unknown { Close(close_code::PROTOCOL, "Session not found".to_owned()) } else { trouble(&problem) }
    })
}

fn text_only() -> Close {
    Close(close_code::UNSUPPORTED, "only text is supported here: set modalities=TEXT, and send content".to_owned())
}

fn trouble(problem: &Problem) -> Close {
    Close(close_code::ERROR, problem.detail().to_owned())
}

/// One socket.
struct Live {
    core: Shared,
    principal: Principal,
    place: ExistingSession,
    /// A message that is being acted on; no further message is read meanwhile.
    beginning: Option<BoxFuture<Result<Option<Followed>, Problem>>>,
    /// The requested runs, the one in progress first.
    turns: VecDeque<Followed>,
    /// A run whose feed has ended, and the event to send once its outcome is known.
    ending: Option<(BoxFuture<Arc<Outcome>>, AdkEvent)>,
    /// What to send next.
    said: VecDeque<String>,
    /// One of the runs was cancelled.
    is_cancelled: bool,
}

impl Live {
    fn new(core: Shared, principal: Principal, place: ExistingSession) -> Self {
        Self {
            core,
            principal,
            place,
            beginning: None,
            turns: VecDeque::new(),
            ending: None,
            said: VecDeque::new(),
            is_cancelled: false,
        }
    }

    /// Sends what happened in the turn.
    fn tell(&mut self, item: Option<&FeedItem>) -> Result<(), SocketEnd> {
        let now = self.core.host.runtime().now().wall;
        let Some(turn) = self.turns.front_mut() else { return Ok(()) };
        let events = item.map(|item| turn.rendering.tell(item, || now)).unwrap_or_default();
        let waits = matches!(item, Some(FeedItem::Fact(_))) && turn.rendering.waits();
        let complete = turn.rendering.turn_complete(now);
        for event in &events {
            self.say(event)?;
        }
        if item.is_some() && !waits {
            return Ok(());
        }
        let Some(turn) = self.turns.pop_front() else { return Ok(()) };
        // If the run goes on, it does so without its client.
        turn.reading.leave_without_disconnect();
        if waits {
            return self.say(&complete);
        }
        // Its feed has ended, so its outcome is known, if only in memory.
        self.ending = Some((Box::pin(async move { turn.run.outcome().await }), complete));
        Ok(())
    }

    /// A run is over.
    fn end(&mut self, ending: &Ending, complete: &AdkEvent) -> Result<(), SocketEnd> {
        match ending {
            Ending::Cancelled { .. } => self.is_cancelled = true,
            Ending::Failed(failure) if !is_providers_answer(failure.error) => {
                return Err(SocketEnd::because(close_code::ERROR, failure.message.clone()));
            }
            _ => self.say(complete)?,
        }
        Ok(())
    }

    fn say(&mut self, told: &impl Serialize) -> Result<(), SocketEnd> {
        // Plain data, so this does not fail.
        self.said.push_back(serde_json::to_string(told).map_err(|_| SocketEnd::Gone)?);
        Ok(())
    }
}

impl SocketHandler for Live {
    /// Ready once the last message has been acted on (invariant 1).
    fn poll_free(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SocketEnd>> {
        let Some(beginning) = &mut self.beginning else { return Poll::Ready(Ok(())) };
        let begun = ready!(beginning.as_mut().poll(cx));
        self.beginning = None;
        Poll::Ready(match begun {
            Ok(followed) => {
                self.turns.extend(followed);
                Ok(())
            }
            Err(problem) => Err(SocketEnd::Because(trouble(&problem))),
        })
    }

    fn on_text(&mut self, text: &str) -> Result<(), SocketEnd> {
        let wrong = |problem: Problem| SocketEnd::because(close_code::INVALID, first_error(&problem));
        not_too_deep(text.as_bytes(), self.core.host.options().max_depth).map_err(wrong)?;
        let body = json(text.as_bytes()).map_err(wrong)?;
        match valid::read(&body, |fields| Ok(FrameContent::read(fields))).map_err(wrong)? {
            FrameContent::Spoken => Err(SocketEnd::Because(text_only())),
            FrameContent::Close => Err(SocketEnd::because(close_code::NORMAL, "closed by the client")),
            FrameContent::Content(asked, state) => {
                let asked = asked.transpose().map_err(wrong)?;
                let (core, principal) = (Shared::clone(&self.core), self.principal.clone());
                self.beginning = Some(Box::pin(begin(core, principal, self.place.clone(), asked, state)));
                Ok(())
            }
        }
    }

    fn poll_say(&mut self, cx: &mut Context<'_>) -> Poll<Result<String, SocketEnd>> {
        loop {
            // Checked first, so that a long backlog does not delay it (invariant 4).
            if self.core.host.closing().is_cancelled() {
                return Poll::Ready(Err(SocketEnd::away()));
            }
            if let Some(said) = self.said.pop_front() {
                return Poll::Ready(Ok(said));
            }
            let done = if let Some((ending, complete)) = &mut self.ending {
                let outcome = ready!(ending.as_mut().poll(cx));
                let complete = complete.clone();
                self.ending = None;
                self.end(&outcome.ending, &complete)
            } else if let Some(turn) = self.turns.front_mut() {
                let item = ready!(Pin::new(&mut turn.feed).poll_next(cx));
                self.tell(item.as_ref())
            } else if self.is_cancelled && self.beginning.is_none() {
                Err(SocketEnd::because(close_code::NORMAL, "cancelled"))
            } else {
                return Poll::Pending;
            };
            if let Err(over) = done {
                return Poll::Ready(Err(over));
            }
        }
    }
}

/// Begins what was asked for; `None` if that was only a change to the session's state.
async fn begin(
    core: Shared,
    principal: Principal,
    place: ExistingSession,
    asked: Option<RequestInput>,
    state: StateMap,
) -> Result<Option<Followed>, Problem> {
    match asked {
        Some(RequestInput::Run(input)) => place.start(&core, &principal, input, state, VIEW).await.map(Some),
        Some(RequestInput::Decide(decisions)) => place.decide(&core, &principal, &decisions, VIEW).map(Some),
        None if state.is_empty() => Ok(None),
        None => sessions::change_state(&core, place.session(), state).await.map(|()| None),
    }
}

/// The first error, in words: a close frame has little room.
fn first_error(problem: &Problem) -> String {
    let told = problem.to_json();
    let first = told.pointer("/detail/0").and_then(|first| Some((first.get("loc")?, first.get("msg")?.as_str()?)));
    first.map_or_else(|| problem.detail().to_owned(), |(place, words)| format!("{words}: {place}"))
}

/// The fields that carry audio and images.
const SPOKEN: [&str; 4] = ["blob", "activityStart", "activityEnd", "audioStreamEnd"];

/// The content of a frame.
enum FrameContent {
    /// Something other than text.
    Spoken,
    Close,
    Content(Option<Result<RequestInput, Problem>>, StateMap),
}

impl FrameContent {
    fn read(fields: &Fields<'_>) -> Self {
        if SPOKEN.iter().any(|name| fields.has(name)) {
            return Self::Spoken;
        }
        if fields.is_set("close") {
            return Self::Close;
        }
        let state = fields.map("stateDelta").cloned().unwrap_or_default();
        Self::Content(fields.object("content").map(|content| message(&content)), state)
    }
}
