//! What was used, and how we know.
//!
//! # Invariants
//!
//! 1. Unknown is never written as 0: a figure without a value has `value: None`.
//! 2. `low <= value <= high` wherever these are known.
//! 3. A sum is only as good as its weakest part: it has a value only if all parts have one, and the weakest provenance.
//! 4. Whatever was read is counted once. `input` is what no cache figure counts: all that was read, if nobody said how much of
//!    it a cache had to do with. That part is `unsplit`.
//! 5. A cache figure is what the provider said, or unknown. It is never estimated, so whether it has a value decides how to
//!    read `input`.

use serde::{Deserialize, Serialize};

use crate::time::Wall;

/// How a figure came to be known, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
pub struct Figure {
    /// The number, if it is known.
    pub value: Option<u64>,
    /// How it is known.
    pub provenance: Provenance,
    /// It is at least this.
    pub low: Option<u64>,
    /// It is at most this.
    pub high: Option<u64>,
}

impl Figure {
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

    /// What was certainly used: the lower bound if there is one, or else the value, or else 0. An estimate is not certain.
    pub fn at_least(&self) -> u64 {
        self.low.or(self.value).unwrap_or(0)
    }

    /// Whether it is certain that nothing was used.
    fn is_nothing(&self) -> bool {
        self.provenance == Provenance::Reported && self.high == Some(0)
    }

    /// What is left of this figure without tokens that were counted apart.
    #[must_use]
    fn without(self, apart: u64) -> Self {
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
    fn capped(self, most: u64) -> Self {
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
        // An unknown part is at least 0 and has no upper bound.
        let low = match (self.low, other.low) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        let high = add(self.high, other.high);
        match (value, low, high) {
            (Some(_), ..) => Self { value, provenance: self.provenance.max(other.provenance), low, high },
            // "At least 0" says nothing.
            (None, None | Some(0), None) => Self::UNKNOWN,
            (None, ..) => Self { value, provenance: Provenance::Bounded, low, high },
        }
    }
}

impl Default for Figure {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

/// The tokens of one model call or of a whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub struct Usage {
    /// Tokens read that no cache figure counts (invariant 4).
    pub input: Figure,
    /// Tokens read from the provider's cache.
    pub cache_read: Figure,
    /// Tokens written to the provider's cache.
    pub cache_write: Figure,
    /// Tokens written by the model, thinking included.
    pub output: Figure,
    /// The part of `output` that was thinking.
    pub reasoning: Figure,
    /// Only in a sum of calls whose `input` does not all mean the same: [`Usage::unsplit`] says what it is for, and how large.
    pub mixed: Option<Figure>,
}

/// A usage as it is written: `unsplit` is always there. A record of an older version lacks it, and is that of one call.
#[derive(Serialize, Deserialize)]
struct Form {
    input: Figure,
    #[serde(default)]
    unsplit: Option<Figure>,
    cache_read: Figure,
    cache_write: Figure,
    output: Figure,
    reasoning: Figure,
}

impl From<Form> for Usage {
    fn from(form: Form) -> Self {
        let Form { input, unsplit, cache_read, cache_write, output, reasoning } = form;
        Self { input, cache_read, cache_write, output, reasoning, mixed: None }.with_unsplit(unsplit)
    }
}

impl From<Usage> for Form {
    fn from(usage: Usage) -> Self {
        let Usage { input, cache_read, cache_write, output, reasoning, mixed: _ } = usage;
        Self { input, unsplit: Some(usage.unsplit()), cache_read, cache_write, output, reasoning }
    }
}

impl Usage {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self {
        input: Figure::UNKNOWN,
        cache_read: Figure::UNKNOWN,
        cache_write: Figure::UNKNOWN,
        output: Figure::UNKNOWN,
        reasoning: Figure::UNKNOWN,
        mixed: None,
    };

    /// Nothing was used: the sum of no calls at all.
    pub const NONE: Self = {
        let none = Figure::reported(0);
        Self { input: none, cache_read: none, cache_write: none, output: none, reasoning: none, mixed: None }
    };

    /// What the provider says in a final report that has only these two figures: the others are unknown.
    pub const fn reported(input: u64, output: u64) -> Self {
        Self { input: Figure::reported(input), output: Figure::reported(output), ..Self::UNKNOWN }
    }

    /// All tokens that were read: `input`, and what the cache figures that are known add to it. That nobody mentioned a cache does
    /// not make it unknown.
    pub fn read(&self) -> Figure {
        self.input.plus(self.cache_read.apart_from_input()).plus(self.cache_write.apart_from_input())
    }

    /// The part of `input` that may have been read from a cache or written to one, because nobody said. For one call that is all
    /// of it, or nothing; a sum adds it up apart.
    pub fn unsplit(&self) -> Figure {
        self.mixed.unwrap_or_else(|| {
            let is_split = self.cache_read.value.is_some() && self.cache_write.value.is_some();
            if is_split { Figure::reported(0) } else { self.input }
        })
    }

    /// The same figures, of which this part of the input is unsplit. It is kept only if the figures do not say so themselves,
    /// so that equal usages are equal values.
    fn with_unsplit(self, unsplit: Option<Figure>) -> Self {
        let plain = Self { mixed: None, ..self };
        Self { mixed: unsplit.filter(|unsplit| *unsplit != plain.unsplit()), ..plain }
    }

    /// The same figures of one call, given that it read this many tokens altogether: what its cache figures count is no input.
    #[must_use]
    pub fn reading(self, all: Figure) -> Self {
        let cached = [self.cache_read, self.cache_write].map(|figure| figure.value.unwrap_or(0));
        let input = cached.into_iter().fold(all, Figure::without);
        Self { input, ..self }
    }

    /// The same figures as reported or learned in two parts: an input that counts everything is brought in line with cache
    /// figures that its own part lacks (invariant 4).
    fn with_input_of(self, source: &Self) -> Self {
        let extra = |ours: Figure, theirs: Figure| match theirs.value {
            Some(_) => 0,
            None => ours.value.unwrap_or(0),
        };
        let input = source.input.without(extra(self.cache_read, source.cache_read));
        Self { input: input.without(extra(self.cache_write, source.cache_write)), ..self }
    }

    /// The same figures, as reported before the end of the call.
    #[must_use]
    pub fn running(self) -> Self {
        let weaken = |figure: Figure| Figure {
            provenance: match figure.provenance {
                Provenance::Reported => Provenance::ReportedRunning,
                other => other,
            },
            ..figure
        };
        Self {
            input: weaken(self.input),
            cache_read: weaken(self.cache_read),
            cache_write: weaken(self.cache_write),
            output: weaken(self.output),
            reasoning: weaken(self.reasoning),
            mixed: self.mixed.map(weaken),
        }
    }

    /// The sum of two usages, figure by figure.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.plus(other.input),
            cache_read: self.cache_read.plus(other.cache_read),
            cache_write: self.cache_write.plus(other.cache_write),
            output: self.output.plus(other.output),
            reasoning: self.reasoning.plus(other.reasoning),
            mixed: None,
        }
        .with_unsplit(Some(self.unsplit().plus(other.unsplit())))
    }

    /// A later report of the same call: each figure that it knows replaces the earlier one; unknown replaces nothing.
    #[must_use]
    pub fn corrected_by(self, later: Self) -> Self {
        let newest = |old: Figure, new: Figure| if new == Figure::UNKNOWN { old } else { new };
        let source = if later.input == Figure::UNKNOWN { &self } else { &later };
        Self {
            input: Figure::UNKNOWN,
            cache_read: newest(self.cache_read, later.cache_read),
            cache_write: newest(self.cache_write, later.cache_write),
            output: newest(self.output, later.output),
            reasoning: newest(self.reasoning, later.reasoning),
            mixed: None,
        }
        .with_input_of(source)
    }

    /// The same figures of one call, each replaced if `other` knows it at least as well.
    #[must_use]
    pub fn refined_by(self, other: Self) -> Self {
        let better = |old: Figure, new: Figure| if new.provenance <= old.provenance { new } else { old };
        let source = if other.input.provenance <= self.input.provenance { &other } else { &self };
        Self {
            input: Figure::UNKNOWN,
            cache_read: better(self.cache_read, other.cache_read),
            cache_write: better(self.cache_write, other.cache_write),
            output: better(self.output, other.output),
            reasoning: better(self.reasoning, other.reasoning),
            mixed: None,
        }
        .with_input_of(source)
    }

    /// Tokens that were certainly used, for limits: all that were read and all that were written.
    pub fn at_least(&self) -> u64 {
        self.read().at_least().saturating_add(self.output.at_least())
    }
}

/// What one model call, or a run, used: what reached us, and what the provider will charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Used {
    /// What was used up to the end or the cut.
    pub delivered: Usage,
    /// What the provider will charge.
    pub billed: Usage,
}

impl Used {
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
        // The rest may have been generated and charged, so an upper bound of what was delivered is none of the bill.
        let open = |figure: Figure| match figure.low.or(figure.value) {
            // "At least 0" says nothing.
            None | Some(0) => Figure::UNKNOWN,
            Some(low) => Figure { value: None, provenance: Provenance::Bounded, low: Some(low), high: None },
        };
        let billed = Usage { output: open(delivered.output), reasoning: open(delivered.reasoning), ..delivered };
        Self { delivered, billed }
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
pub enum Pending {
    /// Closing the connection would not have stopped the bill: the rest of the answer is read, and shown to nobody.
    Draining,
    /// The provider is asked what it will charge.
    LookingUp,
    /// The provider is asked to count what it was sent.
    Counting,
}

/// A better figure is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    fn unknown_is_never_written_as_zero() {
        let json = serde_json::to_value(Figure::UNKNOWN).unwrap();
        assert_eq!(json, serde_json::json!({"value": null, "provenance": "unknown", "low": null, "high": null}));
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

    #[test]
    fn a_better_way_of_knowing_replaces_a_worse_one_and_never_the_other_way_round() {
        let counted = Usage { input: Figure::exact(9, Provenance::Counted), ..Usage::UNKNOWN };
        let guessed = Usage { input: Figure::exact(7, Provenance::Estimated), ..Usage::reported(1, 4) };
        assert_eq!(Usage { output: Figure::UNKNOWN, ..guessed }.refined_by(counted).input, counted.input);
        assert_eq!(guessed.refined_by(counted).output, Figure::reported(4));
        assert_eq!(counted.refined_by(guessed).input, counted.input);
        assert_eq!(counted.refined_by(Usage::UNKNOWN), counted);
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
    fn what_was_certainly_used_is_not_an_estimate() {
        let guess = Figure { value: Some(361), provenance: Provenance::Estimated, low: Some(215), high: Some(507) };
        assert_eq!((guess.at_least(), Figure::reported(7).at_least(), Figure::UNKNOWN.at_least()), (215, 7, 0));
    }

    #[test]
    fn a_later_null_overwrites_nothing() {
        let early = Usage { input: Figure::reported(10), ..Usage::UNKNOWN };
        let late = Usage { output: Figure::reported(3), ..Usage::UNKNOWN };
        let both = early.corrected_by(late);
        assert_eq!((both.input, both.output), (Figure::reported(10), Figure::reported(3)));
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
    fn a_sum_of_unknown_figures_is_unknown() {
        assert_eq!(Figure::UNKNOWN.plus(Figure::UNKNOWN), Figure::UNKNOWN);
        assert_eq!(Usage::NONE.plus(Usage::UNKNOWN), Usage::UNKNOWN);
        assert_eq!(Usage::UNKNOWN.plus(Usage::NONE), Usage::UNKNOWN);
        let nothing_yet = Figure::exact(0, Provenance::ReportedRunning);
        assert_eq!(nothing_yet.plus(Figure::UNKNOWN), Figure::UNKNOWN);
        let at_least_nothing = Figure { low: Some(0), provenance: Provenance::Bounded, ..Figure::UNKNOWN };
        assert_eq!(Figure::UNKNOWN.plus(at_least_nothing), Figure::UNKNOWN);
    }

    #[test]
    fn a_report_has_the_figures_that_the_provider_gave_and_no_others() {
        let expected = Usage { input: Figure::reported(10), output: Figure::reported(5), ..Usage::UNKNOWN };
        assert_eq!(Usage::reported(10, 5), expected);
        assert_eq!(Usage { cache_read: Figure::reported(3), ..expected }.at_least(), 18);
    }

    #[test]
    fn a_cache_that_nobody_mentioned_does_not_make_what_was_read_unknown() {
        let plain = Usage::reported(10, 5);
        assert_eq!(plain.read(), Figure::reported(10));
        let cached = Usage { cache_read: Figure::reported(30), ..plain };
        assert_eq!(cached.read(), Figure::reported(40));
        assert_eq!(plain.plus(cached).read(), Figure::reported(50));
    }

    #[test]
    fn a_sum_of_upper_bounds_is_bounded() {
        let most = |high| Figure { high: Some(high), provenance: Provenance::Bounded, ..Figure::UNKNOWN };
        assert_eq!(most(4).plus(most(5)), most(9));
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
    fn a_sum_keeps_apart_the_input_of_which_nobody_said_how_much_came_from_a_cache() {
        let none = Figure::reported(0);
        let said = Usage { cache_read: Figure::reported(900), cache_write: none, ..Usage::reported(100, 5) };
        let unsaid = Usage { input: Figure::reported(50), output: Figure::reported(7), ..Usage::UNKNOWN };
        assert_eq!((said.unsplit(), unsaid.unsplit()), (Figure::reported(0), Figure::reported(50)));
        for sum in [said.plus(unsaid), unsaid.plus(said), Usage::NONE.plus(said).plus(unsaid)] {
            assert_eq!((sum.input, sum.unsplit()), (Figure::reported(150), Figure::reported(50)));
        }
        let estimate = Figure { value: Some(60), provenance: Provenance::Estimated, low: Some(50), high: Some(70) };
        let sum = unsaid.plus(Usage { input: estimate, ..unsaid }).plus(said);
        let expected = Figure { value: Some(110), low: Some(100), high: Some(120), ..estimate };
        assert_eq!(sum.unsplit(), expected);
        assert_eq!(unsaid.plus(Usage::NONE), unsaid, "the sum of no calls adds nothing");
    }

    #[test]
    fn what_was_read_is_known_though_nobody_mentioned_a_cache() {
        let said =
            Usage { cache_read: Figure::reported(900), cache_write: Figure::reported(4), ..Usage::reported(100, 5) };
        let unsaid = Usage { input: Figure::reported(50), output: Figure::reported(7), ..Usage::UNKNOWN };
        let read = |usage: Usage| usage.read().value;
        assert_eq!((read(said), read(unsaid), read(said.plus(unsaid))), (Some(1004), Some(50), Some(1054)));
        assert_eq!(said.plus(unsaid).at_least(), 1066);
        let sum = said.plus(Usage::UNKNOWN).read();
        assert_eq!(sum, Figure { value: None, provenance: Provenance::Bounded, low: Some(1004), high: None });
        assert_eq!(Usage::UNKNOWN.read(), Figure::UNKNOWN);
    }

    #[test]
    fn whatever_was_read_is_counted_once_in_whichever_order_it_is_learned() {
        let cached = Usage { cache_read: Figure::reported(900), ..Usage::UNKNOWN };
        let whole = Usage { input: Figure::reported(1000), ..Usage::UNKNOWN };
        let expected = Usage { input: Figure::reported(100), ..cached };
        assert_eq!((whole.corrected_by(cached), cached.corrected_by(whole)), (expected, expected));
        assert_eq!(
            expected.corrected_by(Usage { output: Figure::reported(3), ..Usage::UNKNOWN }).input,
            expected.input
        );
        let counted = Usage { input: Figure::exact(1000, Provenance::Counted), ..Usage::UNKNOWN };
        let refined = cached.refined_by(counted);
        assert_eq!((refined.input.value, refined.read().value), (Some(100), Some(1000)));
        assert_eq!(cached.reading(counted.input), refined);
    }

    #[test]
    fn a_record_of_an_older_version_is_one_call_and_a_sum_is_read_as_it_was_written() {
        let unsaid = Usage { input: Figure::reported(50), output: Figure::reported(7), ..Usage::UNKNOWN };
        for usage in [Usage::NONE, Usage::UNKNOWN, Usage::reported(3, 4), unsaid, unsaid.plus(Usage::reported(3, 4))] {
            let written = serde_json::to_value(usage).unwrap();
            assert_eq!(written["unsplit"], serde_json::to_value(usage.unsplit()).unwrap());
            assert_eq!(serde_json::from_value::<Usage>(written).unwrap(), usage);
        }
        let mut old = serde_json::to_value(unsaid).unwrap();
        old.as_object_mut().unwrap().remove("unsplit");
        assert_eq!(serde_json::from_value::<Usage>(old).unwrap(), unsaid);
    }

    #[test]
    fn at_least_nothing_says_nothing_in_a_sum() {
        let running = Figure::exact(0, Provenance::ReportedRunning);
        assert_eq!(running.plus(Figure::UNKNOWN), Figure::UNKNOWN);
    }

    #[test]
    fn an_estimate_of_a_cut_call_is_not_what_is_billed_at_least() {
        let guess = Figure { value: Some(361), provenance: Provenance::Estimated, low: Some(215), high: Some(507) };
        let billed = Used::cut(Usage { output: guess, ..Usage::reported(1, 0) }).billed.output;
        assert_eq!(billed, Figure { value: None, provenance: Provenance::Bounded, low: Some(215), high: None });
    }
}
