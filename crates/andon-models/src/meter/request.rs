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
use super::family::Family;

/// A request, counted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked {
    /// Whether it continues a call that was reported.
    pub(crate) continues: bool,
    /// What that call read, and what its answer adds.
    pub(crate) known: f64,
    /// What is counted: see [`prior`].
    pub(crate) counts: [f64; 6],
    /// The variance that no learning takes away.
    pub(crate) noise: f64,
    /// The variance of what may be otherwise than `known` says: an answer that was not all shown, a setup that may have changed.
    /// If there is any, the call teaches nothing.
    pub(crate) doubt: f64,
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
            let same = Self { continues: true, known: read as f64, noise: 1.0, doubt: changed, ..Self::default() };
            return (request.history.len() == anchor.messages).then_some(same);
        };
        let (text, messages, images) = said(family, request, anchor.messages + 1);
        let thought = reasoning.unwrap_or(0).min(written);
        let (again, unshown) = read_again(family, written - thought, answer);
        let thinks = answer.parts.iter().any(|part| matches!(part, Part::Thinking { .. }));
        // If nobody says how much of the answer was thought, all of it may have been, and none of that is read again.
        let hidden = if reasoning.is_none() && thinks { 0.5 * written as f64 } else { 0.0 };
        let (known, thought) = (read as f64 + again, thought as f64);
        let share = (0.03 * text.total()).powi(2) + (0.01 * known).powi(2) + (0.3 * thought).powi(2);
        Some(Self {
            continues: true,
            known,
            counts: [text.total(), 0.0, messages, 0.0, images, thought],
            noise: 4.0 + share + image_noise(images) + text.doubt,
            doubt: hidden.powi(2) + unshown + changed,
        })
    }

    fn first(family: Family, request: &ModelRequest) -> Self {
        let (system, offered) = setup(family, request);
        let (text, messages, images) = said(family, request, 0);
        let text = system.plus(text);
        let some = if request.tools.is_empty() { 0.0 } else { 1.0 };
        let share = (0.05 * text.total()).powi(2) + (0.2 * offered.total()).powi(2);
        Self {
            counts: [text.total(), offered.total(), messages, some, images, 0.0],
            noise: 9.0 + share + image_noise(images) + text.doubt + offered.doubt,
            ..Self::default()
        }
    }
}

/// What is assumed of a request: one token of text, one of the tools' JSON, one message, tools at all, one image, and one token of the
/// thinking in the answer that is continued: many providers show it to the model again.
pub(crate) fn prior(family: Family) -> [(f64, f64); 6] {
    let token = if family.is_own() { (1.0, 0.05) } else { (family.token.0, 0.15) };
    [token, (0.85, 0.3), (8.0, 4.0), (30.0, 150.0), (500.0, 400.0), (0.7, 0.6)]
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

/// The text of the messages from an index on, counted, how many those are, and how many images they have.
fn said(family: Family, request: &ModelRequest, from: usize) -> (Tally, f64, f64) {
    let messages = || request.history.iter().skip(from);
    let texts: Vec<Cow<'_, str>> = messages().flat_map(|message| texts(message)).collect();
    let images = messages().map(|message| images_in(message)).sum();
    (tally(family.vocabulary, texts.iter().map(Cow::as_ref)), messages().count() as f64, images)
}

/// An image costs anything from a hundred to two thousand tokens.
fn image_noise(images: f64) -> f64 {
    (400.0 * images).powi(2)
}

/// How much of a reported answer is read again, apart from its thinking, and the variance of that. All of it, unless more was written
/// than what is visible can explain (a call costs at most some sixty tokens around its JSON): then the rest was not shown, and is not
/// read again, and only what is visible counts.
fn read_again(family: Family, written: u64, answer: &Message) -> (f64, f64) {
    // Thinking that a model writes into its text is taken out by those who read it again.
    let texts: Vec<Cow<'_, str>> = texts(answer).collect();
    let said = texts.iter().map(|text| text.rsplit_once("</think>").map_or(&**text, |(_, after)| after));
    let (count, written) = (tally(family.vocabulary, said).total(), written as f64);
    let calls = answer.calls().count() as f64;
    let most = (family.token.0 + 0.4) * count + 60.0 * calls + 24.0;
    if written <= most || images_in(answer) > 0.0 {
        return (written, 0.0);
    }
    let visible = family.token.0 * count + 12.0 * calls + 4.0;
    (visible, (0.5 * (most - visible)).powi(2))
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
    let bytes = |message: &Message| texts(message).map(|text| text.len() as u64).sum::<u64>();
    let most = |message: &Message| bytes(message) + 2_000 * images_in(message) as u64;
    request.history.iter().map(|message| most(message)).max().unwrap_or(0)
}

/// What is said, called and returned in a message. Long texts are not copied.
fn texts(message: &Message) -> impl Iterator<Item = Cow<'_, str>> {
    message.parts.iter().filter_map(|part| match part {
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
    })
}
