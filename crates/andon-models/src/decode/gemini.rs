//! Google's Gemini API, as it streams: each frame is a response, with the parts that are new in it.
//!
//! A thought is text that says so. Its seal comes on the part behind it; a call comes whole, mostly without an id, and
//! several may come at once. Usage comes with every frame, cumulative, and may be corrected downwards; Vertex sends it
//! empty until the end. The end is the end of the stream: older models give a reason to finish in every frame.

use std::collections::VecDeque;

use andon::core::message::Signature;
use andon::{ModelError, ModelStop, Piece};
use andon_core::usage::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::event::{DONE, broke_off, read, told};
use super::seen::{Seen, take};
use super::{Decode, Frame};
use crate::render::gemini::NAME;

/// Reads one answer.
#[derive(Debug, Default)]
pub struct Gemini {
    /// Whether a thought waits for its end.
    is_thinking: bool,
    calls: usize,
    tokens: Tokens,
    finish: Option<Finish>,
    is_over: bool,
    model: Option<String>,
    id: Option<String>,
}

/// What the provider said about the end.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Finish {
    Stopped,
    Limit,
    Refused,
    /// It gave the answer up, for this reason.
    Failed(String),
}

/// The latest of each count, as the provider names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    prompt_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
    tool_use_prompt_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow)]
    candidates: Option<Vec<Candidate<'a>>>,
    prompt_feedback: Option<Feedback>,
    usage_metadata: Option<Tokens>,
    model_version: Option<String>,
    response_id: Option<String>,
    error: Option<Problem>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    content: Option<Content<'a>>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    parts: Option<Vec<Part<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    text: Option<String>,
    thought: Option<bool>,
    thought_signature: Option<String>,
    #[serde(borrow)]
    function_call: Option<Call<'a>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
}

#[derive(Deserialize)]
struct Problem {
    #[serde(default)]
    status: String,
    #[serde(default)]
    message: String,
}

impl Decode for Gemini {
    fn frame(&mut self, frame: Frame<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.is_over || frame.data.trim().is_empty() || frame.data == DONE {
            return Ok(());
        }
        let chunk: Chunk<'_> = read(frame.data)?;
        if let Some(problem) = chunk.error {
            self.is_over = true;
            return Err(error(&problem.status, &problem.message));
        }
        self.model = chunk.model_version.or(self.model.take());
        self.id = chunk.response_id.or(self.id.take());
        // Only one answer was asked for.
        let first = chunk.candidates.into_iter().flatten().find(|candidate| candidate.index.unwrap_or(0) == 0);
        if let Some(candidate) = first {
            for part in candidate.content.and_then(|content| content.parts).into_iter().flatten() {
                self.part(part, pieces);
            }
            self.finish = candidate.finish_reason.map(finish).or(self.finish.take());
        }
        if chunk.prompt_feedback.is_some_and(|feedback| feedback.block_reason.is_some()) {
            self.finish = Some(Finish::Refused);
        }
        self.report(chunk.usage_metadata, pieces);
        Ok(())
    }

    fn finish(&mut self, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.is_over {
            return Ok(());
        }
        let stop = match self.finish.take() {
            None => return Err(broke_off("Gemini")),
            Some(Finish::Failed(reason)) => {
                return Err(ModelError::retryable(told("Gemini", &reason, "the answer was given up")));
            }
            Some(Finish::Stopped) if self.calls > 0 => ModelStop::ToolUse,
            Some(Finish::Stopped) => ModelStop::EndTurn,
            Some(Finish::Limit) => ModelStop::MaxTokens,
            Some(Finish::Refused) => ModelStop::Refused,
        };
        self.is_over = true;
        self.end_thought(None, pieces);
        if self.tokens != Tokens::default() {
            pieces.push_back(Piece::Usage(Box::new(self.usage())));
        }
        pieces.push_back(Piece::End(stop));
        Ok(())
    }

    fn usage(&self) -> Usage {
        self.tokens.seen().usage(self.is_over)
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

impl Gemini {
    fn part(&mut self, part: Part<'_>, pieces: &mut VecDeque<Piece>) {
        let words = part.text.filter(|text| !text.is_empty());
        if part.thought == Some(true) {
            self.is_thinking |= words.is_some();
            pieces.extend(words.map(Piece::Thinking));
            if part.thought_signature.is_some() {
                self.end_thought(part.thought_signature, pieces);
            }
            return;
        }
        if words.is_some() || part.function_call.is_some() || part.thought_signature.is_some() {
            self.end_thought(part.thought_signature, pieces);
        }
        pieces.extend(words.map(Piece::Text));
        if let Some(call) = part.function_call {
            self.call(call, pieces);
        }
    }

    /// Ends the thought with its seal; a seal without a thought is one of which nothing is shown.
    fn end_thought(&mut self, seal: Option<String>, pieces: &mut VecDeque<Piece>) {
        let signature = seal.filter(|seal| !seal.is_empty()).map(|seal| Signature::new(NAME, seal));
        if self.is_thinking || signature.is_some() {
            pieces.push_back(Piece::ThinkingEnd { signature });
        }
        self.is_thinking = false;
    }

    fn call(&mut self, call: Call<'_>, pieces: &mut VecDeque<Piece>) {
        let index = self.calls;
        self.calls += 1;
        pieces.push_back(Piece::Call { id: call.id.unwrap_or_default(), name: call.name.unwrap_or_default() });
        if let Some(args) = call.args.filter(|args| args.get() != "null") {
            pieces.push_back(Piece::CallInput { index, json: args.get().to_owned() });
        }
        pieces.push_back(Piece::CallEnd { index });
    }

    fn report(&mut self, latest: Option<Tokens>, pieces: &mut VecDeque<Piece>) {
        let Some(latest) = latest else { return };
        let before = self.tokens;
        take(&mut self.tokens.prompt_token_count, latest.prompt_token_count);
        take(&mut self.tokens.cached_content_token_count, latest.cached_content_token_count);
        take(&mut self.tokens.tool_use_prompt_token_count, latest.tool_use_prompt_token_count);
        take(&mut self.tokens.candidates_token_count, latest.candidates_token_count);
        take(&mut self.tokens.thoughts_token_count, latest.thoughts_token_count);
        if self.tokens != before {
            pieces.push_back(Piece::Usage(Box::new(self.usage())));
        }
    }
}

impl Tokens {
    /// In common terms. This provider leaves a count out when it is zero, so what is missing beside its sibling is zero.
    fn seen(&self) -> Seen {
        let cached = self.prompt_token_count.map(|_| self.cached_content_token_count.unwrap_or(0));
        let prompt = self.prompt_token_count.map(|prompt| {
            let own = prompt.saturating_sub(cached.unwrap_or(0));
            own.saturating_add(self.tool_use_prompt_token_count.unwrap_or(0))
        });
        let wrote = self.candidates_token_count.is_some() || self.thoughts_token_count.is_some();
        let thoughts = self.thoughts_token_count.unwrap_or(0);
        Seen {
            input: prompt,
            cache_read: cached,
            // What is cached without being asked for costs nothing to write.
            cache_write: self.prompt_token_count.map(|_| 0),
            output: wrote.then(|| self.candidates_token_count.unwrap_or(0).saturating_add(thoughts)),
            reasoning: wrote.then_some(thoughts),
        }
    }
}

fn finish(reason: String) -> Finish {
    match reason.as_str() {
        "MAX_TOKENS" => Finish::Limit,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "MODEL_ARMOR" => Finish::Refused,
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" | "MALFORMED_RESPONSE" => {
            Finish::Failed(reason)
        }
        _ => Finish::Stopped,
    }
}

/// An error in Google's words, in the stream or in a refused request's body.
pub fn error(status: &str, message: &str) -> ModelError {
    let told = told("Gemini", status, message);
    match status {
        "INVALID_ARGUMENT" if message.contains("token count") && message.contains("exceeds") => {
            ModelError::context_overflow(told)
        }
        "INVALID_ARGUMENT"
        | "FAILED_PRECONDITION"
        | "UNAUTHENTICATED"
        | "PERMISSION_DENIED"
        | "NOT_FOUND"
        | "OUT_OF_RANGE"
        | "UNIMPLEMENTED" => ModelError::fatal(told),
        // `RESOURCE_EXHAUSTED`, `UNAVAILABLE`, `INTERNAL`, `DEADLINE_EXCEEDED`, and what is not known yet.
        _ => ModelError::retryable(told),
    }
}
