//! OpenAI's Responses API, as it streams.
//!
//! An answer is items, each with a place of its own: reasoning, messages and calls. What an item's deltas have not said
//! is taken from its end, because some servers send only that. Items of other kinds (the provider's own tools) give
//! nothing. Usage comes with the last event and no sooner.

mod form;

use std::collections::VecDeque;

use andon::{ModelError, ModelStop, Piece};
use andon_core::usage::Usage;

use form::{
    ArgumentsDone, DeltaEvent, ErrorEvent, Item, ItemEvent, PartEvent, Problem, Response, ResponseEvent, Words, joined,
};

use super::event::{DONE, broke_off, kind, read, told};
use super::seen::{Seen, take};
use super::{Decode, Frame};
use crate::render::openai_responses::seal;

/// Reads one answer.
#[derive(Debug, Default)]
pub struct OpenAiResponses {
    /// The open items by their place.
    items: Vec<(u64, Open)>,
    calls: usize,
    refused: bool,
    seen: Seen,
    is_over: bool,
    model: Option<String>,
    id: Option<String>,
}

/// An item that has begun and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Open {
    what: What,
    /// Whether its deltas have said anything.
    has_words: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Message,
    Reasoning,
    Call(usize),
}

impl Decode for OpenAiResponses {
    fn frame(&mut self, frame: Frame<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.is_over || frame.data.trim().is_empty() || frame.data == DONE {
            return Ok(());
        }
        let data = frame.data;
        match &*kind(data)? {
            "response.output_text.delta" => self.delta(read(data)?, What::Message, Piece::Text, pieces),
            "response.refusal.delta" => {
                self.refused = true;
                self.delta(read(data)?, What::Message, Piece::Text, pieces);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.delta(read(data)?, What::Reasoning, Piece::Thinking, pieces);
            }
            "response.reasoning_summary_part.added" => self.next_summary(&read(data)?, pieces),
            "response.function_call_arguments.delta" => {
                let event: DeltaEvent = read(data)?;
                self.arguments(event.output_index, event.delta, pieces);
            }
            "response.function_call_arguments.done" => {
                let event: ArgumentsDone = read(data)?;
                self.rest_of_arguments(event.output_index, event.arguments, pieces);
            }
            "response.output_item.added" => {
                let event: ItemEvent<'_> = read(data)?;
                if let Some(item) = event.item()? {
                    self.begin_item(event.output_index, &item, pieces);
                }
            }
            "response.output_item.done" => {
                let event: ItemEvent<'_> = read(data)?;
                if let Some(item) = event.item()? {
                    self.end_item(event.output_index, item, pieces);
                }
            }
            "response.created" | "response.in_progress" | "response.queued" => {
                self.take(&read::<ResponseEvent>(data)?.response, pieces);
            }
            "response.completed" | "response.incomplete" => self.end(&read::<ResponseEvent>(data)?.response, pieces),
            "response.failed" | "response.cancelled" => return Err(self.fail(&read::<ResponseEvent>(data)?.response)),
            "error" => {
                self.is_over = true;
                let event: ErrorEvent = read(data)?;
                let flat = Problem { kind: None, code: event.code, message: event.message };
                return Err(event.error.unwrap_or(flat).as_error());
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self, _pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.is_over { Ok(()) } else { Err(broke_off("OpenAI")) }
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

impl OpenAiResponses {
    fn open(&mut self, place: u64) -> Option<&mut Open> {
        self.items.iter_mut().find(|(open, _)| *open == place).map(|(_, item)| item)
    }

    fn begin(&mut self, place: u64, what: What) {
        self.items.retain(|(open, _)| *open != place);
        self.items.push((place, Open { what, has_words: false }));
    }

    fn begin_item(&mut self, place: u64, item: &Item, pieces: &mut VecDeque<Piece>) {
        let what = match item.kind.as_str() {
            "reasoning" => What::Reasoning,
            "function_call" => {
                let id = item.call_id.as_ref().or(item.id.as_ref()).cloned().unwrap_or_default();
                pieces.push_back(Piece::Call { id, name: item.name.clone().unwrap_or_default() });
                self.calls += 1;
                What::Call(self.calls - 1)
            }
            _ => What::Message,
        };
        self.begin(place, what);
    }

    fn delta(
        &mut self,
        event: DeltaEvent,
        what: What,
        piece: impl FnOnce(String) -> Piece,
        pieces: &mut VecDeque<Piece>,
    ) {
        if event.delta.is_empty() {
            return;
        }
        if self.open(event.output_index).is_none() {
            // Its beginning was not announced; its words are no less said.
            self.begin(event.output_index, what);
        }
        if let Some(open) = self.open(event.output_index).filter(|open| open.what == what) {
            open.has_words = true;
            pieces.push_back(piece(event.delta));
        }
    }

    /// A summary may have several paragraphs, told apart only here.
    fn next_summary(&mut self, event: &PartEvent, pieces: &mut VecDeque<Piece>) {
        let has_words = self.open(event.output_index).is_some_and(|open| open.has_words);
        if event.summary_index > 0 && has_words {
            pieces.push_back(Piece::Thinking("\n\n".to_owned()));
        }
    }

    fn arguments(&mut self, place: u64, json: String, pieces: &mut VecDeque<Piece>) {
        if let Some(Open { what: What::Call(index), has_words }) = self.open(place)
            && !json.is_empty()
        {
            *has_words = true;
            pieces.push_back(Piece::CallInput { index: *index, json });
        }
    }

    /// The arguments as a whole, if nothing of them has come yet.
    fn rest_of_arguments(&mut self, place: u64, whole: Option<String>, pieces: &mut VecDeque<Piece>) {
        if self.open(place).is_some_and(|open| !open.has_words) {
            self.arguments(place, whole.unwrap_or_default(), pieces);
        }
    }

    fn end_item(&mut self, place: u64, item: Item, pieces: &mut VecDeque<Piece>) {
        if self.open(place).is_none() {
            self.begin_item(place, &item, pieces);
        }
        let Some(open) = self.open(place).copied() else { return };
        match open.what {
            What::Message if !open.has_words => pieces.extend(self.unsaid(item.content)),
            What::Message => {}
            What::Reasoning => {
                if !open.has_words {
                    let said = joined(item.summary);
                    pieces.extend((!said.is_empty()).then_some(Piece::Thinking(said)));
                }
                let sealed = item.encrypted_content.filter(|sealed| !sealed.is_empty());
                let signature = sealed.map(|sealed| seal(&item.id.unwrap_or_default(), &sealed));
                pieces.push_back(Piece::ThinkingEnd { signature });
            }
            What::Call(index) => {
                self.rest_of_arguments(place, item.arguments, pieces);
                pieces.push_back(Piece::CallEnd { index });
            }
        }
        self.items.retain(|(open, _)| *open != place);
    }

    fn unsaid(&mut self, content: Option<Vec<Words>>) -> Option<Piece> {
        let mut said = String::new();
        for words in content.into_iter().flatten() {
            self.refused |= words.refusal.is_some();
            said.extend(words.text.or(words.refusal));
        }
        (!said.is_empty()).then_some(Piece::Text(said))
    }

    fn take(&mut self, response: &Response, pieces: &mut VecDeque<Piece>) {
        self.id = response.id.clone().or(self.id.take());
        self.model = response.model.clone().or(self.model.take());
        let Some(tokens) = &response.usage else { return };
        let before = self.seen;
        let cached = tokens.input_tokens_details.as_ref().and_then(|details| details.cached_tokens);
        take(&mut self.seen.cache_read, cached);
        // The cached tokens are among the others here.
        take(&mut self.seen.input, tokens.input_tokens.map(|all| all.saturating_sub(cached.unwrap_or(0))));
        // What is cached without being asked for costs nothing to write.
        take(&mut self.seen.cache_write, tokens.input_tokens.map(|_| 0));
        take(&mut self.seen.output, tokens.output_tokens);
        let reasoning = tokens.output_tokens_details.as_ref().and_then(|details| details.reasoning_tokens);
        take(&mut self.seen.reasoning, reasoning);
        if self.seen != before {
            pieces.push_back(Piece::Usage(Box::new(self.usage())));
        }
    }

    fn end(&mut self, response: &Response, pieces: &mut VecDeque<Piece>) {
        self.is_over = true;
        self.take(response, pieces);
        let incomplete = response.incomplete_details.as_ref().and_then(|details| details.reason.as_deref());
        let stop = match incomplete {
            Some("max_output_tokens") => ModelStop::MaxTokens,
            Some("content_filter") => ModelStop::Refused,
            Some(_) => ModelStop::MaxTokens,
            None if self.refused => ModelStop::Refused,
            None if self.calls > 0 => ModelStop::ToolUse,
            None => ModelStop::EndTurn,
        };
        pieces.push_back(Piece::End(stop));
    }

    fn fail(&mut self, response: &Response) -> ModelError {
        self.is_over = true;
        // The figures are kept; nobody reads pieces behind an error.
        self.take(response, &mut VecDeque::new());
        response.error.as_ref().map_or_else(|| Problem::default().as_error(), Problem::as_error)
    }
}

/// An error in OpenAI's words, in the stream or in a refused request's body.
pub fn error(code: &str, message: &str) -> ModelError {
    let told = told("OpenAI", code, message);
    match code {
        "context_length_exceeded" => ModelError::context_overflow(told),
        "insufficient_quota"
        | "invalid_prompt"
        | "invalid_api_key"
        | "model_not_found"
        | "invalid_request_error"
        | "billing_hard_limit_reached"
        | "unsupported_country_region_territory" => ModelError::fatal(told),
        code if code.starts_with("invalid_") || code.contains("image") => ModelError::fatal(told),
        // `server_error`, `rate_limit_exceeded`, and what is not known yet.
        _ => ModelError::retryable(told),
    }
}
