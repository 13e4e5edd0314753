//! What a request costs to read.
//!
//! What a provider puts around tools may be hundreds of tokens that nobody sees. So a request that continues a reported call is measured
//! from that: only what has come since is counted. Everything is counted only if there is no such call.
//!
//! # Invariants
//!
//! 1. A request that was already reported costs what was reported.
//! 2. With a reported call, what came before it is not counted, however long it is.
//! 3. A call that another model answered is not measured from: its tokens are others, and so is what is put around tools.

use std::borrow::Cow;

use andon_core::message::{Content, Message, Part};
use andon_runtime::{Anchor, AnchorSetup, ModelRequest};

use super::Reported;
use super::count::{Tally, tally, tally_one};
use super::family::{Family, Vocabulary};

/// A request, counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asked {
    /// It continues a call that was reported.
    Next {
        /// What that call read, and what its answer adds.
        known: f64,
        /// See [`next_prior`].
        counts: [f64; 5],
        /// The variance that no learning takes away.
        noise: f64,
        /// The variance of what may be otherwise than `known` says: an answer that was not all shown, a setup that may have changed.
        /// If there is any, the call teaches nothing.
        doubt: f64,
    },
    /// It does not.
    First {
        /// See [`first_prior`].
        counts: [f64; 6],
        /// The variance that no learning takes away.
        noise: f64,
    },
}

impl Asked {
    /// Counts a request to a model, named as it answers, if that is known.
    pub(crate) fn of(family: Family, request: &ModelRequest, answers: Option<&str>) -> Self {
        let is_same = |anchor: &&Anchor| anchor.answered_by.as_deref().zip(answers).is_none_or(|(was, is)| was == is);
        let next = request.anchor.as_ref().filter(is_same).and_then(|anchor| Self::next(family, request, anchor));
        next.unwrap_or_else(|| Self::first(family, request))
    }

    /// `None` if the request is shorter than that of the call that it should continue, or the provider did not report enough.
    fn next(family: Family, request: &ModelRequest, anchor: &Anchor) -> Option<Self> {
        let Reported { input: Some(read), output: Some(written), reasoning } = Reported::of(&anchor.usage) else {
            return None;
        };
        let changed = match anchor.setup {
            AnchorSetup::Same => 0.0,
            AnchorSetup::MayDiffer => {
                // There may be more of it now than there was, or less: then the old one is in what was read.
                let (instructions, tools) = setup(family, request);
                (5.0 + 0.2 * instructions.plus(tools).total().max(read as f64)).powi(2)
            }
            #[cfg(not(andon_whole))]
            _ => return None,
        };
        let Some(answer) = request.history.get(anchor.messages) else {
            let same = Self::Next { known: read as f64, counts: [0.0; 5], noise: 1.0, doubt: changed };
            return (request.history.len() == anchor.messages).then_some(same);
        };
        let calls = answer.calls().count();
        let thought = reasoning.unwrap_or(0).min(written);
        let since = || request.history.iter().skip(anchor.messages + 1);
        let texts: Vec<Cow<'_, str>> = since().map(|message| text_of(message)).collect();
        let new = tally(family.vocabulary, texts.iter().map(Cow::as_ref));
        let images: f64 = since().map(|message| images_in(message)).sum();
        let (again, unshown) = read_again(family, written - thought, answer, calls);
        // If nobody says how much of the answer was thought, all of it may have been, and none of that is read again.
        let hidden = if reasoning.is_none() && thinks(answer) { 0.5 * written as f64 } else { 0.0 };
        let (after_calls, after_text) = if calls > 0 { (thought as f64, 0.0) } else { (0.0, thought as f64) };
        Some(Self::Next {
            known: read as f64 + again,
            counts: [new.total(), texts.len() as f64, images, after_calls, after_text],
            noise: 4.0
                + (0.03 * new.total()).powi(2)
                + (0.01 * (read as f64 + again)).powi(2)
                + (0.3 * thought as f64).powi(2)
                + image_noise(images)
                + new.doubt,
            doubt: hidden.powi(2) + unshown + changed,
        })
    }

    fn first(family: Family, request: &ModelRequest) -> Self {
        let messages: Vec<Cow<'_, str>> = request.history.iter().map(|message| text_of(message)).collect();
        let (system, offered) = setup(family, request);
        let text = system.plus(tally(family.vocabulary, messages.iter().map(Cow::as_ref)));
        let images = request.history.iter().map(|message| images_in(message)).sum();
        let some = if request.tools.is_empty() { 0.0 } else { 1.0 };
        let share = (0.05 * text.total()).powi(2) + (0.2 * offered.total()).powi(2);
        Self::First {
            counts: [text.total(), offered.total(), messages.len() as f64, some, images, 1.0],
            noise: 9.0 + share + image_noise(images) + text.doubt + offered.doubt,
        }
    }
}

/// The instructions and the tools, counted.
fn setup(family: Family, request: &ModelRequest) -> (Tally, Tally) {
    let system = tally_one(family.vocabulary, request.instructions.as_deref().unwrap_or_default());
    let said = request.tools.iter().map(|tool| {
        let said = serde_json::json!({ "name": tool.name, "description": tool.description, "parameters": tool.schema });
        said.to_string()
    });
    let tools: Vec<String> = said.collect();
    (system, tally(family.vocabulary, tools.iter().map(String::as_str)))
}

/// What is assumed of what has come since a reported call: one token, one message, one image, and one token of that call's thinking
/// after which tools were called, or none were. Most providers show a model again what it thought while it works with tools.
pub(crate) fn next_prior(family: Family) -> [(f64, f64); 5] {
    [token(family), (8.0, 4.0), (500.0, 400.0), (1.0, 0.6), (0.0, 0.3)]
}

/// What is assumed of a request without one: one token of text, one of the tools' JSON, one message, tools at all, one image, and the
/// request itself.
pub(crate) fn first_prior(family: Family) -> [(f64, f64); 6] {
    [token(family), (0.85, 0.3), (4.0, 2.0), (30.0, 150.0), (500.0, 400.0), (5.0, 5.0)]
}

fn token(family: Family) -> (f64, f64) {
    match family.vocabulary {
        Vocabulary::Own(_) => (1.0, 0.05),
        Vocabulary::Mixed => (family.token.0, 0.15),
    }
}

/// An image costs anything from a hundred to two thousand tokens.
fn image_noise(images: f64) -> f64 {
    (400.0 * images).powi(2)
}

/// How much of a reported answer is read again, apart from its thinking, and the variance of that. All of it, unless more was written
/// than what is visible can explain (a call costs at most some sixty tokens around its JSON): then the rest was not shown, and is not
/// read again, and only what is visible counts.
fn read_again(family: Family, written: u64, answer: &Message, calls: usize) -> (f64, f64) {
    let text = text_of(answer);
    // Thinking that a model writes into its text is taken out by those who read it again.
    let text = text.rsplit_once("</think>").map_or(&*text, |(_, after)| after);
    let (count, written, calls) = (tally_one(family.vocabulary, text).total(), written as f64, calls as f64);
    let most = (family.token.0 + 0.4) * count + 60.0 * calls + 24.0;
    if written <= most || images_in(answer) > 0.0 {
        return (written, 0.0);
    }
    let visible = family.token.0 * count + 12.0 * calls + 4.0;
    (visible, (0.5 * (most - visible)).powi(2))
}

fn thinks(answer: &Message) -> bool {
    answer.parts.iter().any(|part| matches!(part, Part::Thinking { .. }))
}

fn images_in(message: &Message) -> f64 {
    let is_image = |content: &&Content| matches!(content, Content::Image(_));
    let parts = message.parts.iter().map(|part| match part {
        Part::Image(_) => 1,
        Part::ToolResult(result) => result.content.iter().filter(is_image).count(),
        Part::Text { .. } | Part::Thinking { .. } | Part::ToolCall(_) => 0,
        #[cfg(not(andon_whole))]
        _ => 0,
    });
    parts.sum::<usize>() as f64
}

/// How many tokens the largest message of a request may have: a token has at least one byte, and an image two thousand tokens at most.
pub(crate) fn largest_message(request: &ModelRequest) -> u64 {
    let most = |message: &Message| text_of(message).len() as u64 + 2_000 * images_in(message) as u64;
    request.history.iter().map(|message| most(message)).max().unwrap_or(0)
}

/// All words of a message: what is said, called and returned.
fn text_of(message: &Message) -> Cow<'_, str> {
    let words = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(Cow::Borrowed(text.as_str())),
        Part::ToolCall(call) => Some(Cow::Owned(format!("{} {}", call.name, call.arguments))),
        Part::ToolResult(result) => Some(match result.content.as_slice() {
            [Content::Text { text }] => Cow::Borrowed(text.as_str()),
            _ => Cow::Owned(result.to_text()),
        }),
        // Whether a thought is sent back is for the provider to say, and learned.
        Part::Thinking { .. } | Part::Image(_) => None,
        #[cfg(not(andon_whole))]
        _ => None,
    });
    let words: Vec<Cow<'_, str>> = words.collect();
    match <[_; 1]>::try_from(words) {
        // Most messages have one part, and some are long: those are not copied.
        Ok([text]) => text,
        Err(words) => Cow::Owned(words.join("\n")),
    }
}
