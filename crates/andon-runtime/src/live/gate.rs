//! The gate: the three things that a pull forbids pass through here, under the run's lock (invariant 1).

use andon_core::answer::{Kind, MarkKind};
use andon_core::time::Stamp;

use super::tickets::WorkTicket;
use super::{Inner, Live, WakeList};
#[cfg(feature = "testing")]
use crate::lanes::probe::GateCounts;
use crate::lanes::sync::MutexGuard;
use crate::live::log::Log;

/// The answer to offering a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It is in the log.
    Accepted {
        /// Whether it is the first that waits for the journal.
        first_unjournaled: bool,
    },
    /// The cord was pulled: the piece is not accepted.
    Refused,
    /// Text that was shown has waited for the disk for too long: offer it again later.
    Later,
}

impl Live {
    /// Takes the run's lock to pass the gate. Behind the fence of this process's lease nothing passes: the run is pulled
    /// first, as by anybody else, so that there is one way to stop.
    fn lock_at_the_gate(&self) -> MutexGuard<'_, Inner> {
        let inner = self.inner.lock();
        if !self.services.is_behind_the_fence() {
            return inner;
        }
        drop(inner);
        self.pull_behind_the_fence();
        self.inner.lock()
    }

    /// Passes the gate before a model call.
    pub(crate) fn may_call_model(&self) -> bool {
        #[cfg_attr(not(feature = "testing"), expect(unused_mut, reason = "only tests count"))]
        let mut inner = self.lock_at_the_gate();
        let open = inner.stop.lets_a_turn_begin();
        #[cfg(feature = "testing")]
        {
            inner.passed.models += u64::from(open);
        }
        open
    }

    /// Passes the gate before a tool starts.
    pub(crate) fn may_start_tool(&self, ticket: u32) -> bool {
        let mut inner = self.lock_at_the_gate();
        let Some(ticket) = inner.startable(ticket) else { return false };
        ticket.started = true;
        #[cfg(feature = "testing")]
        {
            inner.passed.tools += 1;
        }
        true
    }

    /// Passes the gate again, on the thread of a blocking tool: a pull may have come while it waited for the thread.
    pub(crate) fn may_start_thread(&self, ticket: u32) -> bool {
        let mut inner = self.lock_at_the_gate();
        let Some(ticket) = inner.startable(ticket) else { return false };
        (ticket.waits_for_slot, ticket.on_thread) = (false, true);
        true
    }

    /// Whether a tool may still be put on record as started.
    pub(crate) fn lets_the_turn_go_on(&self) -> bool {
        self.lock_at_the_gate().stop.lets_the_turn_go_on()
    }

    /// Offers streamed bytes.
    pub(crate) fn offer(&self, kind: &Kind, text: &str) -> Offer {
        self.offer_with(1, Log::must_wait, |log, now| log.push(kind, text, now))
    }

    /// Offers a mark.
    pub(crate) fn offer_mark(&self, what: MarkKind) -> Offer {
        // Who answers is said beside the pieces.
        let pieces = if matches!(what, MarkKind::Answered(_)) { 0 } else { 1 };
        // What shows nothing does not wait for the disk: it is known even if it can never be written.
        let is_shown = !matches!(what, MarkKind::Used(_) | MarkKind::Answered(_));
        self.offer_with(pieces, |log, now| is_shown && log.must_wait(now), |log, now| log.mark(what, now))
    }

    fn offer_with(
        &self,
        pieces: u64,
        must_wait: impl FnOnce(&Log, Stamp) -> bool,
        add: impl FnOnce(&mut Log, Stamp) -> bool,
    ) -> Offer {
        let now = self.now();
        let mut inner = self.lock_at_the_gate();
        if !inner.stop.lets_the_turn_go_on() {
            return Offer::Refused;
        }
        if must_wait(&inner.log, now) {
            return Offer::Later;
        }
        inner.pieces += pieces;
        let first_unjournaled = add(&mut inner.log, now);
        let wake = WakeList::readers(&mut inner.log);
        drop(inner);
        wake.wake();
        Offer::Accepted { first_unjournaled }
    }

    #[cfg(feature = "testing")]
    pub(crate) fn passed(&self) -> GateCounts {
        let inner = self.inner.lock();
        GateCounts { pieces: inner.pieces, ..inner.passed }
    }

    /// How many pieces were accepted in all; `None` if that is unknown.
    pub(crate) fn pieces(&self) -> Option<u64> {
        self.inner.lock().pieces()
    }
}

impl Inner {
    pub(super) fn pieces(&self) -> Option<u64> {
        (!self.taken_over).then_some(self.pieces)
    }

    /// The ticket, if the gate is open to its tool.
    fn startable(&mut self, ticket: u32) -> Option<&mut WorkTicket> {
        let goes_on = self.stop.lets_the_turn_go_on() && !self.life.has_lost_its_driver();
        let ticket = self.tickets.iter_mut().find(|open| open.number == ticket)?;
        (goes_on && ticket.cancelled.is_none()).then_some(ticket)
    }
}
