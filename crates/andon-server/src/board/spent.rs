//! What a run's model calls have used, and what that costs.

use andon_runtime::{Figure, Usage};

use crate::options::prices::{Cost, Prices};

/// The tokens that the provider charges for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tokens {
    /// Input tokens, including those read from or written to a cache.
    pub(crate) input: Figure,
    pub(crate) output: Figure,
}

impl Tokens {
    /// The tokens of no calls at all.
    pub(super) const NONE: Self = Self { input: Figure::reported(0), output: Figure::reported(0) };

    /// Unknown numbers of tokens.
    pub(super) const UNKNOWN: Self = Self { input: Figure::UNKNOWN, output: Figure::UNKNOWN };

    pub(super) fn of(billed: &Usage) -> Self {
        let input = billed.input.plus(billed.cache_read).plus(billed.cache_write);
        Self { input, output: billed.output }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { input: self.input.plus(other.input), output: self.output.plus(other.output) }
    }
}

/// The total cost of model calls.
#[derive(Debug, Clone)]
pub(super) struct Spent {
    sum: Cost,
    /// The number of calls with a price and without one.
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

    /// The cost as in a receipt: `None` if no call has a price. If only some have one, the cost of the others is
    /// unknown.
    pub(super) fn told(&self) -> Option<Cost> {
        match (self.priced, self.unpriced) {
            (0, 1..) => None,
            (_, 0) => Some(self.sum.clone()),
            (_, _) => Some(self.sum.at_least()),
        }
    }
}
