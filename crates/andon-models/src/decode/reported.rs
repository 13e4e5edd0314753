//! What a provider has reported so far, field by field.

use andon_core::usage::{Figure, Usage};
use serde::Deserialize;

use super::loose::Count;

/// What servers say about a part of their tokens, under OpenAI's names.
#[derive(Debug, Deserialize, Default)]
#[serde(default)]
pub(super) struct Details {
    pub(super) cached_tokens: Count,
    /// OpenRouter.
    pub(super) cache_write_tokens: Count,
    pub(super) reasoning_tokens: Count,
}

/// The latest number for each field; `None` where none has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Reported {
    pub(super) input: Option<u64>,
    pub(super) cache_read: Option<u64>,
    pub(super) cache_write: Option<u64>,
    pub(super) output: Option<u64>,
    pub(super) reasoning: Option<u64>,
}

/// Takes a number if there is one. `null` overwrites nothing, and neither does a zero: a provider may correct a number
/// downwards, but what it has counted does not become nothing.
pub(super) fn take(field: &mut Option<u64>, latest: Option<u64>) {
    let said = latest.filter(|number| *number > 0 || field.is_none());
    *field = said.or(*field);
}

/// Takes the number of tokens that a request had. Every request has some, so a zero comes from a server that does not know.
pub(super) fn take_input(field: &mut Option<u64>, latest: Option<u64>) {
    take(field, latest.filter(|tokens| *tokens > 0));
}

impl Reported {
    /// Takes the number of tokens that were not in a cache. A zero is believed only if there are others in a cache.
    pub(super) fn take_uncached(&mut self, latest: Option<u64>) {
        let is_cached = [self.cache_read, self.cache_write].iter().flatten().any(|tokens| *tokens > 0);
        take(&mut self.input, latest.filter(|tokens| *tokens > 0 || is_cached));
    }

    /// The same, for a provider whose input includes what a cache counts. Parts that are more than the whole are not believed.
    pub(super) fn caches_apart(self) -> Self {
        let Some(all) = self.input else { return self };
        let cached = self.cache_read.unwrap_or(0).saturating_add(self.cache_write.unwrap_or(0));
        match all.checked_sub(cached) {
            Some(rest) => Self { input: Some(rest), ..self },
            None => Self { cache_read: None, cache_write: None, ..self },
        }
    }

    /// The usage, final once the answer is over.
    pub(super) fn usage(&self, is_over: bool) -> Usage {
        // A server that reports nothing but zeros has not counted.
        let is_counted = self.input.is_some();
        let figure = |value: Option<u64>| match value.filter(|number| *number > 0 || is_counted) {
            Some(number) => Figure::reported(number),
            None => Figure::UNKNOWN,
        };
        let is_part = |part: &u64| self.output.is_none_or(|whole| *part <= whole);
        let usage = Usage::new()
            .input(figure(self.input))
            .cache_read(figure(self.cache_read))
            .cache_write(figure(self.cache_write))
            .output(figure(self.output))
            .reasoning(figure(self.reasoning.filter(is_part)));
        if is_over { usage } else { usage.running() }
    }

    /// Whether it says anything.
    pub(super) fn is_known(&self) -> bool {
        self.usage(false) != Usage::UNKNOWN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_correction_may_be_smaller_and_is_never_zero() {
        let mut field = None;
        let told = [Some(169), None, Some(79), Some(0)].map(|latest| {
            take(&mut field, latest);
            field
        });
        assert_eq!(told, [Some(169), Some(169), Some(79), Some(79)]);
    }

    #[test]
    fn a_request_is_read_from_somewhere() {
        let mut reported = Reported::default();
        reported.take_uncached(Some(0));
        assert_eq!(reported.input, None);
        reported.cache_read = Some(900);
        reported.take_uncached(Some(0));
        assert_eq!(reported.input, Some(0));
    }

    #[test]
    fn zeros_count_only_beside_an_input() {
        let zeros = Reported { cache_read: Some(0), output: Some(0), reasoning: Some(0), ..Reported::default() };
        assert_eq!(zeros.usage(true), Usage::UNKNOWN);
        let beside = Reported { input: Some(7), ..zeros }.usage(true);
        let zero = Figure::reported(0);
        assert_eq!(beside, Usage::reported(7, 0).cache_read(zero).reasoning(zero));
    }

    #[test]
    fn parts_that_are_more_than_their_whole_are_unknown() {
        let odd =
            Reported { input: Some(50), cache_read: Some(60), output: Some(9), reasoning: Some(10), cache_write: None };
        assert_eq!(odd.caches_apart().usage(true), Usage::reported(50, 9));
        let whole = Reported { cache_read: Some(20), cache_write: Some(30), ..odd };
        let expected = Reported { input: Some(0), ..whole };
        assert_eq!(whole.caches_apart(), expected);
    }
}
