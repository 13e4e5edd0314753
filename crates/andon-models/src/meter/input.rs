//! What a request cost to read.
//!
//! Mostly hidden prompts make this hard: what a provider puts around tools may be hundreds of tokens. So the last reported
//! call is taken as an anchor, and only what has come since is counted. Without an anchor everything is.
//!
//! # Invariants
//!
//! 1. A request that was already reported costs what was reported.
//! 2. An anchor counts as what it is: whether the history continues it is checked, as far as a bounded number of
//!    messages, their lengths and their edges tell.
//! 3. However long the history is, at most [`super::digest::TEXTS`] of its texts are hashed and [`super::count::TEXTS`] counted; with an
//!    anchor that it continues, none before the anchor is counted.

use std::borrow::Cow;

use super::belief::Belief;
use super::count::{Tally, tally_all, tally_one};
use super::digest::digest;
use super::family::{Family, Vocabulary};
use super::{Anchor, Asked};

/// How many coefficients a request with an anchor has.
pub(crate) const ANCHORED: usize = 5;
/// How many one without has.
pub(crate) const COLD: usize = 6;

/// What a request stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ground {
    /// The same request was reported before.
    Same,
    /// It continues a reported call, or has a reported call's system prompt and tools.
    Anchored,
    /// Nothing.
    Cold,
}

/// A request, counted.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) ground: Ground,
    /// What is known of it.
    pub(crate) base: f64,
    /// Thinking of the anchor's answer that may be read again.
    pub(crate) reasoning: f64,
    /// That answer called tools.
    pub(crate) after_calls: bool,
    /// The inputs of the regression for the rest.
    pub(crate) inputs: Vec<f64>,
    /// The variance that no calibration takes away.
    pub(crate) noise: f64,
}

impl Step {
    /// Counts a request from its anchor, or without.
    pub(crate) fn of(family: Family, asked: &Asked<'_>, anchor: Option<&Anchor>) -> Self {
        let Some(anchor) = anchor else { return Self::cold(family, asked) };
        let same_setup = setup(asked) == anchor.setup;
        match asked.messages.get(..anchor.messages) {
            Some(old) if digest(old) == anchor.history => Self::next(family, asked, anchor, same_setup),
            _ if same_setup => Self::beside(family, asked, anchor),
            _ => None,
        }
        .unwrap_or_else(|| Self::cold(family, asked))
    }

    /// The anchor's conversation goes on. `None` if the setup is another, and the anchor does not know how long its own
    /// was.
    fn next(family: Family, asked: &Asked<'_>, anchor: &Anchor, same_setup: bool) -> Option<Self> {
        let setup = if same_setup { 0.0 } else { setup_tally(family, asked).total() - anchor.counted_setup? as f64 };
        let images = asked.images.saturating_sub(anchor.images) as f64;
        let (answer, since) = match asked.messages.get(anchor.messages..)? {
            [] if same_setup => return Some(Self::same(anchor)),
            [] => (None, &[][..]),
            [answer, since @ ..] => (Some(tally_one(family.vocabulary, without_thinking(answer))), since),
        };
        let new = tally_all(family.vocabulary, since);
        let turns = since.len() as f64;
        let thought = anchor.reasoning.unwrap_or(0).min(anchor.output);
        let (written, reasoning) = match answer {
            Some(answer) => (visible(family, anchor, thought, &answer), thought as f64),
            None => (0.0, 0.0),
        };
        let more = (anchor.calls as f64 - turns).max(0.0);
        let hidden = if anchor.hidden && answer.is_some() { 50.0 + 0.5 * anchor.output as f64 } else { 0.0 };
        let changed = if same_setup { 0.0 } else { 10.0 + 0.25 * setup.abs() };
        let noise = 4.0 + (0.03 * new.total()).powi(2) + hidden * hidden + changed * changed + image_noise(images);
        Some(Self {
            ground: Ground::Anchored,
            base: anchor.input as f64 + written,
            reasoning,
            after_calls: anchor.calls > 0,
            inputs: vec![new.total(), turns, more, setup, images],
            noise: noise + new.doubt,
        })
    }

    /// The anchor's request again.
    fn same(anchor: &Anchor) -> Self {
        let (ground, base) = (Ground::Same, anchor.input as f64);
        Self { ground, base, reasoning: 0.0, after_calls: false, inputs: vec![0.0; ANCHORED], noise: 1.0 }
    }

    /// Another conversation with the same system prompt and tools. `None` if the anchor does not know how long its own was.
    fn beside(family: Family, asked: &Asked<'_>, anchor: &Anchor) -> Option<Self> {
        let counted = anchor.counted_messages? as f64;
        let all = tally_all(family.vocabulary, asked.messages);
        let more = all.total() - counted;
        let turns = asked.messages.len() as f64 - anchor.messages as f64;
        let images = asked.images as f64 - anchor.images as f64;
        let noise = 16.0 + (0.05 * more).powi(2) + image_noise(images) + all.doubt;
        let inputs = vec![more, turns, 0.0, 0.0, images];
        let base = anchor.input as f64;
        Some(Self { ground: Ground::Anchored, base, reasoning: 0.0, after_calls: false, inputs, noise })
    }

    fn cold(family: Family, asked: &Asked<'_>) -> Self {
        let text = tally_one(family.vocabulary, asked.system.unwrap_or_default())
            .plus(&tally_all(family.vocabulary, asked.messages));
        let tools = tally_all(family.vocabulary, asked.tools);
        let some = if asked.tools.is_empty() { 0.0 } else { 1.0 };
        let images = asked.images as f64;
        let noise = 9.0 + (0.05 * text.total()).powi(2) + (0.2 * tools.total()).powi(2) + image_noise(images);
        Self {
            ground: Ground::Cold,
            base: 0.0,
            reasoning: 0.0,
            after_calls: false,
            inputs: vec![text.total(), tools.total(), asked.messages.len() as f64, some, images, 1.0],
            noise: noise + text.doubt + tools.doubt,
        }
    }
}

/// An image costs anything from a hundred to two thousand tokens.
fn image_noise(images: f64) -> f64 {
    (400.0 * images).powi(2)
}

/// How much of the anchor's answer is read again, its thinking apart. What the history does not show of it (thinking in
/// its text that was taken out, say) is not read again: a call costs at most some sixty tokens around its JSON.
fn visible(family: Family, anchor: &Anchor, thought: u64, answer: &Tally) -> f64 {
    let slope = if family.vocabulary == Vocabulary::Mixed { 1.5 } else { 1.1 };
    let written = anchor.output.saturating_sub(thought) as f64;
    if answer.total() == 0.0 {
        written
    } else {
        written.min(slope * answer.total() + 60.0 * anchor.calls as f64 + 24.0)
    }
}

/// Thinking that a model writes into its text is taken out by those who read it again.
fn without_thinking(answer: &str) -> &str {
    answer.rsplit_once("</think>").map_or(answer, |(_, after)| after)
}

/// What is believed about requests with an anchor before any was seen.
pub(crate) fn anchored_prior(family: Family) -> Belief {
    Belief::prior(&[slope(family), (7.0, 4.0), (8.0, 12.0), (0.8, 0.3), (500.0, 400.0)])
}

/// The same without an anchor.
pub(crate) fn cold_prior(family: Family) -> Belief {
    Belief::prior(&[slope(family), (0.85, 0.3), (4.0, 2.0), (30.0, 150.0), (500.0, 400.0), (5.0, 5.0)])
}

fn slope(family: Family) -> (f64, f64) {
    match family.vocabulary {
        Vocabulary::Own(_) => (1.0, 0.05),
        Vocabulary::Mixed => (1.1, 0.15),
    }
}

/// The local count of a request's system prompt and tools.
pub(crate) fn setup_tally(family: Family, asked: &Asked<'_>) -> Tally {
    tally_one(family.vocabulary, asked.system.unwrap_or_default()).plus(&tally_all(family.vocabulary, asked.tools))
}

/// A hash of a request's system prompt and tools.
pub(crate) fn setup(asked: &Asked<'_>) -> u64 {
    let tools = digest(asked.tools);
    asked.system.map_or(tools, |system| tools.rotate_left(1) ^ digest(&[Cow::Borrowed(system)]))
}
