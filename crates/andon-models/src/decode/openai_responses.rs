//! OpenAI's Responses API, as it streams.
//!
//! An answer is a list of items: reasoning, messages and calls. What an item's deltas did not say is taken from its end, and what
//! no item said from the end of the answer, because some servers send only that. Items of other kinds (the provider's own tools)
//! are ignored. Usage comes only with the last event.

mod events;

use std::collections::{BTreeMap, HashSet, VecDeque};

use andon_core::usage::Usage;
use andon_runtime::{ModelError, ModelStop, Piece};

use events::{
    ArgumentsEvent, DeltaEvent, ErrorEvent, Item, ItemEvent, PartEvent, Problem, Response, ResponseEvent, item,
};

use super::event::{DONE, Json, Kind, broke_off, error_text, one_more};
use super::loose::{Text, arguments};
use super::reported::{Reported, take, take_input};
use super::{Decode, Frame};
use crate::refusal::{is_overflow, is_retryable};
use crate::render::openai_responses::seal;

/// Reads one answer.
#[derive(Debug, Default)]
pub struct OpenAiResponses {
    /// The open items by their place.
    items: BTreeMap<u64, OpenItem>,
    calls: usize,
    /// The ids of the calls that have begun.
    ids: HashSet<String>,
    /// Whether a message has said anything, and whether a thought has ended.
    has_text: bool,
    has_thought: bool,
    refused: bool,
    /// Here the input includes what came from a cache.
    reported: Reported,
    is_over: bool,
    has_failed: bool,
    model: Option<String>,
    id: Option<String>,
}

/// An item that has begun and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OpenItem {
    what: ItemKind,
    /// Whether its deltas have said anything.
    has_words: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemKind {
    Message,
    Reasoning,
    Call(usize),
}

impl Decode for OpenAiResponses {
    fn frame(&mut self, frame: Frame<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.is_over || self.has_failed || frame.data.trim().is_empty() || frame.data == DONE {
            return Ok(());
        }
        let taken = self.event(&Json::new(frame.data), pieces);
        self.has_failed = taken.is_err();
        taken
    }

    fn finish(&mut self, _pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if self.is_over { Ok(()) } else { Err(broke_off("OpenAI")) }
    }

    fn usage(&self) -> Usage {
        self.reported.caches_apart().usage(self.is_over || self.has_failed)
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

impl OpenAiResponses {
    fn event(&mut self, json: &Json<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        let kind: Kind<'_> = json.read()?;
        match kind.name() {
            "response.output_text.delta" => self.delta(json.read()?, ItemKind::Message, Piece::Text, pieces),
            "response.refusal.delta" => {
                self.refused = true;
                self.delta(json.read()?, ItemKind::Message, Piece::Text, pieces);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.delta(json.read()?, ItemKind::Reasoning, Piece::Thinking, pieces);
            }
            "response.reasoning_summary_part.added" => self.next_summary(&json.read()?, pieces),
            "response.function_call_arguments.delta" => {
                let event: ArgumentsEvent<'_> = json.read()?;
                self.arguments(event.output_index.0.unwrap_or(0), arguments(event.arguments), pieces);
            }
            "response.function_call_arguments.done" => {
                let event: ArgumentsEvent<'_> = json.read()?;
                self.rest_of_arguments(event.output_index.0.unwrap_or(0), arguments(event.arguments), pieces);
            }
            "response.output_item.added" => {
                let event: ItemEvent<'_> = json.read()?;
                if let Some(item) = item(event.item)? {
                    self.begin_item(event.output_index.0.unwrap_or(0), &item, pieces)?;
                }
            }
            "response.output_item.done" => {
                let event: ItemEvent<'_> = json.read()?;
                if let Some(item) = item(event.item)? {
                    self.end_item(event.output_index.0.unwrap_or(0), item, pieces)?;
                }
            }
            "response.created" | "response.in_progress" | "response.queued" => {
                self.take(&json.read::<ResponseEvent<'_>>()?.response, pieces);
            }
            "response.completed" => self.complete(&json.read::<ResponseEvent<'_>>()?.response, pieces)?,
            "response.incomplete" => self.end(&json.read::<ResponseEvent<'_>>()?.response, true, pieces),
            "response.failed" | "response.cancelled" => {
                return Err(self.fail(&json.read::<ResponseEvent<'_>>()?.response));
            }
            name if name == "error" || (name.is_empty() && kind.has_error()) => {
                let Ok(event) = json.read::<ErrorEvent<'_>>() else { return Err(json.error().in_stream()) };
                let flat = Problem { kind: Text::default(), code: event.code, message: event.message };
                return Err(event.error.unwrap_or(flat).as_error());
            }
            _ => {}
        }
        Ok(())
    }

    fn begin_item(&mut self, place: u64, item: &Item, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        let what = match item.kind.as_str() {
            "reasoning" => ItemKind::Reasoning,
            "function_call" => {
                let index = one_more(&mut self.calls)?;
                let id = item.answered_by().to_owned();
                self.ids.insert(id.clone());
                pieces.push_back(Piece::Call { id, name: item.name.clone() });
                ItemKind::Call(index)
            }
            _ => ItemKind::Message,
        };
        self.items.insert(place, OpenItem { what, has_words: false });
        Ok(())
    }

    fn delta(
        &mut self,
        event: DeltaEvent<'_>,
        what: ItemKind,
        piece: impl FnOnce(String) -> Piece,
        pieces: &mut VecDeque<Piece>,
    ) {
        let (place, Some(words)) = (event.output_index.0.unwrap_or(0), event.delta.some()) else { return };
        // An item whose beginning was not announced counts all the same.
        let open = self.items.entry(place).or_insert(OpenItem { what, has_words: false });
        if open.what == what {
            open.has_words = true;
            self.has_text |= what == ItemKind::Message;
            pieces.push_back(piece(words));
        }
    }

    /// A summary may have several paragraphs, which are separated only here.
    fn next_summary(&mut self, event: &PartEvent, pieces: &mut VecDeque<Piece>) {
        let open = self.items.get(&event.output_index.0.unwrap_or(0));
        if event.summary_index.0.unwrap_or(0) > 0 && open.is_some_and(|open| open.has_words) {
            pieces.push_back(Piece::Thinking("\n\n".to_owned()));
        }
    }

    fn arguments(&mut self, place: u64, json: String, pieces: &mut VecDeque<Piece>) {
        if let Some(OpenItem { what: ItemKind::Call(index), has_words }) = self.items.get_mut(&place)
            && !json.is_empty()
        {
            *has_words = true;
            pieces.push_back(Piece::CallInput { index: *index, json });
        }
    }

    /// The whole arguments, unless a part of them has come already.
    fn rest_of_arguments(&mut self, place: u64, whole: String, pieces: &mut VecDeque<Piece>) {
        if self.items.get(&place).is_some_and(|open| !open.has_words) {
            self.arguments(place, whole, pieces);
        }
    }

    fn end_item(&mut self, place: u64, item: Item, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        if !self.items.contains_key(&place) {
            self.begin_item(place, &item, pieces)?;
        }
        let Some(open) = self.items.get(&place).copied() else { return Ok(()) };
        match open.what {
            ItemKind::Message if !open.has_words && !item.text.is_empty() => {
                self.has_text = true;
                self.refused |= item.is_refusal;
                pieces.push_back(Piece::Text(item.text));
            }
            ItemKind::Message => {}
            ItemKind::Reasoning => {
                if !open.has_words && !item.summary.is_empty() {
                    pieces.push_back(Piece::Thinking(item.summary));
                }
                self.has_thought = true;
                let signature = item.sealed.map(|sealed| seal(&item.id, &sealed));
                pieces.push_back(Piece::ThinkingEnd { signature });
            }
            ItemKind::Call(index) => {
                self.rest_of_arguments(place, item.arguments, pieces);
                pieces.push_back(Piece::CallEnd { index });
            }
        }
        self.items.remove(&place);
        Ok(())
    }

    /// The answer is whole, and so are its open items. What only the end says is added now.
    fn complete(&mut self, response: &Response<'_>, pieces: &mut VecDeque<Piece>) -> Result<(), ModelError> {
        let mut whole = BTreeMap::new();
        for (place, sent) in (0_u64..).zip(&response.output.0) {
            whole.extend(item(sent)?.map(|item| (place, item)));
        }
        while let Some((place, open)) = self.items.first_key_value().map(|(place, open)| (*place, *open)) {
            let ended = whole.remove(&place).filter(|item| open.what.is(item)).unwrap_or_default();
            self.end_item(place, ended, pieces)?;
        }
        let is_told = |item: &Item| match item.kind.as_str() {
            "function_call" => self.ids.contains(item.answered_by()),
            "reasoning" => self.has_thought,
            _ => self.has_text,
        };
        let untold: Vec<(u64, Item)> = whole.into_iter().filter(|(_, item)| !is_told(item)).collect();
        for (place, item) in untold {
            self.end_item(place, item, pieces)?;
        }
        self.end(response, false, pieces);
        Ok(())
    }

    fn take(&mut self, response: &Response<'_>, pieces: &mut VecDeque<Piece>) {
        self.id = response.id.clone().some().or(self.id.take());
        self.model = response.model.clone().some().or(self.model.take());
        let Some(tokens) = &response.usage else { return };
        let before = self.reported;
        take_input(&mut self.reported.input, tokens.input_tokens.0);
        take(&mut self.reported.cache_read, tokens.input_tokens_details.as_ref().and_then(|it| it.cached_tokens.0));
        take(
            &mut self.reported.cache_write,
            tokens.input_tokens_details.as_ref().and_then(|it| it.cache_write_tokens.0),
        );
        take(&mut self.reported.output, tokens.output_tokens.0);
        take(&mut self.reported.reasoning, tokens.output_tokens_details.as_ref().and_then(|it| it.reasoning_tokens.0));
        if self.reported != before && self.reported.is_known() {
            pieces.push_back(Piece::Usage(Box::new(self.usage())));
        }
    }

    fn end(&mut self, response: &Response<'_>, is_cut: bool, pieces: &mut VecDeque<Piece>) {
        self.is_over = true;
        self.take(response, pieces);
        let reason = response.incomplete_details.as_ref().map(|details| details.reason.as_str());
        let stop = match reason.unwrap_or_default() {
            "content_filter" => ModelStop::Refused,
            // `max_output_tokens`, and unknown reasons.
            reason if is_cut || !reason.is_empty() => ModelStop::MaxTokens,
            _ if self.refused => ModelStop::Refused,
            _ if self.calls > 0 => ModelStop::ToolUse,
            _ => ModelStop::EndTurn,
        };
        pieces.push_back(Piece::End(stop));
    }

    fn fail(&mut self, response: &Response<'_>) -> ModelError {
        // The figures are kept; nobody reads pieces after an error.
        self.take(response, &mut VecDeque::new());
        response.error.as_ref().map_or_else(|| Problem::default().as_error(), Problem::as_error)
    }
}

impl ItemKind {
    /// Whether an item is of this kind.
    fn is(self, item: &Item) -> bool {
        match self {
            Self::Message => item.kind == "message",
            Self::Reasoning => item.kind == "reasoning",
            Self::Call(_) => item.kind == "function_call",
        }
    }
}

/// An error in OpenAI's words, in the stream or in a refused request's body.
pub fn error(code: &str, message: &str) -> ModelError {
    let text = error_text("OpenAI", code, message);
    match code {
        // Its message may mention lengths, too.
        "rate_limit_exceeded" => ModelError::retryable(text),
        _ if is_overflow(message) => ModelError::context_overflow(text),
        "context_length_exceeded" => ModelError::context_overflow(text),
        "insufficient_quota"
        | "invalid_prompt"
        | "invalid_api_key"
        | "model_not_found"
        | "invalid_request_error"
        | "billing_hard_limit_reached"
        | "unsupported_country_region_territory" => ModelError::fatal(text),
        code if code.starts_with("invalid_") || code.contains("image") => ModelError::fatal(text),
        // A proxy may name a status.
        code if code.parse().is_ok_and(|status: u16| status >= 400 && !is_retryable(status)) => ModelError::fatal(text),
        // `server_error`, and unknown errors.
        _ => ModelError::retryable(text),
    }
}
