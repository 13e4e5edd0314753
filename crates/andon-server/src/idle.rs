//! A request's body of which nothing comes for too long.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

/// Nothing came for too long.
#[derive(Debug, thiserror::Error)]
#[error("nothing of the body came for too long")]
pub(crate) struct Idle;

/// A body that fails when nothing of it comes for a while.
pub(crate) struct IdleBody {
    body: Body,
    idle: Duration,
    /// Made when there is something to wait for: most bodies come with their head.
    timer: Option<Pin<Box<Sleep>>>,
}

impl IdleBody {
    pub(crate) fn new(body: Body, idle: Duration) -> Self {
        Self { body, idle, timer: None }
    }
}

impl http_body::Body for IdleBody {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.timer = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let idle = self.idle;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + idle)));
        timer.as_mut().poll(cx).map(|()| Some(Err(Idle.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
