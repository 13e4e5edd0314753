//! Anthropic's Messages API, as it streams.
//!
//! An answer is blocks, each with an index of its own: begun, filled by deltas, and ended. Blocks of kinds that are not
//! ours (the provider's own tools and their results) keep their index and give nothing.
//!
//! The first event has the input's figures. Its figure for the output is a few tokens that say nothing and is not used;
//! the one that counts comes in `message_delta`, which may correct the input too.

use std::collections::VecDeque;

use andon::core::message::Signature;
use andon::{ModelError, ModelStop, Piece};
use andon_core::usage::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::event::{DONE, broke_off, kind, read, told};
use super::seen::{Seen, take};
use super::{Decode, Frame};
use crate::render::anthropic::{NAME, REDACTED};

/// Reads one answer.
#[derive(Debug, Default)]
pub struct Anthropic {
    /// The open blocks by their index.
    blocks: Vec<(u64, Block)>,
    /// How many calls have begun.
    calls: usize,
    seen: Seen,
    stop: Option<ModelStop>,
    is_over: bool,
    model: Option<String>,
    id: Option<String>,
}

#[derive(Debug)]
enum Block {
    Text,
    Thinking {
        seal: String,
    },
    Call {
        index: usize,
        /// Arguments that came with the beginning, for a server that streams none.
        whole: Option<String>,
    },
    Ignored,
}

#[derive(Deserialize)]
struct MessageStart {
    message: Start,
}

#[derive(Deserialize)]
struct Start {
    id: Option<String>,
    model: Option<String>,
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Tokens {
    input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct BlockStart<'a> {
    #[serde(default)]
    index: u64,
    #[serde(borrow)]
    content_block: NewBlock<'a>,
}

#[derive(Deserialize)]
struct NewBlock<'a> {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    data: Option<String>,
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct BlockDelta {
    #[serde(default)]
    index: u64,
    delta: Delta,
}

#[derive(Deserialize)]
struct Delta {
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    partial_json: Option<String>,
}

#[derive(Deserialize)]
struct BlockStop {
    #[serde(default)]
    index: u64,
}

#[derive(Deserialize)]
struct MessageDelta {
    delta: Option<MessageEnd>,
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct MessageEnd {
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct ErrorEvent {
    error: Problem,
}

#[derive(Deserialize)]
struct Problem {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    message: String,
}

impl Decode for Anthropic {
    fn frame(&mut self, frame: Frame<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.is_over || frame.data.trim().is_empty() || frame.data == DONE {
            return Ok(());
        }
        match &*kind(frame.data)? {
            "message_start" => self.begin(read(frame.data)?, pieces),
            "content_block_start" => self.begin_block(read(frame.data)?, pieces),
            "content_block_delta" => self.fill_block(read(frame.data)?, pieces),
            "content_block_stop" => self.end_block(read::<BlockStop>(frame.data)?.index, pieces),
            "message_delta" => self.correct(read(frame.data)?, pieces),
            "message_stop" => self.end(pieces),
            "error" => {
                self.is_over = true;
                let problem = read::<ErrorEvent>(frame.data)?.error;
                return Err(error(&problem.kind, &problem.message));
            }
            // `ping`, and whatever will be invented.
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.is_over {
            return Ok(());
        }
        // A stop reason is the model's last word, whether or not the closing event came through.
        let Some(_) = self.stop else { return Err(broke_off("Anthropic")) };
        self.end(pieces);
        Ok(())
    }

    fn usage(&self) -> Usage {
        self.seen.usage(self.is_over)
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

impl Anthropic {
    fn begin(&mut self, event: MessageStart, pieces: &mut VecDeque<Piece>) {
        self.model = event.message.model.or(self.model.take());
        self.id = event.message.id.or(self.id.take());
        let first = event.message.usage.map(|tokens| Tokens { output_tokens: None, ..tokens });
        self.report(first, pieces);
    }

    fn begin_block(&mut self, event: BlockStart<'_>, pieces: &mut VecDeque<Piece>) {
        let new = event.content_block;
        let block = match new.kind.as_str() {
            "text" => {
                say(new.text, Piece::Text, pieces);
                Block::Text
            }
            "thinking" => {
                say(new.thinking, Piece::Thinking, pieces);
                Block::Thinking { seal: new.signature.unwrap_or_default() }
            }
            "redacted_thinking" => {
                // It comes whole, and nothing of it is shown.
                let sealed = new.data.filter(|data| !data.is_empty());
                let signature = sealed.map(|data| Signature::new(NAME, format!("{REDACTED}{data}")));
                pieces.push_back(Piece::ThinkingEnd { signature });
                Block::Ignored
            }
            "tool_use" => {
                pieces.push_back(Piece::Call { id: new.id.unwrap_or_default(), name: new.name.unwrap_or_default() });
                let whole = new.input.map(RawValue::get).filter(|input| !matches!(*input, "{}" | "null" | "\"\""));
                self.calls += 1;
                Block::Call { index: self.calls - 1, whole: whole.map(str::to_owned) }
            }
            _ => Block::Ignored,
        };
        self.blocks.retain(|(index, _)| *index != event.index);
        self.blocks.push((event.index, block));
    }

    fn fill_block(&mut self, event: BlockDelta, pieces: &mut VecDeque<Piece>) {
        let open = self.blocks.iter_mut().find(|(index, _)| *index == event.index);
        let Some((_, block)) = open else { return };
        match block {
            Block::Text => say(event.delta.text, Piece::Text, pieces),
            Block::Thinking { seal } => {
                say(event.delta.thinking, Piece::Thinking, pieces);
                seal.push_str(event.delta.signature.as_deref().unwrap_or_default());
            }
            Block::Call { index, whole } => {
                let index = *index;
                if event.delta.partial_json.as_ref().is_some_and(|json| !json.is_empty()) {
                    *whole = None;
                }
                say(event.delta.partial_json, |json| Piece::CallInput { index, json }, pieces);
            }
            Block::Ignored => {}
        }
    }

    fn end_block(&mut self, index: u64, pieces: &mut VecDeque<Piece>) {
        let Some(place) = self.blocks.iter().position(|(open, _)| *open == index) else { return };
        match self.blocks.remove(place).1 {
            Block::Thinking { seal } => {
                let signature = (!seal.is_empty()).then(|| Signature::new(NAME, seal));
                pieces.push_back(Piece::ThinkingEnd { signature });
            }
            Block::Call { index, whole } => {
                say(whole, |json| Piece::CallInput { index, json }, pieces);
                pieces.push_back(Piece::CallEnd { index });
            }
            Block::Text | Block::Ignored => {}
        }
    }

    fn correct(&mut self, event: MessageDelta, pieces: &mut VecDeque<Piece>) {
        let reason = event.delta.and_then(|delta| delta.stop_reason);
        self.stop = reason.map(|reason| stop(&reason)).or(self.stop);
        self.report(event.usage, pieces);
    }

    fn report(&mut self, tokens: Option<Tokens>, pieces: &mut VecDeque<Piece>) {
        let Some(tokens) = tokens else { return };
        let before = self.seen;
        take(&mut self.seen.input, tokens.input_tokens);
        take(&mut self.seen.cache_read, tokens.cache_read_input_tokens);
        take(&mut self.seen.cache_write, tokens.cache_creation_input_tokens);
        take(&mut self.seen.output, tokens.output_tokens);
        if self.seen != before {
            pieces.push_back(Piece::Usage(Box::new(self.usage())));
        }
    }

    fn end(&mut self, pieces: &mut VecDeque<Piece>) {
        self.is_over = true;
        if self.seen != Seen::default() {
            pieces.push_back(Piece::Usage(Box::new(self.usage())));
        }
        let unsaid = if self.calls > 0 { ModelStop::ToolUse } else { ModelStop::EndTurn };
        pieces.push_back(Piece::End(self.stop.unwrap_or(unsaid)));
    }
}

fn say(words: Option<String>, piece: impl FnOnce(String) -> Piece, pieces: &mut VecDeque<Piece>) {
    pieces.extend(words.filter(|words| !words.is_empty()).map(piece));
}

fn stop(reason: &str) -> ModelStop {
    match reason {
        "tool_use" => ModelStop::ToolUse,
        // The context is full: the answer ends where it ran out, as with a limit of its own.
        "max_tokens" | "model_context_window_exceeded" => ModelStop::MaxTokens,
        "stop_sequence" => ModelStop::StopSequence,
        "refusal" => ModelStop::Refused,
        // `pause_turn` is the provider's own tools taking a rest: all that there is has come.
        _ => ModelStop::EndTurn,
    }
}

/// An error in Anthropic's words, in the stream or in a refused request's body.
pub fn error(kind: &str, message: &str) -> ModelError {
    let told = told("Anthropic", kind, message);
    match kind {
        "invalid_request_error" if message.contains("prompt is too long") => ModelError::context_overflow(told),
        "invalid_request_error" | "authentication_error" | "permission_error" | "not_found_error" | "billing_error" => {
            ModelError::fatal(told)
        }
        "request_too_large" => ModelError::context_overflow(told),
        // `overloaded_error`, `rate_limit_error`, `api_error`, `timeout_error`, and what is not known yet.
        _ => ModelError::retryable(told),
    }
}
