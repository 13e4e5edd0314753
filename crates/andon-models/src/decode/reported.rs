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

/// Takes a number if there is one: `null` overwrites nothing.
pub(super) fn take(field: &mut Option<u64>, latest: Option<u64>) {
    *field = latest.or(*field);
}

/// Takes the number of tokens that a request had. No request has none, so a zero comes from a server that does not know.
pub(super) fn take_input(field: &mut Option<u64>, latest: Option<u64>) {
    take(field, latest.filter(|tokens| *tokens > 0));
}

impl Reported {
    /// Takes the number of tokens that were not in a cache. A zero is believed only if others were, and it replaces no number.
    pub(super) fn take_uncached(&mut self, latest: Option<u64>) {
        let cached = [self.cache_read, self.cache_write].iter().flatten().any(|tokens| *tokens > 0);
        let may_be_zero = cached && self.input.is_none();
        take(&mut self.input, latest.filter(|tokens| *tokens > 0 || may_be_zero));
    }

    /// The usage, final once the answer is over.
    pub(super) fn usage(&self, is_over: bool) -> Usage {
        let figure = |value: Option<u64>| value.map_or(Figure::UNKNOWN, Figure::reported);
        let usage = Usage {
            input: figure(self.input),
            cache_read: figure(self.cache_read),
            cache_write: figure(self.cache_write),
            output: figure(self.output),
            reasoning: figure(self.reasoning),
            ..Usage::UNKNOWN
        };
        if is_over { usage } else { usage.running() }
    }
}
