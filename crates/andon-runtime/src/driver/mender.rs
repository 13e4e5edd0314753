//! Runs whose end the journal does not accept: each is retried until it is durable.
//!
//! There is one task for all of them, as long as there are any. It tries one after another, with a pause between them;
//! when the journal accepts one, the others follow at once. So a full disk is tried once a second, however many runs
//! wait for it, and a run that can never be written keeps no other run waiting.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::core::RuntimeCore;
use super::orphan::Orphan;
use crate::journal::JournalError;
use crate::lanes::sync::Mutex;

/// How long to wait before the next try: at first, and at most. The wait doubles each time.
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Mender {
    state: Mutex<MenderState>,
}

#[derive(Default)]
struct MenderState {
    waiting: VecDeque<Orphan>,
    running: bool,
}

impl Mender {
    /// The journal does not accept this run's end.
    pub(crate) fn add(&self, orphan: Orphan) {
        let runtime = Arc::clone(&orphan.runtime);
        let mut state = self.state.lock();
        state.waiting.push_back(orphan);
        if mem::replace(&mut state.running, true) {
            return;
        }
        drop(state);
        let running = MenderTask { runtime: Arc::clone(&runtime), is_over: false };
        runtime.services.door.spawn_keeper(retry(running));
    }

    /// The run to try next; `None` when there is none, and then the task counts as ended.
    fn next(&self) -> Option<Orphan> {
        let mut state = self.state.lock();
        state.running = !state.waiting.is_empty();
        state.waiting.pop_front()
    }

    fn put_back(&self, orphan: Orphan) {
        self.state.lock().waiting.push_back(orphan);
    }

    fn take_all(&self) -> VecDeque<Orphan> {
        mem::take(&mut self.state.lock().waiting)
    }
}

/// Leaves the waiting runs to recovery if the task is dropped, as happens when a tokio runtime is shut down.
struct MenderTask {
    runtime: Arc<RuntimeCore>,
    is_over: bool,
}

impl Drop for MenderTask {
    fn drop(&mut self) {
        if !self.is_over {
            self.runtime.mender.state.lock().running = false;
            self.runtime.leave_stalled();
        }
    }
}

async fn retry(mut running: MenderTask) {
    let runtime = Arc::clone(&running.runtime);
    let leaving = runtime.services.give_up();
    let mut pause = FIRST;
    loop {
        // When the program is about to exit, every run has one more try.
        let is_leaving = timeout(pause, leaving.given()).await.is_ok();
        let Some(mut orphan) = runtime.mender.next() else {
            running.is_over = true;
            return;
        };
        orphan.live.hit("mender: before settling");
        match orphan.try_settle().await {
            Ok(()) => {
                pause = FIRST;
                settle_others(&runtime);
            }
            Err(error) if error.may_pass() && !is_leaving => {
                orphan.live.stall(error);
                runtime.mender.put_back(orphan);
                pause = LONGEST.min(pause * 2);
            }
            Err(error) => {
                let services = Arc::clone(&orphan.live.services);
                services.door.spawn_keeper(orphan.give_away(error));
            }
        }
    }
}

/// The journal accepts writes again: the others need not wait for each other.
fn settle_others(runtime: &Arc<RuntimeCore>) {
    for mut orphan in runtime.mender.take_all() {
        runtime.services.door.spawn_keeper(async move {
            match orphan.try_settle().await {
                Ok(()) => {}
                Err(error) if error.may_pass() => {
                    let runtime = Arc::clone(&orphan.runtime);
                    orphan.live.stall(error);
                    runtime.mender.add(orphan);
                }
                Err(error) => orphan.give_away(error).await,
            }
        });
    }
}

impl RuntimeCore {
    /// Leaves the runs whose end the journal does not accept to recovery.
    fn leave_stalled(&self) {
        for orphan in self.mender.take_all() {
            let error = orphan.live.stalled().unwrap_or(JournalError::Closed);
            orphan.leave(error);
        }
    }
}
