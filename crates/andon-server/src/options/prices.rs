//! What tokens cost.
//!
//! # Invariants
//!
//! 1. Money is counted in whole units of 10⁻¹², so that nothing is rounded: a price has at most six digits behind its point and
//!    is for a million tokens, and tokens are whole.
//! 2. A cost is as honest as the figures that it comes from: it has a value only if all of them have one, what is unknown counts
//!    nothing towards the lower bound, and there is an upper bound only if all have one. What is free costs nothing however
//!    much of it there was.
//! 3. Of several names that fit a model the longest counts; of two that are equally long the one without `*`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use andon_runtime::{Figure, Receipt, Usage};
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use serde_json::Value;
use utoipa::ToSchema;

/// How many digits a price may have behind its point.
const PRICE_DIGITS: usize = 6;

/// The largest price: with any more a cost would be no figure that anybody can read.
const MOST_PRICE: u64 = 1_000_000_000;

/// How many digits a cost has behind its point: those of a price, and six for the million tokens.
const COST_DIGITS: usize = 12;

/// What models cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prices {
    currency: Arc<str>,
    models: BTreeMap<String, ModelPrice>,
}

/// What a million tokens of each kind cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelPrice {
    /// Read, and neither read from nor written to a cache.
    pub input: Price,
    /// Read from the provider's cache.
    pub cache_read: Price,
    /// Written to the provider's cache.
    pub cache_write: Price,
    /// Written by the model, thinking included.
    pub output: Price,
}

/// What a million tokens cost: written as `3`, `0.15`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Price {
    /// In millionths.
    micros: u64,
}

/// Why a price list cannot be used, and what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    /// The currency is none.
    #[error("a currency is three capital letters, such as USD")]
    BadCurrency,
    /// A price is none.
    #[error(
        "a price is a number that is not negative, with at most {PRICE_DIGITS} digits behind its point, such as 3 or 0.15"
    )]
    BadPrice,
    /// A price is more than can be counted.
    #[error("a price is at most {MOST_PRICE} for a million tokens")]
    TooLarge,
    /// A name has `*` in the middle, or is empty.
    #[error("a model's name may have one `*`, and only at its end, such as claude-sonnet-*")]
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
    /// A list without models, in this currency.
    pub fn new(currency: &str) -> Result<Self, PriceError> {
        let is_one = currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_uppercase());
        let new = || Self { currency: currency.into(), models: BTreeMap::new() };
        is_one.then(new).ok_or(PriceError::BadCurrency)
    }

    /// The list with one more entry. The name is a model's, with or without its provider (`anthropic/claude-sonnet-4`,
    /// `claude-sonnet-4`); with `*` at its end it stands for all that begin so.
    pub fn with(mut self, name: &str, price: ModelPrice) -> Result<Self, PriceError> {
        let stem = name.strip_suffix('*').unwrap_or(name);
        if name.is_empty() || stem.contains('*') {
            return Err(PriceError::BadName);
        }
        self.models.insert(name.to_owned(), price);
        Ok(self)
    }

    /// What this usage of a model costs; `None` if no entry fits the model.
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

    /// What a run's model calls cost together, by what is billed for them. `None` if no entry fits any of their models;
    /// where it fits only some, the rest is unknown, and so is what a call costs that has not ended.
    pub fn of_run(&self, receipt: &Receipt) -> Option<Cost> {
        let calls = &receipt.model_calls;
        let costs: Vec<Option<Cost>> = calls.iter().map(|call| self.cost(&call.model, &call.usage.billed)).collect();
        if !costs.is_empty() && costs.iter().all(Option::is_none) {
            return None;
        }
        let unknown = Cost { value: None, low: None, high: None, ..self.nothing() };
        let sum = costs.iter().fold(self.nothing(), |sum, cost| sum.plus(cost.as_ref().unwrap_or(&unknown)));
        // A call that is open has no account of its own, and makes the run's figures unsure.
        let accounted = calls.iter().fold(Usage::NONE, |sum, call| sum.plus(call.usage.billed));
        Some(if accounted == receipt.usage.billed { sum } else { sum.plus(&unknown) })
    }

    /// The cost of nothing.
    pub fn nothing(&self) -> Cost {
        Cost { currency: Arc::clone(&self.currency), value: Some(0), low: Some(0), high: Some(0) }
    }

    /// The entry that fits a model best (invariant 3).
    fn find(&self, model: &str) -> Option<&ModelPrice> {
        let fitting = self.models.iter().filter(|(name, _)| fits(name, model));
        let best = fitting.max_by_key(|(name, _)| {
            let stem = name.strip_suffix('*').unwrap_or(name);
            (stem.len(), stem.len() == name.len())
        });
        best.map(|(_, price)| price)
    }
}

/// Whether a name stands for a model, with or without what says where the model is served.
fn fits(name: &str, model: &str) -> bool {
    let tails = model.match_indices('/').filter_map(|(at, _)| model.get(at + 1..));
    std::iter::once(model).chain(tails).any(|tail| match name.strip_suffix('*') {
        Some(stem) => tail.starts_with(stem),
        None => tail == name,
    })
}

/// Money, or the honest lack of a figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    currency: Arc<str>,
    // In units of 10⁻¹² (invariant 1).
    value: Option<u128>,
    low: Option<u128>,
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

    /// The sum of two costs in one currency (invariant 2).
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

    /// The same where more was spent, and nobody knows how much.
    #[must_use]
    pub(crate) fn at_least(&self) -> Self {
        Self { currency: Arc::clone(&self.currency), value: None, low: self.low, high: None }
    }

    /// The currency.
    pub fn currency(&self) -> &str {
        &self.currency
    }
}

/// An amount as people write it: `0.0123`.
struct Amount(u128);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = 10_u128.pow(COST_DIGITS as u32);
        let part = format!("{:0>COST_DIGITS$}", self.0 % one);
        match part.trim_end_matches('0') {
            "" => write!(f, "{}", self.0 / one),
            part => write!(f, "{}.{part}", self.0 / one),
        }
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The nearest number to a decimal text is written as that text again, up to fifteen digits.
        let number = |amount: Option<u128>| amount.and_then(|amount| Amount(amount).to_string().parse::<f64>().ok());
        let mut cost = serializer.serialize_struct("Cost", 4)?;
        cost.serialize_field("currency", &*self.currency)?;
        cost.serialize_field("value", &number(self.value))?;
        cost.serialize_field("low", &number(self.low))?;
        cost.serialize_field("high", &number(self.high))?;
        cost.end()
    }
}

/// Money, or the honest lack of a figure. Only for the description of the API.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Cost)]
pub(crate) struct CostForm {
    /// The currency, such as `USD`.
    currency: String,
    /// The amount, if all that it comes from is known.
    value: Option<f64>,
    /// It is at least this.
    low: Option<f64>,
    /// It is at most this.
    high: Option<f64>,
}

/// A receipt, with what the run and each of its model calls cost where that is known. Without prices it is the receipt as it is.
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

/// A receipt as it is told.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Priced {
    Plain(Box<Receipt>),
    Told(Value),
}

#[cfg(test)]
#[path = "prices_tests.rs"]
mod tests;
