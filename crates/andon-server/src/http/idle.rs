//! Time limits for request bodies.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::Body as _;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::http::slots::Guest;
use crate::time::after;

/// How long a body may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// How long it may pause.
    pub(crate) idle: Duration,
    /// How long it may take in total, even if it keeps arriving slowly.
    pub(crate) total: Duration,
}

/// The body took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooSlow {
    #[error("no part of the body arrived for too long")]
    Idle,
    #[error("the body took too long")]
    Total,
}

impl Patience {
    /// Limits both times to this one.
    pub(crate) fn at_most(self, most: Duration) -> Self {
        Self { idle: self.idle.min(most), total: self.total.min(most) }
    }
}

/// A body that fails if it takes too long.
pub(crate) struct TimedBody {
    body: Body,
    patience: Patience,
    /// When the body must be complete. Set when it is first waited for.
    end: Option<Instant>,
    /// Created only when there is something to wait for: most bodies arrive together with their headers.
    timer: Option<Pin<Box<Sleep>>>,
    /// The sender of the body, if it comes over a reserved slot. Notified when the body is complete.
    guest: Option<Arc<Guest>>,
}

impl TimedBody {
    pub(crate) fn new(body: Body, patience: Patience, guest: Option<Arc<Guest>>) -> Self {
        let timed = Self { body, patience, end: None, timer: None, guest };
        timed.tell_if_complete();
        timed
    }

    fn tell_if_complete(&self) {
        if let Some(guest) = self.guest.as_ref().filter(|_| self.body.is_end_stream()) {
            guest.has_asked();
        }
    }
}

impl http_body::Body for TimedBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.timer = None;
            match &frame {
                Some(_) => self.tell_if_complete(),
                None => self.guest.iter().for_each(|guest| guest.has_asked()),
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let Patience { idle, total } = self.patience;
        let now = Instant::now();
        let end = *self.end.get_or_insert(after(now, total));
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end.min(after(now, idle)))));
        timer.as_mut().poll(cx).map(|()| {
            let why = if Instant::now() >= end { TooSlow::Total } else { TooSlow::Idle };
            Some(Err(why.into()))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
