//! Hands streamed text to the journal, for all runs together, at most 25 ms after it was shown.
//!
//! There is no timer per run: the first run that has text to hand over starts one task, which goes on as long as any
//! run has text, and then ends.

use std::mem;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::journal::Append;
use crate::lanes::sync::Mutex;
use crate::live::Live;
use crate::live::Services;
use crate::live::log::Flush;

/// Half of the 50 ms that a crash may lose; the other half is for the disk.
const EVERY: Duration = Duration::from_millis(25);

#[derive(Default)]
pub(crate) struct Flusher {
    state: Mutex<FlusherState>,
}

#[derive(Default)]
struct FlusherState {
    /// Weak, because a settled run has nothing to hand over and need not be kept in memory.
    dirty: Vec<Weak<Live>>,
    running: bool,
}

impl Flusher {
    /// This run has text that the journal does not have.
    pub(crate) fn add(&self, live: &Arc<Live>) {
        let mut state = self.state.lock();
        state.dirty.push(Arc::downgrade(live));
        if mem::replace(&mut state.running, true) {
            return;
        }
        drop(state);
        let services = Arc::clone(&live.services);
        live.services.door.spawn_keeper(flush_all(FlusherTask { services, is_over: false }));
    }

    /// A run that was looked at may still have text, or have new text.
    fn look_again(&self, live: &Arc<Live>) {
        if live.with_log(|log| log.has_text_to_flush() || log.has_held()) {
            self.add(live);
        }
    }

    /// The runs to flush; `None` when there are none, and then the task counts as ended.
    fn take(&self) -> Option<Vec<Weak<Live>>> {
        let mut state = self.state.lock();
        state.running = !state.dirty.is_empty();
        state.running.then(|| mem::take(&mut state.dirty))
    }

    /// The task was dropped with its tokio runtime: the next run that has text starts another.
    fn abandoned(&self) {
        self.state.lock().running = false;
    }
}

/// Tells the flusher if its task is dropped, as happens when a tokio runtime is shut down.
struct FlusherTask {
    services: Arc<Services>,
    is_over: bool,
}

impl Drop for FlusherTask {
    fn drop(&mut self) {
        if !self.is_over {
            self.services.flusher.abandoned();
        }
    }
}

async fn flush_all(mut running: FlusherTask) {
    loop {
        tokio::time::sleep(EVERY).await;
        let Some(dirty) = running.services.flusher.take() else {
            running.is_over = true;
            return;
        };
        running.services.probes.hit("flusher: before lumps");
        // All are handed over before the first is awaited, so that one commit can carry them.
        let flushes: Vec<(Arc<Live>, Flush, Append)> = dirty
            .into_iter()
            .filter_map(|live| {
                let live = live.upgrade()?;
                let Some((flush, append)) = live.flush() else {
                    running.services.flusher.look_again(&live);
                    return None;
                };
                Some((live, flush, append))
            })
            .collect();
        for (live, flush, append) in flushes {
            if let Err(error) = append.await {
                live.writes_failed(error);
                continue;
            }
            live.flushed(&flush);
            running.services.flusher.look_again(&live);
        }
    }
}
