//! The board as Server-Sent Events.
//!
//! There is a message every second, so no separate keep-alive is needed.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::Poll;

use axum::body::Body;
use bytes::BytesMut;
use futures_core::Stream;
use futures_util::stream::poll_fn;
use tokio_util::sync::CancellationToken;

use super::feed::BoardFeed;
use crate::feed::{FRAME, FeedSlot, ReadPermission};

/// The board as a response body. It ends when the server shuts down, and within a second after the reader's key or
/// token stops being valid.
pub(super) fn of(mut feed: BoardFeed, slot: FeedSlot, permission: ReadPermission, closing: CancellationToken) -> Body {
    let mut closing = Box::pin(closing.cancelled_owned());
    Body::from_stream(poll_fn(move |cx| {
        // Released with the body.
        let _held = &slot;
        if permission.is_over() || closing.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        // Everything that can be sent now: up to [`FRAME`] bytes, plus the rest of the last message.
        let mut frame = BytesMut::new();
        while frame.len() < FRAME
            && let Poll::Ready(Some(said)) = Pin::new(&mut feed).poll_next(cx)
        {
            frame.extend_from_slice(b"data: ");
            frame.extend_from_slice(said.as_bytes());
            frame.extend_from_slice(b"\n\n");
        }
        if frame.is_empty() { Poll::Pending } else { Poll::Ready(Some(Ok::<_, Infallible>(frame))) }
    }))
}
