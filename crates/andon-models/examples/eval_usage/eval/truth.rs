//! What a part of a recorded answer cost, of which the provider reported only the whole.
//!
//! What the end of an answer costs is taken off first: a line through all answers of the model says how much that is. The rest is shared
//! out by a vocabulary: the model's own, or, where none is published, several that the meter does not use.

use std::collections::HashMap;

use andon_models::meter::vocabulary;

use super::data::Recorded;
use super::replay::Kind;

/// They stand in for a vocabulary that is not published.
const OTHERS: [&str; 3] = ["cl100k_base", "deepseek_v3", "llama3"];
/// The end of an answer costs at most this.
const MOST: f64 = 5.0;
/// A line needs so many answers.
const LEAST: usize = 3;

/// What the end of an answer costs, model by model.
pub(crate) struct Ends<'a>(HashMap<&'a str, f64>);

impl<'a> Ends<'a> {
    /// From all texts that were recorded.
    pub(crate) fn of(recorded: &'a [Recorded]) -> Self {
        let mut answers: HashMap<&str, Vec<(f64, f64)>> = HashMap::new();
        for Recorded { call, truth, .. } in recorded {
            let (count, reported) = (count(&call.model, &call.text), truth.output as f64);
            // More than that was not only the text.
            if Kind::of(call, *truth) == Kind::Text && reported < 3.0 * count + 30.0 {
                answers.entry(&call.model).or_default().push((count, reported));
            }
        }
        Self(answers.into_iter().map(|(model, answers)| (model, intercept(&answers))).collect())
    }

    /// What the first `part` of an answer's text cost.
    pub(crate) fn part(&self, recorded: &Recorded, part: &str) -> u64 {
        let (model, whole) = (recorded.call.model.as_str(), recorded.truth.output as f64);
        let end = self.0.get(model).copied().unwrap_or(0.0).min(whole);
        let all = count(model, &recorded.call.text).max(1.0);
        ((whole - end) * count(model, part) / all).round() as u64
    }
}

fn count(model: &str, text: &str) -> f64 {
    let tokens = |name: &str| tiktoken::get_encoding(name).map_or(0, |encoding| encoding.count(text)) as f64;
    match vocabulary(model) {
        Some(name) => tokens(name),
        None => OTHERS.iter().map(|name| tokens(name)).sum::<f64>() / OTHERS.len() as f64,
    }
}

/// Where the line through these points is at 0. Short answers weigh more: they are off by less.
fn intercept(points: &[(f64, f64)]) -> f64 {
    if points.len() < LEAST {
        return 0.0;
    }
    let weighed = points.iter().map(|(x, y)| (*x, *y, 1.0 / (1.0 + (0.02 * x).powi(2))));
    let mean = |part: fn((f64, f64, f64)) -> f64| weighed.clone().map(part).sum::<f64>();
    let all = mean(|(_, _, weight)| weight);
    let (x, y) = (mean(|(x, _, weight)| x * weight) / all, mean(|(_, y, weight)| y * weight) / all);
    let (mut squares, mut products) = (0.0, 0.0);
    for (here, there, weight) in weighed {
        squares += weight * (here - x).powi(2);
        products += weight * (here - x) * (there - y);
    }
    let slope = if squares > 0.0 { products / squares } else { 1.0 };
    (y - slope * x).clamp(0.0, MOST)
}
