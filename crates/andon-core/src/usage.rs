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

mod figure;
mod used;

pub use figure::{Figure, Provenance};
use serde::{Deserialize, Serialize};
pub use used::{Awaited, Pending, Used};

use crate::message::Part;

/// No token stands for more bytes than this: the longest one in a published vocabulary, a run of spaces.
pub const BYTES_A_TOKEN: u64 = 512;

/// As many tokens as the text and the calls of an answer have at least, whatever counts them. Its thoughts add nothing: one may be
/// shown as a summary that is longer than it was.
pub fn fewest_tokens(answer: &[Part]) -> u64 {
    let bytes = answer.iter().map(|part| match part {
        Part::Text { text } => text.len(),
        Part::ToolCall(call) => call.name.len() + call.arguments.len(),
        Part::Thinking { .. } | Part::Image(_) | Part::ToolResult(_) => 0,
    });
    (bytes.sum::<usize>() as u64).div_ceil(BYTES_A_TOKEN)
}

/// The tokens of one model call or of a whole run.
///
/// ```
/// # use andon_core::usage::{Figure, Usage};
/// let finished = Usage::reported(1_200, 80);
/// // This answer was cut before its provider had said what it wrote.
/// let cut = Usage::new().input(Figure::reported(900));
/// let both = finished.plus(cut);
/// assert_eq!(both.input.value, Some(2_100));
/// // Nobody knows all that was written: at least 80 tokens, and never 0 for what is unknown.
/// assert_eq!((both.output.value, both.output.low), (None, Some(80)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
#[non_exhaustive]
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

crate::with!(Usage: input: Figure, cache_read: Figure, cache_write: Figure, output: Figure, reasoning: Figure, mixed: Option<Figure>);

impl Usage {
    /// Nothing is known yet: `Usage::new().output(Figure::reported(7))` sets one figure.
    pub const fn new() -> Self {
        Self::UNKNOWN
    }

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

    /// Sets `unsplit`, unless the figures imply it, so that equal usages are equal values. `mixed` must still be `None`.
    fn with_unsplit(self, unsplit: Option<Figure>) -> Self {
        Self { mixed: unsplit.filter(|unsplit| *unsplit != self.unsplit()), ..self }
    }

    /// The same figures of one call, given that it read this many tokens altogether: what its cache figures count is no input.
    #[must_use]
    pub fn reading(self, all: Figure) -> Self {
        let cached = [self.cache_read, self.cache_write].map(|figure| figure.value.unwrap_or(0));
        let input = cached.into_iter().fold(all, Figure::without);
        Self { input, ..self }
    }

    /// The same figures as reported or learned in two parts: an input that counts everything is brought in line with cache
    /// figures that its own part lacks (invariant 4). If they are more than the whole, and it is known as well as they are, one
    /// of the two is out of date: then they are unknown.
    fn with_input_of(self, source: &Self) -> Self {
        let extra = |ours: Figure, theirs: Figure| match theirs.value {
            Some(_) => 0,
            None => ours.value.unwrap_or(0),
        };
        let parts =
            extra(self.cache_read, source.cache_read).saturating_add(extra(self.cache_write, source.cache_write));
        let is_as_good = source.input.provenance <= self.cache_read.provenance.min(self.cache_write.provenance);
        if is_as_good && source.input.value.is_some_and(|whole| whole < parts) {
            return Self {
                input: source.input,
                cache_read: source.cache_read,
                cache_write: source.cache_write,
                ..self
            };
        }
        Self { input: source.input.without(parts), ..self }
    }

    /// The same, of an answer that has begun: a provider that says it wrote nothing has not counted yet.
    #[must_use]
    pub fn once_begun(self) -> Self {
        match self.output.value {
            Some(0) => Self { output: Figure::UNKNOWN, reasoning: Figure::UNKNOWN, ..self },
            _ => self,
        }
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

    /// A later report of the same call: each figure that it knows replaces the earlier one; unknown replaces nothing, except a
    /// part for which the whole has become too small.
    #[must_use]
    pub fn corrected_by(self, later: Self) -> Self {
        let newest = |old: Figure, new: Figure| if new == Figure::UNKNOWN { old } else { new };
        let has_room = later.output.value.is_none_or(|whole| self.reasoning.at_least() <= whole);
        let reasoning = if has_room { self.reasoning } else { Figure::UNKNOWN };
        let source = if later.input == Figure::UNKNOWN { &self } else { &later };
        Self {
            input: Figure::UNKNOWN,
            cache_read: newest(self.cache_read, later.cache_read),
            cache_write: newest(self.cache_write, later.cache_write),
            output: newest(self.output, later.output),
            reasoning: newest(reasoning, later.reasoning),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ToolCall;

    #[test]
    fn an_answer_has_a_token_for_512_bytes_of_its_text_and_calls_and_none_for_a_thought() {
        let id = crate::id::CallId::new("a").unwrap();
        let call = ToolCall { id, name: "n".repeat(512), arguments: "a".repeat(512) };
        let thought = Part::Thinking { text: "t".repeat(5_000), signature: None };
        assert_eq!(fewest_tokens(&[Part::text("a".repeat(512)), Part::ToolCall(call), thought.clone()]), 3);
        assert_eq!((fewest_tokens(&[Part::text("a")]), fewest_tokens(&[thought]), fewest_tokens(&[])), (1, 0, 0));
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
    fn a_later_null_overwrites_nothing() {
        let early = Usage { input: Figure::reported(10), ..Usage::UNKNOWN };
        let late = Usage { output: Figure::reported(3), ..Usage::UNKNOWN };
        let both = early.corrected_by(late);
        assert_eq!((both.input, both.output), (Figure::reported(10), Figure::reported(3)));
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
    fn an_input_is_split_only_if_both_cache_figures_are_known() {
        let known = Figure::reported(5);
        for (cache_read, cache_write, unsplit) in [
            (known, Figure::UNKNOWN, Figure::reported(9)),
            (Figure::UNKNOWN, known, Figure::reported(9)),
            (known, known, Figure::reported(0)),
        ] {
            let usage = Usage { cache_read, cache_write, ..Usage::reported(9, 1) };
            assert_eq!(usage.unsplit(), unsplit, "{usage:?}");
        }
    }

    #[test]
    fn an_answer_that_has_begun_has_not_0_tokens_and_nobody_knows_how_many_were_thinking() {
        let told = Usage { reasoning: Figure::reported(0), ..Usage::reported(9, 0) };
        let expected = Usage { input: Figure::reported(9), ..Usage::UNKNOWN };
        assert_eq!(told.once_begun(), expected);
        let counted = Usage { output: Figure::reported(3), ..told };
        assert_eq!(counted.once_begun(), counted);
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
    fn a_whole_that_is_corrected_to_less_than_its_parts_leaves_them_unknown() {
        let cached = Usage { cache_read: Figure::reported(900), ..Usage::reported(100, 50) };
        let thought = Usage { reasoning: Figure::reported(40), ..cached };
        let corrected = thought.corrected_by(Usage::reported(500, 30));
        assert_eq!(corrected, Usage::reported(500, 30));
        assert_eq!(corrected.read(), Figure::reported(500));
        assert_eq!(
            Usage::reported(500, 30).corrected_by(Usage { input: Figure::UNKNOWN, ..cached }).read().value,
            Some(500)
        );
        let fits = cached.corrected_by(Usage::reported(950, 50));
        assert_eq!((fits.input.value, fits.cache_read.value), (Some(50), Some(900)));
        let all_cached = cached.corrected_by(Usage::reported(900, 50));
        assert_eq!((all_cached.input.value, all_cached.cache_read.value), (Some(0), Some(900)));
        let written = Usage { cache_write: Figure::reported(900), ..Usage::reported(100, 50) };
        assert_eq!(written.corrected_by(Usage::reported(500, 30)), Usage::reported(500, 30));
        let guess = Figure::exact(500, Provenance::Estimated);
        let known = Usage { cache_read: Figure::reported(900), ..Usage::UNKNOWN };
        let refined = Usage { input: guess, ..Usage::UNKNOWN }.refined_by(known);
        assert_eq!(refined.cache_read, known.cache_read, "an estimate is no reason to forget what was reported");
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
}
