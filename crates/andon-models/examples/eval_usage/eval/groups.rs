//! Figures over many predictions.

use std::collections::BTreeSet;

use super::replay::Guess;

/// How good some predictions were. In percent.
pub(crate) struct Summary {
    pub(crate) count: usize,
    /// How many answers these figures are of.
    pub(crate) answers: usize,
    pub(crate) median: f64,
    pub(crate) p90: f64,
    /// The error of the sum: below 0 if too little was predicted.
    pub(crate) bias: f64,
    /// How often the reported figure lay within the bounds.
    pub(crate) coverage: f64,
}

/// The summary of predictions that have a value; `None` if there is none.
pub(crate) fn summary<'a>(guesses: impl Iterator<Item = &'a Guess>) -> Option<Summary> {
    let mut answers = BTreeSet::new();
    let valued: Vec<(f64, f64, bool)> = guesses
        .filter_map(|guess| {
            let predicted = guess.predicted.value?;
            answers.insert(guess.line);
            Some((predicted as f64, guess.reported as f64, inside(guess)))
        })
        .collect();
    let mut errors: Vec<f64> = valued
        .iter()
        .map(|(predicted, reported, _)| 100.0 * (predicted - reported).abs() / reported.max(1.0))
        .collect();
    errors.sort_by(f64::total_cmp);
    let sum = |part: fn(&(f64, f64, bool)) -> f64| valued.iter().map(part).sum::<f64>();
    let (predicted, reported) = (sum(|valued| valued.0), sum(|valued| valued.1).max(1.0));
    let held = valued.iter().filter(|valued| valued.2).count();
    Some(Summary {
        count: valued.len(),
        answers: answers.len(),
        median: percentile(&errors, 0.5)?,
        p90: percentile(&errors, 0.9)?,
        bias: 100.0 * (predicted - reported) / reported,
        coverage: 100.0 * held as f64 / valued.len() as f64,
    })
}

/// Whether the reported figure lies within the bounds.
pub(crate) fn inside(guess: &Guess) -> bool {
    let figure = &guess.predicted;
    figure.low.is_none_or(|low| low <= guess.reported) && figure.high.is_none_or(|high| guess.reported <= high)
}

/// A percentile of sorted values, between two of them in proportion.
fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted.get(place.floor() as usize)?, sorted.get(place.ceil() as usize)?);
    Some(below + (above - below) * place.fract())
}
