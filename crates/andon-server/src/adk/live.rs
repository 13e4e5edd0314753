//! `/run_live`: a conversation over a WebSocket, turn by turn. Text only; who wants to talk or be shown is told so.
//!
//! # Invariants
//!
//! 1. Each message that comes in with content is a run; one that comes while another goes on waits for its turn.
//! 2. Nothing is kept for a client that does not read: a run's feed is asked for more when all before is taken, and one that
//!    takes nothing for too long is gone.
//! 3. Whose socket is gone has left all runs that it asked for.
//! 4. A socket ends itself: when what it waits for was cancelled, when the server closes, at the first message that is
//!    wrong, and within five seconds after its client's key or token is no longer valid. How much there is to be told, and how
//!    slowly it is taken, puts none of this off; and nothing is begun or told for a key that is no longer valid.

use std::collections::VecDeque;
use std::future::pending;
use std::pin::pin;

use andon_runtime::{Ending, FeedItem, StateMap};
use axum::body::Bytes;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::StreamExt as _;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use tokio::time::{Instant, sleep_until, timeout};

use super::closing::is_providers_answer;
use super::render::View;
use super::request::{Asked, message};
use super::run::{Followed, Place};
use super::sessions;
use super::valid::{self, Fields, json};
use crate::Shared;
use crate::access::principal::Principal;
use crate::api::socket::{Allowance, Close, Over, fault, limited, say_goodbye};
use crate::http::idle::after;
use crate::http::problem::Problem;

const VIEW: View = View::Caller { pieces: true };

/// What stands in the address.
#[derive(Debug, Default)]
struct Address {
    app: String,
    user: String,
    session: String,
    wants_more_than_text: bool,
}

impl Address {
    /// Reads a query string; nothing if it is not what it should be.
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
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let upgrade = upgrade.map_err(|_| Problem::not_found("not-a-websocket", "Not Found"))?;
    let address = Address::read(query.as_deref().unwrap_or_default()).ok_or_else(|| {
        let detail = "say app_name, user_id and session_id; modalities is TEXT";
        Problem::new(StatusCode::FORBIDDEN, "bad-query", detail)
    })?;
    let token = core.tasks.token();
    Ok(limited(&core, upgrade).on_upgrade(move |mut socket| async move {
        let _held = token;
        let close = match enter(&core, &principal, &address).await {
            Ok(place) => {
                let mut live = Live::new(core, principal, &mut socket, place);
                live.go_on().await
            }
            Err(close) => Some(close),
        };
        if let Some(close) = close {
            say_goodbye(&mut socket, close).await;
        }
    }))
}

/// The place that an address names, or why there is nothing to be said there.
async fn enter(core: &Shared, principal: &Principal, address: &Address) -> Result<Place, Close> {
    if address.wants_more_than_text {
        return Err(text_only());
    }
    let Address { app, user, session, .. } = address;
    Place::find(core, principal, Some(app), user, session).await.map_err(|problem| {
        let is_unknown = problem.status() == StatusCode::NOT_FOUND && core.apps.get(app).is_some();
        if is_unknown { Close(close_code::PROTOCOL, "Session not found".to_owned()) } else { trouble(&problem) }
    })
}

fn text_only() -> Close {
    Close(close_code::UNSUPPORTED, "only text is taken here: say modalities=TEXT, and send content".to_owned())
}

fn away() -> Over {
    Over::because(close_code::AWAY, "the server is shutting down")
}

fn out() -> Over {
    Over::because(close_code::POLICY, "the key or token is no longer valid")
}

fn trouble(problem: &Problem) -> Close {
    Close(close_code::ERROR, problem.detail().to_owned())
}

/// One socket.
struct Live<'a> {
    core: Shared,
    principal: Principal,
    socket: &'a mut WebSocket,
    place: Place,
    /// The runs that were asked for, the one in progress first.
    turns: VecDeque<Followed>,
    /// One of them was cancelled.
    is_cancelled: bool,
    heard: Instant,
    allowance: Allowance,
}

impl<'a> Live<'a> {
    fn new(core: Shared, principal: Principal, socket: &'a mut WebSocket, place: Place) -> Self {
        let now = Instant::now();
        let allowance = Allowance::new(now, core.options.frames_a_second);
        Self { core, principal, socket, place, turns: VecDeque::new(), is_cancelled: false, heard: now, allowance }
    }

    /// Takes turns until there is a reason to close; nothing if the client is gone.
    async fn go_on(&mut self) -> Option<Close> {
        let closing = self.core.closing.clone();
        let mut ended = pin!(self.principal.pass.clone().ended(self.core.runtime.clone()));
        loop {
            let beat = sleep_until(after(Instant::now(), self.core.options.heartbeat));
            // What ends it is looked at first: there may always be something to hear and to tell (invariant 4).
            let done = tokio::select! {
                biased;
                () = closing.cancelled() => Err(away()),
                () = &mut ended => Err(out()),
                came = self.socket.next() => match came {
                    Some(Ok(message)) => self.hear(message).await,
                    Some(Err(error)) => Err(fault(error).map_or(Over::Gone, Over::Because)),
                    None => Err(Over::Gone),
                },
                item = next(&mut self.turns) => self.tell(item).await,
                () = beat => self.beat().await,
            };
            match done {
                Ok(()) => {}
                Err(Over::Because(close)) => return Some(close),
                Err(Over::Gone) => return None,
            }
        }
    }

    /// What a client says.
    async fn hear(&mut self, message: Message) -> Result<(), Over> {
        self.heard = Instant::now();
        self.allowance.take(self.heard, self.core.options.frames_a_second)?;
        match message {
            Message::Close(_) => Err(Over::Gone),
            Message::Ping(_) | Message::Pong(_) => Ok(()),
            Message::Binary(_) => Err(Over::because(close_code::UNSUPPORTED, "send JSON as text")),
            Message::Text(text) => self.take(text.as_str()).await,
        }
    }

    async fn take(&mut self, text: &str) -> Result<(), Over> {
        let wrong = |problem: Problem| Over::because(close_code::INVALID, what_is_wrong(&problem));
        crate::http::body::not_too_deep(text.as_bytes(), self.core.options.max_depth).map_err(wrong)?;
        let body = json(text.as_bytes()).map_err(wrong)?;
        match valid::read(&body, |fields| Ok(Said::read(fields))).map_err(wrong)? {
            Said::Spoken => Err(Over::Because(text_only())),
            Said::Close => Err(Over::because(close_code::NORMAL, "closed by the client")),
            Said::Content(asked, state) => {
                let asked = asked.transpose().map_err(wrong)?;
                self.is_let()?;
                self.begin(asked, state).await.map_err(|problem| Over::Because(trouble(&problem)))
            }
        }
    }

    /// Begins what was asked for (invariant 1).
    async fn begin(&mut self, asked: Option<Asked>, state: StateMap) -> Result<(), Problem> {
        let Self { core, principal, place, .. } = self;
        let followed = match asked {
            Some(Asked::Run(input)) => place.start(core, principal, input, state, VIEW).await?,
            Some(Asked::Decide(decisions)) => place.decide(core, principal, &decisions, VIEW)?,
            None => {
                if !state.is_empty() {
                    sessions::change_state(core, place.session(), state).await?;
                }
                return Ok(());
            }
        };
        self.turns.push_back(followed);
        Ok(())
    }

    /// Tells what happened in the turn.
    async fn tell(&mut self, item: Option<FeedItem>) -> Result<(), Over> {
        let now = self.core.runtime.now().wall;
        let Some(turn) = self.turns.front_mut() else { return Ok(()) };
        let event = item.as_ref().and_then(|item| turn.rendering.tell(item, || now));
        let waits = matches!(item, Some(FeedItem::Fact(_))) && turn.rendering.waits();
        let (is_over, complete) = (item.is_none() || waits, turn.rendering.turn_complete(now));
        if let Some(event) = event {
            self.write(&event).await?;
        }
        if !is_over {
            return Ok(());
        }
        let Some(turn) = self.turns.pop_front() else { return Ok(()) };
        // If the run goes on, it does so without its client.
        turn.reading.watcher.leave_in_peace();
        // If its feed has ended, how it ended is known, if only in memory.
        let outcome = if waits { None } else { Some(turn.run.outcome().await) };
        match outcome.as_ref().map(|outcome| &*outcome.ending) {
            Some(Ending::Cancelled { .. }) => self.is_cancelled = true,
            Some(Ending::Failed(failure)) if !is_providers_answer(failure.error) => {
                return Err(Over::because(close_code::ERROR, failure.message.clone()));
            }
            _ => self.write(&complete).await?,
        }
        if self.is_cancelled && self.turns.is_empty() {
            return Err(Over::because(close_code::NORMAL, "cancelled"));
        }
        Ok(())
    }

    /// Writes, and waits until it is taken (invariant 2).
    async fn write(&mut self, told: &impl Serialize) -> Result<(), Over> {
        // Plain data, so this does not fail.
        let text = serde_json::to_string(told).map_err(|_| Over::Gone)?;
        self.send(Message::Text(text.into())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), Over> {
        self.is_let()?;
        let ended = self.principal.pass.clone().ended(self.core.runtime.clone());
        tokio::select! {
            biased;
            () = self.core.closing.cancelled() => Err(away()),
            () = ended => Err(out()),
            sent = timeout(self.core.options.stalled, self.socket.send(message)) => {
                sent.ok().and_then(Result::ok).ok_or(Over::Gone)
            }
        }
    }

    /// Whether its key or token is good still. That is looked at more often than it is waited for.
    fn is_let(&self) -> Result<(), Over> {
        if self.principal.pass.is_valid(self.core.runtime.now().wall) { Ok(()) } else { Err(out()) }
    }

    /// A sign of life is due; or the client has been waited for long enough.
    async fn beat(&mut self) -> Result<(), Over> {
        let options = &self.core.options;
        if self.heard.elapsed() >= options.heartbeat.saturating_add(options.stalled) {
            return Err(Over::Gone);
        }
        self.send(Message::Ping(Bytes::new())).await
    }
}

/// The first thing that is wrong, in words: a close frame has room for few.
fn what_is_wrong(problem: &Problem) -> String {
    let told = problem.to_json();
    let first = told.pointer("/detail/0").and_then(|first| Some((first.get("loc")?, first.get("msg")?.as_str()?)));
    first.map_or_else(|| problem.detail().to_owned(), |(place, words)| format!("{words}: {place}"))
}

/// What speech and pictures come in.
const SPOKEN: [&str; 4] = ["blob", "activityStart", "activityEnd", "audioStreamEnd"];

/// What a frame says.
enum Said {
    /// Something that is no text.
    Spoken,
    Close,
    Content(Option<Result<Asked, Problem>>, StateMap),
}

impl Said {
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

/// What happens next in the first turn; nothing at its end. It waits for ever if there is none.
async fn next(turns: &mut VecDeque<Followed>) -> Option<FeedItem> {
    match turns.front_mut() {
        Some(turn) => turn.feed.next().await,
        None => pending().await,
    }
}
