//! How good estimates have been: the last predictions of a kind, and what came of them.

use std::collections::VecDeque;

use andon_core::usage::Figure;
use serde::{Deserialize, Serialize};

/// How many predictions are kept, of each kind.
const KEPT: usize = 40;

/// The last predictions of a kind: predicted, reported, whether the report was within the bounds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Past(VecDeque<(u64, u64, bool)>);

/// How accurate the estimates of a model's usage have been.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Accuracy {
    /// The exact model.
    pub model: String,
    /// Completed calls that were learned from.
    pub calls: u64,
    /// The estimates of output.
    pub output: Option<Quality>,
    /// The estimates of input, for requests that continue a call with reported usage.
    pub input: Option<Quality>,
    /// The estimates of input, for all other requests.
    pub first_input: Option<Quality>,
    /// It thinks without showing it: a cut call's output has only bounds.
    pub hides_reasoning: bool,
}

/// How good the last estimates were. Shares, not percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Quality {
    /// The number of estimates that this is based on.
    pub calls: usize,
    /// The median error.
    pub median: f64,
    /// The 90th percentile of the errors.
    pub p90: f64,
    /// The error of the sum: below 0 if too little was estimated.
    pub bias: f64,
    /// How often the reported figure was within the bounds.
    pub coverage: f64,
}

impl Past {
    /// One more.
    pub(crate) fn push(&mut self, predicted: Figure, reported: u64) {
        let Some(value) = predicted.value else { return };
        let held =
            predicted.low.is_none_or(|low| low <= reported) && predicted.high.is_none_or(|high| reported <= high);
        self.0.truncate(KEPT - 1);
        self.0.push_front((value, reported, held));
    }

    /// Whether they were as good as counting: at least five, hardly one off by more than a token.
    pub(crate) fn counts(&self) -> bool {
        let right = self.0.iter().filter(|(value, reported, _)| value.abs_diff(*reported) <= 1.max(reported / 200));
        self.0.len() >= 5 && right.count() * 20 >= self.0.len() * 19
    }

    /// How good they were; `None` if there are none.
    pub(crate) fn quality(&self) -> Option<Quality> {
        let mut errors: Vec<f64> = self
            .0
            .iter()
            .map(|(value, reported, _)| value.abs_diff(*reported) as f64 / (*reported).max(1) as f64)
            .collect();
        errors.sort_by(f64::total_cmp);
        let error = |share: f64| errors.get((share * errors.len() as f64) as usize).copied();
        let predicted: f64 = self.0.iter().map(|past| past.0 as f64).sum();
        let reported: f64 = self.0.iter().map(|past| past.1 as f64).sum::<f64>().max(1.0);
        Some(Quality {
            calls: errors.len(),
            median: error(0.5)?,
            p90: error(0.9)?,
            bias: (predicted - reported) / reported,
            coverage: self.0.iter().filter(|past| past.2).count() as f64 / errors.len() as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(calls: &[(u64, u64)]) -> Past {
        let mut past = Past::default();
        for (value, reported) in calls {
            let figure = Figure::reported(*value).low(value - 2).high(value + 2);
            past.push(figure, *reported);
        }
        past
    }

    #[test]
    fn quality_is_what_the_last_forty_were() {
        let mut calls = vec![(900, 9); 3];
        calls.extend([(100, 100); 36]);
        calls.extend([(104, 100), (90, 100), (100, 101), (110, 100)]);
        let quality = past(&calls).quality().unwrap();
        assert_eq!((quality.calls, quality.median, quality.p90, quality.coverage), (40, 0.0, 1.0 / 101.0, 0.925));
        assert!((quality.bias - 0.0007).abs() < 1e-4, "{quality:?}");
        assert_eq!(Past::default().quality(), None);
    }

    #[test]
    fn counting_is_five_predictions_that_were_right_to_the_token() {
        assert!(!past(&[(100, 100); 4]).counts());
        assert!(past(&[(100, 101); 5]).counts());
        assert!(!past(&[(100, 103), (100, 100), (100, 100), (100, 100), (100, 100)]).counts());
    }
}
