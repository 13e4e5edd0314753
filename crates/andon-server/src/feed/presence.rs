//! Who is counted among the readers of a run, and the form of what losing the last of them does to it.
//!
//! # Invariants
//!
//! 1. Only a reader that may stop a run is missed: a reader that may not neither keeps a run nor stops it by going away.
//! 2. A reader whose key or token is no longer valid was disconnected by us, and has not gone away: the run goes on.
//! 3. A reader aside is not there, as far as the run knows: it neither keeps a run nor stops one by going away.

use andon_runtime::Run;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::feed::Leave;
use crate::options::Disconnect;

/// What happens to a run when the last feed that was opened on it closes. If none was ever opened, nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "`continue`, `cancel` or {\"cancel_after_ms\": number}")]
pub(crate) enum OnDisconnect {
    /// A word.
    Word(OnDisconnectWord),
    /// It is cancelled, unless somebody comes back in time.
    After(OnDisconnectAfter),
}

impl Default for OnDisconnect {
    fn default() -> Self {
        Self::Word(OnDisconnectWord::Continue)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OnDisconnectAfter {
    /// How long it is waited for.
    #[schema(format = "uint64")]
    cancel_after_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnDisconnectWord {
    /// It goes on.
    Continue,
    /// It is cancelled at once.
    Cancel,
}

impl From<OnDisconnect> for andon_runtime::OnDisconnect {
    fn from(form: OnDisconnect) -> Self {
        match form {
            OnDisconnect::Word(OnDisconnectWord::Continue) => Self::Continue,
            OnDisconnect::Word(OnDisconnectWord::Cancel) => Self::Cancel,
            OnDisconnect::After(OnDisconnectAfter { cancel_after_ms }) => Self::CancelAfterMs(cancel_after_ms),
        }
    }
}

impl From<Disconnect> for andon_runtime::OnDisconnect {
    fn from(policy: Disconnect) -> Self {
        match policy {
            Disconnect::Continue => Self::Continue,
            Disconnect::Cancel => Self::Cancel,
            Disconnect::CancelAfter(time) => Self::CancelAfterMs(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

/// Somebody who reads a run's feed.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// `None` if it is not missed (invariants 1 and 3).
    watched: Option<(andon_runtime::Watcher, Leave)>,
}

impl Watcher {
    /// Somebody reads a run's feed, until this is dropped.
    pub(crate) fn new(run: &Run, leave: &Leave) -> Self {
        Self { watched: leave.may_stop().then(|| (run.watch(), leave.clone())) }
    }

    /// Somebody who reads aside (invariant 3).
    pub(crate) fn aside() -> Self {
        Self { watched: None }
    }

    /// It goes because it was sent away, and may come back: its going is no disconnect.
    pub(crate) fn leave_in_peace(&self) {
        if let Some((watcher, _)) = &self.watched {
            watcher.leave_in_peace();
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some((watcher, leave)) = &self.watched
            && leave.is_over()
        {
            watcher.leave_in_peace();
        }
    }
}
