//! A model that asks for tools, turn after turn, and costs as little as a model can.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use andon_runtime::core::message::Role;
use andon_runtime::{Answer, Model, ModelError, ModelRequest, ModelStop, Piece, Usage};

/// Asks for a number of calls of `tool` in each of its first turns, and then ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) turns: usize,
    pub(crate) calls: usize,
}

impl Model for Caller {
    fn name(&self) -> &str {
        "caller"
    }

    fn call(&self, request: ModelRequest) -> Box<dyn Answer> {
        let turn = request.history.iter().filter(|message| message.role == Role::Assistant).count();
        let mut pieces = VecDeque::new();
        if turn < self.turns {
            for index in 0..self.calls {
                pieces.push_back(Piece::Call { id: format!("t{turn}c{index}"), name: "tool".to_owned() });
                pieces.push_back(Piece::CallEnd { index });
            }
            pieces.push_back(Piece::End(ModelStop::ToolUse));
        } else {
            pieces.push_back(Piece::End(ModelStop::EndTurn));
        }
        Box::new(Pieces(pieces))
    }
}

struct Pieces(VecDeque<Piece>);

impl Answer for Pieces {
    fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }

    fn usage_so_far(&self) -> Usage {
        Usage::UNKNOWN
    }
}
