//! Cancels that came before their run. They are remembered for a while, so that the run starts out cancelled.
//!
//! # Invariants
//!
//! 1. A recorded cancel stays on record until its run is, or until it expires: whatever happens to one attempt to start
//!    the run, the next attempt finds the cancel.

use std::collections::HashMap;

use andon_runtime::core::time::Wall;
use andon_runtime::{Append, Cancel, JournalError, RunId, Shelf};
use serde::{Deserialize, Serialize};

use crate::access::principal::{Principal, Who};
use crate::admission::order::CancelOrder;
use crate::http::problem::Problem;

/// The kind under which they are stored.
const KIND: &str = "tombstone";

/// A cancel that waits for its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tombstone {
    /// Who asked. Only a run of this principal is meant.
    principal: Who,
    pub(super) run: RunId,
    #[serde(flatten)]
    order: CancelOrder,
    until: Wall,
}

impl Tombstone {
    pub(crate) fn new(principal: &Principal, run: &RunId, order: CancelOrder, until: Wall) -> Self {
        Self { principal: principal.who(), run: run.clone(), order, until }
    }

    fn key(&self) -> TombstoneKey {
        (self.run.clone(), self.principal.clone())
    }

    fn name(&self) -> String {
        // Ids and tenants contain no slash.
        let Who { tenant, name, user } = &self.principal;
        match user {
            Some(user) => format!("{}/{tenant}/{name}/{user}", self.run),
            None => format!("{}/{tenant}/{name}", self.run),
        }
    }

    fn cancel(&self) -> Cancel {
        self.order.cancel(&self.principal.name)
    }
}

/// Which run is meant, and of which principal.
type TombstoneKey = (RunId, Who);

/// The cancels that wait for their runs.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    waiting: HashMap<TombstoneKey, Tombstone>,
}

impl Tombstones {
    /// Reads the cancels that earlier processes left, with one message for each that cannot be read. Those are dropped:
    /// a cancel for a run that may never come is not a reason to refuse to start.
    pub(crate) async fn read(shelf: &dyn Shelf) -> Result<(Self, Vec<String>), JournalError> {
        let (mut waiting, mut dropped) = (HashMap::new(), Vec::new());
        for (name, value) in shelf.kept(KIND).await? {
            match serde_json::from_value::<Tombstone>(value) {
                Ok(stone) => drop(waiting.insert(stone.key(), stone)),
                Err(error) => {
                    shelf.discard(KIND, &name).await?;
                    dropped.push(format!("the remembered cancel {name} could not be read and was dropped: {error}"));
                }
            }
        }
        Ok((Self { waiting }, dropped))
    }

    /// Remembers a cancel. A second one for the same run replaces the first if it is harder.
    pub(crate) fn remember(
        &mut self,
        stone: Tombstone,
        max: usize,
        now: Wall,
        shelf: &dyn Shelf,
    ) -> Result<Append, Problem> {
        self.forget_old(now, shelf);
        let key = stone.key();
        let stone = match self.waiting.get(&key) {
            Some(earlier) if earlier.order.force > stone.order.force => {
                Tombstone { until: stone.until, ..earlier.clone() }
            }
            Some(_) => stone,
            None if self.waiting.keys().filter(|(_, principal)| *principal == stone.principal).count() >= max => {
                let detail = "too many cancels are waiting for runs that have not arrived: try again later";
                return Err(Problem::too_many("too-many-remembered", detail));
            }
            None => stone,
        };
        let append = match serde_json::to_value(&stone) {
            Ok(value) => shelf.keep(KIND, &stone.name(), value),
            Err(error) => Append::ready(Err(JournalError::Storage(error.to_string()))),
        };
        self.waiting.insert(key, stone);
        Ok(append)
    }

    /// The cancel that waits for this run of this principal, if there is one and it has not expired. It keeps waiting
    /// (invariant 1).
    pub(crate) fn look(&self, principal: &Principal, run: &RunId, now: Wall) -> Option<Cancel> {
        if self.waiting.is_empty() {
            return None;
        }
        let stone = self.waiting.get(&(run.clone(), principal.who()))?;
        (stone.until > now).then(|| stone.cancel())
    }

    /// Forgets the cancel for this run, because the run is on record.
    pub(crate) fn forget(&mut self, principal: &Principal, run: &RunId, shelf: &dyn Shelf) {
        if let Some(stone) = self.waiting.remove(&(run.clone(), principal.who())) {
            drop(shelf.discard(KIND, &stone.name()));
        }
    }

    fn forget_old(&mut self, now: Wall, shelf: &dyn Shelf) {
        self.waiting.retain(|_, stone| {
            let is_good = stone.until > now;
            if !is_good {
                drop(shelf.discard(KIND, &stone.name()));
            }
            is_good
        });
    }
}
