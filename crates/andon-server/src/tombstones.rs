//! Cancels that came before their run: remembered for a while, so that the run is born cancelled.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use andon::core::time::Wall;
use andon::{Append, Cancel, Force, JournalError, Reason, RunId, Shelf};
use serde::{Deserialize, Serialize};

/// Where they are kept.
const KIND: &str = "tombstone";

/// A cancel that waits for its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tombstone {
    /// Who asked: only their run is meant.
    principal: Arc<str>,
    run: RunId,
    force: Force,
    reason: Reason,
    note: Option<Arc<str>>,
    grace_ms: Option<u64>,
    until: Wall,
}

impl Tombstone {
    pub(crate) fn new(principal: &Arc<str>, run: &RunId, how: How, until: Wall) -> Self {
        let How { force, reason, note, grace_ms } = how;
        Self { principal: Arc::clone(principal), run: run.clone(), force, reason, note, grace_ms, until }
    }

    fn name(&self) -> String {
        // An id has no slash in it.
        format!("{}/{}", self.run, self.principal)
    }

    fn cancel(self) -> Cancel {
        let how = How { force: self.force, reason: self.reason, note: self.note, grace_ms: self.grace_ms };
        how.cancel(&self.principal)
    }
}

/// How something is to be cancelled, as a client says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct How {
    pub(crate) force: Force,
    pub(crate) reason: Reason,
    pub(crate) note: Option<Arc<str>>,
    pub(crate) grace_ms: Option<u64>,
}

impl How {
    /// What is asked for, by whom.
    pub(crate) fn cancel(&self, by: &Arc<str>) -> Cancel {
        let cancel = match self.force {
            Force::AfterTurn => Cancel::after_turn(),
            Force::Graceful => Cancel::graceful(),
            Force::Now => Cancel::now(),
        };
        let cancel = cancel.reason(self.reason).by(Arc::clone(by));
        let cancel = match &self.note {
            Some(note) => cancel.note(Arc::clone(note)),
            None => cancel,
        };
        match self.grace_ms {
            Some(grace) => cancel.grace(Duration::from_millis(grace)),
            None => cancel,
        }
    }
}

/// The cancels that wait for their runs.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    waiting: HashMap<(RunId, Arc<str>), Tombstone>,
}

/// A principal has as many as it may have.
#[derive(Debug)]
pub(crate) struct Full;

impl Tombstones {
    /// Those that outlived the process that took them.
    pub(crate) async fn read(shelf: &dyn Shelf) -> Result<Self, JournalError> {
        let kept = shelf.kept(KIND).await?;
        let tombstones = kept.into_iter().map(|(_, value)| serde_json::from_value::<Tombstone>(value));
        let tombstones: Result<Vec<Tombstone>, _> = tombstones.collect();
        let tombstones =
            tombstones.map_err(|error| JournalError::Unreadable(format!("a remembered cancel: {error}")))?;
        let waiting = tombstones.into_iter().map(|stone| ((stone.run.clone(), Arc::clone(&stone.principal)), stone));
        Ok(Self { waiting: waiting.collect() })
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
        let key = (stone.run.clone(), Arc::clone(&stone.principal));
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

    /// Takes the cancel that waits for this run of this principal, if one does and it is not too old.
    pub(crate) fn take(&mut self, principal: &Arc<str>, run: &RunId, now: Wall, shelf: &dyn Shelf) -> Option<Cancel> {
        if self.waiting.is_empty() {
            return None;
        }
        let stone = self.waiting.remove(&(run.clone(), Arc::clone(principal)))?;
        // Once the run is on record so is its cancel; if the process dies between, the run never was.
        drop(shelf.discard(KIND, &stone.name()));
        (stone.until > now).then(|| stone.cancel())
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
