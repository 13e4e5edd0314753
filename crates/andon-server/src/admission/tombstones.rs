//! Cancels that came before their run: remembered for a while, so that the run is born cancelled.
//!
//! # Invariants
//!
//! 1. One that is on record stays there until its run is, or until it is too old: whatever becomes of an attempt to start
//!    the run, the next attempt finds it.

use std::collections::HashMap;
use std::sync::Arc;

use andon_runtime::core::time::Wall;
use andon_runtime::{Append, Cancel, Force, JournalError, Reason, RunId, Shelf};
use serde::{Deserialize, Serialize};

use crate::access::principal::{Principal, Who};
use crate::admission::order::CancelOrder;

/// Where they are kept.
const KIND: &str = "tombstone";

/// A cancel that waits for its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tombstone {
    /// Who asked: only their run is meant.
    principal: Who,
    run: RunId,
    force: Force,
    reason: Reason,
    note: Option<Arc<str>>,
    grace_ms: Option<u64>,
    until: Wall,
}

impl Tombstone {
    pub(crate) fn new(principal: &Principal, run: &RunId, order: CancelOrder, until: Wall) -> Self {
        let CancelOrder { force, reason, note, grace_ms } = order;
        Self { principal: principal.who(), run: run.clone(), force, reason, note, grace_ms, until }
    }

    pub(crate) fn run(&self) -> &RunId {
        &self.run
    }

    fn key(&self) -> Key {
        (self.run.clone(), self.principal.clone())
    }

    fn name(&self) -> String {
        // Neither an id nor a tenant has a slash in it.
        let Who { tenant, name, user } = &self.principal;
        match user {
            Some(user) => format!("{}/{tenant}/{name}/{user}", self.run),
            None => format!("{}/{tenant}/{name}", self.run),
        }
    }

    fn cancel(&self) -> Cancel {
        let note = self.note.clone();
        let order = CancelOrder { force: self.force, reason: self.reason, note, grace_ms: self.grace_ms };
        order.cancel(&self.principal.name)
    }
}

/// Which run is meant, and whose.
type Key = (RunId, Who);

/// The cancels that wait for their runs.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    waiting: HashMap<Key, Tombstone>,
}

/// A principal has as many as it may have.
#[derive(Debug)]
pub(crate) struct Full;

impl Tombstones {
    /// Those that outlived the process that took them, and in words those that cannot be read: a cancel that waits for a run
    /// that may never come is no reason to keep everybody out, so they are dropped.
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

    /// Remembers a cancel; a second one for the same run takes the place of the first if it is harder.
    pub(crate) fn remember(
        &mut self,
        stone: Tombstone,
        max: usize,
        now: Wall,
        shelf: &dyn Shelf,
    ) -> Result<Append, Full> {
        self.forget_old(now, shelf);
        let key = stone.key();
        let stone = match self.waiting.get(&key) {
            Some(earlier) if earlier.force > stone.force => Tombstone { until: stone.until, ..earlier.clone() },
            Some(_) => stone,
            None if self.waiting.keys().filter(|(_, principal)| *principal == stone.principal).count() >= max => {
                return Err(Full);
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

    /// The cancel that waits for this run of this principal, if one does and it is not too old. It goes on waiting
    /// (invariant 1).
    pub(crate) fn look(&self, principal: &Principal, run: &RunId, now: Wall) -> Option<Cancel> {
        if self.waiting.is_empty() {
            return None;
        }
        let stone = self.waiting.get(&(run.clone(), principal.who()))?;
        (stone.until > now).then(|| stone.cancel())
    }

    /// No cancel waits for this run any more: the run is on record.
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
