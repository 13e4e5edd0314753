//! Revives a run that was waiting for its session or for a person when its process died.
//!
//! Nothing of such a run was open, so nothing can happen twice. Its driver begins where the journal ends.
//!
//! # Invariants
//!
//! 1. The run's id is reserved in the registry before the run is claimed: whoever wants to cancel it finds either the
//!    run, or no claim, and then settles it.
//! 2. The run's record is read after it was claimed.

use std::sync::Arc;
use std::time::Duration;

use andon_core::cancel::CancelRequest;
use andon_core::event::Epoch;
use andon_core::progress::CallState;

use crate::agent::AgentCore;
use crate::driver::{self, Beginning, RuntimeCore};
use crate::journal::JournalError;
use crate::lanes::BoxFuture;
use crate::live::Live;
use crate::live::log::Log;
use crate::live::presence;
use crate::recovery::{OpenRun, find_open};
use crate::session::WhenBusy;

/// A waiting run whose id is reserved and whose claim is on its way. Dropping it releases the id.
pub(crate) struct Resuming {
    runtime: Arc<RuntimeCore>,
    agent: Arc<AgentCore>,
    live: Arc<Live>,
    claim: Option<BoxFuture<Result<Option<Epoch>, JournalError>>>,
    is_over: bool,
}

impl Drop for Resuming {
    fn drop(&mut self) {
        if !self.is_over {
            self.runtime.registry.remove(&self.live.id);
        }
    }
}

/// What became of a run that was to be revived.
pub(crate) enum Resumed {
    LivesOn,
    /// It was settled meanwhile, or is gone.
    Over,
    /// Its agent is not here, or its session does not let it in.
    TurnedAway,
}

/// Reserves a waiting run's id and claims the run; `None` if its agent is not here or the id is taken.
pub(crate) fn begin(runtime: &Arc<RuntimeCore>, open: &OpenRun) -> Option<Resuming> {
    let agent = runtime.agents.find(&open.session().app)?;
    let epoch = open.stored.epoch.saturating_add(1);
    let session = Arc::new(open.session().clone());
    let live = Arc::new(Live::new(open.run.clone(), session, Arc::clone(&runtime.services), epoch));
    runtime.registry.add(agent.id, &live).ok()?;
    let claim = Some(runtime.services.journal.claim(&open.run, open.stored.epoch));
    Some(Resuming { runtime: Arc::clone(runtime), agent, live, claim, is_over: false })
}

impl Resuming {
    /// Gives the run a driver once it is claimed.
    pub(crate) async fn finish(mut self) -> Result<Resumed, JournalError> {
        let Some(claim) = self.claim.take() else { return Ok(Resumed::Over) };
        match claim.await {
            Ok(Some(_)) => {}
            // It is gone, or another process has claimed it meanwhile.
            Ok(None) => return Ok(Resumed::Over),
            Err(error) if error.is_anothers() => return Ok(Resumed::Over),
            Err(error) => return Err(error),
        }
        let Some(open) = find_open(&self.runtime, &self.live.id).await? else { return Ok(Resumed::Over) };
        let OpenRun { stored, progress, .. } = open;
        self.live.take_up(Log::from_entries(&stored.entries), &progress);
        let waiting = progress.calls().iter().filter(|call| call.state == CallState::AwaitingApproval);
        self.live.open_calls(waiting.map(|call| (call.call.id.clone(), call.digest())).collect(), Vec::new());
        let accepted = Arc::clone(progress.accepted());
        let had_reader = presence::had_reader(&self.runtime.services, &accepted).await?;
        let session = self.runtime.sessions.get(&accepted.session);
        // Its session let it in before the process died, so it may wait there again, whoever has the seat now.
        let Ok(seat) = session.enter(&self.live, WhenBusy::Queue) else { return Ok(Resumed::TurnedAway) };
        self.is_over = true;
        let signal = presence::signal_again(&self.live, &accepted, had_reader);
        let arm = self.runtime.registry.make_findable(&self.live.id);
        let now = self.live.now();
        let left = stored.requests.iter().map(|request| CancelRequest::clone(request).heard_at(now));
        for request in arm.map(|cancel| cancel.at(now)).into_iter().chain(left) {
            self.live.pull(request);
        }
        let accepted_at = stored.facts().next().map(|record| record.at.wall.0);
        let waited_us = accepted_at.map_or(0, |at| self.live.now().wall.0.saturating_sub(at));
        let beginning = Beginning { seat, signal, resumed: Some((progress, Duration::from_micros(waited_us))) };
        driver::launch(&self.runtime, Arc::clone(&self.agent), session, Arc::clone(&self.live), accepted, beginning);
        Ok(Resumed::LivesOn)
    }
}
