//! OpenAI's Chat Completions stream, and those of the many servers that speak it, each in its own way.
//!
//! # Invariants
//!
//! 1. A null or missing figure overwrites nothing.
//! 2. The answer is over when a `finish_reason` and `[DONE]` have come, in either order, or one of them and then the end of
//!    the stream: between them the usage may still come.
//! 3. A call is announced once its name is known. It ends when its arguments are whole, which is when they are a closed object
//!    and a second call has begun, or when the answer is over. After its end it gets nothing.

mod calls;
mod chunk;
mod used;
mod whole;

use std::collections::VecDeque;

use andon_core::usage::Usage;
use andon_runtime::{ModelError, ModelStop, Piece};

use self::calls::Calls;
use self::chunk::{CallDelta, Choice, Chunk, Delta};
use self::used::Tally;
use super::event::{DONE, Json, broke_off};
use super::loose::Text;
use super::{Decode, Frame};

/// Decodes a stream of Chat Completions chunks.
#[derive(Debug, Default)]
pub struct OpenAiChat {
    calls: Calls,
    tally: Tally,
    id: Option<String>,
    model: Option<String>,
    /// Whether a thought is open.
    is_thinking: bool,
    refused: bool,
    /// Whether a delta has said anything.
    has_delta: bool,
    finish: Option<String>,
    done: bool,
    ended: bool,
    failed: bool,
}

impl OpenAiChat {
    fn chunk(&mut self, chunk: Chunk<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        keep_first(&mut self.id, chunk.id);
        keep_first(&mut self.model, chunk.model);
        // We asked for one answer.
        for choice in chunk.choices.0.into_iter().filter(|choice| choice.index.0.unwrap_or(0) == 0) {
            self.choice(choice, pieces)?;
        }
        self.tally.report(chunk.usage.as_ref());
        self.tally.report(chunk.x_groq.and_then(|groq| groq.usage).as_ref());
        self.tally.time(chunk.timings.as_ref());
        if let Some(usage) = self.tally.news(self.usage()) {
            pieces.push_back(Piece::Usage(Box::new(usage)));
        }
        Ok(())
    }

    fn choice(&mut self, choice: Choice<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        let delta = choice.delta.filter(|delta| !delta.is_empty());
        self.has_delta |= delta.is_some();
        // After deltas, a message repeats all of them.
        if let Some(delta) = delta.or(choice.message.filter(|_| !self.has_delta)) {
            self.delta(delta, pieces)?;
        }
        self.finish = self.finish.take().or(choice.finish_reason.some());
        // Moonshot puts it here.
        self.tally.report(choice.usage.as_ref());
        Ok(())
    }

    fn delta(&mut self, delta: Delta<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        let thought = [delta.reasoning_content, delta.reasoning].into_iter().find(|words| !words.is_empty());
        for words in [thought.unwrap_or_default().into_thought(), delta.content] {
            self.think(words.thought, pieces);
            self.say(words.text, pieces);
        }
        if let Some(refusal) = delta.refusal.some() {
            self.refused = true;
            self.say(refusal, pieces);
        }
        // A server may send a call in both ways.
        let legacy = delta.function_call.filter(|_| delta.tool_calls.0.is_empty());
        let legacy = legacy.map(|function| CallDelta { function: Some(function), ..CallDelta::default() });
        for call in delta.tool_calls.0.into_iter().chain(legacy) {
            self.end_thought(pieces);
            self.calls.take(call, pieces)?;
        }
        Ok(())
    }

    fn take(&mut self, frame: Frame<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        let data = frame.data.trim();
        if data.is_empty() {
            return Ok(());
        }
        if data == DONE {
            self.done = true;
        } else {
            let json = Json::new(data);
            let chunk: Chunk<'_> = json.read()?;
            if chunk.error.is_some() || frame.event == "error" {
                return Err(json.error().in_stream());
            }
            self.chunk(chunk, pieces)?;
        }
        if self.done && self.finish.is_some() {
            return self.end(pieces);
        }
        Ok(())
    }

    fn think(&mut self, text: String, pieces: &mut VecDeque<Piece>) {
        if !text.is_empty() {
            self.is_thinking = true;
            pieces.push_back(Piece::Thinking(text));
        }
    }

    fn say(&mut self, text: String, pieces: &mut VecDeque<Piece>) {
        if !text.is_empty() {
            self.end_thought(pieces);
            pieces.push_back(Piece::Text(text));
        }
    }

    fn end_thought(&mut self, pieces: &mut VecDeque<Piece>) {
        if std::mem::take(&mut self.is_thinking) {
            pieces.push_back(Piece::ThinkingEnd { signature: None });
        }
    }

    fn end(&mut self, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        let stop = self.stop()?;
        self.ended = true;
        self.end_thought(pieces);
        self.calls.end(pieces);
        if self.tally.is_known() {
            pieces.push_back(Piece::Usage(Box::new(self.usage())));
        }
        pieces.push_back(Piece::End(stop));
        Ok(())
    }

    fn stop(&self) -> Result<ModelStop, ModelError> {
        let complete = if self.calls.is_empty() { ModelStop::EndTurn } else { ModelStop::ToolUse };
        match self.finish.as_deref().unwrap_or_default() {
            "length" | "model_length" | "max_tokens" => Ok(ModelStop::MaxTokens),
            "content_filter" => Ok(ModelStop::Refused),
            "stop_sequence" => Ok(ModelStop::StopSequence),
            reason @ ("error" | "abort" | "insufficient_system_resource") => {
                let message = format!("the provider broke off the answer and says only \"{reason}\"");
                Err(ModelError::retryable(message))
            }
            reason @ ("tool_calls" | "function_call") if self.calls.is_empty() => {
                let message = format!("the provider ended the answer with \"{reason}\" but sent no usable call");
                Err(ModelError::retryable(message))
            }
            _ if self.refused => Ok(ModelStop::Refused),
            _ => Ok(complete),
        }
    }
}

impl Decode for OpenAiChat {
    fn frame(&mut self, frame: Frame<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.ended || self.failed {
            return Ok(());
        }
        let taken = self.take(frame, pieces);
        self.failed = taken.is_err();
        taken
    }

    fn finish(&mut self, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.ended {
            return Ok(());
        }
        if !self.failed && (self.done || self.finish.is_some()) {
            return self.end(pieces);
        }
        Err(broke_off("the provider"))
    }

    fn usage(&self) -> Usage {
        self.tally.usage(self.ended)
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

fn keep_first(kept: &mut Option<String>, new: Text<'_>) {
    if kept.is_none() {
        *kept = new.some();
    }
}

#[cfg(test)]
mod tests;
