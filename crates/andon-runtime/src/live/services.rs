//! What every live run uses, whatever its agent and session.

use std::sync::Arc;

use andon_core::id::{CallId, RunId};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::flusher::Flusher;
use super::observe::Observers;
use super::presence::Presence;
use crate::journal::Journal;
use crate::lanes::blocking::BlockingPool;
use crate::lanes::clock::Clock;
use crate::lanes::door::Door;
use crate::lanes::probe::Probes;
use crate::lanes::sync::{AtomicU64, HashSet, Mutex, Ordering};

/// What every live run uses.
pub(crate) struct Services {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) probes: Probes,
    pub(crate) observers: Observers,
    pub(crate) door: Door,
    pub(crate) blocking: BlockingPool,
    pub(crate) flusher: Flusher,
    pub(crate) presence: Presence,
    pub(crate) ids: Ids,
    pub(crate) seed: Option<u64>,
    /// Calls that are being compensated.
    pub(crate) compensating: Mutex<HashSet<(RunId, CallId)>>,
    /// Ends what is still being learned about calls that were cut.
    pub(crate) give_up: Mutex<CancellationToken>,
}

/// Where ids come from.
pub(crate) enum Ids {
    /// Unique in the world and ordered by time.
    Unique,
    /// Counted from 1 under a seed, so that a test can be repeated.
    Counted(u64, AtomicU64),
}

impl Ids {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        seed.map_or(Self::Unique, |seed| Self::Counted(seed, AtomicU64::new(1)))
    }

    /// A new id, as text that is always a valid id.
    pub(crate) fn next(&self, kind: &str) -> String {
        match self {
            Self::Unique => Uuid::now_v7().to_string(),
            Self::Counted(seed, next) => format!("{kind}-{seed}-{}", next.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

impl Services {
    /// Cancelled when what is still being learned about calls must be given up.
    pub(crate) fn give_up(&self) -> CancellationToken {
        self.give_up.lock().clone()
    }
}
