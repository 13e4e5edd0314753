//! The last predictions and what came of them: where the bounds come from.
//!
//! A score is how far a prediction was off, in its own standard deviations. The quantile of past scores says how many
//! standard deviations the next bounds must have to hold as often as they claim (split conformal prediction).
//!
//! # Invariants
//!
//! 1. At most [`KEPT`] predictions are kept.
//! 2. Every score is finite, not negative, and at most [`MOST`].
//! 3. No model has more than [`SHARE`] scores in what is said about all models.

use serde::{Deserialize, Serialize};

/// How many predictions are kept, of each kind.
pub(crate) const KEPT: usize = 40;
/// The bounds claim to hold this often.
const CLAIM: f64 = 0.95;
/// Standard deviations of the bounds while nothing is known about how good they are.
const WIDE: f64 = 3.0;
/// So many scores of other models weigh as much as [`WIDE`].
const POOL_START: f64 = 20.0;
/// So many scores of its own weigh as much as those of other models.
const OWN_START: f64 = 10.0;
/// No prediction counts as further off than this: beyond, a score says only that something was wrong.
const MOST: f32 = 20.0;
/// Each model's last so many scores are part of what is said about all models.
const SHARE: usize = 10;
/// A shift is seen in so many residuals in a row.
const SHIFT: usize = 4;

/// One prediction and what came of it: predicted, reported, score, whether the bounds held.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Past(pub(crate) u64, pub(crate) u64, pub(crate) f32, pub(crate) bool);

/// The last predictions of one kind.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Window {
    past: Vec<Past>,
}

impl Window {
    /// One more.
    pub(crate) fn push(&mut self, past: Past) {
        if !past.2.is_finite() || past.2 < 0.0 {
            return;
        }
        if self.past.len() >= KEPT {
            self.past.remove(0);
        }
        self.past.push(Past(past.0, past.1, past.2.min(MOST), past.3));
    }

    /// What is read from a store is not trusted.
    #[must_use]
    pub(crate) fn checked(self) -> Self {
        let mut window = Self::default();
        self.past.into_iter().for_each(|past| window.push(past));
        window
    }

    pub(crate) fn past(&self) -> &[Past] {
        &self.past
    }

    fn scores(&self) -> impl Iterator<Item = f64> {
        self.past.iter().map(|past| f64::from(past.2))
    }

    /// What counts for other models.
    fn share(&self) -> impl Iterator<Item = f64> {
        self.past.iter().rev().take(SHARE).map(|past| f64::from(past.2))
    }

    /// The last few predictions were all off to the same side, and further than nearly all before them.
    pub(crate) fn shifted(&self) -> bool {
        let before = self.past.len().saturating_sub(SHIFT);
        let (Some(old), Some(new)) = (self.past.get(..before), self.past.get(before..)) else { return false };
        let Some(usual) = quantile(old.iter().map(|past| f64::from(past.2)).collect(), 0.9) else { return false };
        let far = new.iter().all(|past| f64::from(past.2) > usual.max(1.0));
        let over = new.iter().all(|past| past.0 > past.1);
        let under = new.iter().all(|past| past.0 < past.1);
        old.len() >= 2 * SHIFT && far && (over || under)
    }

    /// Whether the predictions were as good as counting: at least five, and hardly one off by more than a token.
    pub(crate) fn counts(&self) -> bool {
        let right = self.past.iter().filter(|past| past.0.abs_diff(past.1) <= 1.max(past.1 / 200)).count();
        self.past.len() >= 5 && right * 20 >= self.past.len() * 19
    }
}

/// How many standard deviations the bounds must have, by a model's own past and by that of all models.
pub(crate) fn width<'a>(own: &Window, all: impl Iterator<Item = &'a Window>) -> f64 {
    let pool: Vec<f64> = all.flat_map(Window::share).collect();
    let common = blend(pool, WIDE, POOL_START);
    blend(own.scores().collect(), common, OWN_START)
}

fn blend(scores: Vec<f64>, otherwise: f64, start: f64) -> f64 {
    let count = scores.len() as f64;
    let earned = quantile(scores, CLAIM).unwrap_or(otherwise);
    (earned * count + otherwise * start) / (count + start)
}

/// The conformal quantile: the smallest value that at least `share` of one more draw will not exceed.
pub(crate) fn quantile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let rank = ((values.len() + 1) as f64 * share).ceil() as usize;
    let (_, value, _) = values.select_nth_unstable_by(rank.saturating_sub(1).min(last), f64::total_cmp);
    Some(*value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(pasts: &[(u64, u64, f32)]) -> Window {
        let mut window = Window::default();
        pasts.iter().for_each(|(predicted, reported, score)| window.push(Past(*predicted, *reported, *score, true)));
        window
    }

    #[test]
    fn the_bounds_are_wide_until_they_are_earned() {
        let nothing = Window::default();
        assert_eq!(width(&nothing, std::iter::empty()), WIDE);
        let good = window(&[(10, 10, 0.1); KEPT]);
        let earned = width(&good, [&good].into_iter());
        assert!(earned < 0.7, "{earned}");
    }

    #[test]
    fn the_quantile_of_few_is_their_greatest() {
        assert_eq!(quantile(vec![1.0, 5.0, 2.0], 0.95), Some(5.0));
        assert_eq!(quantile(vec![], 0.95), None);
        assert_eq!(quantile((1..=99).map(f64::from).collect(), 0.95), Some(95.0));
    }

    #[test]
    fn a_shift_is_four_in_a_row_to_one_side() {
        let mut pasts = [(100, 101, 0.5), (100, 99, 0.4)].repeat(6);
        assert!(!window(&pasts).shifted());
        pasts.extend([(100, 130, 9.0); 4]);
        assert!(window(&pasts).shifted());
        pasts.push((100, 90, 9.0));
        assert!(!window(&pasts).shifted());
    }

    #[test]
    fn a_score_that_is_no_number_is_not_kept() {
        assert_eq!(window(&[(1, 1, f32::NAN), (1, 1, -1.0), (1, 1, f32::INFINITY)]).past().len(), 0);
    }
}
