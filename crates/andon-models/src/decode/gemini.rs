//! Google's Gemini API, as it streams: each frame is a response with the new parts.
//!
//! A thought is text that is marked as one. Its seal comes on the part after it. A call comes whole, mostly without an id, and
//! several may come at once. Usage comes with every frame, cumulative, and may be corrected downwards; Vertex sends it empty
//! until the end. The answer ends when the stream ends: older models give a finish reason in every frame, so after a lost
//! connection nobody knows whether the answer was whole.

use std::collections::VecDeque;

use andon_core::usage::Usage;
use andon_runtime::core::message::Signature;
use andon_runtime::{ModelError, ModelStop, Piece};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::event::{DONE, Finish, Json, MAX_CALLS, broke_off, error_text, one_more};
use super::loose::{Count, Few, Text, arguments, object};
use super::reported::{Reported, take, take_input};
use super::{Decode, Frame};
use crate::refusal::{is_overflow, is_retryable};
use crate::render::gemini::NAME;

/// Reads one answer.
#[derive(Debug, Default)]
pub struct Gemini {
    /// Whether a thought is open.
    is_thinking: bool,
    calls: usize,
    tokens: Tokens,
    finish: Option<Finish>,
    /// Whether a frame without a finish reason has come: then the frame that gives one is the last.
    finishes_once: bool,
    is_over: bool,
    has_failed: bool,
    model: Option<String>,
    id: Option<String>,
}

/// The latest of each count, as the provider names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Tokens {
    prompt_token_count: Count,
    cached_content_token_count: Count,
    tool_use_prompt_token_count: Count,
    candidates_token_count: Count,
    thoughts_token_count: Count,
}

/// We ask for one answer; a server may send more.
const CANDIDATES: usize = 16;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct Chunk<'a> {
    candidates: Few<Candidate<'a>, CANDIDATES>,
    prompt_feedback: Option<Feedback<'a>>,
    #[serde(deserialize_with = "object")]
    usage_metadata: Option<Tokens>,
    model_version: Text<'a>,
    response_id: Text<'a>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct Candidate<'a> {
    index: Count,
    content: Option<Content<'a>>,
    finish_reason: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Content<'a> {
    parts: Few<Part<'a>, MAX_CALLS>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct Part<'a> {
    text: Text<'a>,
    thought: Option<bool>,
    thought_signature: Text<'a>,
    function_call: Option<FunctionCall<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct FunctionCall<'a> {
    id: Text<'a>,
    name: Text<'a>,
    args: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct Feedback<'a> {
    block_reason: Text<'a>,
}

impl Decode for Gemini {
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
        let stop = match Finish::stop(self.finish.take().filter(|_| !self.has_failed), "Gemini")? {
            ModelStop::EndTurn if self.calls > 0 => ModelStop::ToolUse,
            stop => stop,
        };
        self.is_over = true;
        self.end_thought(None, pieces);
        if self.tokens.reported().is_known() {
            pieces.push_back(Piece::Usage(Box::new(self.usage())));
        }
        pieces.push_back(Piece::End(stop));
        Ok(())
    }

    fn lost(&mut self, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.is_over || self.finishes_once { self.finish(pieces) } else { Err(broke_off("Gemini")) }
    }

    fn usage(&self) -> Usage {
        self.tokens.reported().usage(self.is_over)
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

impl Gemini {
    fn take(&mut self, json: &Json<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        let chunk: Chunk<'_> = json.read()?;
        if chunk.error.is_some() {
            let said = json.error();
            let status = said.kinds.first().map(String::as_str).unwrap_or_default();
            return Err(error(status, said.status, &said.message));
        }
        self.model = chunk.model_version.some().or(self.model.take());
        self.id = chunk.response_id.some().or(self.id.take());
        // We asked for one answer.
        let first = chunk.candidates.0.into_iter().find(|candidate| candidate.index.0.unwrap_or(0) == 0);
        if let Some(candidate) = first {
            for part in candidate.content.unwrap_or_default().parts.0 {
                self.part(part, pieces)?;
            }
            let reason = candidate.finish_reason.some();
            self.finishes_once |= reason.is_none();
            self.finish = reason.map(finish).or(self.finish.take());
        }
        if chunk.prompt_feedback.is_some_and(|feedback| !feedback.block_reason.is_empty()) {
            // Nothing follows it.
            (self.finish, self.finishes_once) = (Some(Finish::Stopped(ModelStop::Refused)), true);
        }
        self.report(chunk.usage_metadata, pieces);
        Ok(())
    }

    fn part(&mut self, part: Part<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        let (words, seal) = (part.text.some(), part.thought_signature.some());
        let is_thought = part.thought == Some(true);
        if is_thought {
            self.is_thinking |= words.is_some();
            pieces.extend(words.map(Piece::Thinking));
            if seal.is_some() || part.function_call.is_some() {
                self.end_thought(seal, pieces);
            }
        } else {
            if words.is_some() || part.function_call.is_some() || seal.is_some() {
                self.end_thought(seal, pieces);
            }
            pieces.extend(words.map(Piece::Text));
        }
        match part.function_call {
            Some(call) => self.call(call, pieces),
            None => Ok(()),
        }
    }

    /// Ends the thought with its seal; a seal without a thought is a hidden thought.
    fn end_thought(&mut self, seal: Option<String>, pieces: &mut VecDeque<Piece>) {
        let signature = seal.map(|seal| Signature::new(NAME, seal));
        if self.is_thinking || signature.is_some() {
            pieces.push_back(Piece::ThinkingEnd { signature });
        }
        self.is_thinking = false;
    }

    fn call(&mut self, call: FunctionCall<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        let index = one_more(&mut self.calls)?;
        pieces.push_back(Piece::Call { id: call.id.or_empty(), name: call.name.or_empty() });
        let json = arguments(call.args);
        if !json.is_empty() {
            pieces.push_back(Piece::CallInput { index, json });
        }
        pieces.push_back(Piece::CallEnd { index });
        Ok(())
    }

    fn report(&mut self, latest: Option<Tokens>, pieces: &mut VecDeque<Piece>) {
        let Some(latest) = latest else { return };
        let before = self.tokens;
        take_input(&mut self.tokens.prompt_token_count.0, latest.prompt_token_count.0);
        take(&mut self.tokens.cached_content_token_count.0, latest.cached_content_token_count.0);
        take(&mut self.tokens.tool_use_prompt_token_count.0, latest.tool_use_prompt_token_count.0);
        take(&mut self.tokens.candidates_token_count.0, latest.candidates_token_count.0);
        take(&mut self.tokens.thoughts_token_count.0, latest.thoughts_token_count.0);
        if self.tokens != before && self.tokens.reported().is_known() {
            pieces.push_back(Piece::Usage(Box::new(self.usage())));
        }
    }
}

impl Tokens {
    /// In our terms. Google's JSON leaves out a field that is zero, so a count that is missing next to its sibling is zero. No field
    /// says what was written to a cache.
    fn reported(&self) -> Reported {
        let (prompt, candidates) = (self.prompt_token_count.0, self.candidates_token_count.0);
        let written = candidates.or(self.thoughts_token_count.0);
        let thoughts = written.map(|_| self.thoughts_token_count.0.unwrap_or(0));
        let own = Reported {
            input: prompt,
            cache_read: self.cached_content_token_count.0.or(prompt.map(|_| 0)),
            cache_write: None,
            output: thoughts.map(|thoughts| candidates.unwrap_or(0).saturating_add(thoughts)),
            reasoning: thoughts,
        }
        .caches_apart();
        // What the provider's own tools read is not part of the prompt.
        let tools = self.tool_use_prompt_token_count.0.unwrap_or(0);
        Reported { input: own.input.map(|input| input.saturating_add(tools)), ..own }
    }
}

fn finish(reason: String) -> Finish {
    Finish::Stopped(match reason.as_str() {
        "MAX_TOKENS" => ModelStop::MaxTokens,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "MODEL_ARMOR" => ModelStop::Refused,
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" | "MALFORMED_RESPONSE" => {
            return Finish::Failed(reason);
        }
        _ => ModelStop::EndTurn,
    })
}

/// An error in Google's words, in the stream or in a refused request's body.
pub fn error(status: &str, code: Option<u16>, message: &str) -> ModelError {
    let text = error_text("Gemini", status, message);
    match status {
        // Its message may mention lengths, too.
        "RESOURCE_EXHAUSTED" => ModelError::retryable(text),
        _ if is_overflow(message) => ModelError::context_overflow(text),
        "" if code.is_some_and(|code| code >= 400 && !is_retryable(code)) => ModelError::fatal(text),
        "INVALID_ARGUMENT"
        | "FAILED_PRECONDITION"
        | "UNAUTHENTICATED"
        | "PERMISSION_DENIED"
        | "NOT_FOUND"
        | "OUT_OF_RANGE"
        | "UNIMPLEMENTED" => ModelError::fatal(text),
        // `UNAVAILABLE`, `INTERNAL`, `DEADLINE_EXCEEDED`, and unknown errors.
        _ => ModelError::retryable(text),
    }
}
