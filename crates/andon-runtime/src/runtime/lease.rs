//! What a runtime does when a journal that it shares with other processes tells it of its lease.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use andon_core::cancel::CancelRequest;
use andon_core::id::RunId;
use andon_core::progress::RunState;
use tokio::time::timeout;

use crate::driver::RuntimeCore;
use crate::journal::JournalError;
use crate::journal::lease::LeaseHolder;
use crate::live::Live;
use crate::recovery::recover_all;

/// How long it takes until a recovery that failed is tried again.
const RECOVER_AGAIN: Duration = Duration::from_secs(1);

impl LeaseHolder for RuntimeCore {
    fn lease_is_over(&self) {
        for live in self.registry.all() {
            // Nothing of a run that waits is going on, and when it goes on it meets the gate.
            if let Some((RunState::Running | RunState::Cancelling, _)) = live.state_byte.get() {
                live.pull_behind_the_fence();
            }
        }
    }

    fn driven(&self) -> Vec<RunId> {
        let is_on_record = |run: &&Arc<Live>| run.with_log(|log| log.seq()) > 0;
        self.registry.all().iter().filter(is_on_record).map(|live| live.id.clone()).collect()
    }

    fn runs_are_lost(&self, runs: &[RunId]) {
        for live in runs.iter().filter_map(|run| self.registry.find(run)) {
            // The gate is closed at once; the driver hears of the rest when it is its turn.
            live.pull_behind_the_fence();
            live.writes_failed(JournalError::Owned { by: "it has taken the run over".into() });
        }
    }

    fn is_asked(self: Arc<Self>, run: &RunId, request: CancelRequest) {
        match self.registry.find(run) {
            Some(live) => drop(live.pull(request.heard_at(live.now()))),
            // It has no driver. The request is on record, so whoever takes it up carries it out.
            None => self.runs_are_left(),
        }
    }

    fn runs_are_left(self: Arc<Self>) {
        if !self.has_recovered.load(Ordering::Acquire) {
            // The program is still starting, and takes them up when its agents are there.
            return;
        }
        let runtime = Arc::clone(&self);
        self.services.door.spawn_keeper(async move {
            let leaving = runtime.services.give_up();
            while recover_all(&runtime).await.is_err() {
                if timeout(RECOVER_AGAIN, leaving.given()).await.is_ok() {
                    return;
                }
            }
        });
    }
}
