//! One WebSocket: what comes in is heard, what there is to say goes out, and neither is waited for for ever.
//!
//! What is heard and said is a [`Talker`]'s business; pace, signs of life and closing are this module's.
//!
//! # Invariants
//!
//! 1. Nothing is kept for a client that does not read: the talker is asked for more when all before is taken. So at most
//!    [`FRAME`] bytes and one message wait for it, and not for longer than it may stall. One that reads slowly is waited for.
//! 2. What comes in is looked at first, also while the client does not read: what it says stands behind nothing, unless the
//!    talker is still busy with what it heard before.
//! 3. A socket ends itself: when its talker says so, when the server closes, when its client does not answer a sign of life,
//!    at the first message that is wrong, and within five seconds after its client's key or token is no longer valid.
//!    For such a key nothing more is heard or said.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use futures_util::{Sink, StreamExt as _};
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::access::principal::RECHECK;
use crate::feed::{FRAME, Leave};
use crate::http::signs::{Progress, Sign};
use crate::http::socket::Written;
use crate::options::Options;
use crate::tasks::Tasks;
use crate::time::after;

/// How many bytes are read from a socket at a time. Little ever comes.
const READ: usize = 1 << 10;

/// How long a client is waited for once it was told that this is the end.
const LINGER: Duration = Duration::from_secs(1);

/// Why a socket is closed: a code, and words.
#[derive(Debug)]
pub struct Close(pub u16, pub String);

/// The end of a socket.
#[derive(Debug)]
pub enum Over {
    /// The client is told why.
    Because(Close),
    /// The client is gone, or might as well be.
    Gone,
}

impl Over {
    /// The client is told this.
    pub fn because(code: u16, words: impl Into<String>) -> Self {
        Self::Because(Close(code, words.into()))
    }

    /// The server shuts down.
    pub fn away() -> Self {
        Self::because(close_code::AWAY, "the server is shutting down")
    }
}

/// What is heard and said on one socket. Its methods are polled as those of a future are, and do not block.
pub trait Talker: Send {
    /// Whether it can hear more. Nothing is read from the socket until it can.
    fn poll_free(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Over>> {
        Poll::Ready(Ok(()))
    }

    /// The client says this.
    fn hear(&mut self, text: &str) -> Result<(), Over>;

    /// What the client is told that sends anything but text.
    fn deaf(&self) -> Over {
        Over::because(close_code::UNSUPPORTED, "send JSON as text")
    }

    /// The next thing to say. It is asked for when the client has taken all before.
    fn poll_say(&mut self, cx: &mut Context<'_>) -> Poll<Result<String, Over>>;
}

/// How a server treats all of its sockets.
#[derive(Debug, Clone)]
pub(crate) struct Sockets {
    heartbeat: Duration,
    stalled: Duration,
    frames_a_second: u32,
    max_frame: usize,
    tasks: Tasks,
    closing: CancellationToken,
}

impl Sockets {
    pub(crate) fn new(options: &Options, tasks: &Tasks, closing: &CancellationToken) -> Self {
        let Options { heartbeat, stalled, frames_a_second, max_frame, .. } = *options;
        Self { heartbeat, stalled, frames_a_second, max_frame, tasks: tasks.clone(), closing: closing.clone() }
    }

    /// Answers with a WebSocket, on which this talker speaks once it is there.
    pub(crate) fn upgrade<T: Talker + 'static>(
        &self,
        (upgrade, written): (WebSocketUpgrade, Written),
        leave: Leave,
        talker: impl Future<Output = Result<T, Close>> + Send + 'static,
    ) -> Response {
        let max = self.max_frame;
        let upgrade = upgrade.read_buffer_size(READ).write_buffer_size(FRAME).max_message_size(max).max_frame_size(max);
        let sockets = self.clone();
        // Shutting down waits for it, from before the upgrade on.
        let token = self.tasks.token();
        upgrade.on_upgrade(move |mut socket| async move {
            let _held = token;
            match talker.await {
                Ok(talker) => Talk::new(sockets, (socket, Progress::new(written)), leave, talker).go_on().await,
                Err(close) => say_goodbye(&mut socket, close).await,
            }
        })
    }
}

/// What happened on a socket.
enum Step {
    /// Something came in.
    Came(Message),
    /// All that was written is taken.
    Taken,
    /// Something was written.
    Said,
    /// A sign of life is due.
    Due,
}

/// One socket.
struct Talk<T> {
    sockets: Sockets,
    socket: WebSocket,
    talker: T,
    leave: Leave,
    /// When it is looked whether its key or token is still valid, where that can end.
    check: Option<Pin<Box<Sleep>>>,
    /// Until when the client has to take some of what was written; `None` if it has all.
    writing: Option<Pin<Box<Sleep>>>,
    /// The end, once all before it is taken.
    over: Option<Over>,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    /// When the next sign of life is due.
    beat: Pin<Box<Sleep>>,
    progress: Progress,
    sign: Sign,
    allowance: Allowance,
}

impl<T: Talker> Talk<T> {
    fn new(sockets: Sockets, (socket, progress): (WebSocket, Progress), leave: Leave, talker: T) -> Self {
        Self {
            socket,
            talker,
            check: leave.can_end().then(|| sleep(RECHECK)),
            leave,
            writing: None,
            over: None,
            closing: Box::pin(sockets.closing.clone().cancelled_owned()),
            beat: sleep(sockets.heartbeat),
            progress,
            sign: Sign::Answered,
            allowance: Allowance::new(Instant::now(), sockets.frames_a_second),
            sockets,
        }
    }

    /// Talks until there is a reason to end, and says it.
    async fn go_on(mut self) {
        let over = loop {
            let done = match poll_fn(|cx| self.step(cx)).await {
                Ok(Step::Came(message)) => self.hear(&message),
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
        if let Over::Because(close) = over {
            say_goodbye(&mut self.socket, close).await;
        }
    }

    /// What happens next. It only looks and hands over; nothing that it takes is lost.
    fn step(&mut self, cx: &mut Context<'_>) -> Poll<Result<Step, Over>> {
        if self.is_out(cx) {
            return Poll::Ready(Err(Over::because(close_code::POLICY, "the key or token is no longer valid")));
        }
        match self.talker.poll_free(cx) {
            Poll::Ready(Ok(())) => {
                if let Poll::Ready(came) = self.socket.poll_next_unpin(cx) {
                    let came = came.unwrap_or_else(|| Err(axum::Error::new(tungstenite::Error::ConnectionClosed)));
                    return Poll::Ready(came.map(Step::Came).map_err(fault));
                }
            }
            Poll::Ready(Err(over)) => return Poll::Ready(Err(over)),
            // An answer to a sign of life could not be seen.
            Poll::Pending => self.sign = Sign::Answered,
        }
        let wrote = if self.writing.is_some() { self.poll_taken(cx) } else { self.poll_said(cx) };
        if wrote.is_ready() {
            return wrote;
        }
        if self.closing.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(Over::away()));
        }
        self.beat.as_mut().poll(cx).map(|()| Ok(Step::Due))
    }

    /// Whether its key or token is no longer valid.
    fn is_out(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(check) = &mut self.check else { return false };
        // Also while the client does not read, and so nothing else happens.
        while check.as_mut().poll(cx).is_ready() {
            check.as_mut().reset(after(Instant::now(), RECHECK));
        }
        self.leave.is_over()
    }

    /// Whether the client has taken all that was written, or takes nothing for too long (invariant 1).
    fn poll_taken(&mut self, cx: &mut Context<'_>) -> Poll<Result<Step, Over>> {
        let Some(stalled) = &mut self.writing else { return Poll::Pending };
        if let Poll::Ready(taken) = Pin::new(&mut self.socket).poll_flush(cx) {
            self.writing = None;
            return Poll::Ready(taken.map(|()| Step::Taken).map_err(|_| Over::Gone));
        }
        while stalled.as_mut().poll(cx).is_ready() {
            if !self.progress.is_made() {
                return Poll::Ready(Err(Over::Gone));
            }
            stalled.as_mut().reset(after(Instant::now(), self.sockets.stalled));
        }
        Poll::Pending
    }

    /// Writes all that is to be said now (invariant 1).
    fn poll_said(&mut self, cx: &mut Context<'_>) -> Poll<Result<Step, Over>> {
        if let Some(over) = self.over.take() {
            return Poll::Ready(Err(over));
        }
        let mut written = 0;
        while written < FRAME {
            match self.talker.poll_say(cx) {
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

    fn hear(&mut self, message: &Message) -> Result<(), Over> {
        self.sign = Sign::Answered;
        self.allowance.take(Instant::now(), self.sockets.frames_a_second)?;
        match message {
            Message::Close(_) => Err(Over::Gone),
            Message::Ping(_) | Message::Pong(_) => Ok(()),
            Message::Binary(_) => Err(self.talker.deaf()),
            Message::Text(text) => self.talker.hear(text.as_str()),
        }
    }

    fn write(&mut self, message: Message) -> Result<(), Over> {
        if self.writing.is_none() {
            self.progress.is_made();
            self.writing = Some(sleep(self.sockets.stalled));
        }
        Pin::new(&mut self.socket).start_send(message).map_err(|_| Over::Gone)
    }

    /// A sign of life is due, unless the client has shown none for too long.
    fn beat(&mut self) -> Result<(), Over> {
        self.beat = sleep(self.sockets.heartbeat);
        if self.sign.is_overdue(self.sockets.stalled) {
            return Err(Over::Gone);
        }
        // What is on its way is a sign of life.
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

/// Says why a socket ends, and waits a moment until the client has read it.
async fn say_goodbye(socket: &mut WebSocket, Close(code, words): Close) {
    // A close frame has room for 123 bytes of words.
    let words = words.get(..words.floor_char_boundary(123)).unwrap_or_default();
    let frame = Message::Close(Some(CloseFrame { code, reason: words.into() }));
    let goodbye = async {
        socket.send(frame).await.ok()?;
        // What is still on its way is read: if it were not, the client's system would throw the words away.
        while let Some(Ok(_)) = socket.next().await {}
        Some(())
    };
    // A client that does not answer in time is gone.
    let _ = timeout(LINGER, goodbye).await;
}

/// What is wrong with what came in, or that the client is gone.
fn fault(error: axum::Error) -> Over {
    let Ok(error) = error.into_inner().downcast::<tungstenite::Error>() else { return Over::Gone };
    match *error {
        tungstenite::Error::Capacity(error) => Over::because(close_code::SIZE, error.to_string()),
        tungstenite::Error::Utf8(_) => Over::because(close_code::INVALID, "text is UTF-8"),
        tungstenite::Error::Protocol(error) => Over::because(close_code::PROTOCOL, error.to_string()),
        _ => Over::Gone,
    }
}

/// How many messages may come in this second.
struct Allowance {
    since: Instant,
    left: u32,
}

impl Allowance {
    fn new(now: Instant, a_second: u32) -> Self {
        Self { since: now, left: a_second }
    }

    fn take(&mut self, now: Instant, a_second: u32) -> Result<(), Over> {
        if now.duration_since(self.since) >= Duration::from_secs(1) {
            *self = Self { since: now, left: a_second };
        }
        let flood = || Over::because(close_code::POLICY, format!("send no more than {a_second} messages a second"));
        self.left = self.left.checked_sub(1).ok_or_else(flood)?;
        Ok(())
    }
}
