//! A run's feed over a WebSocket, and the cord in the same hand.
//!
//! Each text message that goes out is one item of the feed, as the `data` of an SSE event; an item's id is its `seq`, or
//! its `at` where it has one. What comes in is `{"type": "cancel"}`, and nothing else.
//!
//! # Invariants
//!
//! 1. As for SSE, nothing is kept for a reader but its place: the feed is asked for more when all before is taken. So at
//!    most [`FRAME`] bytes and one item wait for a client that does not read, and not for longer than it may stall. One that
//!    reads slowly is waited for.
//! 2. What comes in is looked at first, also while the client does not read: a cancel stands behind nothing.
//! 3. A cancel is answered when it is on record. The feed goes on meanwhile.
//! 4. A socket ends itself: behind the run's last event, when the server closes, at the first message that is wrong, and
//!    within five seconds after its client's key or token is no longer valid.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use andon_runtime::{Feed, FeedItem, Run};
use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use futures_core::Stream;
use futures_core::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{Sink, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::cancel;
use super::forms::{ForceForm, how};
use crate::Shared;
use crate::access;
use crate::access::principal::{Principal, RECHECK};
use crate::access::scopes::Scope;
use crate::feed::{FRAME, Reading};
use crate::http::body::parse;
use crate::http::idle::after;
use crate::http::problem::Problem;
use crate::http::signs::{Progress, Sign};
use crate::http::socket::Written;

/// How many bytes are read from a socket at a time. Little ever comes.
const READ: usize = 1 << 10;

/// How long a client is waited for once it was told that this is the end.
const LINGER: Duration = Duration::from_secs(1);

/// What a client says.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Said {
    /// Stop the run.
    Cancel { force: Option<ForceForm>, grace_ms: Option<u64>, note: Option<String> },
}

/// Why a socket is closed: a code, and words.
#[derive(Debug)]
pub(crate) struct Close(pub(crate) u16, pub(crate) String);

/// The end of a socket.
pub(crate) enum Over {
    /// The client is told why.
    Because(Close),
    /// The client is gone, or might as well be.
    Gone,
}

impl Over {
    pub(crate) fn because(code: u16, words: impl Into<String>) -> Self {
        Self::Because(Close(code, words.into()))
    }
}

/// What happened on a socket.
enum Step {
    /// Something came in.
    Came(Message),
    /// What came in is nothing that a WebSocket carries.
    Broken(Close),
    /// The client is gone.
    Gone,
    /// All that was written is taken.
    Taken,
    /// The feed has something, or its end.
    Item(Option<FeedItem>),
    /// A cancel is answered.
    Answered(Value),
    /// Its key or token is no longer valid.
    Out,
    /// The server closes.
    Closing,
    /// A sign of life is due, or the client has been waited for long enough.
    Due,
}

/// Answers with a WebSocket that gives out a feed.
pub(crate) fn upgrade(
    core: &Shared,
    principal: Principal,
    (upgrade, written): (WebSocketUpgrade, Written),
    run: Run,
    feed: Feed,
    reading: Reading,
) -> Response {
    let core = Shared::clone(core);
    // Shutting down waits for it, from before the upgrade on.
    let token = core.tasks.token();
    limited(&core, upgrade).on_upgrade(move |socket| async move {
        let _held = token;
        let socket = (socket, Progress::new(written));
        let mut talk = Talk::new(core, principal, socket, run, feed, reading);
        if let Some(close) = talk.go_on().await {
            say_goodbye(&mut talk.socket, close).await;
        }
    })
}

/// A socket that keeps little, and takes no more at once than it may.
pub(crate) fn limited(core: &Shared, upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
    let max = core.options.max_frame;
    upgrade.read_buffer_size(READ).write_buffer_size(FRAME).max_message_size(max).max_frame_size(max)
}

/// One socket.
struct Talk {
    core: Shared,
    principal: Principal,
    socket: WebSocket,
    run: Run,
    feed: Feed,
    /// Something was written that the client has not taken yet.
    is_writing: bool,
    /// Cancels that wait for the disk. As many as may come in while it is waited for.
    answers: FuturesUnordered<BoxFuture<'static, Value>>,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    timer: Pin<Box<Sleep>>,
    /// Looks whether it may still be read, where that can end.
    check: Option<Pin<Box<Sleep>>>,
    reading: Reading,
    progress: Progress,
    sign: Sign,
    allowance: Allowance,
}

impl Talk {
    fn new(
        core: Shared,
        principal: Principal,
        (socket, progress): (WebSocket, Progress),
        run: Run,
        feed: Feed,
        reading: Reading,
    ) -> Self {
        let now = Instant::now();
        Self {
            socket,
            run,
            feed,
            is_writing: false,
            answers: FuturesUnordered::new(),
            closing: Box::pin(core.closing.clone().cancelled_owned()),
            timer: Box::pin(sleep_until(after(now, core.options.heartbeat))),
            check: principal.pass.can_end().then(|| Box::pin(sleep_until(after(now, RECHECK)))),
            reading,
            progress,
            sign: Sign::Answered,
            allowance: Allowance::new(now, core.options.frames_a_second),
            principal,
            core,
        }
    }

    /// Gives out the feed and does what it is told, until there is a reason to close; nothing if the client is gone.
    async fn go_on(&mut self) -> Option<Close> {
        loop {
            let step = poll_fn(|cx| self.step(cx)).await;
            let done = match step {
                Step::Came(message) => self.hear(message),
                Step::Broken(close) => Err(Over::Because(close)),
                Step::Gone => Err(Over::Gone),
                Step::Taken => {
                    self.sign.taken();
                    self.rest(self.core.options.heartbeat);
                    Ok(())
                }
                Step::Item(Some(item)) => self.write_items(item),
                Step::Item(None) => Err(self.end()),
                Step::Answered(answer) => self.write(Message::Text(answer.to_string().into())),
                Step::Out => Err(Over::because(close_code::POLICY, "the key or token is no longer valid")),
                Step::Closing => Err(Over::because(close_code::AWAY, "the server is shutting down")),
                Step::Due => self.beat(),
            };
            match done {
                Ok(()) => {}
                Err(Over::Because(close)) => return Some(close),
                Err(Over::Gone) => return None,
            }
        }
    }

    /// The feed has ended. If the run goes on, its reader is to come again.
    fn end(&self) -> Over {
        self.reading.watcher.leave_in_peace();
        match self.run.try_outcome() {
            Some(_) => Over::because(close_code::NORMAL, "the run has settled"),
            None => Over::because(close_code::AGAIN, "nobody drives the run now: come again from where you are"),
        }
    }

    /// What happens next. It only looks; nothing that it takes is lost.
    fn step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        if self.is_out(cx) {
            return Poll::Ready(Step::Out);
        }
        if let Poll::Ready(came) = self.socket.poll_next_unpin(cx) {
            return Poll::Ready(came.map_or(Step::Gone, |came| came.map_or_else(broken, Step::Came)));
        }
        if let Poll::Ready(Some(answer)) = self.answers.poll_next_unpin(cx) {
            return Poll::Ready(Step::Answered(answer));
        }
        if self.is_writing {
            if let Poll::Ready(taken) = Pin::new(&mut self.socket).poll_flush(cx) {
                self.is_writing = false;
                return Poll::Ready(taken.map_or(Step::Gone, |()| Step::Taken));
            }
        } else if let Poll::Ready(item) = Pin::new(&mut self.feed).poll_next(cx) {
            // A cancel is answered before the end is told.
            if item.is_some() || self.answers.is_empty() {
                return Poll::Ready(Step::Item(item));
            }
        }
        if self.closing.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Step::Closing);
        }
        self.timer.as_mut().poll(cx).map(|()| Step::Due)
    }

    /// Whether its key or token is no longer valid.
    fn is_out(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(check) = &mut self.check else { return false };
        while check.as_mut().poll(cx).is_ready() {
            check.as_mut().reset(after(Instant::now(), RECHECK));
        }
        self.reading.leave.is_over()
    }

    /// Does what it is told.
    fn hear(&mut self, message: Message) -> Result<(), Over> {
        self.sign = Sign::Answered;
        self.allowance.take(Instant::now(), self.core.options.frames_a_second)?;
        match message {
            Message::Close(_) => Err(Over::Gone),
            Message::Ping(_) | Message::Pong(_) => Ok(()),
            Message::Binary(_) => Err(Over::because(close_code::UNSUPPORTED, "send JSON as text")),
            Message::Text(text) => self.obey(text.as_str()).map_err(|problem| {
                Over::because(close_code::POLICY, format!("send {{\"type\": \"cancel\"}}: {}", problem.detail()))
            }),
        }
    }

    fn obey(&self, text: &str) -> Result<(), Problem> {
        let Said::Cancel { force, grace_ms, note } = parse(text.as_bytes(), self.core.options.max_depth)?;
        let how = how(&self.principal, force, None, note, grace_ms)?;
        if !self.principal.allows(Scope::RunCancel) {
            let refused = json!({"problem": access::forbidden(Scope::RunCancel).to_json()});
            self.answers.push(Box::pin(std::future::ready(reply_form(refused))));
            return Ok(());
        }
        let (core, principal, id) = (Shared::clone(&self.core), self.principal.clone(), self.run.id().clone());
        // A task of its own: who hangs up right behind the cancel has cancelled all the same.
        let stopping = self.core.spawn(async move {
            match cancel::stop(&core, &principal, &id, &how).await {
                Ok((run, reply)) => json!(cancel::told(&run, &reply)),
                Err(problem) => json!({"problem": problem.to_json()}),
            }
        });
        self.answers.push(Box::pin(async move { reply_form(stopping.await.unwrap_or(Value::Null)) }));
        Ok(())
    }

    /// Writes all that is ready (invariant 1).
    fn write_items(&mut self, first: FeedItem) -> Result<(), Over> {
        let (mut next, mut written) = (Some(first), 0);
        while let Some(item) = next {
            // An item is plain data, so this does not fail; if it did, the client would come again from where it was.
            let text = serde_json::to_string(&item).map_err(|_| Over::Gone)?;
            self.reading.saw(&item);
            written += text.len();
            self.write(Message::Text(text.into()))?;
            next = if written < FRAME { self.feed.try_next() } else { None };
        }
        Ok(())
    }

    fn write(&mut self, message: Message) -> Result<(), Over> {
        if !std::mem::replace(&mut self.is_writing, true) {
            self.progress.is_made();
            self.rest(self.core.options.stalled);
        }
        Pin::new(&mut self.socket).start_send(message).map_err(|_| Over::Gone)
    }

    /// A sign of life is due; or the client has been waited for long enough.
    fn beat(&mut self) -> Result<(), Over> {
        let stalled = self.core.options.stalled;
        if self.is_writing && self.progress.is_made() {
            self.rest(stalled);
            return Ok(());
        }
        if self.is_writing || self.sign.is_overdue(stalled) {
            return Err(Over::Gone);
        }
        self.sign.write();
        self.write(Message::Ping(Bytes::new()))
    }

    fn rest(&mut self, time: Duration) {
        self.timer.as_mut().reset(after(Instant::now(), time));
    }
}

/// Says why a socket ends, and waits a moment until the client has read it.
pub(crate) async fn say_goodbye(socket: &mut WebSocket, Close(code, words): Close) {
    // A close frame has room for 123 bytes of words.
    let words = words.get(..words.floor_char_boundary(123)).unwrap_or_default();
    let frame = Message::Close(Some(CloseFrame { code, reason: words.into() }));
    let goodbye = async {
        socket.send(frame).await.ok()?;
        // What is still on its way is read: if it were not, the client's system would throw the words away.
        while let Some(Ok(_)) = socket.next().await {}
        Some(())
    };
    // Whoever does not answer in time is gone.
    let _ = timeout(LINGER, goodbye).await;
}

fn reply_form(mut form: Value) -> Value {
    if let Value::Object(form) = &mut form {
        form.insert("type".to_owned(), "cancel_reply".into());
    }
    form
}

/// What is wrong with what came in.
fn broken(error: axum::Error) -> Step {
    fault(error).map_or(Step::Gone, Step::Broken)
}

/// What is wrong with what came in; nothing if the client is gone.
pub(crate) fn fault(error: axum::Error) -> Option<Close> {
    let error = error.into_inner().downcast::<tungstenite::Error>().ok()?;
    match *error {
        tungstenite::Error::Capacity(error) => Some(Close(close_code::SIZE, error.to_string())),
        tungstenite::Error::Utf8(_) => Some(Close(close_code::INVALID, "text is UTF-8".into())),
        tungstenite::Error::Protocol(error) => Some(Close(close_code::PROTOCOL, error.to_string())),
        _ => None,
    }
}

/// How many messages may come in this second.
pub(crate) struct Allowance {
    since: Instant,
    left: u32,
}

impl Allowance {
    pub(crate) fn new(now: Instant, a_second: u32) -> Self {
        Self { since: now, left: a_second }
    }

    pub(crate) fn take(&mut self, now: Instant, a_second: u32) -> Result<(), Over> {
        if now.duration_since(self.since) >= Duration::from_secs(1) {
            *self = Self { since: now, left: a_second };
        }
        let flood = || Over::because(close_code::POLICY, format!("send no more than {a_second} messages a second"));
        self.left = self.left.checked_sub(1).ok_or_else(flood)?;
        Ok(())
    }
}
