//! Pulling the cord, and sealing the end: what competes under the run's lock (invariants 1 and 2).

use std::sync::Arc;

use andon_core::cancel::{CancelRequest, Force, Reason, ReplyKind, Stop};
use andon_core::id::CallId;
use andon_core::outcome::Ending;

use super::life::Life;
use super::{Live, News, WakeList};
use crate::lanes::sync::Ordering;

impl Live {
    /// Pulls the cord. Also returns the number of the request that the reply is about, to wait for its record.
    pub(crate) fn pull(&self, request: CancelRequest) -> (ReplyKind, u32) {
        let request = Arc::new(request);
        let mut inner = self.inner.lock();
        if matches!(inner.life, Life::Elsewhere { .. }) {
            return (ReplyKind::NotRunning, 0);
        }
        let reply = inner.stop.pull(request.force);
        let wake = match reply {
            ReplyKind::Accepted | ReplyKind::Hardened => {
                inner.requests += 1;
                inner.request = Some(Arc::clone(&request));
                self.level.store(level(request.force), Ordering::Release);
                let mut wake = inner.post(News::Pulled(request));
                wake.others = std::mem::take(&mut inner.watchers);
                wake
            }
            _ => WakeList::default(),
        };
        let number = inner.requests;
        drop(inner);
        wake.wake();
        (reply, number)
    }

    /// Pulls the cord because this process may not drive the run any more.
    pub(crate) fn pull_behind_the_fence(&self) {
        let request = CancelRequest::new(Reason::OwnerLost, Force::Now, self.now());
        let note = "the journal could not be reached in time to keep the run";
        self.pull(request.by("runtime").note(note));
    }

    /// Cancels one call alone.
    pub(crate) fn pull_call(&self, call: &CallId, request: CancelRequest) -> (ReplyKind, u32) {
        let request = Arc::new(request);
        let mut inner = self.inner.lock();
        if let Stop::Sealed(ending) = &inner.stop {
            return (ReplyKind::TooLate { outcome: Arc::clone(ending) }, 0);
        }
        let has_not_started = inner.unstarted.as_ref().is_some_and(|unstarted| unstarted.has(call));
        let Some(ticket) = inner.tickets.iter_mut().find(|ticket| ticket.call.as_ref() == Some(call)) else {
            if !has_not_started {
                return (ReplyKind::NotRunning, 0);
            }
            inner.unstarted().forget(call);
            inner.requests += 1;
            let number = inner.requests;
            let wake = inner.post(News::CallPulled(call.clone(), request));
            drop(inner);
            wake.wake();
            return (ReplyKind::Accepted, number);
        };
        let reply = match &ticket.cancelled {
            None => ReplyKind::Accepted,
            Some(earlier) if request.force > earlier.force => ReplyKind::Hardened,
            Some(_) => return (ReplyKind::AlreadyCancelling, inner.requests),
        };
        ticket.cancelled = Some(Arc::clone(&request));
        inner.requests += 1;
        let number = inner.requests;
        let mut wake = inner.post(News::CallPulled(call.clone(), request));
        wake.others = std::mem::take(&mut inner.watchers);
        drop(inner);
        wake.wake();
        (reply, number)
    }

    /// How hard the cord was pulled, if it was, without taking the lock.
    pub(crate) fn force(&self) -> Option<Force> {
        match self.level.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Force::AfterTurn),
            2 => Some(Force::Graceful),
            _ => Some(Force::Now),
        }
    }

    /// Whether the run is ending: it was pulled, its end is decided, or its driver is gone.
    pub(crate) fn is_ending(&self) -> bool {
        let inner = self.inner.lock();
        inner.life.has_lost_its_driver() || !matches!(inner.stop, Stop::Open)
    }

    /// Decides how the run ends (invariant 2). The requests that are still in the inbox come with it.
    pub(crate) fn seal(&self, ending: &Arc<Ending>) -> Result<Vec<News>, Force> {
        let mut inner = self.inner.lock();
        inner.stop.seal(ending)?;
        Ok(std::mem::take(&mut inner.inbox))
    }

    /// Decides how a run that has lost its driver ends; refused while there is a request that nobody has heard.
    pub(crate) fn seal_orphan(&self, ending: &Arc<Ending>) -> Result<(), UnheardRequest> {
        let mut inner = self.inner.lock();
        if inner.inbox.iter().any(|news| matches!(news, News::Pulled(_) | News::CallPulled(..))) {
            return Err(UnheardRequest);
        }
        inner.stop = Stop::Sealed(Arc::clone(ending));
        inner.let_all_go();
        inner.tickets.clear();
        Ok(())
    }
}

/// There is a request that nobody has heard.
#[derive(Debug)]
pub(crate) struct UnheardRequest;

/// The force as the hint that readers see without the lock.
pub(super) fn level(force: Force) -> u8 {
    match force {
        Force::AfterTurn => 1,
        Force::Graceful => 2,
        Force::Now => 3,
    }
}
