//! OpenAI's Chat Completions stream, and those of the many servers that speak it, each in its own way.
//!
//! # Invariants
//!
//! 1. A figure that is null, or missing, overwrites nothing.
//! 2. The answer is over when a `finish_reason` and `[DONE]` have come, in either order, or one of them and then the end of
//!    the stream: between them the usage may still come.
//! 3. A call is told of once its name is known, and is ended when its arguments are whole: a second call has begun and they
//!    are JSON, or the answer is over.

mod calls;
mod chunk;
mod used;

use std::collections::VecDeque;

use andon::{ModelError, ModelStop, Piece};
use andon_core::usage::Usage;

use self::calls::Calls;
use self::chunk::{Chunk, Delta, Words};
use self::used::Tally;
use super::event::{DONE, broke_off, read};
use super::{Decode, Frame};
use crate::refusal;

/// Decodes a stream of Chat Completions chunks.
#[derive(Debug, Default)]
pub struct OpenAiChat {
    calls: Calls,
    tally: Tally,
    id: Option<String>,
    model: Option<String>,
    thinks: Thinks,
    refused: bool,
    finish: Option<String>,
    done: bool,
    ended: bool,
}

/// Whether a thought is open.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Thinks {
    #[default]
    Never,
    Now,
    Before,
}

impl OpenAiChat {
    /// A decoder for one answer.
    pub fn new() -> Self {
        Self::default()
    }

    fn chunk(&mut self, chunk: Chunk<'_>, pieces: &mut VecDeque<Piece>) {
        keep_first(&mut self.id, chunk.id.map(|id| id.0));
        keep_first(&mut self.model, chunk.model.map(|model| model.0));
        for choice in chunk.choices.unwrap_or_default() {
            // Nobody asked for a second answer.
            if choice.index.unwrap_or(0) != 0 {
                continue;
            }
            if let Some(delta) = choice.delta {
                self.delta(delta, pieces);
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.0.is_empty()) {
                self.finish.get_or_insert_with(|| reason.0.into_owned());
            }
            // Moonshot has it here.
            self.tally.report(choice.usage.as_ref());
        }
        self.tally.report(chunk.usage.as_ref());
        self.tally.report(chunk.x_groq.and_then(|groq| groq.usage).as_ref());
        self.tally.time(chunk.timings.as_ref());
        if let Some(usage) = self.tally.news(self.usage()) {
            pieces.push_back(Piece::Usage(Box::new(usage)));
        }
    }

    fn delta(&mut self, delta: Delta, pieces: &mut VecDeque<Piece>) {
        let thought = [delta.reasoning_content, delta.reasoning].into_iter().flatten().find(|words| !words.is_empty());
        for words in [thought.map(Words::into_thought), delta.content].into_iter().flatten() {
            self.think(words.thought, pieces);
            self.say(words.text, pieces);
        }
        if let Some(refusal) = delta.refusal.filter(|refusal| !refusal.is_empty()) {
            self.refused = true;
            self.say(refusal, pieces);
        }
        for call in delta.tool_calls.unwrap_or_default() {
            self.end_thought(pieces);
            self.calls.take(call, pieces);
        }
    }

    fn think(&mut self, text: String, pieces: &mut VecDeque<Piece>) {
        if !text.is_empty() {
            self.thinks = Thinks::Now;
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
        if self.thinks == Thinks::Now {
            self.thinks = Thinks::Before;
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
                let message = format!("the provider broke the answer off and says only \"{reason}\"");
                Err(ModelError::retryable(message))
            }
            _ if self.refused => Ok(ModelStop::Refused),
            _ => Ok(complete),
        }
    }
}

impl Decode for OpenAiChat {
    fn frame(&mut self, frame: Frame<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.ended {
            return Ok(());
        }
        let data = frame.data.trim();
        if data.is_empty() {
            return Ok(());
        }
        if data == DONE {
            self.done = true;
        } else {
            let chunk: Chunk<'_> = read(data)?;
            if chunk.error.is_some() || frame.event == "error" {
                return Err(in_words(data));
            }
            self.chunk(chunk, pieces);
        }
        if self.done && self.finish.is_some() {
            return self.end(pieces);
        }
        Ok(())
    }

    fn finish(&mut self, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.ended {
            return Ok(());
        }
        if self.done || self.finish.is_some() {
            return self.end(pieces);
        }
        Err(broke_off("the provider"))
    }

    fn usage(&self) -> Usage {
        let usage = self.tally.usage(self.thinks != Thinks::Never);
        if self.ended { usage } else { usage.running() }
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

/// The error of a chunk that has one.
fn in_words(data: &str) -> ModelError {
    let said = serde_json::from_str(data).ok().and_then(|value| refusal::Said::read(&value));
    said.unwrap_or_default().in_stream()
}

fn keep_first(kept: &mut Option<String>, new: Option<std::borrow::Cow<'_, str>>) {
    if kept.is_none() {
        *kept = new.filter(|new| !new.is_empty()).map(std::borrow::Cow::into_owned);
    }
}

#[cfg(test)]
mod tests;
