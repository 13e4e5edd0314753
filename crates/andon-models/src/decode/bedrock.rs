//! Amazon Bedrock's ConverseStream, as it streams: events are plain values, so that it can be tested without the SDK.
//!
//! A block of text or of thought is not announced: its first delta begins it. The figures come in one event after the model's
//! stop, so the answer ends there, or with the stream if they never come.

use std::collections::{BTreeMap, VecDeque};

use andon_core::usage::Usage;
use andon_runtime::core::message::Signature;
use andon_runtime::{ModelError, ModelStop, Piece};

use super::event::{Finish, error_text, one_more};
use super::reported::{Reported, take};
use crate::refusal::is_overflow;
use crate::render::bedrock::{NAME, REDACTED};

/// One event of the stream, with the fields that matter here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A call begins as this block.
    Call {
        /// The block's index.
        block: i32,
        /// The call's id.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// More of a block.
    Delta {
        /// The block's index.
        block: i32,
        /// The new part.
        delta: Delta,
    },
    /// A block is whole.
    BlockStop {
        /// Its index.
        block: i32,
    },
    /// The model stopped, for this reason.
    Stop(String),
    /// What was used.
    Used(Tokens),
}

/// More of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// Text.
    Text(String),
    /// Text of a thought.
    Thinking(String),
    /// A part of a thought's seal.
    Signature(String),
    /// A hidden thought, as base64.
    Redacted(String),
    /// A part of a call's arguments.
    Input(String),
}

/// What was used, as Bedrock counts: cached tokens are counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Tokens read.
    pub input: Option<u64>,
    /// Tokens written.
    pub output: Option<u64>,
    /// Tokens read from the cache.
    pub cache_read: Option<u64>,
    /// Tokens written to the cache.
    pub cache_write: Option<u64>,
}

/// Reads one answer.
#[derive(Debug, Default)]
pub struct Bedrock {
    /// The open blocks by their index.
    blocks: BTreeMap<i32, Block>,
    calls: usize,
    reported: Reported,
    finish: Option<Finish>,
    is_over: bool,
    has_failed: bool,
}

#[derive(Debug)]
enum Block {
    Thinking { seal: String },
    Call(usize),
}

impl Bedrock {
    /// Takes the next event. Events after the end or after an error are ignored.
    pub fn event(&mut self, event: Event, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.is_over || self.has_failed {
            return Ok(());
        }
        let taken = self.take(event, pieces);
        self.has_failed = taken.is_err();
        taken
    }

    fn take(&mut self, event: Event, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        match event {
            Event::Call { block, id, name } => {
                let index = one_more(&mut self.calls)?;
                pieces.push_back(Piece::Call { id, name });
                self.blocks.insert(block, Block::Call(index));
            }
            Event::Delta { block, delta } => self.delta(block, delta, pieces),
            Event::BlockStop { block } => self.end_block(block, pieces),
            Event::Stop(reason) => self.finish = Some(finish(reason)),
            Event::Used(tokens) => {
                take(&mut self.reported.cache_read, tokens.cache_read);
                take(&mut self.reported.cache_write, tokens.cache_write);
                self.reported.take_uncached(tokens.input);
                take(&mut self.reported.output, tokens.output);
                return if self.finish.is_some() { self.finish(pieces) } else { Ok(()) };
            }
        }
        Ok(())
    }

    /// The stream has ended. An error if the answer has not: it broke off.
    pub fn finish(&mut self, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.is_over {
            return Ok(());
        }
        let stop = Finish::stop(self.finish.take().filter(|_| !self.has_failed), "Amazon Bedrock")?;
        self.is_over = true;
        if self.reported.is_known() {
            pieces.push_back(Piece::Usage(Box::new(self.usage())));
        }
        pieces.push_back(Piece::End(stop));
        Ok(())
    }

    /// Whether the answer is over.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// What has been reported so far.
    pub fn usage(&self) -> Usage {
        self.reported.usage(self.is_over)
    }

    fn delta(&mut self, index: i32, delta: Delta, pieces: &mut VecDeque<Piece>) {
        match delta {
            Delta::Text(text) if !text.is_empty() => pieces.push_back(Piece::Text(text)),
            Delta::Thinking(text) => {
                self.thought(index);
                pieces.extend((!text.is_empty()).then_some(Piece::Thinking(text)));
            }
            Delta::Signature(more) => {
                if let Some(seal) = self.thought(index) {
                    seal.push_str(&more);
                }
            }
            // It arrives in one piece.
            Delta::Redacted(base64) => {
                if let Some(seal) = self.thought(index) {
                    *seal = format!("{REDACTED}{base64}");
                }
            }
            Delta::Input(json) => {
                if let Some(Block::Call(call)) = self.blocks.get(&index).filter(|_| !json.is_empty()) {
                    pieces.push_back(Piece::CallInput { index: *call, json });
                }
            }
            Delta::Text(_) => {}
        }
    }

    /// The seal of this block's thought, which begins now if it had not; `None` if the block is something else.
    fn thought(&mut self, index: i32) -> Option<&mut String> {
        match self.blocks.entry(index).or_insert_with(|| Block::Thinking { seal: String::new() }) {
            Block::Thinking { seal } => Some(seal),
            Block::Call(_) => None,
        }
    }

    fn end_block(&mut self, index: i32, pieces: &mut VecDeque<Piece>) {
        let Some(block) = self.blocks.remove(&index) else { return };
        pieces.push_back(match block {
            Block::Thinking { seal } => {
                Piece::ThinkingEnd { signature: (!seal.is_empty()).then(|| Signature::new(NAME, seal)) }
            }
            Block::Call(index) => Piece::CallEnd { index },
        });
    }
}

fn finish(reason: String) -> Finish {
    Finish::Stopped(match reason.as_str() {
        "tool_use" => ModelStop::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => ModelStop::MaxTokens,
        "stop_sequence" => ModelStop::StopSequence,
        "guardrail_intervened" | "content_filtered" => ModelStop::Refused,
        "malformed_model_output" | "malformed_tool_use" => return Finish::Failed(reason),
        _ => ModelStop::EndTurn,
    })
}

/// An error in Bedrock's words.
pub fn error(code: &str, message: &str) -> ModelError {
    let text = error_text("Amazon Bedrock", code, message);
    let is_too_long = is_overflow(message) || message.contains("too long") || message.contains("maximum context");
    match code {
        "ValidationException" if is_too_long => ModelError::context_overflow(text),
        "ValidationException"
        | "AccessDeniedException"
        | "ResourceNotFoundException"
        | "UnrecognizedClientException"
        | "InvalidSignatureException"
        | "ExpiredTokenException"
        | "MissingAuthenticationTokenException" => ModelError::fatal(text),
        // Throttling, a model that is not ready, a broken stream, and unknown errors.
        _ => ModelError::retryable(text),
    }
}
