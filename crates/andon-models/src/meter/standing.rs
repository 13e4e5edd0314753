//! How good the estimates have been.

use serde::Serialize;

use super::page::Page;
use super::window::{Past, Window, quantile};

/// For how many calls it is told that a provider seems to count differently.
const NEWS: u64 = 50;

/// How good a model's estimates have been.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Standing {
    /// The model's exact id.
    pub model: String,
    /// Completed calls that were learned from.
    pub calls: u64,
    /// Estimates of output.
    pub output: Option<Quality>,
    /// Estimates of input from an anchor.
    pub input: Option<Quality>,
    /// Estimates of input without an anchor.
    pub first_input: Option<Quality>,
    /// It thinks without showing it: a cut call's output has only bounds.
    pub hides_reasoning: bool,
    /// The provider seemed to count differently at one of the last calls: it may have another tokenizer.
    pub tokenizer_changed: bool,
}

impl Standing {
    pub(crate) fn of(model: &str, page: &Page, named: bool) -> Self {
        let past = &page.past;
        Self {
            model: model.to_owned(),
            calls: page.calls,
            output: Quality::of(&[&past.text, &past.calls]),
            input: Quality::of(&[&past.anchored]),
            first_input: Quality::of(&[&past.cold]),
            hides_reasoning: page.hides(named),
            tokenizer_changed: page.changed.is_some_and(|at| page.calls < at.saturating_add(NEWS)),
        }
    }
}

/// How good the last estimates were. Shares, not percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quality {
    /// How many estimates this stands on.
    pub calls: usize,
    /// The median error.
    pub median: f64,
    /// Nine of ten errors are at most this.
    pub p90: f64,
    /// The error of the sum: below 0 if too little was estimated.
    pub bias: f64,
    /// How often the reported figure was within the bounds.
    pub coverage: f64,
}

impl Quality {
    fn of(windows: &[&Window]) -> Option<Self> {
        let past: Vec<Past> = windows.iter().flat_map(|window| window.past()).copied().collect();
        let errors: Vec<f64> = past.iter().map(|past| past.0.abs_diff(past.1) as f64 / past.1.max(1) as f64).collect();
        let sum = |part: fn(&Past) -> u64| past.iter().map(|past| part(past) as f64).sum::<f64>();
        let (predicted, reported) = (sum(|past| past.0), sum(|past| past.1).max(1.0));
        let held = past.iter().filter(|past| past.3).count();
        Some(Self {
            calls: past.len(),
            median: quantile(errors.clone(), 0.5)?,
            p90: quantile(errors, 0.9)?,
            bias: (predicted - reported) / reported,
            coverage: held as f64 / past.len() as f64,
        })
    }
}
