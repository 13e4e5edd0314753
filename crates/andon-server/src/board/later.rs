//! Applies addenda to a run's row.
//!
//! Addenda are rare, so this may go through all events of the run again.

use std::sync::Arc;

use andon_runtime::core::event::{AddendumKind, Remains, ToolEnd};
use andon_runtime::{CallId, Event, Receipt, Record, ShownAddendum};

use super::row::BoardRow;
use super::tokens::Tokens;
use crate::options::cost::Spent;
use crate::options::prices::Prices;

impl BoardRow {
    /// Applies an addendum.
    pub(crate) fn learn(&mut self, learned: &ShownAddendum<'_>, prices: Option<&Prices>) {
        match &learned.addendum.what {
            AddendumKind::LateResult { call, remains, .. } => self.ended_late(learned.facts, call, remains.as_deref()),
            AddendumKind::UsageCorrected { .. } => self.correct(learned, prices),
            AddendumKind::CompensationStarted { .. }
            | AddendumKind::CompensationFinished { .. }
            | AddendumKind::Undelivered { .. } => {}
            #[cfg(not(andon_whole))]
            _ => {}
        }
    }

    fn ended_late(&mut self, facts: &[Arc<Record>], call: &CallId, remains: Option<&Remains>) {
        self.leaked += left(remains);
        let known = usize::try_from(self.seq).unwrap_or(usize::MAX);
        let folded = facts.get(..known.min(facts.len())).unwrap_or_default();
        let end = folded.iter().rev().find_map(|record| match &record.event {
            Event::ToolFinished { call: of, end, .. } if of == call => Some(*end),
            _ => None,
        });
        match end {
            Some(ToolEnd::Leaked) => self.leaked -= 1,
            Some(_) => {}
            None => self.early.push(call.clone()),
        }
    }

    /// The usage of one call was corrected. That is rare, so the sum is computed from scratch.
    fn correct(&mut self, learned: &ShownAddendum<'_>, prices: Option<&Prices>) {
        let known = usize::try_from(self.seq).unwrap_or(usize::MAX);
        let folded = learned.facts.iter().take(known);
        let addenda = learned.earlier.iter().chain([learned.addendum]).cloned();
        let Some(receipt) = Receipt::fold(folded, addenda, None) else { return };
        self.tokens = Tokens::NONE;
        self.spent = prices.map(|prices| Box::new(Spent::nothing(prices)));
        for call in &receipt.model_calls {
            self.charge(&call.model, call.answered_by.as_deref(), &call.usage.billed, prices);
        }
    }
}

/// How much of a tool's work is still going on.
pub(super) fn left(remains: Option<&Remains>) -> i64 {
    remains.map_or(0, |remains| i64::try_from(remains.leaked.len()).unwrap_or(i64::MAX))
}
