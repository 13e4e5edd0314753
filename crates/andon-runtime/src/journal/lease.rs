//! Until when this process may drive runs, if several processes share a journal.
//!
//! # Theory of operation
//!
//! A journal that several processes share gives each of them a lease, and renews it all the time. A process that does not hear
//! from the journal cannot know whether its runs are still its own, so some time before the lease is over, at the *fence*, it stops
//! them itself: whoever takes them over afterwards finds that nothing of them is going on any more.
//!
//! The gate of every run asks the lease, by a clock that goes on while the machine is suspended. So a process that was frozen and
//! wakes up after its fence starts nothing, whichever of its threads runs first.

use std::fmt;
use std::sync::{Arc, Weak};

use andon_core::cancel::CancelRequest;
use andon_core::id::RunId;

use crate::lanes::sync::{AtomicU64, Mutex, Ordering};

/// What a process that drives runs is told by a journal that it shares with others. It is called on the journal's own thread, on
/// which the lease depends, so it must return soon.
pub trait LeaseHolder: Send + Sync {
    /// The fence has passed: nothing may go on. What cannot be written now may be written later, if the runs are still this
    /// process's own then.
    fn lease_is_over(&self);

    /// The runs that this process drives and that are on record. Asked when the lease is about to be held again.
    fn driven(&self) -> Vec<RunId>;

    /// These runs belong to other processes now.
    fn runs_are_lost(&self, runs: &[RunId]);

    /// A cancel request was left for a run of this process.
    fn is_asked(self: Arc<Self>, run: &RunId, request: CancelRequest);

    /// Another process is dead, and its runs may be [taken up](crate::Runtime::recover).
    fn runs_are_left(self: Arc<Self>);
}

/// Until when this process may drive runs. A journal that several processes share [has one](crate::Journal::lease).
pub struct Lease {
    /// The fence, in microseconds of `now`.
    fence: AtomicU64,
    now: Box<dyn Fn() -> u64 + Send + Sync>,
    holders: Mutex<Vec<Weak<dyn LeaseHolder>>>,
}

impl Lease {
    /// A lease that is not held yet. `now` is a clock in microseconds that never goes back and counts the time for which the
    /// machine is suspended.
    pub fn new(now: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { fence: AtomicU64::new(0), now: Box::new(now), holders: Mutex::default() }
    }

    /// The time, by the lease's clock.
    pub fn now(&self) -> u64 {
        (self.now)()
    }

    /// Whether this process may drive runs.
    pub fn is_held(&self) -> bool {
        self.now() < self.fence.load(Ordering::Acquire)
    }

    /// The fence, by the lease's clock.
    pub fn fence(&self) -> u64 {
        self.fence.load(Ordering::Acquire)
    }

    /// Moves the fence. It counts from before the renewal was sent, because the journal may have answered late.
    pub fn hold_until(&self, fence: u64) {
        self.fence.store(fence, Ordering::Release);
    }

    /// Adds somebody who is told.
    pub(crate) fn add_holder(&self, holder: Weak<dyn LeaseHolder>) {
        let mut holders = self.holders.lock();
        holders.retain(|known| known.strong_count() > 0);
        holders.push(holder);
    }

    /// Whoever drives runs under this lease.
    pub fn holders(&self) -> Vec<Arc<dyn LeaseHolder>> {
        self.holders.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("is_held", &self.is_held()).finish_non_exhaustive()
    }
}
