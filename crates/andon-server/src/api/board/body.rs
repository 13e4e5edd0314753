//! The board as Server-Sent Events.
//!
//! There is a message every second, so no separate keep-alive is needed.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Bytes;
use bytes::BytesMut;
use futures_core::Stream;
use http_body::Frame;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::feed::BoardFeed;
use crate::feed::{FRAME, FeedSlot, Leave};

/// The board as a response body. It ends when the server shuts down, and within a second after the reader's key or
/// token stops being valid.
pub(crate) struct BoardBody {
    feed: BoardFeed,
    leave: Leave,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    is_over: bool,
    _place: FeedSlot,
}

impl BoardBody {
    pub(crate) fn new(feed: BoardFeed, place: FeedSlot, leave: Leave, closing: CancellationToken) -> Self {
        Self { feed, leave, closing: Box::pin(closing.cancelled_owned()), is_over: false, _place: place }
    }

    /// Everything that can be sent now: up to [`FRAME`] bytes, plus the rest of the last message.
    fn said(&mut self, cx: &mut Context<'_>) -> Option<Bytes> {
        let mut frame = BytesMut::new();
        while frame.len() < FRAME
            && let Poll::Ready(Some(said)) = Pin::new(&mut self.feed).poll_next(cx)
        {
            frame.extend_from_slice(b"data: ");
            frame.extend_from_slice(said.as_bytes());
            frame.extend_from_slice(b"\n\n");
        }
        (!frame.is_empty()).then(|| frame.freeze())
    }
}

impl http_body::Body for BoardBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.is_over || self.leave.is_over() || self.closing.as_mut().poll(cx).is_ready() {
            self.is_over = true;
            return Poll::Ready(None);
        }
        match self.said(cx) {
            Some(said) => Poll::Ready(Some(Ok(Frame::data(said)))),
            None => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }
}
