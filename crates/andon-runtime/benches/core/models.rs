//! Models that cost as little as a model can.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use andon_runtime::{Answer, Model, ModelError, ModelRequest, ModelStop, Piece, Usage};
use tokio::time::{Interval, MissedTickBehavior, Sleep, interval_at, sleep};

type Polled = Poll<Option<Result<Piece, ModelError>>>;

fn word() -> Polled {
    Poll::Ready(Some(Ok(Piece::Text("word ".to_owned()))))
}

fn end() -> Polled {
    Poll::Ready(Some(Ok(Piece::End(ModelStop::EndTurn))))
}

/// What a bench model does.
#[derive(Clone, Copy)]
pub(crate) enum Does {
    /// Streams this many pieces, all ready.
    Flood(u64),
    /// Streams this many pieces, and yields before each.
    Drip(u64),
    /// Is silent forever.
    Silence,
    /// Sends a piece at intervals, each run from its own start.
    Beat(Duration),
}

impl Model for Does {
    fn name(&self) -> &str {
        "bench"
    }

    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        match *self {
            Self::Flood(left) => Box::new(Stream { left, yields: false, yielded: true }),
            Self::Drip(left) => Box::new(Stream { left, yields: true, yielded: false }),
            Self::Silence => Box::new(Silence),
            Self::Beat(every) => {
                let salt =
                    request.run.as_str().bytes().fold(7u64, |salt, byte| salt.wrapping_mul(31) ^ u64::from(byte));
                let offset = Duration::from_micros(salt % u64::try_from(every.as_micros()).unwrap_or(1));
                Box::new(Beat { every, first: Some(Box::pin(sleep(offset))), beat: None })
            }
        }
    }
}

struct Stream {
    left: u64,
    yields: bool,
    yielded: bool,
}

impl Answer for Stream {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Polled {
        if self.left == 0 {
            return end();
        }
        if self.yields && !std::mem::replace(&mut self.yielded, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.yielded = !self.yields;
        self.left -= 1;
        word()
    }

    fn usage_so_far(&self) -> Usage {
        Usage::UNKNOWN
    }
}

struct Silence;

impl Answer for Silence {
    fn poll_piece(&mut self, _: &mut Context<'_>) -> Polled {
        Poll::Pending
    }
}

struct Beat {
    every: Duration,
    first: Option<Pin<Box<Sleep>>>,
    beat: Option<Interval>,
}

impl Answer for Beat {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Polled {
        if let Some(first) = &mut self.first {
            if first.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.first = None;
            let mut beat = interval_at(tokio::time::Instant::now() + self.every, self.every);
            beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
            self.beat = Some(beat);
            return word();
        }
        match &mut self.beat {
            Some(beat) => beat.poll_tick(cx).map(|_| Some(Ok(Piece::Text("word ".to_owned())))),
            None => Poll::Pending,
        }
    }
}
