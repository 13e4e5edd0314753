//! A model that answers from a script. An answer that has no end in the script is silent when its pieces are used up.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use andon_runtime::{Answer, Model, ModelError, ModelRequest, ModelStop, Piece, Signature, Usage};
use parking_lot::Mutex;

/// Gives its answers in turn.
pub(crate) struct Script(Mutex<Unused>);

struct Unused {
    answers: VecDeque<VecDeque<Piece>>,
    /// The number of calls so far.
    calls: usize,
}

impl Script {
    pub(crate) fn new(answers: impl IntoIterator<Item = Vec<Piece>>) -> Self {
        Self(Mutex::new(Unused { answers: answers.into_iter().map(VecDeque::from).collect(), calls: 0 }))
    }
}

impl Model for Script {
    fn name(&self) -> &str {
        "script"
    }

    fn call(&self, _: ModelRequest) -> Box<dyn Answer> {
        let mut unused = self.0.lock();
        unused.calls += 1;
        let request_id = format!("req_{}", unused.calls);
        Box::new(Scripted { pieces: unused.answers.pop_front().unwrap_or_default(), request_id })
    }
}

struct Scripted {
    pieces: VecDeque<Piece>,
    request_id: String,
}

impl Answer for Scripted {
    fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Piece, ModelError>>> {
        self.pieces.pop_front().map_or(Poll::Pending, |piece| Poll::Ready(Some(Ok(piece))))
    }

    fn model(&self) -> Option<&str> {
        Some("script-1")
    }

    fn request_id(&self) -> Option<&str> {
        Some(&self.request_id)
    }
}

/// An answer that finishes.
pub(crate) fn whole(text: &str) -> Vec<Piece> {
    let usage = Box::new(Usage::reported(7, 5));
    vec![Piece::Text(text.to_owned()), Piece::Usage(usage), Piece::End(ModelStop::EndTurn)]
}

/// An answer that stays unfinished.
pub(crate) fn unfinished(texts: [&str; 2]) -> Vec<Piece> {
    texts.map(|text| Piece::Text(text.to_owned())).into()
}

/// An answer that thinks, says something and calls a tool.
pub(crate) fn call(text: &str, id: &str, tool: &str) -> Vec<Piece> {
    vec![
        Piece::Thinking("Hm.".to_owned()),
        Piece::ThinkingEnd { signature: Some(Signature::new("anthropic", "c2VhbA==")) },
        Piece::Text(text.to_owned()),
        Piece::Call { id: id.to_owned(), name: tool.to_owned() },
        Piece::CallInput { index: 0, json: "{}".to_owned() },
        Piece::CallEnd { index: 0 },
        Piece::Usage(Box::new(Usage::reported(9, 4))),
        Piece::End(ModelStop::ToolUse),
    ]
}
