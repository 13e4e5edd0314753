//! What a call used up to its end, what the provider charges, and what may still be learned about it.

use serde::{Deserialize, Serialize};

use super::{Figure, Provenance, Usage};
use crate::time::Wall;

/// What one model call, or a run, used: what reached us, and what the provider will charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Used {
    /// What was used up to the end or the cut.
    pub delivered: Usage,
    /// What the provider will charge.
    pub billed: Usage,
}

crate::with!(Used: delivered: Usage, billed: Usage);

impl Used {
    /// What reached us, and what the provider will charge.
    pub const fn new(delivered: Usage, billed: Usage) -> Self {
        Self { delivered, billed }
    }

    /// Nothing was used: the sum of no calls at all.
    pub const NONE: Self = Self { delivered: Usage::NONE, billed: Usage::NONE };

    /// Nothing is known.
    pub const UNKNOWN: Self = Self { delivered: Usage::UNKNOWN, billed: Usage::UNKNOWN };

    /// The call finished: what was delivered is what is billed.
    pub const fn whole(usage: Usage) -> Self {
        Self { delivered: usage, billed: usage }
    }

    /// The call was cut: at least what was delivered is billed, and how much more is unknown.
    pub fn cut(delivered: Usage) -> Self {
        // The rest may have been generated and charged, so an upper bound on what was delivered is not one on the bill.
        let open = |figure: Figure| Figure::bounded(Some(figure.at_least()), None);
        let billed = Usage { output: open(delivered.output), reasoning: open(delivered.reasoning), ..delivered };
        Self { delivered, billed }
    }

    /// The same, of a call about whose end nothing is known: the answer may have gone on, up to `most` tokens if there is a limit.
    #[must_use]
    pub fn open_ended(self, most: Option<u64>) -> Self {
        let open = |figure: Figure| match figure.value {
            Some(value) => Figure { high: most.map(|most| most.max(value)), ..figure },
            None => Figure::bounded(figure.low, most),
        };
        let known = |figure: Figure| figure.provenance <= Provenance::Reported;
        let open_unless_known = |figure: Figure| if known(figure) { figure } else { open(figure) };
        let opened = |usage: Usage| Usage {
            output: open_unless_known(usage.output),
            reasoning: if usage.reasoning == Figure::UNKNOWN {
                usage.reasoning
            } else {
                open_unless_known(usage.reasoning)
            },
            ..usage
        };
        Self { delivered: opened(self.delivered), billed: opened(self.billed) }
    }

    /// The same, with what was learned later: see [`Usage::refined_by`]. No more was delivered than is charged, so a charge
    /// that the provider has stated is also an upper bound of what was delivered.
    #[must_use]
    pub fn refined_by(self, later: Self) -> Self {
        let mut delivered = self.delivered.refined_by(later.delivered);
        let billed = self.billed.refined_by(later.billed);
        let stated = |figure: Figure| figure.value.filter(|_| figure.provenance <= Provenance::LookedUp);
        if let Some(most) = stated(billed.output) {
            delivered.output = delivered.output.capped(most);
        }
        if let Some(most) = stated(billed.reasoning) {
            delivered.reasoning = delivered.reasoning.capped(most);
        }
        Self { delivered, billed }
    }

    /// The sum of two.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { delivered: self.delivered.plus(other.delivered), billed: self.billed.plus(other.billed) }
    }
}

/// What is done, after a call was cut, to learn more about what it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Pending {
    /// Closing the connection would not have stopped the bill: the rest of the answer is read, and shown to nobody.
    Draining,
    /// The provider is asked what it will charge.
    LookingUp,
    /// The provider is asked to count what it was sent.
    Counting,
    /// What was sent and shown is counted here.
    Estimating,
}

impl Awaited {
    /// A better figure is being looked for: how, and until when.
    pub const fn new(what: Pending, until: Wall) -> Self {
        Self { what, until }
    }
}

/// A better figure is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Awaited {
    /// How it is looked for.
    pub what: Pending,
    /// Until when it is looked for. A figure that is found is recorded once the run is over.
    pub until: Wall,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_may_have_gone_on_has_no_upper_bound_but_its_limit_except_where_the_provider_has_spoken() {
        let guess = Figure { value: Some(70), provenance: Provenance::Estimated, low: Some(60), high: Some(80) };
        let least = Figure::bounded(Some(9), Some(80));
        let told = Figure::reported(12);
        let usage = Usage { input: guess, output: guess, reasoning: least, ..Usage::UNKNOWN };
        let opened = |most| Used::whole(usage).open_ended(most);
        for used in [opened(None).delivered, opened(None).billed] {
            assert_eq!((used.input, used.output), (guess, Figure { high: None, ..guess }), "the request was whole");
            assert_eq!(used.reasoning, Figure::bounded(Some(9), None));
        }
        assert_eq!(opened(Some(500)).billed.output, Figure { high: Some(500), ..guess });
        assert_eq!(opened(Some(5)).billed.output, Figure { high: Some(70), ..guess }, "a limit that was not kept");
        assert_eq!(opened(Some(500)).billed.reasoning, Figure::bounded(Some(9), Some(500)));
        let known = Usage { output: told, ..Usage::UNKNOWN };
        assert_eq!(Used::whole(known).open_ended(Some(500)), Used::whole(known));
    }

    #[test]
    fn no_more_was_delivered_than_the_provider_charges() {
        let guess = Figure { value: Some(361), provenance: Provenance::Estimated, low: Some(215), high: Some(507) };
        let cut = Used { delivered: Usage { output: guess, ..Usage::UNKNOWN }, billed: Usage::UNKNOWN };
        let told = Usage { output: Figure::exact(300, Provenance::LookedUp), ..Usage::UNKNOWN };
        let used = cut.refined_by(Used { billed: told, ..Used::UNKNOWN });
        let output = used.delivered.output;
        assert_eq!((output.value, output.low, output.high), (Some(300), Some(215), Some(300)));
    }

    #[test]
    fn no_more_was_surely_delivered_than_the_provider_charges() {
        let guess = Figure { value: Some(361), provenance: Provenance::Estimated, low: Some(215), high: Some(507) };
        let cut = Used { delivered: Usage { reasoning: guess, ..Usage::UNKNOWN }, billed: Usage::UNKNOWN };
        let stated = Usage { reasoning: Figure::reported(200), ..Usage::UNKNOWN };
        let used = cut.refined_by(Used { billed: stated, ..Used::UNKNOWN });
        let expected = Figure { value: Some(200), low: Some(200), high: Some(200), ..guess };
        assert_eq!(used.delivered, Usage { reasoning: expected, ..Usage::UNKNOWN });
    }

    #[test]
    fn a_cut_call_is_billed_for_at_least_what_was_delivered_and_unknown_is_not_zero() {
        let running = Usage::reported(10, 5).running();
        assert_eq!(running.output, Figure::exact(5, Provenance::ReportedRunning));
        assert_eq!(running.reasoning, Figure::UNKNOWN);
        let open = |low| Figure { value: None, provenance: Provenance::Bounded, low: Some(low), high: None };
        assert_eq!(Used::cut(running), Used { delivered: running, billed: Usage { output: open(5), ..running } });
        let thought = Usage { reasoning: Figure::reported(2), ..running };
        assert_eq!(Used::cut(thought).billed.reasoning, open(2));
        assert_eq!(Used::cut(Usage::reported(10, 0).running()).billed.output, Figure::UNKNOWN);
    }

    #[test]
    fn an_estimate_of_a_cut_call_is_not_what_is_billed_at_least() {
        let guess = Figure { value: Some(361), provenance: Provenance::Estimated, low: Some(215), high: Some(507) };
        let billed = Used::cut(Usage { output: guess, ..Usage::reported(1, 0) }).billed.output;
        assert_eq!(billed, Figure::bounded(Some(guess.at_least()), None));
        assert!(guess.at_least() < 215);
    }
}
