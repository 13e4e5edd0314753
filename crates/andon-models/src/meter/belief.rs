//! What is believed about a model's way of counting: a recursive ridge regression.
//!
//! Each coefficient starts from a prior (a token is a token) and moves as far as the evidence carries it. Evidence is kept
//! as sums, so that old calls fade (exponential forgetting), and so that what its siblings have shown can stand in for a
//! model that has shown nothing yet.
//!
//! # Invariants
//!
//! 1. Every number in [`Sums`] is finite.
//! 2. A belief without evidence is its prior.

use serde::{Deserialize, Serialize};

use super::matrix::{Matrix, dot};

/// Evidence fades by this much with each call: it is halved after 69.
const MEMORY: f64 = 0.99;
/// What a model's siblings have shown counts this much of what its own calls would.
const SIBLINGS: f64 = 0.03;
/// How much of the prior's width stays for the difference between siblings.
const OWN: f64 = 0.5;
/// A residual that is larger than this many standard deviations counts less.
const OUTLIER: f64 = 1.2;

/// The evidence of past calls: the sums of a weighted regression.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sums {
    squares: Vec<f64>,
    products: Vec<f64>,
}

impl Sums {
    /// No evidence about `size` coefficients.
    pub(crate) fn none(size: usize) -> Self {
        Self { squares: vec![0.0; size * size], products: vec![0.0; size] }
    }

    /// Whether these can be sums about `size` coefficients: what is read from a store is not trusted.
    pub(crate) fn fits(&self, size: usize) -> bool {
        let finite = self.squares.iter().chain(&self.products).all(|cell| cell.is_finite());
        finite && self.products.len() == size && self.squares.len() == size * size
    }

    /// One more call: the inputs `x` gave `y`, where `law` had predicted `predicted` with this `deviation`.
    pub(crate) fn learn(&mut self, x: &[f64], y: f64, predicted: f64, deviation: f64, noise: f64) {
        let score = (y - predicted).abs() / deviation;
        let weight = (OUTLIER / score).min(1.0) / noise;
        let Some(mut squares) = Matrix::from_cells(x.len(), &self.squares) else { return };
        squares = squares.blend(MEMORY, &squares, 0.0);
        squares.add_square(x, weight);
        let products: Vec<f64> = self.products.iter().zip(x).map(|(old, x)| old * MEMORY + x * y * weight).collect();
        let next = Self { squares: squares.cells().to_vec(), products };
        if next.fits(x.len()) {
            *self = next;
        }
    }

    /// Sets the evidence back to this share.
    pub(crate) fn fade(&mut self, share: f64) {
        self.squares.iter_mut().chain(&mut self.products).for_each(|cell| *cell *= share);
    }

    fn add(&mut self, other: &Self) {
        self.squares.iter_mut().zip(&other.squares).for_each(|(a, b)| *a += b);
        self.products.iter_mut().zip(&other.products).for_each(|(a, b)| *a += b);
    }
}

/// Coefficients as far as they are known: a mean and a covariance.
#[derive(Debug, Clone)]
pub(crate) struct Belief {
    mean: Vec<f64>,
    spread: Matrix,
}

impl Belief {
    /// A prior: each coefficient's mean and standard deviation.
    pub(crate) fn prior(coefficients: &[(f64, f64)]) -> Self {
        let mean = coefficients.iter().map(|(mean, _)| *mean).collect();
        let squares: Vec<f64> = coefficients.iter().map(|(_, deviation)| deviation * deviation).collect();
        Self { mean, spread: Matrix::diagonal(&squares) }
    }

    /// The first `count` coefficients also move together, with this standard deviation.
    #[must_use]
    pub(crate) fn together(mut self, count: usize, deviation: f64) -> Self {
        let x: Vec<f64> = (0..self.mean.len()).map(|index| if index < count { 1.0 } else { 0.0 }).collect();
        self.spread.add_square(&x, deviation * deviation);
        self
    }

    /// How many coefficients there are.
    pub(crate) fn size(&self) -> usize {
        self.mean.len()
    }

    /// The belief about a model: from this prior, what its siblings have shown, and its own calls.
    #[must_use]
    pub(crate) fn about<'a>(&self, own: &Sums, siblings: impl Iterator<Item = &'a Sums>) -> Self {
        let mut shown = Sums::none(self.size());
        siblings.filter(|sums| sums.fits(self.size())).for_each(|sums| shown.add(sums));
        shown.fade(SIBLINGS);
        let kin = self.given(&shown);
        let start = Self { spread: kin.spread.blend(1.0, &self.spread, OWN), mean: kin.mean };
        start.given(own)
    }

    /// What is predicted for these inputs, and its variance.
    pub(crate) fn predict(&self, x: &[f64]) -> (f64, f64) {
        (dot(&self.mean, x), dot(&self.spread.times(x), x).max(0.0))
    }

    fn given(&self, sums: &Sums) -> Self {
        self.posterior(sums).unwrap_or_else(|| self.clone())
    }

    fn posterior(&self, sums: &Sums) -> Option<Self> {
        let squares = Matrix::from_cells(self.size(), &sums.squares)?;
        let precision = self.spread.inverse()?;
        let spread = precision.blend(1.0, &squares, 1.0).inverse()?;
        let pull: Vec<f64> = precision.times(&self.mean).iter().zip(&sums.products).map(|(a, b)| a + b).collect();
        let mean = spread.times(&pull);
        mean.iter().all(|cell| cell.is_finite()).then_some(Self { mean, spread })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_belief_without_evidence_is_its_prior() {
        let prior = Belief::prior(&[(1.0, 0.1), (7.0, 4.0)]);
        let sums = Sums::none(2);
        let (value, variance) = prior.about(&sums, std::iter::empty()).predict(&[10.0, 1.0]);
        assert!((value - 17.0).abs() < 1e-6);
        assert!(variance > 0.0);
    }

    #[test]
    fn evidence_moves_the_slope_to_where_the_calls_are() {
        let prior = Belief::prior(&[(1.0, 0.2)]);
        let mut sums = Sums::none(1);
        for _ in 0..30 {
            let (predicted, variance) = prior.about(&sums, std::iter::empty()).predict(&[100.0]);
            sums.learn(&[100.0], 130.0, predicted, (variance + 1.0).sqrt(), 1.0);
        }
        let (value, _) = prior.about(&sums, std::iter::empty()).predict(&[200.0]);
        assert!((value - 260.0).abs() < 2.0, "{value}");
    }

    #[test]
    fn a_sibling_is_a_better_start_than_the_prior() {
        let prior = Belief::prior(&[(1.0, 0.2)]);
        let mut sibling = Sums::none(1);
        for _ in 0..50 {
            sibling.learn(&[100.0], 130.0, 130.0, 1.0, 1.0);
        }
        let (value, _) = prior.about(&Sums::none(1), [&sibling].into_iter()).predict(&[100.0]);
        assert!(value > 120.0, "{value}");
    }

    #[test]
    fn what_is_not_finite_is_not_learnt() {
        let mut sums = Sums::none(1);
        sums.learn(&[f64::INFINITY], 1.0, 1.0, 1.0, 1.0);
        sums.learn(&[1.0], f64::NAN, 1.0, 1.0, 1.0);
        assert_eq!(sums, Sums::none(1));
    }
}
