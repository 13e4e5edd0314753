//! Which readers of a run count, and what happens to a run when the last of them disconnects.
//!
//! # Invariants
//!
//! 1. Only readers that may cancel a run count: any other reader neither keeps a run going nor cancels it by
//!    disconnecting.
//! 2. A reader whose key or token is no longer valid was disconnected by us, so its run goes on.
//! 3. An onlooker does not count: it neither keeps a run going nor cancels it by disconnecting.

use andon_runtime::Run;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::feed::ReadPermission;

/// What to do when the last open feed of a run closes. If no feed was ever opened, nothing happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "must be `continue`, `cancel` or {\"cancel_after_ms\": number}")]
pub(crate) enum OnDisconnect {
    /// `continue` or `cancel`.
    Word(OnDisconnectWord),
    /// Cancel the run, unless a reader comes back in time.
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
    /// How long to wait for a reader to come back, in milliseconds.
    #[schema(format = "uint64")]
    cancel_after_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnDisconnectWord {
    /// The run goes on.
    Continue,
    /// The run is cancelled at once.
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

/// A reader of a run's feed.
#[derive(Debug)]
pub(crate) struct FeedWatcher {
    /// `None` if the reader does not count (invariants 1 and 3).
    watched: Option<(andon_runtime::Watcher, ReadPermission)>,
}

impl FeedWatcher {
    /// Registers a reader until this is dropped.
    pub(crate) fn new(run: &Run, permission: &ReadPermission) -> Self {
        Self { watched: permission.may_stop.then(|| (run.watch(), permission.clone())) }
    }

    /// An onlooker (invariant 3).
    pub(crate) fn aside() -> Self {
        Self { watched: None }
    }

    /// The reader leaves because we ended its feed, and it may come back. This does not count as a disconnect.
    pub(crate) fn leave_without_disconnect(&self) {
        if let Some((watcher, _)) = &self.watched {
            watcher.leave_without_disconnect();
        }
    }
}

impl Drop for FeedWatcher {
    fn drop(&mut self) {
        if let Some((watcher, permission)) = &self.watched
            && permission.is_over()
        {
            watcher.leave_without_disconnect();
        }
    }
}
