//! A log line for what happens to runs: begun, stopped, settled, leaked.
//!
//! Lines have ids, words from small sets, and times, but no part of a conversation.

use andon_runtime::core::event::{Event, HookEnd, ToolEnd};
use andon_runtime::core::id::{RunId, SessionKey};
use andon_runtime::core::outcome::Ending;
use andon_runtime::{JournalError, Observer, ShownFact};
use tracing::{error, info, warn};

use crate::past;

/// An observer that logs what happens to runs, through [`tracing`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Logs;

impl Logs {
    fn settled(seen: &ShownFact<'_>, outcome: &Ending) {
        let Some(receipt) = seen.receipt() else { return };
        let (run, app) = (seen.run.as_str(), &*seen.session.app);
        let took_ms = receipt.run_us / 1_000;
        let reason = receipt.reason.map(|reason| reason.as_str());
        let by = receipt.by.as_deref();
        match outcome {
            Ending::Completed { .. } | Ending::Cancelled { .. } => {
                info!(run, app, outcome = outcome.as_str(), reason, by, took_ms, "run settled");
            }
            Ending::Failed(failure) => {
                let failure = failure.error.as_str();
                warn!(run, app, outcome = "failed", failure, reason, by, took_ms, "run settled");
            }
            Ending::Lost => warn!(run, app, outcome = "lost", took_ms, "run settled"),
            #[cfg(not(andon_whole))]
            _ => info!(run, app, outcome = outcome.as_str(), reason, by, took_ms, "run settled"),
        }
    }
}

impl Observer for Logs {
    fn fact(&self, seen: &ShownFact<'_>) {
        let (run, app) = (seen.run.as_str(), &*seen.session.app);
        match &seen.record.event {
            Event::RunAccepted { .. } => info!(run, app, "run accepted"),
            Event::CancelRequested { request, .. } => {
                let (reason, force) = (request.reason.as_str(), request.force.as_str());
                info!(run, app, reason, force, by = request.by.as_deref(), "run cancelled");
            }
            Event::ToolFinished { call, end, remains, .. } => {
                let left = remains.as_deref().map_or(0, |remains| remains.leaked.len());
                if *end == ToolEnd::Leaked || left > 0 {
                    let tool = past::tool_of(seen.past, call).unwrap_or("?");
                    warn!(run, app, tool, call = call.as_str(), processes = left, "work was leaked");
                }
            }
            Event::HookFinished { point, end: HookEnd::Leaked, .. } => {
                warn!(run, app, hook = point.as_str(), "work was leaked");
            }
            Event::RunSettled { outcome } => Self::settled(seen, outcome),
            _ => {}
        }
    }

    fn stalled(&self, run: &RunId, session: &SessionKey, why: &JournalError) {
        error!(run = run.as_str(), app = &*session.app, %why, "the journal refuses the end of a run: retrying");
    }

    fn broken_off(&self, run: &RunId, session: &SessionKey, why: &JournalError) {
        error!(run = run.as_str(), app = &*session.app, %why, "the journal failed under a run");
    }
}
