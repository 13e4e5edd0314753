//! What models cost: a list of prices, and how a model is found in it.
//!
//! # Invariants
//!
//! 1. A price is for a million tokens and has at most [`PRICE_DIGITS`] decimals, so that the cost of any number of tokens is a
//!    whole number of trillionths.
//! 2. If several names match a model, the longest counts; of two of the same length, the one without `*`.
//!    A call costs what the model costs that answered it. A name that says only the provider, such as `openai/*`, and matches the
//!    model that was asked for as well does not say which of the two was charged, so it is passed over and a shorter one may count.
//!    If no other name matches the model that answered, the call costs what the model costs that was asked for. A model whose name
//!    begins with the one that was asked for is that model, dated: the longest name that matches either of the two counts.
//! 3. A list has one currency. A price of 0 means free; a model that no name matches has no price.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use andon_runtime::{JournalError, Receipt, Shelf, Usage};
use serde::{Deserialize, Serialize};

use super::cost::{Cost, Rates, Spent};

/// How many decimals a price may have.
pub(super) const PRICE_DIGITS: usize = 6;

/// Where a server's list is kept.
const KIND: &str = "prices";
const NAME: &str = "server";

/// The maximum price. With more, a cost would be too long to read.
const MOST_PRICE: u64 = 1_000_000_000;

/// The prices of models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub struct Prices {
    currency: Arc<str>,
    models: BTreeMap<String, ModelPrice>,
}

/// A price list as it is kept.
#[derive(Serialize, Deserialize)]
struct Form {
    currency: String,
    models: BTreeMap<String, ModelPrice>,
}

/// The price of a million tokens of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelPrice {
    /// Input tokens that are neither read from a cache nor written to one.
    pub input: Price,
    /// Input tokens that are read from the provider's cache.
    pub cache_read: Price,
    /// Input tokens that are written to the provider's cache.
    pub cache_write: Price,
    /// Output tokens, including thinking.
    pub output: Price,
}

impl ModelPrice {
    /// The price of each kind of token.
    pub const fn new(input: Price, cache_read: Price, cache_write: Price, output: Price) -> Self {
        Self { input, cache_read, cache_write, output }
    }
}

/// The price of a million tokens, written like `3` or `0.15`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Price {
    /// In millionths, so this is what one token costs in trillionths.
    pub(super) micros: u64,
}

/// Why a price list cannot be used, and what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
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

impl TryFrom<String> for Price {
    type Error = PriceError;

    fn try_from(text: String) -> Result<Self, PriceError> {
        text.parse()
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = 10_u64.pow(PRICE_DIGITS as u32);
        write!(f, "{}.{:0>PRICE_DIGITS$}", self.micros / one, self.micros % one)
    }
}

impl From<Price> for String {
    fn from(price: Price) -> Self {
        price.to_string()
    }
}

impl TryFrom<Form> for Prices {
    type Error = PriceError;

    fn try_from(Form { currency, models }: Form) -> Result<Self, PriceError> {
        models.into_iter().try_fold(Self::new(&currency)?, |list, (name, price)| list.with(&name, price))
    }
}

impl From<Prices> for Form {
    fn from(Prices { currency, models }: Prices) -> Self {
        Self { currency: currency.to_string(), models }
    }
}

impl ModelPrice {
    /// What a token of a call's input may cost: the price of input, or of a cache that may have been used.
    pub(super) fn input_rates(&self, usage: &Usage) -> Rates {
        let input = Rates::of(self.input);
        if usage.unsplit().high == Some(0) {
            return input;
        }
        let caches = [(usage.cache_read, self.cache_read), (usage.cache_write, self.cache_write)];
        let unsaid = caches.iter().filter(|(figure, _)| figure.value.is_none());
        unsaid.fold(input, |rates, (_, price)| rates.or(*price))
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

    /// What one call of a model costs; `None` if no entry matches the model. A sum of calls has no price of its own: add their
    /// costs up.
    pub fn cost(&self, model: &str, usage: &Usage) -> Option<Cost> {
        self.cost_of_call(model, None, usage)
    }

    /// The same for a call that asked for one model and was perhaps `answered` by another, both named as receipts name them.
    pub(crate) fn cost_of_call(&self, asked: &str, answered: Option<&str>, usage: &Usage) -> Option<Cost> {
        let price = self.find_for(asked, answered)?;
        let parts = [
            (price.input_rates(usage), usage.input),
            (Rates::of(price.cache_read), usage.cache_read.apart_from_input()),
            (Rates::of(price.cache_write), usage.cache_write.apart_from_input()),
            (Rates::of(price.output), usage.output),
        ];
        Some(
            parts
                .into_iter()
                .fold(self.nothing(), |sum, (rates, figure)| sum.plus(&rates.cost(&self.currency, figure))),
        )
    }

    /// What a run's model calls cost in total, as billed. The cost of a call without a price is unknown, and so is that of a
    /// call that has not ended.
    pub fn of_run(&self, receipt: &Receipt) -> Cost {
        let (mut spent, mut accounted) = (Spent::nothing(self), Usage::NONE);
        for call in &receipt.model_calls {
            spent.add(self, &call.model, call.answered_by.as_deref(), &call.usage.billed);
            accounted = accounted.plus(call.usage.billed);
        }
        let sum = spent.total();
        // An open call has no usage of its own yet, and makes the run's figures uncertain.
        if accounted == receipt.usage.billed { sum } else { sum.and_unknown() }
    }

    /// Keeps the prices of a server that starts, so that a program that only reads its database knows them, too. A server
    /// without prices removes those of the one before.
    pub(crate) async fn keep(prices: Option<&Self>, shelf: &dyn Shelf) -> Result<(), JournalError> {
        let kept = shelf.kept(KIND).await?;
        let wanted = prices.and_then(|prices| serde_json::to_value(prices).ok());
        match wanted {
            Some(list) if kept.iter().any(|(name, kept)| name == NAME && *kept == list) => Ok(()),
            Some(list) => shelf.keep(KIND, NAME, list).await,
            None if kept.is_empty() => Ok(()),
            None => shelf.discard(KIND, NAME).await,
        }
    }

    /// The prices of the server that uses this store, or used it last; `None` if it had none.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn kept(shelf: &dyn Shelf) -> Result<Option<Self>, JournalError> {
        let kept = shelf.kept(KIND).await?;
        // A list that another version wrote is kept again by the next server.
        Ok(kept.into_iter().find(|(name, _)| name == NAME).and_then(|(_, list)| serde_json::from_value(list).ok()))
    }

    /// The cost of nothing.
    pub fn nothing(&self) -> Cost {
        Cost::nothing(Arc::clone(&self.currency))
    }

    /// The price of a call (invariant 2).
    fn find_for(&self, asked: &str, answered: Option<&str>) -> Option<&ModelPrice> {
        let exact = answered.map(|name| match asked.split_once('/') {
            Some((provider, _)) => format!("{provider}/{name}"),
            None => name.to_owned(),
        });
        let is_its = |name: &str, exact: &str| fits(name, exact) && !(is_any_model(name) && fits(name, asked));
        let own = exact.as_deref().and_then(|exact| self.best(|name| is_its(name, exact)));
        let of_asked = self.best(|name| fits(name, asked));
        let is_dated = exact.is_some_and(|exact| exact.starts_with(asked));
        let found = match (own, of_asked) {
            (Some(own), Some(of_asked)) if is_dated => {
                Some(if rank(own.0) < rank(of_asked.0) { of_asked } else { own })
            }
            (own, of_asked) => own.or(of_asked),
        };
        found.map(|(_, price)| price)
    }

    /// The best of the names that match, and its price (invariant 2).
    fn best(&self, matches: impl Fn(&str) -> bool) -> Option<(&str, &ModelPrice)> {
        let all = self.models.iter().map(|(name, price)| (name.as_str(), price));
        all.filter(|(name, _)| matches(name)).max_by_key(|(name, _)| rank(name))
    }
}

/// How much a name says: by its length, and then whether it is whole.
fn rank(name: &str) -> (usize, bool) {
    let stem = name.strip_suffix('*').unwrap_or(name);
    (stem.len(), stem.len() == name.len())
}

/// Whether a name matches a model, with or without the provider in front of the model's name.
fn fits(name: &str, model: &str) -> bool {
    let tails = model.match_indices('/').filter_map(|(at, _)| model.get(at + 1..));
    std::iter::once(model).chain(tails).any(|tail| match name.strip_suffix('*') {
        Some(stem) => tail.starts_with(stem),
        None => tail == name,
    })
}

/// Whether a name matches whatever model there is, or whatever a provider has.
fn is_any_model(name: &str) -> bool {
    name.strip_suffix('*').is_some_and(|stem| stem.is_empty() || stem.ends_with('/'))
}

#[cfg(test)]
#[path = "prices_tests.rs"]
mod tests;
