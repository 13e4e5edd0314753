//! What tokens cost.
//!
//! # Invariants
//!
//! 1. Money is counted in whole units of 10⁻¹², so that nothing is rounded: prices are per million tokens and have at
//!    most six decimals, and tokens are whole.
//! 2. A cost is as certain as the figures it comes from: it has a value only if all of them have one, unknown figures
//!    add nothing to the lower bound, and there is an upper bound only if all figures have one. Free tokens cost
//!    nothing, however many there were.
//! 3. If several names match a model, the longest counts; of two of the same length, the one without `*`.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use andon_runtime::{Figure, Receipt, Usage};
use serde::{Serialize, Serializer};
use serde_json::Value;
use utoipa::ToSchema;

/// How many decimals a price may have.
const PRICE_DIGITS: usize = 6;

/// The maximum price. With more, a cost would be too long to read.
const MOST_PRICE: u64 = 1_000_000_000;

/// How many decimals a cost has: those of a price, and six for the million tokens.
const COST_DIGITS: usize = 12;

/// The prices of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prices {
    currency: Arc<str>,
    models: BTreeMap<String, ModelPrice>,
}

/// The price of a million tokens of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelPrice {
    /// Input tokens that are neither read from nor written to a cache.
    pub input: Price,
    /// Input tokens that are read from the provider's cache.
    pub cache_read: Price,
    /// Input tokens that are written to the provider's cache.
    pub cache_write: Price,
    /// Output tokens, including thinking.
    pub output: Price,
}

/// The price of a million tokens, written like `3` or `0.15`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Price {
    /// In millionths.
    micros: u64,
}

/// Why a price list cannot be used, and what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    /// This is not a currency.
    #[error("a currency must be three capital letters, such as USD")]
    BadCurrency,
    /// This is not a price.
    #[error("a price must be a non-negative number with at most {PRICE_DIGITS} decimals, such as 3 or 0.15")]
    BadPrice,
    /// The price is too high.
    #[error("a price must be at most {MOST_PRICE} per million tokens")]
    TooLarge,
    /// The name is empty, or has a `*` that is not at its end.
    #[error("a model name must not be empty, and may have a `*` only at its end, such as claude-sonnet-*")]
    BadName,
}

impl FromStr for Price {
    type Err = PriceError;

    fn from_str(text: &str) -> Result<Self, PriceError> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(part) || part.len() > PRICE_DIGITS {
            return Err(PriceError::BadPrice);
        }
        let micros = format!("{whole}{part:0<PRICE_DIGITS$}").parse().map_err(|_| PriceError::TooLarge)?;
        if micros > MOST_PRICE * 10_u64.pow(PRICE_DIGITS as u32) {
            return Err(PriceError::TooLarge);
        }
        Ok(Self { micros })
    }
}

impl Prices {
    /// A price list without models, in this currency.
    pub fn new(currency: &str) -> Result<Self, PriceError> {
        let is_one = currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_uppercase());
        let new = || Self { currency: currency.into(), models: BTreeMap::new() };
        is_one.then(new).ok_or(PriceError::BadCurrency)
    }

    /// Adds an entry. The name is that of a model, with or without its provider (`anthropic/claude-sonnet-4`,
    /// `claude-sonnet-4`). With a `*` at its end, it matches all models that start with it.
    pub fn with(mut self, name: &str, price: ModelPrice) -> Result<Self, PriceError> {
        let stem = name.strip_suffix('*').unwrap_or(name);
        if name.is_empty() || stem.contains('*') {
            return Err(PriceError::BadName);
        }
        self.models.insert(name.to_owned(), price);
        Ok(self)
    }

    /// What this usage of a model costs; `None` if no entry matches the model.
    pub fn cost(&self, model: &str, usage: &Usage) -> Option<Cost> {
        let price = self.find(model)?;
        let parts = [
            (price.input, usage.input),
            (price.cache_read, usage.cache_read),
            (price.cache_write, usage.cache_write),
            (price.output, usage.output),
        ];
        let parts = parts.map(|(price, figure)| Cost::of(&self.currency, price, figure));
        Some(parts.into_iter().fold(self.nothing(), |sum, part| sum.plus(&part)))
    }

    /// What a run's model calls cost in total, as billed. `None` if no entry matches any of their models. If entries
    /// match only some, the rest is unknown, and so is the cost of a call that has not ended.
    pub fn of_run(&self, receipt: &Receipt) -> Option<Cost> {
        let (mut spent, mut accounted) = (Spent::nothing(self), Usage::NONE);
        for call in &receipt.model_calls {
            spent.add(self, &call.model, &call.usage.billed);
            accounted = accounted.plus(call.usage.billed);
        }
        let sum = spent.total()?;
        // An open call has no usage of its own yet, and makes the run's figures uncertain.
        Some(if accounted == receipt.usage.billed { sum } else { sum.at_least() })
    }

    /// The cost of nothing.
    pub fn nothing(&self) -> Cost {
        Cost { currency: Arc::clone(&self.currency), value: Some(0), low: Some(0), high: Some(0) }
    }

    /// The entry that matches a model best (invariant 3).
    fn find(&self, model: &str) -> Option<&ModelPrice> {
        let fitting = self.models.iter().filter(|(name, _)| fits(name, model));
        let best = fitting.max_by_key(|(name, _)| {
            let stem = name.strip_suffix('*').unwrap_or(name);
            (stem.len(), stem.len() == name.len())
        });
        best.map(|(_, price)| price)
    }
}

/// Whether a name matches a model, with or without the provider in front of the model's name.
fn fits(name: &str, model: &str) -> bool {
    let tails = model.match_indices('/').filter_map(|(at, _)| model.get(at + 1..));
    std::iter::once(model).chain(tails).any(|tail| match name.strip_suffix('*') {
        Some(stem) => tail.starts_with(stem),
        None => tail == name,
    })
}

/// The total cost of model calls.
#[derive(Debug, Clone)]
pub(crate) struct Spent {
    sum: Cost,
    /// The number of calls with a price and without one.
    priced: u32,
    unpriced: u32,
}

impl Spent {
    pub(crate) fn nothing(prices: &Prices) -> Self {
        Self { sum: prices.nothing(), priced: 0, unpriced: 0 }
    }

    pub(crate) fn add(&mut self, prices: &Prices, model: &str, billed: &Usage) {
        match prices.cost(model, billed) {
            Some(cost) => (self.sum, self.priced) = (self.sum.plus(&cost), self.priced + 1),
            None => self.unpriced += 1,
        }
    }

    /// The cost as in a receipt: `None` if no call has a price. If only some have one, the cost of the others is
    /// unknown.
    pub(crate) fn total(&self) -> Option<Cost> {
        match (self.priced, self.unpriced) {
            (0, 1..) => None,
            (_, 0) => Some(self.sum.clone()),
            (_, _) => Some(self.sum.at_least()),
        }
    }
}

/// An amount of money, with bounds if it is not certain.
// In units of 10⁻¹² (invariant 1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Cost {
    /// The currency, such as `USD`.
    #[schema(value_type = String)]
    currency: Arc<str>,
    /// The amount, if everything it comes from is known.
    #[serde(serialize_with = "as_number")]
    #[schema(value_type = Option<f64>)]
    value: Option<u128>,
    /// The lower bound.
    #[serde(serialize_with = "as_number")]
    #[schema(value_type = Option<f64>)]
    low: Option<u128>,
    /// The upper bound.
    #[serde(serialize_with = "as_number")]
    #[schema(value_type = Option<f64>)]
    high: Option<u128>,
}

impl Cost {
    fn of(currency: &Arc<str>, price: Price, figure: Figure) -> Self {
        let currency = Arc::clone(currency);
        if price.micros == 0 {
            return Self { currency, value: Some(0), low: Some(0), high: Some(0) };
        }
        let times = |tokens: Option<u64>| tokens.map(|tokens| u128::from(tokens) * u128::from(price.micros));
        Self { currency, value: times(figure.value), low: times(figure.low), high: times(figure.high) }
    }

    /// The sum of two costs in the same currency (invariant 2).
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let add = |a: Option<u128>, b: Option<u128>| Some(a?.saturating_add(b?));
        let low = match (self.low, other.low) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        let currency = Arc::clone(&self.currency);
        Self { currency, value: add(self.value, other.value), low, high: add(self.high, other.high) }
    }

    /// The same cost plus an unknown amount.
    #[must_use]
    pub(crate) fn at_least(&self) -> Self {
        Self { currency: Arc::clone(&self.currency), value: None, low: self.low, high: None }
    }

    /// The currency.
    pub fn currency(&self) -> &str {
        &self.currency
    }
}

/// Writes an amount as people do, such as `0.0123`. It goes through a decimal text: with up to fifteen digits, the number
/// nearest to that text is printed as the same text again.
fn as_number<S: Serializer>(amount: &Option<u128>, serializer: S) -> Result<S::Ok, S::Error> {
    let one = 10_u128.pow(COST_DIGITS as u32);
    let text = |amount: u128| format!("{}.{:0>COST_DIGITS$}", amount / one, amount % one);
    amount.and_then(|amount| text(amount).parse::<f64>().ok()).serialize(serializer)
}

/// A receipt, with what the run and each of its model calls cost as far as that is known. Without prices, the receipt
/// is unchanged.
pub(crate) fn priced(prices: Option<&Prices>, receipt: Receipt) -> Priced {
    let Some(prices) = prices else { return Priced::Plain(Box::new(receipt)) };
    let costs = receipt.model_calls.iter().map(|call| prices.cost(&call.model, &call.usage.billed));
    let costs: Vec<Option<Cost>> = costs.collect();
    let total = prices.of_run(&receipt);
    let Ok(mut told) = serde_json::to_value(&receipt) else { return Priced::Plain(Box::new(receipt)) };
    if let Some(calls) = told.get_mut("model_calls").and_then(Value::as_array_mut) {
        for (call, cost) in calls.iter_mut().zip(costs) {
            put(call, cost);
        }
    }
    put(&mut told, total);
    Priced::Told(told)
}

fn put(told: &mut Value, cost: Option<Cost>) {
    let cost = cost.and_then(|cost| serde_json::to_value(cost).ok());
    if let (Some(cost), Some(fields)) = (cost, told.as_object_mut()) {
        fields.insert("cost".to_owned(), cost);
    }
}

/// A receipt as clients see it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Priced {
    Plain(Box<Receipt>),
    Told(Value),
}

#[cfg(test)]
#[path = "prices_tests.rs"]
mod tests;
