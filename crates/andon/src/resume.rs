//! Bringing back to life a run that was waiting when its process died: for its session, or for a person.
//!
//! Nothing of such a run was open, so nothing can happen twice. Its driver begins where the journal ends.

use std::sync::Arc;

use andon_core::event::Event;
use andon_core::progress::{CallState, State};

use crate::driver::{self, Beginning};
use crate::journal::JournalError;
use crate::live::Live;
use crate::log::Log;
use crate::recovery::Left;
use crate::runtime::RuntimeCore;
use crate::session::WhenBusy;

/// Gives a waiting run a driver; says no if its agent is not here.
pub(crate) async fn resume(runtime: &Arc<RuntimeCore>, left: Left) -> Result<bool, JournalError> {
    let Some(agent) = runtime.agent_named(&left.session().app) else { return Ok(false) };
    let Some(epoch) = runtime.journal.claim(&left.run).await? else { return Ok(false) };
    let Left { run, stored, progress } = left;
    let accepted = Arc::clone(progress.accepted());
    let session = runtime.session(&accepted.session);
    let log = Log::from_entries(&stored.entries);
    let live = Arc::new(Live::resumed(run, accepted.session.clone(), Arc::clone(runtime), epoch, log));
    let waiting = progress.calls().iter().filter(|call| call.state == CallState::AwaitingApproval);
    live.open_calls(waiting.map(|call| call.call.id.clone()).collect(), Vec::new());
    if runtime.registry.add(agent.id, &live).is_err() {
        // Somebody has started it again meanwhile, by another call of the same kind.
        return Ok(true);
    }
    // It was let in before its process died, and is let in whoever is there now.
    let Ok(seat) = session.enter(&live, WhenBusy::Queue) else {
        runtime.registry.remove(&live.id);
        return Ok(false);
    };
    if let Some(cancel) = runtime.registry.admit(&live.id) {
        live.pull(cancel.at(live.now()));
    }
    let accepted_at = stored.facts().find(|record| matches!(record.event, Event::RunAccepted { .. }));
    let now = live.now();
    let waited_us = accepted_at.map_or(0, |record| now.wall.0.saturating_sub(record.at.wall.0));
    let waited = std::time::Duration::from_micros(waited_us);
    debug_assert!(matches!(progress.state(), State::Queued | State::Waiting));
    let beginning = Beginning { seat, signal: None, resumed: Some((progress, waited)) };
    driver::launch(agent, session, live, accepted, beginning);
    Ok(true)
}
