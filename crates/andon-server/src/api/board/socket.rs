//! The board over a WebSocket: each outgoing text message is one message of the board. Clients send nothing.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::extract::ws::close_code;
use futures_core::Stream;

use super::feed::BoardFeed;
use crate::feed::FeedSlot;
use crate::feed::talk::{SocketEnd, SocketHandler};

/// One reader of the board.
pub(super) struct BoardTalk {
    pub(super) feed: BoardFeed,
    pub(super) _slot: FeedSlot,
}

impl SocketHandler for BoardTalk {
    fn on_text(&mut self, _: &str) -> Result<(), SocketEnd> {
        Err(self.reject_binary())
    }

    fn reject_binary(&self) -> SocketEnd {
        let words = "the board accepts no messages: to cancel runs, use POST /v1/runs/{id}/cancel or /v1/cancel";
        SocketEnd::because(close_code::POLICY, words)
    }

    fn poll_say(&mut self, cx: &mut Context<'_>) -> Poll<Result<String, SocketEnd>> {
        // The board never ends.
        Pin::new(&mut self.feed).poll_next(cx).map(|said| said.ok_or(SocketEnd::Gone))
    }
}
