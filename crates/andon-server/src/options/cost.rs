//! What tokens cost.
//!
//! # Invariants
//!
//! 1. Money is counted in whole trillionths, so nothing is rounded. What is too large to be counted has no value and no upper bound.
//! 2. `low <= value <= high` wherever these are known. Without a value, `low` is never more than the bill; beside a value, that
//!    holds nineteen times in twenty, as for the figures that it comes from. Unknown figures add nothing to it. If the provider does not say how much of the input came from a cache, that input is priced between the cheapest and the
//!    dearest rate that can apply. Its value is then that of plain input, as if nothing came from a cache.
//! 3. A cost is as certain as the figures it comes from: its provenance is the weakest of theirs, and `estimated` at best where
//!    rates differ. Free tokens cost nothing, however many there were.
//! 4. A sum of costs is added up from the costs of calls. A sum of tokens is never priced.

use std::collections::BTreeSet;
use std::sync::Arc;

use andon_runtime::core::event::AddendumKind;
use andon_runtime::{Event, Figure, JournaledRun, Provenance, Receipt, Usage};
use serde::{Serialize, Serializer};
use serde_json::Value;
use utoipa::ToSchema;

use super::prices::{PRICE_DIGITS, Price, Prices};

/// How many decimals a cost has: those of a price, and six for the million tokens.
const COST_DIGITS: usize = PRICE_DIGITS + 6;

/// What one token may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rates {
    usual: Price,
    least: Price,
    most: Price,
}

impl Rates {
    pub(super) fn of(price: Price) -> Self {
        Self { usual: price, least: price, most: price }
    }

    /// The same rates, with bounds that allow for this one as well.
    pub(super) fn or(self, other: Price) -> Self {
        Self { least: self.least.min(other), most: self.most.max(other), ..self }
    }

    pub(super) fn cost(&self, currency: &Arc<str>, figure: Figure) -> Cost {
        let currency = Arc::clone(currency);
        if self.most.micros == 0 || figure == Figure::reported(0) {
            return Cost::nothing(currency);
        }
        let times = |tokens: Option<u64>, price: Price| Some(u128::from(tokens?) * u128::from(price.micros));
        let is_sure = self.least == self.most;
        let provenance = if is_sure { figure.provenance } else { figure.provenance.max(Provenance::Estimated) };
        let (value, high) = (times(figure.value, self.usual), times(figure.high, self.most));
        let certain = times(Some(figure.at_least()), self.least).unwrap_or(0);
        let low = times(figure.low, self.least);
        Cost { currency, value, provenance, low, certain, high, unpriced: BTreeSet::new() }.settled()
    }
}

/// The total cost of model calls.
#[derive(Debug, Clone)]
pub(crate) struct Spent(Cost);

impl Spent {
    pub(crate) fn nothing(prices: &Prices) -> Self {
        Self(prices.nothing())
    }

    /// Adds a call that asked for one model and was perhaps `answered` by another.
    pub(crate) fn add(&mut self, prices: &Prices, asked: &str, answered: Option<&str>, billed: &Usage) {
        match prices.cost_of_call(asked, answered, billed) {
            Some(cost) => self.0 = self.0.plus(&cost),
            None => {
                self.0 = self.0.and_unknown();
                self.0.unpriced.insert(asked.into());
            }
        }
    }

    /// The calls of a run, of which at least the events of its model calls are given.
    pub(crate) fn of_account(prices: &Prices, account: &JournaledRun) -> Self {
        let mut model: Arc<str> = "?".into();
        let mut calls: Vec<(u32, Arc<str>, Option<&str>, Usage)> = Vec::new();
        for fact in account.facts() {
            match &fact.event {
                Event::ModelStarted { model: name, .. } => model = Arc::clone(name),
                Event::Usage { call, used, answered_by, .. } => {
                    calls.push((*call, Arc::clone(&model), answered_by.as_deref(), used.billed));
                }
                _ => {}
            }
        }
        for addendum in &account.addenda {
            if let AddendumKind::UsageCorrected { call: corrected, used } = &addendum.what
                && let Some((.., billed)) = calls.iter_mut().find(|(call, ..)| call == corrected)
            {
                *billed = used.billed;
            }
        }
        let mut spent = Self::nothing(prices);
        for (_, model, answered, billed) in &calls {
            spent.add(prices, model, *answered, billed);
        }
        spent
    }

    pub(crate) fn total(&self) -> Cost {
        self.0.clone()
    }
}

/// An amount of money, with its bounds, and how it is known.
// In trillionths (invariant 1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Cost {
    /// The currency, such as `USD`.
    #[schema(value_type = String)]
    currency: Arc<str>,
    /// The amount, if everything that it comes from has a value.
    #[serde(serialize_with = "as_number")]
    #[schema(value_type = Option<f64>, required)]
    value: Option<u128>,
    /// How the amount is known: as the least certain of the figures that it comes from. Only a `reported` or `looked_up` cost
    /// is based on the provider's final figures.
    #[schema(value_type = String)]
    provenance: Provenance,
    /// The lower bound.
    #[serde(serialize_with = "as_number")]
    #[schema(value_type = Option<f64>, required)]
    low: Option<u128>,
    /// What it certainly is at least: the lower bound of an amount without a value.
    #[serde(skip)]
    certain: u128,
    /// The upper bound.
    #[serde(serialize_with = "as_number")]
    #[schema(value_type = Option<f64>, required)]
    high: Option<u128>,
    /// The models without a price, whose calls are not included. Absent if there are none.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    #[schema(value_type = Vec<String>, required = false)]
    unpriced: BTreeSet<Arc<str>>,
}

impl Cost {
    pub(super) fn nothing(currency: Arc<str>) -> Self {
        let none = Some(0);
        Self {
            currency,
            value: none,
            provenance: Provenance::Reported,
            low: none,
            certain: 0,
            high: none,
            unpriced: BTreeSet::new(),
        }
    }

    /// The sum of two costs in the same currency.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let add = |a: Option<u128>, b: Option<u128>| a?.checked_add(b?);
        let low = self.low.unwrap_or(0).saturating_add(other.low.unwrap_or(0));
        Self {
            currency: Arc::clone(&self.currency),
            value: add(self.value, other.value),
            provenance: self.provenance.max(other.provenance),
            low: Some(low),
            certain: self.certain.saturating_add(other.certain),
            high: add(self.high, other.high),
            unpriced: self.unpriced.union(&other.unpriced).cloned().collect(),
        }
        .settled()
    }

    /// The same cost plus an unknown amount.
    #[must_use]
    pub(crate) fn and_unknown(&self) -> Self {
        Self { value: None, high: None, ..self.clone() }.settled()
    }

    /// The same amount, with the provenance and the lower bound of one that has no value, if it has none. "At least 0" says
    /// nothing.
    fn settled(self) -> Self {
        match (self.value, self.certain, self.high) {
            (Some(_), ..) => self,
            (None, 0, None) => Self { low: None, provenance: Provenance::Unknown, ..self },
            (None, certain, _) => Self { low: Some(certain), provenance: Provenance::Bounded, ..self },
        }
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

/// A receipt, with what the run and each of its model calls cost. Without prices, the receipt is unchanged.
pub fn priced(prices: Option<&Prices>, receipt: Receipt) -> Priced {
    let Some(prices) = prices else { return Priced::Plain(Box::new(receipt)) };
    let calls = receipt.model_calls.iter();
    let costs = calls.map(|call| prices.cost_of_call(&call.model, call.answered_by.as_deref(), &call.usage.billed));
    let costs: Vec<Option<Cost>> = costs.collect();
    let total = prices.of_run(&receipt);
    let Ok(mut told) = serde_json::to_value(&receipt) else { return Priced::Plain(Box::new(receipt)) };
    if let Some(calls) = told.get_mut("model_calls").and_then(Value::as_array_mut) {
        for (call, cost) in calls.iter_mut().zip(costs) {
            put(call, cost);
        }
    }
    put(&mut told, Some(total));
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
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Priced {
    /// Without prices.
    Plain(Box<Receipt>),
    /// With what the run and its calls cost.
    Told(Value),
}
