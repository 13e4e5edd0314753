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
use super::family::{Family, Thinking};
use super::line::{Guess, Line, is_absurd};
use super::quality::Accuracy;
use super::request::{self, Asked};

/// The version of the format that is written.
pub(crate) const VERSION: u32 = 3;
/// How fast it is forgotten that a model hid its thinking.
const MEMORY: f64 = 0.97;
/// A model is taken to hide its thinking if more than this share of its calls did.
const HIDES: f64 = 0.2;
/// What its name tells weighs as much as so many calls.
const NAMED: f64 = 2.0;
/// What a summary's thinking costs must be known to within this share before there is a value.
const KNOWN: f64 = 0.25;
/// What every model can read: less than any widespread server is set to by default.
const WINDOW: u64 = 512;

/// All that was learned about one model: what persists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Page {
    version: u32,
    /// How many calls it stands on.
    pub(crate) calls: u64,
    output: Line,
    next_input: Line,
    first_input: Line,
    /// Calls that told about thinking, and those of them that hid it; both fade.
    told: f64,
    hid: f64,
    /// The largest input that was reported, since one was far smaller than what was sent.
    most_read: u64,
}

impl Page {
    /// Nothing is known yet but the name.
    pub(crate) fn new(family: Family) -> Self {
        let (output, input) = (Line::new(&answer::prior(family)), Line::new(&request::prior(family)));
        let (next_input, first_input) = (input.clone(), input);
        Self { version: VERSION, calls: 0, output, next_input, first_input, told: 0.0, hid: 0.0, most_read: 0 }
    }

    /// What is read from a store is not trusted: a page of another version, or a broken one, is no page.
    pub(crate) fn is_good(&self, family: Family) -> bool {
        let input = request::prior(family);
        self.version == VERSION
            && self.output.fits(&answer::prior(family))
            && self.next_input.fits(&input)
            && self.first_input.fits(&input)
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
        }
    }

    /// Whether the model must be taken to think without showing it.
    pub(crate) fn hides(&self, family: Family) -> bool {
        let named = if family.thinking == Thinking::Hidden { NAMED } else { 0.0 };
        named + self.hid > HIDES * (NAMED + self.told)
    }

    /// All that a request takes to read.
    pub(crate) fn input(&self, asked: &Asked) -> Figure {
        let line = if asked.continues { &self.next_input } else { &self.first_input };
        let guess = line.predict(&asked.counts, asked.noise + asked.doubt);
        guess.more(asked.known).figure(Provenance::Estimated, None)
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

    fn written(&self, seen: &Seen) -> Guess {
        self.output.predict(&seen.counts(), seen.noise())
    }

    /// An answer's output, and the part of it that was thinking. It is at most `most`.
    pub(crate) fn output(&self, family: Family, seen: &Seen, most: Option<u64>) -> (Figure, Figure) {
        let estimated = |seen: &Seen| self.written(seen).figure(Provenance::Estimated, most);
        let thought = seen.thinking() > 0.0;
        // A summary says only that there was more, until reports have said how much.
        let is_summary = thought && family.thinking == Thinking::Summarised && !self.output.knows(THINKING, KNOWN);
        if seen.hides || is_summary || self.hides(family) || (seen.is_blank() && !thought) {
            let low = (!seen.is_blank()).then(|| estimated(&seen.without_thinking()).at_least());
            return (Figure::bounded(low, most), Figure::bounded(None, most));
        }
        if thought {
            return (estimated(seen), estimated(&seen.only_thinking()));
        }
        let counts = family.is_own() && !seen.has_calls() && self.output.counts();
        let provenance = if counts { Provenance::Counted } else { Provenance::Estimated };
        (self.written(seen).figure(provenance, most), Figure::UNKNOWN)
    }

    /// Learns from a completed call.
    pub(crate) fn learn(&mut self, family: Family, asked: &Asked, seen: &Seen, reported: &Reported) {
        self.calls = self.calls.saturating_add(1);
        if let Some(input) = reported.input {
            self.learn_input(family, asked, input);
        }
        if let Some(output) = reported.output {
            let thought = reported.reasoning.unwrap_or(0).min(output);
            self.learn_output(family, seen, output as f64, thought as f64);
        }
    }

    fn learn_input(&mut self, family: Family, asked: &Asked, read: u64) {
        let input = self.input(asked);
        if input.low.is_some_and(|low| read < low) {
            // Something was dropped, so the window may be smaller than it was.
            self.most_read = read;
        }
        if is_absurd(input.value.unwrap_or(0) as f64, read as f64) {
            return;
        }
        self.most_read = self.most_read.max(read);
        if asked.doubt == 0.0 {
            let line = if asked.continues { &mut self.next_input } else { &mut self.first_input };
            line.learn(&request::prior(family), &asked.counts, asked.noise, asked.known, read as f64);
        }
    }

    fn learn_output(&mut self, family: Family, seen: &Seen, reported: f64, thought: f64) {
        let shows = seen.thinking() > 0.0;
        // Of thinking that is not shown nothing is counted.
        let shown = if shows { reported } else { reported - thought };
        // Far more than what is shown can be: whatever it was, it was not shown.
        let far = !shows && thought == 0.0 && shown > 3.0 * self.written(seen).value + 30.0;
        if !shows && (thought > 0.0 || !(seen.hides || seen.is_blank())) {
            self.told = self.told * MEMORY + 1.0;
            self.hid = self.hid * MEMORY + if thought > 0.0 || far { 1.0 } else { 0.0 };
        }
        if !(seen.hides || far || (seen.is_blank() && !shows)) {
            self.output.learn(&answer::prior(family), &seen.counts(), seen.noise(), 0.0, shown);
        }
    }
}
