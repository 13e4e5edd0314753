//! What every live run uses, whatever its agent and session.

use std::sync::Arc;
use std::time::Duration;

use andon_core::event::AddendumKind;
use andon_core::id::{CallId, RunId, SessionId};
use andon_core::time::Stamp;
use tokio::time::timeout;
use uuid::Uuid;

use super::flusher::Flusher;
use super::observe::Observers;
use super::presence::Presence;
use crate::journal::lease::Lease;
use crate::journal::{Journal, JournalError};
use crate::lanes::blocking::BlockingPool;
use crate::lanes::clock::Clock;
use crate::lanes::door::Door;
use crate::lanes::probe::Probes;
use crate::lanes::signal::Signal;
use crate::lanes::sync::{AtomicU64, HashSet, Mutex, Ordering};

/// How long it takes until something that was learned is handed to the journal again.
const ADD_AGAIN: Duration = Duration::from_secs(1);

/// What every live run uses.
pub(crate) struct Services {
    pub(crate) journal: Arc<dyn Journal>,
    /// Until when this process may drive runs, if others share the journal.
    pub(crate) lease: Option<Arc<Lease>>,
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
    pub(crate) give_up: Mutex<Signal>,
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

    /// A new session's id.
    pub(crate) fn session(&self) -> SessionId {
        loop {
            // It is made here, so it is always a valid id; the loop is for the compiler.
            if let Ok(id) = SessionId::new(self.next("session")) {
                return id;
            }
        }
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
    /// Adds what was learned to a run that is on record only. If the journal does not accept it, it is retried until it does or the
    /// program is about to exit.
    pub(crate) async fn add(&self, run: &RunId, at: Stamp, what: AddendumKind) -> Result<(), JournalError> {
        match self.journal.append_addendum(run, at, what.clone()).await {
            Err(error) if error.may_pass() => self.add_again(run, at, what).await,
            tried => tried,
        }
    }

    /// Retries to add what the journal has not accepted.
    pub(crate) async fn add_again(&self, run: &RunId, at: Stamp, what: AddendumKind) -> Result<(), JournalError> {
        let leaving = self.give_up();
        while timeout(ADD_AGAIN, leaving.given()).await.is_err() {
            match self.journal.append_addendum(run, at, what.clone()).await {
                Err(error) if error.may_pass() => {}
                tried => return tried,
            }
        }
        Err(JournalError::Closed)
    }

    /// Whether this process may not drive runs any more, because its lease may soon be over.
    pub(crate) fn is_behind_the_fence(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| !lease.is_held())
    }

    /// Given when what is still being learned about calls must be given up.
    pub(crate) fn give_up(&self) -> Signal {
        self.give_up.lock().clone()
    }
}
