//! What a run's model calls have used, and what that costs.

use andon_runtime::{Figure, Usage};

use crate::options::prices::{Cost, Prices};

/// What the provider will charge for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tokens {
    /// What was read, with what came from a cache or went into one.
    pub(crate) input: Figure,
    pub(crate) output: Figure,
}

impl Tokens {
    /// Of no calls at all.
    pub(super) const NONE: Self = Self { input: Figure::reported(0), output: Figure::reported(0) };

    /// What nobody knows.
    pub(super) const UNKNOWN: Self = Self { input: Figure::UNKNOWN, output: Figure::UNKNOWN };

    pub(super) fn of(billed: &Usage) -> Self {
        let input = billed.input.plus(billed.cache_read).plus(billed.cache_write);
        Self { input, output: billed.output }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { input: self.input.plus(other.input), output: self.output.plus(other.output) }
    }
}

/// What model calls cost together.
#[derive(Debug, Clone)]
pub(super) struct Spent {
    sum: Cost,
    /// For how many calls there was a price, and for how many there was none.
    priced: u32,
    unpriced: u32,
}

impl Spent {
    pub(super) fn nothing(prices: &Prices) -> Self {
        Self { sum: prices.nothing(), priced: 0, unpriced: 0 }
    }

    pub(super) fn add(&mut self, prices: &Prices, model: &str, billed: &Usage) {
        match prices.cost(model, billed) {
            Some(cost) => (self.sum, self.priced) = (self.sum.plus(&cost), self.priced + 1),
            None => self.unpriced += 1,
        }
    }

    /// As of a receipt: `None` if no call has a price; a call without one is unknown beside a call with one.
    pub(super) fn told(&self) -> Option<Cost> {
        match (self.priced, self.unpriced) {
            (0, 1..) => None,
            (_, 0) => Some(self.sum.clone()),
            (_, _) => Some(self.sum.at_least()),
        }
    }
}
