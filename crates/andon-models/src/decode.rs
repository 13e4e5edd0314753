//! From a provider's stream to pieces, without I/O and without a clock: what can be tested byte by byte.
//!
//! # Invariants
//!
//! 1. What a decoder knows depends only on the frames that it was given, never on how their bytes were cut into packets.
//! 2. [`Decode::usage`] is right after every frame: the latest figure that is not null, field by field, and unknown where
//!    the provider has said nothing yet.
//! 3. [`Piece::End`] comes once, last, and only if the provider said that the answer is over.
//! 4. After an error no frame is read, and the end of the stream is not the end of an answer.
//! 5. The memory for one frame is bounded by its size: a list has a maximum length, and an answer has a maximum number of calls.

pub mod anthropic;
pub mod bedrock;
pub(crate) mod event;
pub mod gemini;
mod loose;
pub mod ollama;
pub mod openai_chat;
pub mod openai_responses;
pub(crate) mod repair;
mod reported;

use std::collections::VecDeque;

use andon_core::usage::Usage;
use andon_runtime::{ModelError, Piece};

pub(crate) use loose::MOST;

/// One message of a provider's stream: an SSE event, or a line of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The SSE event's name; empty if it has none.
    pub event: &'a str,
    /// Its data.
    pub data: &'a str,
}

/// Turns a provider's frames into pieces.
pub trait Decode: Send + 'static {
    /// Takes the next frame. Frames after the end or after an error are ignored.
    fn frame(&mut self, frame: Frame<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError>;

    /// The stream has ended. An error if the answer has not: it broke off.
    fn finish(&mut self, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError>;

    /// The connection was lost. That is the same as [`finish`](Self::finish), unless only a clean end says that the answer is
    /// over.
    fn lost(&mut self, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        self.finish(pieces)
    }

    /// What the provider has reported so far.
    fn usage(&self) -> Usage;

    /// The exact model that answers, as the provider names it.
    fn model(&self) -> Option<&str> {
        None
    }

    /// The provider's id for this answer, by which it can be looked up.
    fn id(&self) -> Option<&str> {
        None
    }
}
