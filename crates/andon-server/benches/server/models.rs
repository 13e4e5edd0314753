//! Models that cost as little as a model can.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use andon_runtime::{Answer, Model, ModelError, ModelRequest, ModelStop, Piece, Usage};
use tokio::time::{Sleep, sleep};

/// What a bench model does.
#[derive(Clone, Copy)]
pub(crate) enum Does {
    /// Sends numbered pieces.
    Stream { pieces: u32, before: Before },
    /// Sends this many pieces, and is then silent forever.
    Silence { after: u32 },
}

/// What comes before each piece.
#[derive(Clone, Copy)]
pub(crate) enum Before {
    /// All pieces are ready.
    Nothing,
    /// Other tasks get a turn.
    Yield,
    /// Some time passes.
    Pause(Duration),
}

impl Model for Does {
    fn name(&self) -> &str {
        "bench"
    }

    fn call(&self, _: ModelRequest) -> Box<dyn Answer> {
        match *self {
            Self::Stream { pieces, before } => {
                let pause = match before {
                    Before::Pause(pause) => Some(Box::pin(sleep(pause))),
                    Before::Nothing | Before::Yield => None,
                };
                Box::new(Stream { sent: 0, pieces, before, yielded: false, pause })
            }
            Self::Silence { after } => Box::new(Silence { sent: 0, after }),
        }
    }
}

/// The text of a piece: its number, so that lost or repeated pieces show.
pub(crate) fn piece(number: u32) -> String {
    format!("{:04} ", number % 10_000)
}

struct Stream {
    sent: u32,
    pieces: u32,
    before: Before,
    yielded: bool,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Answer for Stream {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
        if self.sent == self.pieces {
            return Poll::Ready(Some(Ok(Piece::End(ModelStop::EndTurn))));
        }
        match (self.before, &mut self.pause) {
            (Before::Yield, _) => {
                self.yielded = !self.yielded;
                if self.yielded {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
            (Before::Pause(pause), Some(timer)) => {
                ready!(timer.as_mut().poll(cx));
                let next = timer.deadline() + pause;
                timer.as_mut().reset(next);
            }
            (Before::Nothing | Before::Pause(_), _) => {}
        }
        let piece = piece(self.sent);
        self.sent += 1;
        Poll::Ready(Some(Ok(Piece::Text(piece))))
    }

    fn usage_so_far(&self) -> Usage {
        Usage::UNKNOWN
    }
}

struct Silence {
    sent: u32,
    after: u32,
}

impl Answer for Silence {
    fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
        if self.sent == self.after {
            return Poll::Pending;
        }
        self.sent += 1;
        Poll::Ready(Some(Ok(Piece::Text(piece(self.sent - 1)))))
    }
}
