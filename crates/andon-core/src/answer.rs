//! A model's answer while it streams: pieces come in, [`Span`]s hold them, and the parts of a
//! [`Message`](crate::message::Message) are assembled from them.
//!
//! A span is everything that was streamed since one event, as one text with marks in it. It is append-only, so a reader
//! is a byte position, what is journaled is a suffix (a [`Lump`]), and an answer cut anywhere is assembled by the same
//! code as a whole one.
//!
//! # Invariants
//!
//! 1. `marks` are ordered by `at`, and every byte of `text` stands behind a mark that says whose it is.
//! 2. Assembling the spans of an answer gives back every text byte in them, in order.
//! 3. A call that did not come to its end is not in a cut answer; a thought that did not has no signature.

mod assemble;
mod span;

use crate::message::Signature;
use crate::outcome::ModelStop;
use crate::usage::Usage;

pub use assemble::{AnswerEnd, assemble};
pub use span::{CallHead, Kind, Lump, LumpGap, Mark, Span, Stretch, What};

/// What a model adapter hands out, piece by piece.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Words of the answer.
    Text(String),
    /// Words of a thought.
    Thinking(String),
    /// The thought is whole; some providers sign it.
    ThinkingEnd {
        /// The provider's seal.
        signature: Option<Signature>,
    },
    /// A tool call begins. The first in an answer has index 0, the next 1, and so on.
    Call {
        /// The provider's id for it; empty if it gives none.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// A part of a call's arguments.
    CallInput {
        /// Which call of this answer.
        index: usize,
        /// The next bytes of its JSON.
        json: String,
    },
    /// A call's arguments are whole.
    CallEnd {
        /// Which call of this answer.
        index: usize,
    },
    /// What the provider has reported so far.
    Usage(Box<Usage>),
    /// The model came to its end. The last piece.
    End(ModelStop),
}
