//! A model's answer while it streams: pieces come in, [`Span`]s hold them, and the parts of a
//! [`Message`](crate::message::Message) are assembled from them.
//!
//! A span is everything that was streamed since one event, as one text with marks in it. It is append-only, so a reader
//! is a byte position, what is journaled is a suffix (a [`Lump`]), and an answer cut anywhere is assembled by the same
//! code as a whole one.
//!
//! # Invariants
//!
//! 1. The marks of a span are sorted by position, and every byte has a mark before it that says what it belongs to.
//! 2. Assembling the spans of an answer gives back every text byte in them, in order.
//! 3. A cut answer contains no unfinished call, and an unfinished thought in it has no signature.

mod answerer;
mod assemble;
mod span;

use crate::ending::ModelStop;
use crate::message::Signature;
use crate::usage::Usage;

pub use answerer::Answerer;
pub use assemble::{AnswerEnd, assemble, written};
pub use span::{CallHead, Kind, Lump, LumpGap, Mark, MarkKind, Span, Stretch};

/// A piece of a model's answer, as the model's adapter delivers it.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Piece {
    /// Text of the answer.
    Text(String),
    /// Text of a thought.
    Thinking(String),
    /// The thought is complete. Some providers sign it.
    ThinkingEnd {
        /// The provider's signature.
        signature: Option<Signature>,
    },
    /// A tool call begins. The first in an answer has index 0, the next 1, and so on.
    Call {
        /// The provider's id for it; empty if it gives none.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// The next bytes of a call's arguments.
    CallInput {
        /// The call's index in this answer.
        index: usize,
        /// A fragment of its JSON.
        json: String,
    },
    /// A call's arguments are complete.
    CallEnd {
        /// The call's index in this answer.
        index: usize,
    },
    /// The usage that the provider has reported so far.
    Usage(Box<Usage>),
    /// The model finished. Always the last piece.
    End(ModelStop),
}

impl From<Usage> for Piece {
    fn from(usage: Usage) -> Self {
        Self::Usage(Box::new(usage))
    }
}

impl From<ModelStop> for Piece {
    fn from(stop: ModelStop) -> Self {
        Self::End(stop)
    }
}
