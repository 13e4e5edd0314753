//! One WebSocket: reads what comes in and sends what goes out, and waits for neither without a limit.
//!
//! A [`SocketHandler`] decides what the messages mean; this module handles pacing, heartbeats and closing.
//!
//! # Invariants
//!
//! 1. Nothing is kept for a client that does not read: the handler is asked for more only when everything before has
//!    been sent. So at most [`FRAME`] bytes and one message wait for the client, and not for longer than it may stall.
//!    A client that reads slowly is not cut off.
//! 2. Incoming messages come first, even while the client does not read: they wait for nothing, unless the handler is
//!    still busy with an earlier one.
//! 3. A socket ends by itself: when its handler says so, when the server shuts down, when the client does not answer a
//!    ping, at the first invalid message, and within five seconds after the client's key or token stops being valid.
//!    From then on, nothing more is read from or sent to that client.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use futures_util::{Sink, StreamExt as _};
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::TaskTracker;

use crate::access::principal::RECHECK;
use crate::feed::{FRAME, ReadPermission};
use crate::http::signs::{Sign, WriteProgress};
use crate::http::socket::Written;
use crate::options::Options;
use crate::time::after;

/// How many bytes are read from a socket at once. Clients send little.
const READ: usize = 1 << 10;

/// How long to wait for a client after a close frame.
const LINGER: Duration = Duration::from_secs(1);

/// Why a socket is closed: a close code and a text.
#[derive(Debug)]
pub struct Close(pub u16, pub String);

/// The end of a socket.
#[derive(Debug)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum SocketEnd {
    /// The client is told why.
    Because(Close),
    /// The client is gone, or can be treated as gone.
    Gone,
}

impl SocketEnd {
    /// Ends the socket with this close code and text.
    pub fn because(code: u16, words: impl Into<String>) -> Self {
        Self::Because(Close(code, words.into()))
    }

    /// The server is shutting down.
    pub fn away() -> Self {
        Self::because(close_code::AWAY, "the server is shutting down")
    }
}

/// Handles the messages of one socket. Its methods are polled like a future, and must not block.
pub trait SocketHandler: Send {
    /// Whether it can handle another message. Until it can, nothing is read from the socket.
    fn poll_free(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SocketEnd>> {
        Poll::Ready(Ok(()))
    }

    /// Handles a message from the client.
    fn on_text(&mut self, text: &str) -> Result<(), SocketEnd>;

    /// How the socket ends if the client sends anything but text.
    fn reject_binary(&self) -> SocketEnd {
        SocketEnd::because(close_code::UNSUPPORTED, "send JSON as text")
    }

    /// The next message to send. Called only when the client has received everything before it.
    fn poll_say(&mut self, cx: &mut Context<'_>) -> Poll<Result<String, SocketEnd>>;
}

/// The settings that all sockets of a server share.
#[derive(Debug, Clone)]
pub(crate) struct Sockets {
    pub(crate) options: Arc<Options>,
    pub(crate) tasks: TaskTracker,
    pub(crate) closing: CancellationToken,
}

impl Sockets {
    /// Responds with a WebSocket, which this handler then handles.
    pub(crate) fn upgrade<T: SocketHandler + 'static>(
        &self,
        (upgrade, written): (WebSocketUpgrade, Written),
        permission: ReadPermission,
        handler: impl Future<Output = Result<T, Close>> + Send + 'static,
    ) -> Response {
        let max = self.options.max_frame;
        let upgrade = upgrade.read_buffer_size(READ).write_buffer_size(FRAME).max_message_size(max).max_frame_size(max);
        let sockets = self.clone();
        // Taken before the upgrade, so that shutdown waits for the socket from then on.
        let token = self.tasks.token();
        upgrade.on_upgrade(move |mut socket| async move {
            let _held = token;
            match handler.await {
                Ok(handler) => {
                    Talk::new(sockets, (socket, WriteProgress::new(written)), permission, handler).go_on().await
                }
                Err(close) => say_goodbye(&mut socket, close).await,
            }
        })
    }
}

/// What happened on a socket.
enum Step {
    /// A message came in.
    Came(Message),
    /// Everything written has been sent.
    Taken,
    /// A message was written.
    Said,
    /// A heartbeat is due.
    Due,
}

/// One socket.
struct Talk<T> {
    sockets: Sockets,
    socket: WebSocket,
    handler: T,
    permission: ReadPermission,
    /// When to check again whether the key or token is still valid. `None` if it cannot end.
    check: Option<Pin<Box<Sleep>>>,
    /// When the client must have read some of what was written; `None` if it has read everything.
    writing: Option<Pin<Box<Sleep>>>,
    /// How to end, once everything before has been sent.
    over: Option<SocketEnd>,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    /// When the next heartbeat is due.
    beat: Pin<Box<Sleep>>,
    progress: WriteProgress,
    sign: Sign,
    allowance: Allowance,
}

impl<T: SocketHandler> Talk<T> {
    fn new(
        sockets: Sockets,
        (socket, progress): (WebSocket, WriteProgress),
        permission: ReadPermission,
        handler: T,
    ) -> Self {
        Self {
            socket,
            handler,
            check: permission.can_end().then(|| sleep(RECHECK)),
            permission,
            writing: None,
            over: None,
            closing: Box::pin(sockets.closing.clone().cancelled_owned()),
            beat: sleep(sockets.options.heartbeat),
            progress,
            sign: Sign::Answered,
            allowance: Allowance::new(Instant::now(), sockets.options.frames_a_second),
            sockets,
        }
    }

    /// Runs until there is a reason to end, and sends that reason.
    async fn go_on(mut self) {
        let over = loop {
            let done = match poll_fn(|cx| self.step(cx)).await {
                Ok(Step::Came(message)) => self.on_message(&message),
                Ok(Step::Taken) => {
                    self.sign.taken();
                    Ok(())
                }
                Ok(Step::Said) => Ok(()),
                Ok(Step::Due) => self.beat(),
                Err(over) => Err(over),
            };
            if let Err(over) = done {
                break over;
            }
        };
        if let SocketEnd::Because(close) = over {
            say_goodbye(&mut self.socket, close).await;
        }
    }

    /// Polls for what happens next. It only hands over what it receives, so nothing is lost.
    fn step(&mut self, cx: &mut Context<'_>) -> Poll<Result<Step, SocketEnd>> {
        if self.has_expired(cx) {
            return Poll::Ready(Err(SocketEnd::because(close_code::POLICY, "the key or token is no longer valid")));
        }
        match self.handler.poll_free(cx) {
            Poll::Ready(Ok(())) => {
                if let Poll::Ready(came) = self.socket.poll_next_unpin(cx) {
                    let came = came.unwrap_or_else(|| Err(axum::Error::new(tungstenite::Error::ConnectionClosed)));
                    return Poll::Ready(came.map(Step::Came).map_err(fault));
                }
            }
            Poll::Ready(Err(over)) => return Poll::Ready(Err(over)),
            // Nothing is read from the socket now, so an answer to the ping could not be seen.
            Poll::Pending => self.sign = Sign::Answered,
        }
        let wrote = if self.writing.is_some() { self.poll_taken(cx) } else { self.poll_said(cx) };
        if wrote.is_ready() {
            return wrote;
        }
        if self.closing.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(SocketEnd::away()));
        }
        self.beat.as_mut().poll(cx).map(|()| Ok(Step::Due))
    }

    /// Whether the key or token is no longer valid.
    fn has_expired(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(check) = &mut self.check else { return false };
        // The timer wakes this task even while the client does not read and nothing else happens.
        while check.as_mut().poll(cx).is_ready() {
            check.as_mut().reset(after(Instant::now(), RECHECK));
        }
        self.permission.is_over()
    }

    /// Waits until the client has read everything, or has read nothing for too long (invariant 1).
    fn poll_taken(&mut self, cx: &mut Context<'_>) -> Poll<Result<Step, SocketEnd>> {
        let Some(stalled) = &mut self.writing else { return Poll::Pending };
        if let Poll::Ready(taken) = Pin::new(&mut self.socket).poll_flush(cx) {
            self.writing = None;
            return Poll::Ready(taken.map(|()| Step::Taken).map_err(|_| SocketEnd::Gone));
        }
        while stalled.as_mut().poll(cx).is_ready() {
            if !self.progress.is_made() {
                return Poll::Ready(Err(SocketEnd::Gone));
            }
            stalled.as_mut().reset(after(Instant::now(), self.sockets.options.stalled));
        }
        Poll::Pending
    }

    /// Writes the messages that are ready (invariant 1).
    fn poll_said(&mut self, cx: &mut Context<'_>) -> Poll<Result<Step, SocketEnd>> {
        if let Some(over) = self.over.take() {
            return Poll::Ready(Err(over));
        }
        let mut written = 0;
        while written < FRAME {
            match self.handler.poll_say(cx) {
                Poll::Ready(Ok(text)) => {
                    written += text.len();
                    if let Err(over) = self.write(Message::Text(text.into())) {
                        return Poll::Ready(Err(over));
                    }
                }
                Poll::Ready(Err(over)) if written == 0 => return Poll::Ready(Err(over)),
                Poll::Ready(Err(over)) => {
                    self.over = Some(over);
                    break;
                }
                Poll::Pending => break,
            }
        }
        if written > 0 { Poll::Ready(Ok(Step::Said)) } else { Poll::Pending }
    }

    fn on_message(&mut self, message: &Message) -> Result<(), SocketEnd> {
        self.sign = Sign::Answered;
        self.allowance.take(Instant::now(), self.sockets.options.frames_a_second)?;
        match message {
            Message::Close(_) => Err(SocketEnd::Gone),
            Message::Ping(_) | Message::Pong(_) => Ok(()),
            Message::Binary(_) => Err(self.handler.reject_binary()),
            Message::Text(text) => self.handler.on_text(text.as_str()),
        }
    }

    fn write(&mut self, message: Message) -> Result<(), SocketEnd> {
        if self.writing.is_none() {
            self.progress.is_made();
            self.writing = Some(sleep(self.sockets.options.stalled));
        }
        Pin::new(&mut self.socket).start_send(message).map_err(|_| SocketEnd::Gone)
    }

    /// Sends a ping, unless the client has been silent for too long.
    fn beat(&mut self) -> Result<(), SocketEnd> {
        self.beat = sleep(self.sockets.options.heartbeat);
        if self.sign.is_overdue(self.sockets.options.stalled) {
            return Err(SocketEnd::Gone);
        }
        // Data that is being sent serves as a heartbeat.
        if self.writing.is_some() {
            return Ok(());
        }
        self.sign.write();
        self.write(Message::Ping(Bytes::new()))
    }
}

fn sleep(time: Duration) -> Pin<Box<Sleep>> {
    Box::pin(sleep_until(after(Instant::now(), time)))
}

/// Sends the reason for closing, and gives the client a moment to read it.
async fn say_goodbye(socket: &mut WebSocket, Close(code, words): Close) {
    // A close frame has room for 123 bytes of text.
    let words = words.get(..words.floor_char_boundary(123)).unwrap_or_default();
    let frame = Message::Close(Some(CloseFrame { code, reason: words.into() }));
    let goodbye = async {
        socket.send(frame).await.ok()?;
        // Read what the client still sends: otherwise its system would discard the close frame.
        while let Some(Ok(_)) = socket.next().await {}
        Some(())
    };
    // A client that does not answer in time is gone.
    let _ = timeout(LINGER, goodbye).await;
}

/// What was wrong with an incoming message, or that the client is gone.
fn fault(error: axum::Error) -> SocketEnd {
    let Ok(error) = error.into_inner().downcast::<tungstenite::Error>() else { return SocketEnd::Gone };
    match *error {
        tungstenite::Error::Capacity(error) => SocketEnd::because(close_code::SIZE, error.to_string()),
        tungstenite::Error::Utf8(_) => SocketEnd::because(close_code::INVALID, "text must be UTF-8"),
        tungstenite::Error::Protocol(error) => SocketEnd::because(close_code::PROTOCOL, error.to_string()),
        _ => SocketEnd::Gone,
    }
}

/// How many messages may still come in during this second.
struct Allowance {
    since: Instant,
    left: u32,
}

impl Allowance {
    fn new(now: Instant, a_second: u32) -> Self {
        Self { since: now, left: a_second }
    }

    fn take(&mut self, now: Instant, a_second: u32) -> Result<(), SocketEnd> {
        if now.duration_since(self.since) >= Duration::from_secs(1) {
            *self = Self { since: now, left: a_second };
        }
        let flood =
            || SocketEnd::because(close_code::POLICY, format!("send no more than {a_second} messages per second"));
        self.left = self.left.checked_sub(1).ok_or_else(flood)?;
        Ok(())
    }
}
