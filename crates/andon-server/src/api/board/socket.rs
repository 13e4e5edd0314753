//! The board over a WebSocket: each text message that goes out is one message of the board. Nothing is to come in.
//!
//! # Invariants
//!
//! 1. The board is asked for more when all before is taken. So at most [`FRAME`] bytes and one message wait for a client that
//!    does not read, and not for longer than it may stall. One that reads slowly is waited for.
//! 2. A socket ends itself: when the server closes, at the first message that comes in, when its client has not answered a
//!    sign of life for too long, and within five seconds after its key or token is no longer valid.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use futures_core::Stream;
use futures_util::{Sink, StreamExt};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::feed::BoardFeed;
use crate::Shared;
use crate::access::principal::RECHECK;
use crate::api::socket::{Allowance, Close, Over, fault, limited, say_goodbye};
use crate::feed::{FRAME, Leave, Place};
use crate::http::idle::after;
use crate::http::signs::{Progress, Sign};
use crate::http::socket::Written;

/// What happened on a socket.
enum Step {
    /// Something came in.
    Came(Message),
    /// There is no more to be said to it.
    End(Over),
    /// All that was written is taken.
    Taken,
    /// The board has something to say.
    Said(String),
    /// A sign of life is due.
    Due,
}

/// Answers with a WebSocket that gives out the board.
pub(crate) fn upgrade(
    core: &Shared,
    (upgrade, written): (WebSocketUpgrade, Written),
    feed: BoardFeed,
    place: Place,
    leave: Leave,
) -> Response {
    let core = Shared::clone(core);
    // Shutting down waits for it, from before the upgrade on.
    let token = core.tasks.token();
    limited(&core, upgrade).on_upgrade(move |socket| async move {
        let _held = (token, place);
        let mut talk = Talk::new(core, (socket, Progress::new(written)), feed, leave);
        if let Some(close) = talk.go_on().await {
            say_goodbye(&mut talk.socket, close).await;
        }
    })
}

/// One socket.
struct Talk {
    core: Shared,
    socket: WebSocket,
    feed: BoardFeed,
    leave: Leave,
    /// When it is looked whether it may still be read.
    check: Pin<Box<Sleep>>,
    /// Until when the client has to take some of what was written; nothing if it has all.
    writing: Option<Pin<Box<Sleep>>>,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    /// When the next sign of life is due.
    beat: Pin<Box<Sleep>>,
    progress: Progress,
    sign: Sign,
    allowance: Allowance,
}

impl Talk {
    fn new(core: Shared, (socket, progress): (WebSocket, Progress), feed: BoardFeed, leave: Leave) -> Self {
        let now = Instant::now();
        Self {
            socket,
            feed,
            leave,
            check: sleep(RECHECK),
            writing: None,
            closing: Box::pin(core.closing.clone().cancelled_owned()),
            beat: sleep(core.options.heartbeat),
            progress,
            sign: Sign::Answered,
            allowance: Allowance::new(now, core.options.frames_a_second),
            core,
        }
    }

    /// Gives out the board, until there is a reason to close; nothing if the client is gone.
    async fn go_on(&mut self) -> Option<Close> {
        loop {
            let done = match poll_fn(|cx| self.step(cx)).await {
                Step::Came(message) => self.hear(&message),
                Step::End(over) => Err(over),
                Step::Taken => {
                    self.sign.taken();
                    Ok(())
                }
                Step::Said(said) => self.write_all(said),
                Step::Due => self.beat(),
            };
            match done {
                Ok(()) => {}
                Err(Over::Because(close)) => return Some(close),
                Err(Over::Gone) => return None,
            }
        }
    }

    /// What happens next. It only looks; nothing that it takes is lost.
    fn step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        if self.is_out(cx) {
            return Poll::Ready(Step::End(Over::because(close_code::POLICY, "the key or token is no longer valid")));
        }
        if let Poll::Ready(came) = self.socket.poll_next_unpin(cx) {
            return Poll::Ready(came.map_or(Step::End(Over::Gone), |came| came.map_or_else(broken, Step::Came)));
        }
        if self.closing.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Step::End(Over::because(close_code::AWAY, "the server is shutting down")));
        }
        if let Some(stalled) = &mut self.writing {
            if let Poll::Ready(taken) = Pin::new(&mut self.socket).poll_flush(cx) {
                self.writing = None;
                return Poll::Ready(taken.map_or(Step::End(Over::Gone), |()| Step::Taken));
            }
            while stalled.as_mut().poll(cx).is_ready() {
                if !self.progress.is_made() {
                    return Poll::Ready(Step::End(Over::Gone));
                }
                stalled.as_mut().reset(after(Instant::now(), self.core.options.stalled));
            }
        } else if let Poll::Ready(Some(said)) = Pin::new(&mut self.feed).poll_next(cx) {
            return Poll::Ready(Step::Said(said));
        }
        self.beat.as_mut().poll(cx).map(|()| Step::Due)
    }

    /// Whether its key or token is no longer valid.
    fn is_out(&mut self, cx: &mut Context<'_>) -> bool {
        // Also while the client does not read, and so nothing else happens.
        while self.check.as_mut().poll(cx).is_ready() {
            self.check = sleep(RECHECK);
        }
        self.leave.is_over()
    }

    /// Nothing is to be said to the board.
    fn hear(&mut self, message: &Message) -> Result<(), Over> {
        self.sign = Sign::Answered;
        self.allowance.take(Instant::now(), self.core.options.frames_a_second)?;
        match message {
            Message::Close(_) => Err(Over::Gone),
            Message::Ping(_) | Message::Pong(_) => Ok(()),
            Message::Binary(_) | Message::Text(_) => {
                let words = "the board only tells: stop a run at /v1/runs/{id}/cancel, or all that match at /v1/cancel";
                Err(Over::because(close_code::POLICY, words))
            }
        }
    }

    /// Writes all that is to be said now (invariant 1).
    fn write_all(&mut self, first: String) -> Result<(), Over> {
        let (mut next, mut written) = (Some(first), 0);
        while let Some(said) = next {
            written += said.len();
            self.write(Message::Text(said.into()))?;
            next = if written < FRAME { self.feed.say() } else { None };
        }
        Ok(())
    }

    fn write(&mut self, message: Message) -> Result<(), Over> {
        if self.writing.is_none() {
            self.progress.is_made();
            self.writing = Some(sleep(self.core.options.stalled));
        }
        Pin::new(&mut self.socket).start_send(message).map_err(|_| Over::Gone)
    }

    /// A sign of life is due, unless the client has shown none for too long.
    fn beat(&mut self) -> Result<(), Over> {
        let options = &self.core.options;
        if self.sign.is_overdue(options.stalled) {
            return Err(Over::Gone);
        }
        self.beat = sleep(options.heartbeat);
        self.sign.write();
        self.write(Message::Ping(Bytes::new()))
    }
}

fn sleep(time: Duration) -> Pin<Box<Sleep>> {
    Box::pin(sleep_until(after(Instant::now(), time)))
}

/// What is wrong with what came in.
fn broken(error: axum::Error) -> Step {
    Step::End(fault(error).map_or(Over::Gone, Over::Because))
}
