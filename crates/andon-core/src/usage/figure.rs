//! A number of tokens, and how it is known.

use serde::{Deserialize, Serialize};

/// How a figure came to be known, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Provenance {
    /// The provider's final figure.
    Reported,
    /// The provider's figure so far, received before the call was cut.
    ReportedRunning,
    /// Asked of the provider afterwards.
    LookedUp,
    /// Counted: by the provider's counting endpoint, or with the right tokenizer.
    Counted,
    /// Estimated by a calibrated method.
    Estimated,
    /// Only limits are known.
    Bounded,
    /// Nothing is known.
    Unknown,
}

/// A number of tokens, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Figure {
    /// The number, if it is known.
    pub value: Option<u64>,
    /// How it is known.
    pub provenance: Provenance,
    /// It is at least this. Beside an estimated value, that is to hold nineteen times in twenty; see [`Figure::at_least`].
    pub low: Option<u64>,
    /// It is at most this.
    pub high: Option<u64>,
}

crate::with!(Figure: value: into Option<u64>, provenance: Provenance, low: into Option<u64>, high: into Option<u64>);

impl Figure {
    /// Nothing is known yet. [`Figure::reported`], [`Figure::exact`] and [`Figure::bounded`] make known ones.
    pub const fn new() -> Self {
        Self::UNKNOWN
    }

    /// Nothing is known.
    pub const UNKNOWN: Self = Self { value: None, provenance: Provenance::Unknown, low: None, high: None };

    /// A number that is exact as far as its source goes.
    pub const fn exact(value: u64, provenance: Provenance) -> Self {
        Self { value: Some(value), provenance, low: Some(value), high: Some(value) }
    }

    /// The provider's final figure.
    pub const fn reported(value: u64) -> Self {
        Self::exact(value, Provenance::Reported)
    }

    /// Only limits are known, or nothing: "at least 0" says nothing.
    pub fn bounded(low: Option<u64>, high: Option<u64>) -> Self {
        match (low, high) {
            (None | Some(0), None) => Self::UNKNOWN,
            (low, high) => Self { value: None, provenance: Provenance::Bounded, low, high },
        }
    }

    /// What was certainly used; 0 if nothing is known. The bounds of an estimate are to hold nineteen times in twenty, which is
    /// not certain: so this is twice as far from the value, or half of the lower bound if that is more.
    pub fn at_least(&self) -> u64 {
        let low = self.low.or(self.value).unwrap_or(0);
        let apart = self.value.map_or(0, |value| value.saturating_sub(low));
        low.saturating_sub(apart).max(low.div_ceil(2)).min(low)
    }

    /// Whether it is certain that nothing was used.
    pub(super) fn is_nothing(&self) -> bool {
        self.provenance == Provenance::Reported && self.high == Some(0)
    }

    /// What is left of this figure without tokens that were counted apart.
    #[must_use]
    pub(super) fn without(self, apart: u64) -> Self {
        let rest = |number: Option<u64>| number.map(|number| number.saturating_sub(apart));
        Self { value: rest(self.value), low: rest(self.low), high: rest(self.high), ..self }
    }

    /// What a cache figure certainly counts, and `input` does not (invariants 4 and 5): all of it, or in a sum the part that
    /// is known.
    #[must_use]
    pub fn apart_from_input(self) -> Self {
        if self.value.is_some() { self } else { Self::reported(self.at_least()) }
    }

    /// The same figure, given that it is at most `most`.
    #[must_use]
    pub(super) fn capped(self, most: u64) -> Self {
        let cap = |number: Option<u64>| number.map(|number| number.min(most));
        Self { value: cap(self.value), low: cap(self.low), high: cap(self.high), ..self }
    }

    /// The sum of two figures (invariant 3).
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        // The sum of no calls adds nothing. Above all it does not make "unknown" into "at least 0".
        if self.is_nothing() {
            return other;
        }
        if other.is_nothing() {
            return self;
        }
        let add = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        let value = add(self.value, other.value);
        // An unknown part is at least 0 and has no upper bound. "At least" alone must hold; bounds beside a value are narrower.
        let low = match (self.low, other.low) {
            (None, None) => None,
            _ if value.is_none() => Some(self.at_least().saturating_add(other.at_least())),
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        let high = add(self.high, other.high);
        match value {
            Some(_) => Self { value, provenance: self.provenance.max(other.provenance), low, high },
            None => Self::bounded(low, high),
        }
    }
}

impl Default for Figure {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_never_written_as_zero() {
        let json = serde_json::to_value(Figure::UNKNOWN).unwrap();
        assert_eq!(json, serde_json::json!({"value": null, "provenance": "unknown", "low": null, "high": null}));
    }

    #[test]
    fn a_reported_zero_gives_no_bounds_to_a_figure_that_has_none() {
        let plain = Figure { value: Some(7), provenance: Provenance::Estimated, low: None, high: None };
        for bare in [Figure::UNKNOWN, plain] {
            for sum in [bare.plus(Figure::reported(0)), Figure::reported(0).plus(bare)] {
                assert_eq!(sum, bare);
            }
        }
    }

    #[test]
    fn a_reported_zero_adds_nothing_to_what_is_less_certain() {
        let guess = Figure { value: Some(7), provenance: Provenance::Estimated, low: Some(5), high: Some(9) };
        for sum in [guess.plus(Figure::reported(0)), Figure::reported(0).plus(guess)] {
            assert_eq!(sum, guess);
        }
        assert_eq!(Figure::UNKNOWN.plus(Figure::reported(0)), Figure::UNKNOWN);
    }

    #[test]
    fn a_sum_with_an_unknown_part_has_no_value_but_keeps_its_lower_bound() {
        let sum = Figure::reported(7).plus(Figure::UNKNOWN);
        assert_eq!(sum, Figure { value: None, provenance: Provenance::Bounded, low: Some(7), high: None });
    }

    #[test]
    fn a_sum_has_the_weakest_provenance() {
        let estimate = Figure { value: Some(5), provenance: Provenance::Estimated, low: Some(4), high: Some(6) };
        let sum = Figure::reported(7).plus(estimate);
        assert_eq!(sum, Figure { value: Some(12), provenance: Provenance::Estimated, low: Some(11), high: Some(13) });
    }

    fn estimate(value: u64, low: u64) -> Figure {
        Figure { value: Some(value), provenance: Provenance::Estimated, low: Some(low), high: Some(2 * value - low) }
    }

    #[test]
    fn what_was_certainly_used_is_not_an_estimate() {
        let certain = |figure: Figure| figure.at_least();
        assert_eq!([Figure::reported(7), Figure::UNKNOWN, Figure::bounded(Some(3), None)].map(certain), [7, 0, 3]);
        assert_eq!([estimate(100, 90), estimate(100, 50), estimate(9, 1)].map(certain), [80, 25, 1]);
    }

    #[test]
    fn a_sum_without_a_value_claims_no_more_than_what_is_certain_of_each_part() {
        let sum = estimate(100, 90).plus(Figure::UNKNOWN);
        assert_eq!(sum, Figure::bounded(Some(80), None));
        assert_eq!(estimate(100, 90).plus(estimate(50, 45)).low, Some(135), "bounds of a value stay what they are");
    }

    #[test]
    fn a_sum_of_upper_bounds_is_bounded() {
        let most = |high| Figure { high: Some(high), provenance: Provenance::Bounded, ..Figure::UNKNOWN };
        assert_eq!(most(4).plus(most(5)), most(9));
    }

    #[test]
    fn at_least_nothing_says_nothing_in_a_sum() {
        let running = Figure::exact(0, Provenance::ReportedRunning);
        assert_eq!(running.plus(Figure::UNKNOWN), Figure::UNKNOWN);
    }
}
