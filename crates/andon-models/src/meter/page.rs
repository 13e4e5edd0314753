//! All that was learned about one model.
//!
//! # Invariants
//!
//! 1. The call is predicted before anything is learned from it.
//! 2. What the visible part does not explain (thinking that was not shown, tools that the provider ran) teaches nothing about counting.
//! 3. Nor does a figure that cannot be true.
//! 4. If a request may have been shortened, its lower bound is at most what remains of the largest input reported.

use andon_core::usage::{Figure, Provenance};
use serde::{Deserialize, Serialize};

use super::Reported;
use super::answer::{self, Seen, THINKING};
use super::family::{Family, Thinking, Vocabulary};
use super::line::{Guess, Line};
use super::quality::Accuracy;
use super::request::{Asked, first_prior, next_prior};

/// The version of the format that is written.
pub(crate) const VERSION: u32 = 2;
/// How fast it is forgotten that a model hid its thinking.
const MEMORY: f64 = 0.97;
/// A model is taken to hide its thinking if more than this share of its calls did.
const HIDES: f64 = 0.2;
/// What its name tells weighs as much as so many calls.
const NAMED: f64 = 2.0;
/// For how many calls it is said that a provider seems to count differently.
const NEWS: u64 = 50;
/// What a provider may put around a request, or think behind a summary, without showing it.
const UNSEEN: f64 = 20_000.0;
/// A true figure is at most so many times as much as was predicted, or as little.
const TIMES: f64 = 8.0;

/// What every model can read: less than any widespread server is set to by default.
const WINDOW: u64 = 512;

/// All that was learned about one model: what persists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Page {
    version: u32,
    /// How many calls it stands on.
    pub(crate) calls: u64,
    output: Line,
    thinking: Line,
    next_input: Line,
    first_input: Line,
    /// Calls that told about thinking, and those of them that hid it; both fade.
    told: f64,
    hid: f64,
    /// The call at which the provider seemed to count differently.
    changed: Option<u64>,
    /// The largest input that was reported, since one was far smaller than what was sent.
    #[serde(default)]
    most_read: u64,
}

impl Page {
    /// Nothing is known yet but the name.
    pub(crate) fn new(family: Family) -> Self {
        Self {
            version: VERSION,
            calls: 0,
            output: Line::new(&answer::prior(family)),
            thinking: Line::new(&THINKING),
            next_input: Line::new(&next_prior(family)),
            first_input: Line::new(&first_prior(family)),
            told: 0.0,
            hid: 0.0,
            changed: None,
            most_read: 0,
        }
    }

    /// What is read from a store is not trusted: a page of another version, or a broken one, is no page.
    pub(crate) fn is_good(&self, family: Family) -> bool {
        self.version == VERSION
            && self.output.fits(&answer::prior(family))
            && self.thinking.fits(&THINKING)
            && self.next_input.fits(&next_prior(family))
            && self.first_input.fits(&first_prior(family))
            && [self.told, self.hid].iter().all(|count| (0.0..1e3).contains(count))
    }

    /// How accurate the estimates have been.
    pub(crate) fn accuracy(&self, model: &str, family: Family) -> Accuracy {
        Accuracy {
            model: model.to_owned(),
            calls: self.calls,
            output: self.output.quality(),
            input: self.next_input.quality(),
            first_input: self.first_input.quality(),
            hides_reasoning: self.hides(family),
            tokenizer_changed: self.changed.is_some_and(|at| self.calls < at.saturating_add(NEWS)),
        }
    }

    /// Whether the model must be taken to think without showing it.
    pub(crate) fn hides(&self, family: Family) -> bool {
        let named = if family.thinking == Thinking::Hidden { NAMED } else { 0.0 };
        named + self.hid > HIDES * (NAMED + self.told)
    }

    /// All that a request takes to read.
    pub(crate) fn input(&self, asked: &Asked) -> Figure {
        let (known, guess) = self.rest(asked);
        guess.more(known).figure(Provenance::Estimated, None)
    }

    /// The input of a request of which a server may have dropped the beginning. Servers drop whole messages, the `largest` of which may
    /// be the last one dropped, or at most half of what fits.
    pub(crate) fn perhaps_shortened(&self, input: Figure, largest: u64) -> Figure {
        let fits = self.most_read.max(WINDOW);
        if input.high.is_some_and(|high| high <= fits) {
            return input;
        }
        let kept = fits.saturating_sub(largest).clamp(1, fits / 2);
        input.low(input.low.map(|low| low.min(kept)))
    }

    /// What a request takes beyond what is known of it.
    fn rest(&self, asked: &Asked) -> (f64, Guess) {
        match asked {
            Asked::Next { known, counts, noise, doubt } => (*known, self.next_input.predict(counts, noise + doubt)),
            Asked::First { counts, noise } => (0.0, self.first_input.predict(counts, *noise)),
        }
    }

    /// An answer's output, and the part of it that was thinking. It is at most `most`.
    pub(crate) fn output(&self, family: Family, seen: &Seen, most: Option<u64>) -> (Figure, Figure) {
        let visible = self.output.predict(&seen.counts(), seen.noise());
        let thinking = self.thinking.predict(&[seen.thinking()], seen.thinking_noise());
        let thought = seen.thinking() > 0.0;
        // A summary says only that there was more, until reports have said how much.
        let is_summary = thought && family.thinking == Thinking::Summarised && !self.thinking.has_learned();
        if seen.hides || is_summary || self.hides(family) || (seen.is_blank() && !thought) {
            let shown = visible.figure(Provenance::Estimated, most).at_least();
            let low = if seen.is_blank() { None } else { Some(shown) };
            return (Figure::bounded(low, most), Figure::bounded(None, most));
        }
        if thought {
            let all = if seen.is_blank() { thinking } else { visible.plus(thinking) };
            return (all.figure(Provenance::Estimated, most), thinking.figure(Provenance::Estimated, most));
        }
        let own = matches!(family.vocabulary, Vocabulary::Own(_));
        let counts = own && !seen.has_calls() && self.output.counts();
        let provenance = if counts { Provenance::Counted } else { Provenance::Estimated };
        (visible.figure(provenance, most), Figure::UNKNOWN)
    }

    /// Learns from a completed call.
    pub(crate) fn learn(&mut self, family: Family, asked: &Asked, seen: &Seen, reported: &Reported) {
        self.calls = self.calls.saturating_add(1);
        if let Some(input) = reported.input {
            self.learn_input(family, asked, input);
        }
        if let Some(output) = reported.output {
            self.learn_output(family, seen, output as f64, reported.reasoning.map(|thought| thought as f64));
        }
    }

    fn learn_input(&mut self, family: Family, asked: &Asked, read: u64) {
        let ((known, guess), reported) = (self.rest(asked), read as f64);
        if self.input(asked).low.is_some_and(|low| read < low) {
            // Something was dropped, so the window may be smaller than it was.
            self.most_read = read;
        }
        if absurd(known + guess.value, reported) {
            return;
        }
        self.most_read = self.most_read.max(read);
        match asked {
            Asked::Next { doubt, .. } if *doubt > 0.0 => {}
            Asked::Next { counts, noise, .. } => {
                self.next_input.learn(&next_prior(family), counts, *noise, known, reported);
            }
            Asked::First { counts, noise } => {
                self.first_input.learn(&first_prior(family), counts, *noise, 0.0, reported);
            }
        }
    }

    fn learn_output(&mut self, family: Family, seen: &Seen, reported: f64, reasoning: Option<f64>) {
        let visible = self.output.predict(&seen.counts(), seen.noise()).value;
        let thought = reasoning.unwrap_or(0.0).min(reported);
        let shown = reported - thought;
        // Far more than what is shown can be: whatever it was, it was not shown.
        let far = thought == 0.0 && shown > 3.0 * visible + 30.0;
        if seen.thinking() > 0.0 {
            let rest = reported - if seen.is_blank() { 0.0 } else { visible };
            let thought = if thought > 0.0 { thought } else { rest };
            let guess = self.thinking.predict(&[seen.thinking()], seen.thinking_noise());
            if thought > 0.0 && !absurd(guess.value, thought) {
                self.thinking.learn(&THINKING, &[seen.thinking()], seen.thinking_noise(), 0.0, thought);
            }
        } else if thought > 0.0 || !(seen.hides || seen.is_blank()) {
            self.told = self.told * MEMORY + 1.0;
            self.hid = self.hid * MEMORY + if thought > 0.0 || far { 1.0 } else { 0.0 };
        }
        let is_apart = seen.thinking() == 0.0 || thought > 0.0;
        if seen.is_blank() || seen.hides || far || !is_apart || too_little(visible, shown) {
            return;
        }
        if self.output.learn(&answer::prior(family), &seen.counts(), seen.noise(), 0.0, shown) {
            self.changed = Some(self.calls);
        }
    }
}

/// Whether a figure is so far from what was predicted that it cannot be true.
fn absurd(predicted: f64, reported: f64) -> bool {
    reported > TIMES * predicted.max(0.0) + UNSEEN || too_little(predicted, reported)
}

/// Whether a figure is far below what was predicted: 0 always is.
fn too_little(predicted: f64, reported: f64) -> bool {
    reported == 0.0 || TIMES * (reported + 1.0) < predicted
}
