//! What a completed call teaches.
//!
//! # Invariants
//!
//! 1. The call is predicted before anything is learned from it.
//! 2. What the visible part does not explain (thinking that was not shown, tools that the provider ran) teaches nothing
//!    about counting.
//! 3. Nor does a figure that cannot be true: one wrong report must not stay in the bounds of the next forty calls.

use andon_core::usage::Provenance;

use super::family::Family;
use super::input::{Ground, Step};
use super::output::Seen;
use super::page::Page;
use super::shelf::{Guess, Shelf};
use super::window::{Past, Window};
use super::{Lesson, Outcome, Reported};

/// What a provider may put around a request, or think behind a summary, without showing it.
const UNSEEN: f64 = 20_000.0;
/// A true figure is at most so many times as much as was predicted, or as little.
const TIMES: f64 = 8.0;

/// One completed call.
pub(crate) struct Call<'a> {
    pub(crate) model: &'a str,
    pub(crate) family: Family,
    pub(crate) step: Step,
    pub(crate) seen: Seen,
}

impl Shelf {
    /// Predicts a completed call, keeps the error, and learns from it.
    pub(crate) fn learn(&mut self, call: &Call<'_>, reported: &Reported) -> Lesson {
        let input = reported.input.map(|input| self.learn_input(call, input));
        let output = reported.output.map(|output| self.learn_output(call, output, reported.reasoning));
        let page = self.page(call.model, call.family);
        page.calls = page.calls.saturating_add(1);
        let changed = page.past.text.shifted();
        if changed {
            page.start_again();
        }
        Lesson { input, output, changed }
    }

    fn learn_input(&mut self, call: &Call<'_>, reported: u64) -> Outcome {
        let (model, family, step) = (call.model, call.family, &call.step);
        let guess = self.input(model, family, step);
        let rest = self.rest(model, family, step);
        let outcome = Outcome { predicted: guess.figure(Provenance::Estimated, None), reported };
        if step.ground == Ground::Same || call.seen.hidden || absurd(guess.value, reported as f64) {
            return outcome;
        }
        let page = self.page(model, family);
        let dropped = reported as f64 - step.base;
        let carried = dropped - step.reasoning;
        let (dropped_error, carried_error) = ((dropped - rest.value).abs(), (carried - rest.value).abs());
        if step.reasoning > 0.0 {
            page.carry.learn(step.after_calls, dropped_error, carried_error);
        }
        let actual = if carried_error < dropped_error { carried } else { dropped };
        let (sums, past) = match step.ground {
            Ground::Cold => (&mut page.cold, &mut page.past.cold),
            _ => (&mut page.anchored, &mut page.past.anchored),
        };
        sums.learn(&step.inputs, actual, rest.value, rest.deviation, step.noise);
        keep(past, &guess, &outcome);
        outcome
    }

    fn learn_output(&mut self, call: &Call<'_>, reported: u64, reasoning: Option<u64>) -> Outcome {
        let (model, family, seen) = (call.model, call.family, &call.seen);
        let (predicted, _) = self.output(model, family, seen, None);
        let outcome = Outcome { predicted, reported };
        let visible = self.visible(model, family, seen);
        let thinking = self.thinking(model, family, seen);
        let thought = reasoning.unwrap_or(0).min(reported);
        let shown = (reported - thought) as f64;
        // Much was shown, and next to nothing is said to have been written.
        let short = !seen.blank() && too_little(visible.value, shown);
        if short && thought == 0 {
            return outcome;
        }
        // Far more than what is shown can be: whatever it was, it was not shown.
        let far = reasoning.is_none_or(|reasoning| reasoning == 0) && shown > 3.0 * visible.value + 30.0;
        let page = self.page(model, family);
        if seen.thinking() > 0.0 {
            learn_thinking(page, seen, &thinking, reported, reasoning, &visible);
        } else if !(seen.hidden || seen.blank()) || thought > 0 {
            page.told(thought > 0 || far);
        }
        let apart = seen.thinking() == 0.0 || reasoning.is_some_and(|reasoning| reasoning > 0);
        if seen.blank() || seen.hidden || far || short || !apart {
            return outcome;
        }
        page.output.learn(&seen.inputs(), shown, visible.value, visible.deviation, seen.noise());
        let past = if seen.calls() { &mut page.past.calls } else { &mut page.past.text };
        let visible_outcome =
            Outcome { predicted: visible.figure(Provenance::Estimated, None), reported: shown as u64 };
        keep(past, &visible, &visible_outcome);
        outcome
    }
}

/// How many tokens the thinking had: said apart, or what is left of the output.
fn learn_thinking(
    page: &mut Page,
    seen: &Seen,
    thinking: &Guess,
    output: u64,
    reasoning: Option<u64>,
    visible: &Guess,
) {
    let left = || output.saturating_sub(if seen.blank() { 0 } else { visible.value as u64 });
    let thought = reasoning.filter(|reasoning| *reasoning > 0).unwrap_or_else(left);
    if absurd(thinking.value, thought as f64) {
        return;
    }
    page.thinking.learn(&[seen.thinking()], thought as f64, thinking.value, thinking.deviation, seen.thinking_noise());
    let outcome = Outcome { predicted: thinking.figure(Provenance::Estimated, None), reported: thought };
    keep(&mut page.past.thinking, thinking, &outcome);
}

/// Whether a figure is so far from what was predicted that it cannot be true.
fn absurd(predicted: f64, reported: f64) -> bool {
    reported > TIMES * predicted.max(0.0) + UNSEEN || too_little(predicted, reported)
}

/// Whether a figure is far below what was predicted: 0 always is.
fn too_little(predicted: f64, reported: f64) -> bool {
    reported == 0.0 || TIMES * (reported + 1.0) < predicted
}

fn keep(past: &mut Window, guess: &Guess, outcome: &Outcome) {
    let score = (outcome.reported as f64 - guess.value).abs() / guess.deviation;
    if let Some(value) = outcome.predicted.value {
        past.push(Past(value, outcome.reported, score as f32, outcome.inside()));
    }
}
