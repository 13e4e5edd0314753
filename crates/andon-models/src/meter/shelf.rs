//! Everything learned about all models, and what is predicted from it.
//!
//! # Invariants
//!
//! 1. At most [`MODELS`] models are kept: the one with the fewest calls makes room.
//! 2. Nothing here changes what was learned, except [`Shelf::page`] and [`Shelf::put`].

use std::collections::BTreeMap;

use andon_core::usage::{Figure, Provenance};

use super::belief::{Belief, Sums};
use super::family::{Family, Vocabulary};
use super::input::{self, Ground, Step};
use super::output::{self, Seen};
use super::page::{Page, Pasts};
use super::window::{self, Window};

/// How many models are kept.
const MODELS: usize = 512;

/// All pages.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    pages: BTreeMap<String, (Family, Page)>,
}

/// A prediction before it is a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guess {
    /// What is expected.
    pub(crate) value: f64,
    /// Its standard deviation.
    pub(crate) deviation: f64,
    /// How many of these the bounds have.
    pub(crate) width: f64,
}

/// The parts of a page that a prediction needs.
struct Part {
    sums: fn(&Page) -> &Sums,
    past: fn(&Pasts) -> &Window,
}

impl Shelf {
    pub(crate) fn get(&self, model: &str) -> Option<&Page> {
        self.pages.get(model).map(|(_, page)| page)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Family, &Page)> {
        self.pages.iter().map(|(model, (family, page))| (model.as_str(), *family, page))
    }

    /// A model's page, to be written on.
    pub(crate) fn page(&mut self, model: &str, family: Family) -> &mut Page {
        if !self.pages.contains_key(model) {
            self.make_room();
        }
        &mut self.pages.entry(model.to_owned()).or_insert_with(|| (family, Page::empty())).1
    }

    /// Puts a page there.
    pub(crate) fn put(&mut self, model: &str, family: Family, page: Page) {
        *self.page(model, family) = page;
    }

    fn make_room(&mut self) {
        if self.pages.len() >= MODELS {
            let least = self.pages.iter().min_by_key(|(_, (_, page))| page.calls).map(|(model, _)| model.clone());
            least.map(|model| self.pages.remove(&model));
        }
    }

    /// What is predicted for these inputs.
    fn guess(&self, model: &str, family: Family, prior: &Belief, part: &Part, inputs: &[f64], noise: f64) -> Guess {
        let own = self.get(model);
        let none = Sums::none(prior.size());
        let kin =
            self.iter().filter(|(name, other, _)| *name != model && !family.kin.is_empty() && other.kin == family.kin);
        let belief = prior.about(own.map_or(&none, part.sums), kin.map(|(_, _, page)| (part.sums)(page)));
        let (value, variance) = belief.predict(inputs);
        let all = self.iter().map(|(_, _, page)| (part.past)(&page.past));
        let empty = Window::default();
        let width = window::width(own.map_or(&empty, |page| (part.past)(&page.past)), all);
        Guess { value, deviation: (variance + noise).sqrt(), width }
    }

    /// The visible part of an answer, without thinking.
    pub(crate) fn visible(&self, model: &str, family: Family, seen: &Seen) -> Guess {
        let past: fn(&Pasts) -> &Window = if seen.calls() { |past| &past.calls } else { |past| &past.text };
        let part = Part { sums: |page| &page.output, past };
        self.guess(model, family, &output::prior(family), &part, &seen.inputs(), seen.noise())
    }

    /// The thinking of an answer, from what is shown of it.
    pub(crate) fn thinking(&self, model: &str, family: Family, seen: &Seen) -> Guess {
        let part = Part { sums: |page| &page.thinking, past: |past| &past.thinking };
        self.guess(model, family, &output::thinking_prior(), &part, &[seen.thinking()], seen.thinking_noise())
    }

    /// What a request cost beyond what is known of it, its anchor's thinking apart.
    pub(crate) fn rest(&self, model: &str, family: Family, step: &Step) -> Guess {
        let (prior, part) = match step.ground {
            Ground::Same => return Guess { value: 0.0, deviation: 1.0 + 0.005 * step.base, width: 2.0 },
            Ground::Anchored => {
                (input::anchored_prior(family), Part { sums: |page| &page.anchored, past: |past| &past.anchored })
            }
            Ground::Cold => (input::cold_prior(family), Part { sums: |page| &page.cold, past: |past| &past.cold }),
        };
        self.guess(model, family, &prior, &part, &step.inputs, step.noise)
    }

    /// All that a request cost.
    pub(crate) fn input(&self, model: &str, family: Family, step: &Step) -> Guess {
        let rest = self.rest(model, family, step);
        let carried = self.get(model).map(|page| page.carry).unwrap_or_default().carried(step.after_calls);
        let thought = if carried.again { step.reasoning } else { 0.0 };
        // Until it is known whether thinking is read again, it may be.
        let doubt = if carried.learned { 0.1 } else { 0.5 } * step.reasoning;
        let deviation = rest.deviation.hypot(doubt);
        Guess { value: step.base + thought + rest.value, deviation, ..rest }
    }

    /// An answer's output, and the part of it that was thinking.
    pub(crate) fn output(&self, model: &str, family: Family, seen: &Seen, most: Option<u64>) -> (Figure, Figure) {
        let page = self.get(model);
        let unseen = page.map_or(family.hides, |page| page.hides(family.hides)) || seen.hidden;
        let visible = self.visible(model, family, seen);
        let thinking = self.thinking(model, family, seen);
        if seen.thinking() > 0.0 && !unseen {
            let sum = visible.plus(thinking, seen.blank());
            return (sum.figure(Provenance::Estimated, most), thinking.figure(Provenance::Estimated, most));
        }
        if seen.blank() || unseen {
            let low = (!seen.blank()).then(|| visible.figure(Provenance::Estimated, most).low).flatten();
            return (bounded(low, most), bounded(None, most));
        }
        let never = page.is_some_and(|page| page.never_thinks(family.hides));
        let reasoning = if never { Figure::exact(0, Provenance::Estimated) } else { bounded(None, most) };
        let own = matches!(family.vocabulary, Vocabulary::Own(_));
        let counts = own && !seen.calls() && page.is_some_and(|page| page.past.text.counts());
        let provenance = if counts { Provenance::Counted } else { Provenance::Estimated };
        (visible.figure(provenance, most), reasoning)
    }
}

impl Guess {
    fn plus(self, thinking: Self, blank: bool) -> Self {
        if blank {
            return thinking;
        }
        let deviation = self.deviation.hypot(thinking.deviation);
        Self { value: self.value + thinking.value, deviation, width: self.width.max(thinking.width) }
    }

    /// The figure: at least 1, and at most `most`, if something is.
    pub(crate) fn figure(self, provenance: Provenance, most: Option<u64>) -> Figure {
        let half = self.deviation * self.width;
        if !self.value.is_finite() || !half.is_finite() {
            return Figure::UNKNOWN;
        }
        // The conversion saturates: below 0 is 0, and too much is the most there is.
        let within = |bound: f64| (bound as u64).clamp(1, most.unwrap_or(u64::MAX).max(1));
        let value = within(self.value.round());
        let low = within((self.value - half).floor()).min(value);
        let high = within((self.value + half).ceil()).max(value);
        Figure { value: Some(value), provenance, low: Some(low), high: Some(high) }
    }
}

/// Limits, as far as there are any.
fn bounded(low: Option<u64>, high: Option<u64>) -> Figure {
    if low.is_none() && high.is_none() {
        return Figure::UNKNOWN;
    }
    Figure { value: None, provenance: Provenance::Bounded, low, high }
}
