//! The meter: the best figure there is for what a model call used, when the provider did not say.
//!
//! Pure mathematics: no I/O, no clock. What a call asks and what is visible of its answer are counted with a local
//! tokenizer (`count`); how a model's own figures differ from that is learned from every completed call
//! ([`Book::learn`]), for each exact model by itself; and how far the estimates were off is kept, so that the bounds of
//! the next one are earned.
//!
//! # Invariants
//!
//! 1. `low <= value <= high` in every figure, and a figure that is not known has no value: never 0.
//! 2. A prediction depends only on what was asked, what is visible and what was learned before: the reported figures have
//!    a type of their own, [`Reported`], that only [`Book::learn`] and [`Book::anchor`] take.
//! 3. No text and no reported figure makes an operation panic, and none costs more than a bounded amount of CPU.
//! 4. A [`Page`] holds all that was learned about its model: with the same pages, a book predicts the same.

mod belief;
mod book;
mod carry;
mod count;
mod digest;
mod family;
mod input;
mod learn;
mod matrix;
mod output;
mod page;
mod shelf;
mod standing;
mod window;
mod work;

use std::borrow::Cow;

use andon_core::usage::{Figure, Usage};
use serde::{Deserialize, Serialize};

pub use book::Book;
pub use family::reasons;
pub use page::Page;
pub use standing::{Quality, Standing};

/// What a call asks, as texts.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The system prompt.
    pub system: Option<&'a str>,
    /// One text a message, in order: its words, its tool calls' names and arguments, its results.
    pub messages: &'a [Cow<'a, str>],
    /// The tools on offer, as JSON texts.
    pub tools: &'a [Cow<'a, str>],
    /// How many images and files there are in the messages.
    pub images: usize,
}

/// What is visible of an answer, whole or cut.
#[derive(Debug, Clone, Default)]
pub struct Written<'a> {
    /// The text.
    pub text: Cow<'a, str>,
    /// The thinking, as far as its text was sent.
    pub thinking: Cow<'a, str>,
    /// The tool calls: each one's name, and its arguments so far.
    pub calls: Vec<(&'a str, &'a str)>,
    /// The stream showed that the answer has parts that are counted but not shown: thinking that was withheld, or tools
    /// that the provider ran itself.
    pub hidden: bool,
}

/// What the provider reported about a call. Predictions never see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reported {
    /// All tokens read, those from a cache included.
    pub input: Option<u64>,
    /// All tokens written, thinking included.
    pub output: Option<u64>,
    /// The part of `output` that was thinking; `None` if the provider does not say.
    pub reasoning: Option<u64>,
}

impl Reported {
    /// What a call's usage says, as far as the provider itself said it.
    pub fn of(usage: &Usage) -> Self {
        let all = usage.read();
        let own = |figure: Figure| match figure.provenance {
            andon_core::usage::Provenance::Reported => figure.value,
            _ => None,
        };
        Self { input: own(all), output: own(usage.output), reasoning: own(usage.reasoning) }
    }
}

/// The last reported call of the same conversation, to measure the next one from. [`Book::anchor`] makes it.
///
/// A call of another conversation with the same setup is worth less than one of this conversation, and more than none:
/// the book sees which it is, as far as lengths and samples tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// All tokens read, those from a cache included.
    pub input: u64,
    /// All tokens written.
    pub output: u64,
    /// The part of `output` that was thinking.
    pub reasoning: Option<u64>,
    /// How many messages that request had; its answer is message number `messages` of the next.
    pub messages: usize,
    /// How many tools the answer called.
    pub calls: usize,
    /// How many images the request had.
    pub images: usize,
    /// The answer has parts that are counted but not shown.
    pub hidden: bool,
    /// A hash of the system prompt and the tools.
    pub setup: u64,
    /// A hash of some of the messages.
    pub history: u64,
    /// The local count of the system prompt and the tools, if it was counted.
    pub counted_setup: Option<u64>,
    /// The local count of the messages, if they were.
    pub counted_messages: Option<u64>,
}

/// A prediction and what came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// What the book would have said, had the call been cut at its end.
    pub predicted: Figure,
    /// What the provider said.
    pub reported: u64,
}

impl Outcome {
    /// The error as a share of the reported figure, if a value was predicted.
    pub fn error(&self) -> Option<f64> {
        let reported = self.reported.max(1) as f64;
        self.predicted.value.map(|value| (value as f64 - self.reported as f64) / reported)
    }

    /// Whether the reported figure lies within the predicted bounds.
    pub fn inside(&self) -> bool {
        self.predicted.low.is_none_or(|low| low <= self.reported)
            && self.predicted.high.is_none_or(|high| self.reported <= high)
    }
}

/// What a completed call taught.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lesson {
    /// The input, if it was reported.
    pub input: Option<Outcome>,
    /// The output, if it was reported.
    pub output: Option<Outcome>,
    /// The provider seems to count differently from now on: what was learned before was dropped.
    pub changed: bool,
}
