//! Who watches a run, and what losing the last of them does to it.
//!
//! The policy is a signal of the run itself: its driver waits for it beside everything else. So there is no task for it, it
//! ends with the run, and it pulls the same cord as everybody.
//!
//! # Invariants
//!
//! 1. Only who may stop a run is missed: a reader that may not neither keeps a run nor stops it by going away.
//! 2. Whose key or token is good no more was sent away, and has not gone away: the run goes on.
//! 3. Who reads aside is not there, as far as the run knows: it neither keeps a run nor stops one by going away.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use andon::{Cancel, Reason, RunId};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::sleep;
use utoipa::ToSchema;

use crate::feeds::Leave;
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

impl From<Disconnect> for OnDisconnect {
    fn from(policy: Disconnect) -> Self {
        match policy {
            Disconnect::Continue => Self::Word(OnDisconnectWord::Continue),
            Disconnect::Cancel => Self::Word(OnDisconnectWord::Cancel),
            Disconnect::CancelAfter(time) => {
                let cancel_after_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                Self::After(OnDisconnectAfter { cancel_after_ms })
            }
        }
    }
}

/// How long somebody may be away; nothing if for ever.
fn patience(policy: OnDisconnect) -> Option<Duration> {
    match policy {
        OnDisconnect::Word(OnDisconnectWord::Continue) => None,
        OnDisconnect::Word(OnDisconnectWord::Cancel) => Some(Duration::ZERO),
        OnDisconnect::After(OnDisconnectAfter { cancel_after_ms }) => Some(Duration::from_millis(cancel_after_ms)),
    }
}

/// How many watch, and whether anybody ever has.
#[derive(Debug, Clone, Copy, Default)]
struct Watching {
    now: usize,
    ever: bool,
}

impl Watching {
    fn all_are_gone(&self) -> bool {
        self.ever && self.now == 0
    }
}

/// Who watches which run, of those that want to know.
#[derive(Debug, Clone, Default)]
pub(crate) struct Presence {
    runs: Arc<Mutex<HashMap<RunId, watch::Sender<Watching>>>>,
}

impl Presence {
    /// The signal that cancels a run when it is left alone for too long; nothing if being alone does not matter to the run.
    /// It hears who comes and goes from now on, so it is made before the run can be found.
    pub(crate) fn signal(&self, run: &RunId, policy: OnDisconnect) -> Option<Alone> {
        let patience = patience(policy)?;
        let (sender, watching) = watch::channel(Watching::default());
        let forget = match self.runs.lock().entry(run.clone()) {
            Entry::Vacant(vacant) => {
                vacant.insert(sender);
                Some(Forget { presence: self.clone(), run: run.clone() })
            }
            // The id is in use. This start is going to be refused, and takes nothing from the run that is there.
            Entry::Occupied(_) => None,
        };
        Some(Alone { watching, patience, _forget: forget })
    }

    /// Somebody watches a run, until the guard is dropped.
    pub(crate) fn watch(&self, run: &RunId, leave: &Leave) -> Watcher {
        let watched = leave.may_stop().then(|| {
            self.change(run, |watching| *watching = Watching { now: watching.now + 1, ever: true });
            (self.clone(), run.clone(), leave.clone())
        });
        Watcher { watched }
    }

    fn change(&self, run: &RunId, change: impl FnOnce(&mut Watching)) {
        if let Some(sender) = self.runs.lock().get(run) {
            sender.send_modify(change);
        }
    }
}

/// A run that does not want to be left alone.
pub(crate) struct Alone {
    watching: watch::Receiver<Watching>,
    patience: Duration,
    /// Dropped with the run, or with the start that was refused.
    _forget: Option<Forget>,
}

impl Alone {
    /// Waits until everybody has been gone for so long.
    pub(crate) async fn for_too_long(mut self) -> Cancel {
        loop {
            if self.watching.wait_for(Watching::all_are_gone).await.is_err() {
                // Nobody can come or go any more.
                std::future::pending::<()>().await;
            }
            if !self.is_back_in_time().await {
                return self.cancel();
            }
        }
    }

    async fn is_back_in_time(&mut self) -> bool {
        if self.patience.is_zero() {
            // The shortest sleep takes a millisecond.
            return !self.watching.borrow().all_are_gone();
        }
        tokio::select! {
            biased;
            back = self.watching.wait_for(|watching| !watching.all_are_gone()) => back.is_ok(),
            () = sleep(self.patience) => false,
        }
    }

    fn cancel(&self) -> Cancel {
        let note = match self.patience.is_zero() {
            true => "the last reader of its feed went away".to_owned(),
            false => format!("the last reader of its feed went away, and nobody came back in {:?}", self.patience),
        };
        Cancel::graceful().reason(Reason::ClientDisconnected).by("server").note(note)
    }
}

/// Somebody who watches a run.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// Nothing if it is not missed (invariants 1 and 3).
    watched: Option<(Presence, RunId, Leave)>,
}

impl Watcher {
    /// Somebody who reads aside (invariant 3).
    pub(crate) fn aside() -> Self {
        Self { watched: None }
    }

    /// It goes because it was sent away, and may come back: if nobody else is there, the run is as one that nobody has
    /// watched yet.
    pub(crate) fn leave_in_peace(&self) {
        if let Some((presence, run, _)) = &self.watched {
            presence.change(run, |watching| watching.ever = watching.now > 1);
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let Some((presence, run, leave)) = &self.watched else { return };
        if leave.is_over() {
            self.leave_in_peace();
        }
        presence.change(run, |watching| watching.now = watching.now.saturating_sub(1));
    }
}

/// The run is over, or was never started: nobody wants to know any more.
struct Forget {
    presence: Presence,
    run: RunId,
}

impl Drop for Forget {
    fn drop(&mut self) {
        self.presence.runs.lock().remove(&self.run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> RunId {
        RunId::new("r").unwrap()
    }

    fn leave() -> Leave {
        Leave::new(&crate::principal::Principal::local(), &andon::Runtime::builder().one_lane().build())
    }

    #[tokio::test]
    async fn a_run_that_does_not_mind_or_was_never_started_leaves_nothing_behind() {
        let presence = Presence::default();
        assert!(presence.signal(&id(), OnDisconnect::default()).is_none());
        let refused = presence.signal(&id(), OnDisconnect::Word(OnDisconnectWord::Cancel));
        assert_eq!(presence.runs.lock().len(), 1);
        drop(refused.map(Alone::for_too_long));
        drop(presence.watch(&id(), &leave()));
        assert!(presence.runs.lock().is_empty());
    }

    #[tokio::test]
    async fn a_second_start_of_the_same_id_takes_nothing_from_the_first() {
        let presence = Presence::default();
        let policy = OnDisconnect::Word(OnDisconnectWord::Cancel);
        let first = presence.signal(&id(), policy).unwrap();
        let watcher = presence.watch(&id(), &leave());
        drop(presence.signal(&id(), policy));
        drop(watcher);
        assert_eq!(first.for_too_long().await, first_cancel());
        assert!(presence.runs.lock().is_empty());
    }

    fn first_cancel() -> Cancel {
        let note = "the last reader of its feed went away";
        Cancel::graceful().reason(Reason::ClientDisconnected).by("server").note(note)
    }
}
