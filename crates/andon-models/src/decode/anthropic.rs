//! Anthropic's Messages API, as it streams.
//!
//! An answer is blocks, each with an index of its own: begun, filled by deltas, and ended. Blocks of other kinds (the provider's
//! own tools and their results) keep their index and are ignored.
//!
//! The first event has the input's figures. Its figure for the output is meaningless and not used; the real one comes in
//! `message_delta`, which may also correct the input.

use std::collections::{BTreeMap, VecDeque};

use andon_core::usage::Usage;
use andon_runtime::core::message::Signature;
use andon_runtime::{ModelError, ModelStop, Piece};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::event::{DONE, Json, Kind, broke_off, error_text, one_more};
use super::loose::{Count, Text, arguments, object};
use super::reported::{Reported, take};
use super::{Decode, Frame};
use crate::refusal::{is_overflow, is_retryable};
use crate::render::anthropic::{NAME, REDACTED};

/// Reads one answer.
#[derive(Debug, Default)]
pub struct Anthropic {
    /// The open blocks by their index.
    blocks: BTreeMap<u64, Block>,
    /// How many calls have begun.
    calls: usize,
    reported: Reported,
    stop: Option<ModelStop>,
    is_over: bool,
    has_failed: bool,
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

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct MessageStart<'a> {
    message: Option<Start<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Start<'a> {
    id: Text<'a>,
    model: Text<'a>,
    #[serde(deserialize_with = "object")]
    usage: Option<Tokens>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tokens {
    input_tokens: Count,
    cache_read_input_tokens: Count,
    cache_creation_input_tokens: Count,
    output_tokens: Count,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct BlockStart<'a> {
    #[serde(default)]
    index: Count,
    content_block: NewBlock<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct NewBlock<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    text: Text<'a>,
    thinking: Text<'a>,
    signature: Text<'a>,
    data: Text<'a>,
    id: Text<'a>,
    name: Text<'a>,
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct BlockDelta<'a> {
    #[serde(default)]
    index: Count,
    delta: Delta<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Delta<'a> {
    text: Text<'a>,
    thinking: Text<'a>,
    signature: Text<'a>,
    partial_json: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct BlockStop {
    #[serde(default)]
    index: Count,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct MessageDelta<'a> {
    delta: Option<MessageEnd<'a>>,
    #[serde(deserialize_with = "object")]
    usage: Option<Tokens>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct MessageEnd<'a> {
    stop_reason: Text<'a>,
}

impl Decode for Anthropic {
    fn frame(&mut self, frame: Frame<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.is_over || self.has_failed || frame.data.trim().is_empty() || frame.data == DONE {
            return Ok(());
        }
        let taken = self.take(&Json::new(frame.data), pieces);
        self.has_failed = taken.is_err();
        taken
    }

    fn finish(&mut self, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.is_over {
            return Ok(());
        }
        // A stop reason is the model's last word, whether or not the closing event came through.
        if self.has_failed || self.stop.is_none() {
            return Err(broke_off("Anthropic"));
        }
        self.end(pieces);
        Ok(())
    }

    fn usage(&self) -> Usage {
        self.reported.usage(self.is_over)
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

impl Anthropic {
    fn take(&mut self, json: &Json<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        let kind: Kind<'_> = json.read()?;
        match kind.name() {
            "message_start" => self.begin(json.read()?, pieces),
            "content_block_start" => self.begin_block(json.read()?, pieces)?,
            "content_block_delta" => self.fill_block(json.read()?, pieces),
            "content_block_stop" => self.end_block(json.read::<BlockStop>()?.index.0.unwrap_or(0), pieces),
            "message_delta" => self.correct(json.read()?, pieces),
            "message_stop" => self.end(pieces),
            // Proxies send their own errors, under other names or none.
            name if name == "error" || kind.has_error() => {
                let said = json.error();
                let kind = said.kinds.first().map(String::as_str).unwrap_or_default();
                return Err(match said.status.filter(|_| kind.is_empty()) {
                    Some(status) if (400..500).contains(&status) && !is_retryable(status) => said.in_stream(),
                    _ => error(kind, &said.message),
                });
            }
            // `ping`, and whatever comes in future.
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, event: MessageStart<'_>, pieces: &mut VecDeque<Piece>) {
        let message = event.message.unwrap_or_default();
        self.model = message.model.some().or(self.model.take());
        self.id = message.id.some().or(self.id.take());
        let first = message.usage.map(|tokens| Tokens { output_tokens: Count(None), ..tokens });
        self.report(first, pieces);
    }

    fn begin_block(&mut self, event: BlockStart<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        let new = event.content_block;
        let block = match new.kind.as_str() {
            "text" => {
                say(new.text, Piece::Text, pieces);
                Block::Text
            }
            "thinking" => {
                say(new.thinking, Piece::Thinking, pieces);
                Block::Thinking { seal: new.signature.or_empty() }
            }
            "redacted_thinking" => {
                // It comes whole, and nothing of it is shown.
                let signature = new.data.some().map(|data| Signature::new(NAME, format!("{REDACTED}{data}")));
                pieces.push_back(Piece::ThinkingEnd { signature });
                Block::Ignored
            }
            "tool_use" => {
                let index = one_more(&mut self.calls)?;
                pieces.push_back(Piece::Call { id: new.id.or_empty(), name: new.name.or_empty() });
                let whole = Some(arguments(new.input)).filter(|input| !matches!(input.as_str(), "{}" | ""));
                Block::Call { index, whole }
            }
            _ => Block::Ignored,
        };
        self.blocks.insert(event.index.0.unwrap_or(0), block);
        Ok(())
    }

    fn fill_block(&mut self, event: BlockDelta<'_>, pieces: &mut VecDeque<Piece>) {
        let Some(block) = self.blocks.get_mut(&event.index.0.unwrap_or(0)) else { return };
        match block {
            Block::Text => say(event.delta.text, Piece::Text, pieces),
            Block::Thinking { seal } => {
                say(event.delta.thinking, Piece::Thinking, pieces);
                seal.push_str(event.delta.signature.as_str());
            }
            Block::Call { index, whole } => {
                let index = *index;
                let json = arguments(event.delta.partial_json);
                if !json.is_empty() {
                    *whole = None;
                    pieces.push_back(Piece::CallInput { index, json });
                }
            }
            Block::Ignored => {}
        }
    }

    fn end_block(&mut self, index: u64, pieces: &mut VecDeque<Piece>) {
        let Some(block) = self.blocks.remove(&index) else { return };
        match block {
            Block::Thinking { seal } => {
                let signature = (!seal.is_empty()).then(|| Signature::new(NAME, seal));
                pieces.push_back(Piece::ThinkingEnd { signature });
            }
            Block::Call { index, whole } => {
                pieces.extend(whole.map(|json| Piece::CallInput { index, json }));
                pieces.push_back(Piece::CallEnd { index });
            }
            Block::Text | Block::Ignored => {}
        }
    }

    fn correct(&mut self, event: MessageDelta<'_>, pieces: &mut VecDeque<Piece>) {
        let reason = event.delta.and_then(|delta| delta.stop_reason.some());
        self.stop = reason.map(|reason| stop(&reason)).or(self.stop);
        self.report(event.usage, pieces);
    }

    fn report(&mut self, tokens: Option<Tokens>, pieces: &mut VecDeque<Piece>) {
        let Some(tokens) = tokens else { return };
        let before = self.reported;
        take(&mut self.reported.cache_read, tokens.cache_read_input_tokens.0);
        take(&mut self.reported.cache_write, tokens.cache_creation_input_tokens.0);
        self.reported.take_uncached(tokens.input_tokens.0);
        take(&mut self.reported.output, tokens.output_tokens.0);
        if self.reported != before && self.reported.is_known() {
            pieces.push_back(Piece::Usage(Box::new(self.usage())));
        }
    }

    fn end(&mut self, pieces: &mut VecDeque<Piece>) {
        self.is_over = true;
        if self.reported.is_known() {
            pieces.push_back(Piece::Usage(Box::new(self.usage())));
        }
        let unsaid = if self.calls > 0 { ModelStop::ToolUse } else { ModelStop::EndTurn };
        pieces.push_back(Piece::End(self.stop.unwrap_or(unsaid)));
    }
}

fn say(words: Text<'_>, piece: impl FnOnce(String) -> Piece, pieces: &mut VecDeque<Piece>) {
    pieces.extend(words.some().map(piece));
}

fn stop(reason: &str) -> ModelStop {
    match reason {
        "tool_use" => ModelStop::ToolUse,
        // The context is full: the answer ends there, as it does at its own limit.
        "max_tokens" | "model_context_window_exceeded" => ModelStop::MaxTokens,
        "stop_sequence" => ModelStop::StopSequence,
        "refusal" => ModelStop::Refused,
        // With `pause_turn` the provider's own tools pause: nothing more is coming.
        _ => ModelStop::EndTurn,
    }
}

/// An error in Anthropic's words, in the stream or in a refused request's body.
pub fn error(kind: &str, message: &str) -> ModelError {
    let text = error_text("Anthropic", kind, message);
    match kind {
        // Their messages may mention lengths, too.
        "rate_limit_error" | "overloaded_error" => ModelError::retryable(text),
        _ if is_overflow(message) => ModelError::context_overflow(text),
        "invalid_request_error" | "authentication_error" | "permission_error" | "not_found_error" | "billing_error" => {
            ModelError::fatal(text)
        }
        "request_too_large" => ModelError::context_overflow(text),
        // `api_error`, `timeout_error`, and what is not known yet.
        _ => ModelError::retryable(text),
    }
}
