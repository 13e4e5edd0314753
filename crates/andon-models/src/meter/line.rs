//! What one kind of count costs a model, learned from the calls that ended.
//!
//! A line predicts a figure as a sum of counts times unit costs. Each cost starts at an assumed value for such models, and moves as
//! far as the reported figures carry it: a Kalman filter that takes the costs to be independent of each other, so it needs no matrices.
//!
//! # Invariants
//!
//! 1. Every number is finite, and none but the streak is below 0.
//! 2. One report moves the costs, and widens the bounds, by a limited amount.

use andon_core::usage::{Figure, Provenance};
use serde::{Deserialize, Serialize};

use super::quality::{Past, Quality};

/// How much of the deviation that a cost began with is added at each call, because models change.
const DRIFT: f64 = 0.05;
/// A report further off than this many deviations teaches no more than one that is so far off.
const FAR: f64 = 2.5;
/// So many of them in a row, to the same side, mean that the provider counts in another way than was assumed or learned: then each
/// cost may be off by this share. Otherwise bounds and "at least" would be false until the costs have drifted there.
const SHIFT: i32 = 3;
const UNCERTAIN: f64 = 0.4;
/// A report adds at most this, in variances, to what is known about the scatter.
const MOST_SCATTER: f64 = 25.0;
/// What is assumed about the scatter weighs as much as so many calls, and what was learned as much as this many at most.
const ASSUMED: f64 = 6.0;
const REMEMBERED: f64 = 30.0;
/// The bounds are this many deviations away, and three times as far before the first call.
const WIDTH: f64 = 1.9;
/// A true figure is at most so many times as much as was predicted, or as little.
const TIMES: f64 = 8.0;
/// What a provider may put around a request, or think behind a summary, without showing it.
const UNSEEN: f64 = 20_000.0;

/// What is assumed one of each thing costs, and how far that may be off.
pub(crate) type Prior<'a> = &'a [(f64, f64)];

/// What one of each counted thing costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// Each cost and its deviation.
    costs: Vec<(f64, f64)>,
    /// How far off the predictions were: the mean square, in the variances that they claimed.
    scatter: f64,
    /// How many calls have taught it something.
    calls: u32,
    /// Reports in a row that were far above (or, if negative, far below) what was predicted.
    streak: i32,
    /// The last predictions and what came of them.
    past: Past,
}

/// A prediction before it is a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guess {
    pub(crate) value: f64,
    variance: f64,
    width: f64,
}

impl Line {
    /// A line that has learned nothing.
    pub(crate) fn new(prior: Prior<'_>) -> Self {
        Self { costs: prior.to_vec(), scatter: 1.0, calls: 0, streak: 0, past: Past::default() }
    }

    /// Whether this can be a line of that kind: what is read from a store is not trusted.
    pub(crate) fn fits(&self, prior: Prior<'_>) -> bool {
        let is_good = |number: f64| (0.0..=f64::from(u32::MAX)).contains(&number);
        self.costs.len() == prior.len()
            && self.costs.iter().all(|(cost, deviation)| is_good(*cost) && is_good(*deviation))
            && (0.0..=MOST_SCATTER).contains(&self.scatter)
    }

    /// What this much of each thing costs. `noise` is the variance that no learning takes away.
    pub(crate) fn predict(&self, counts: &[f64], noise: f64) -> Guess {
        let terms = self.costs.iter().zip(counts);
        let value = terms.clone().map(|((cost, _), count)| cost * count).sum();
        let variance = noise + terms.map(|((_, deviation), count)| (deviation * count).powi(2)).sum::<f64>();
        let width = WIDTH * (1.0 + 2.0 / (f64::from(self.calls) + 1.0));
        Guess { value, variance: variance * self.scatter, width }
    }

    /// One more report, of which `known` was no prediction. One that cannot be true teaches nothing.
    pub(crate) fn learn(&mut self, prior: Prior<'_>, counts: &[f64], noise: f64, known: f64, reported: f64) {
        let guess = self.predict(counts, noise).more(known);
        let (error, score) = (reported - guess.value, (reported - guess.value) / guess.variance.sqrt());
        if !score.is_finite() || is_absurd(guess.value, reported) {
            return;
        }
        self.past.push(guess.figure(Provenance::Estimated, None), reported as u64);
        self.streak = match score {
            far if far > FAR => self.streak.max(0) + 1,
            far if far < -FAR => self.streak.min(0) - 1,
            _ => 0,
        };
        if self.streak.abs() >= SHIFT {
            let costs = self.costs.iter_mut().zip(prior);
            costs.for_each(|((cost, deviation), (_, began))| *deviation = began.max(UNCERTAIN * *cost));
            (self.calls, self.streak, self.scatter) = (0, 0, 1.0);
        }
        let variance = self.predict(counts, noise).variance;
        let claimed = variance / self.scatter;
        let gain = (FAR * variance.sqrt() / error.abs()).min(1.0) / claimed;
        for ((cost, deviation), (count, (_, began))) in self.costs.iter_mut().zip(counts.iter().zip(prior)) {
            let variance = deviation.powi(2);
            *cost = (*cost + variance * count * gain * error).clamp(0.0, f64::from(u32::MAX));
            let left = variance * (1.0 - variance * count.powi(2) * gain).max(0.0);
            *deviation = (left + (DRIFT * began).powi(2)).sqrt();
        }
        let weight = (ASSUMED + f64::from(self.calls)).min(REMEMBERED);
        let seen = (error.powi(2) / claimed).min(MOST_SCATTER);
        self.scatter = (self.scatter * weight + seen) / (weight + 1.0);
        self.calls = self.calls.saturating_add(1);
    }

    /// Whether a cost is known to within a share of it.
    pub(crate) fn knows(&self, cost: usize, share: f64) -> bool {
        self.costs.get(cost).is_some_and(|(cost, deviation)| *deviation < share * cost)
    }

    /// Whether its last predictions were as good as counting: at least five, each right to the token.
    pub(crate) fn counts(&self) -> bool {
        self.past.counts()
    }

    /// How good its last predictions were.
    pub(crate) fn quality(&self) -> Option<Quality> {
        self.past.quality()
    }
}

impl Guess {
    /// The same with something that is known.
    pub(crate) fn more(self, known: f64) -> Self {
        Self { value: self.value + known, ..self }
    }

    /// The figure: at least 1, and at most `most`, if something is.
    pub(crate) fn figure(self, provenance: Provenance, most: Option<u64>) -> Figure {
        let half = self.variance.sqrt() * self.width;
        if !self.value.is_finite() || !half.is_finite() {
            return Figure::UNKNOWN;
        }
        // The conversion saturates: below 0 is 0, and too much is the most there is.
        let within = |bound: f64| (bound as u64).clamp(1, most.unwrap_or(u64::MAX).max(1));
        let value = within(self.value.round());
        let low = within((self.value - half).floor()).min(value);
        let high = within((self.value + half).ceil()).max(value);
        Figure::new().value(value).provenance(provenance).low(low).high(high)
    }
}

/// Whether a figure is so far from what was predicted that it cannot be true.
pub(crate) fn is_absurd(predicted: f64, reported: f64) -> bool {
    reported == 0.0 || reported > TIMES * predicted + UNSEEN || TIMES * (reported + 1.0) < predicted
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIOR: [(f64, f64); 2] = [(1.0, 0.1), (3.0, 2.0)];

    fn taught(calls: usize, report: impl Fn(f64) -> f64) -> Line {
        let mut line = Line::new(&PRIOR);
        for number in 0..calls {
            let count = 40.0 + 17.0 * (number % 7) as f64;
            line.learn(&PRIOR, &[count, 1.0], 2.0, 0.0, report(count));
        }
        line
    }

    #[test]
    fn a_line_that_has_learned_nothing_predicts_what_is_assumed() {
        let guess = Line::new(&PRIOR).predict(&[100.0, 1.0], 1.0);
        assert_eq!((guess.value, guess.variance), (103.0, 1.0 + 100.0 + 4.0));
    }

    #[test]
    fn costs_move_to_where_the_reports_are_and_the_bounds_close_in() {
        let line = taught(30, |count| 1.12 * count + 2.0);
        let (before, after) = (Line::new(&PRIOR).predict(&[200.0, 1.0], 2.0), line.predict(&[200.0, 1.0], 2.0));
        assert!((after.value - 226.0).abs() < 4.0, "{after:?}");
        assert!(after.variance.sqrt() * after.width < before.variance.sqrt() * before.width / 4.0, "{after:?}");
    }

    #[test]
    fn one_wild_report_neither_moves_the_costs_far_nor_opens_the_bounds_for_long() {
        let mut line = taught(30, |count| count + 3.0);
        let before = line.predict(&[200.0, 1.0], 2.0);
        line.learn(&PRIOR, &[200.0, 1.0], 2.0, 0.0, 9e15);
        let after = line.predict(&[200.0, 1.0], 2.0);
        assert!(
            (after.value - before.value).abs() < 3.0 && after.variance < 6.0 * before.variance,
            "{before:?} {after:?}"
        );
        assert!(line.fits(&PRIOR));
    }

    #[test]
    fn three_reports_far_off_to_the_same_side_are_another_way_of_counting_which_is_learned_at_once() {
        let mut line = taught(20, |count| count + 3.0);
        let mut teach = || {
            line.learn(&PRIOR, &[200.0, 1.0], 2.0, 0.0, 270.0);
            line.predict(&[200.0, 1.0], 2.0).value
        };
        let values = [(); 4].map(|()| teach());
        assert!(values[1] < 220.0 && (values[3] - 270.0).abs() < 15.0, "{values:?}");
    }

    #[test]
    fn what_is_not_finite_is_not_learned() {
        let mut line = taught(3, |count| count);
        let before = line.clone();
        line.learn(&PRIOR, &[f64::INFINITY, 1.0], 2.0, 0.0, 1.0);
        line.learn(&PRIOR, &[1.0, 1.0], 2.0, 0.0, f64::NAN);
        assert_eq!(line, before);
    }
}
