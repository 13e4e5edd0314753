//! Observers, which are told every fact of every run when it is shown.
//!
//! # Invariants
//!
//! 1. An observer is told each fact once, in the order of the run, and only when it is durable and shown. The last facts it
//!    is told just before they are shown, so whoever has seen a run's end knows that observers have heard of it.
//! 2. No lock that a pull takes is held while an observer runs. Each run has one more lock, which is taken only to tell
//!    observers.
//! 3. A panic in an observer is caught and counted, and the run goes on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use andon_core::event::{Addendum, Record};
use andon_core::id::{RunId, SessionKey};
use andon_core::receipt::Receipt;
use andon_core::time::Stamp;

use crate::journal::JournalError;
use crate::lanes::sync::{AtomicU64, Ordering};

/// Is told every fact of every run, when it is durable and shown in the feed. The last facts, `run_settled` among them, it is
/// told just before: when [`Run::outcome`](crate::Run::outcome) returns or the feed ends, every observer has heard of the end. Until
/// then the run is still in progress: a prompt in its session waits for it, and a cancel of it comes too late.
///
/// It is called on the task that drives the run: a slow observer delays the run, and the delivery of a stop, though
/// never the pull. Count, copy, pass on; do not wait.
pub trait Observer: Any + Send + Sync {
    /// A fact is shown.
    fn fact(&self, seen: &ShownFact<'_>);

    /// Something was learned about a run that is not among its facts.
    fn addendum(&self, learned: &ShownAddendum<'_>) {
        let _ = learned;
    }

    /// The journal does not accept a run's end: the run's work has ended, and it settles when the journal accepts
    /// writes again.
    fn stalled(&self, run: &RunId, session: &SessionKey, why: &JournalError) {
        let _ = (run, session, why);
    }

    /// The journal failed a run for good: the run's feed ends here, without a terminal event.
    fn broken_off(&self, run: &RunId, session: &SessionKey, why: &JournalError) {
        let _ = (run, session, why);
    }
}

// What it does not forward would be lost without a word.
#[deny(clippy::missing_trait_methods)]
impl<O: Observer + ?Sized> Observer for Arc<O> {
    fn fact(&self, seen: &ShownFact<'_>) {
        (**self).fact(seen);
    }

    fn addendum(&self, learned: &ShownAddendum<'_>) {
        (**self).addendum(learned);
    }

    fn stalled(&self, run: &RunId, session: &SessionKey, why: &JournalError) {
        (**self).stalled(run, session, why);
    }

    fn broken_off(&self, run: &RunId, session: &SessionKey, why: &JournalError) {
        (**self).broken_off(run, session, why);
    }
}

/// A fact that is shown.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ShownFact<'a> {
    /// The run.
    pub run: &'a RunId,
    /// Its session.
    pub session: &'a SessionKey,
    /// The fact.
    pub record: &'a Arc<Record>,
    /// All earlier facts of the run, in order.
    pub past: &'a [Arc<Record>],
    /// When it was seen to be durable, by this process's clock. For the last fact, this is when the run settled.
    pub now: Stamp,
    /// How many pieces the run has accepted by now; `None` if that is unknown, because another process accepted some.
    pub pieces: Option<u64>,
}

impl<'a> ShownFact<'a> {
    /// For tests of an observer. A runtime makes its own.
    pub fn new(
        run: &'a RunId,
        session: &'a SessionKey,
        record: &'a Arc<Record>,
        past: &'a [Arc<Record>],
        now: Stamp,
        pieces: Option<u64>,
    ) -> Self {
        Self { run, session, record, past, now, pieces }
    }
}

impl ShownFact<'_> {
    /// The run's receipt up to this fact.
    pub fn receipt(&self) -> Option<Receipt> {
        Receipt::fold(self.past.iter().chain([self.record]), [], Some(self.now))
    }
}

/// What was learned about a run that is not among its facts.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ShownAddendum<'a> {
    /// The run.
    pub run: &'a RunId,
    /// Its session.
    pub session: &'a SessionKey,
    /// What was learned.
    pub addendum: &'a Addendum,
    /// What was learned before.
    pub earlier: &'a [Addendum],
    /// The run's facts.
    pub facts: &'a [Arc<Record>],
}

/// This observer, if it is of this type or shares one of this type.
fn found<T: Observer>(observer: &Arc<dyn Observer>) -> Option<Arc<T>> {
    let any: Arc<dyn Any + Send + Sync> = Arc::clone(observer) as _;
    if let Some(shared) = any.downcast_ref::<Arc<dyn Observer>>() {
        return found(shared);
    }
    any.downcast_ref::<Arc<T>>().cloned().or_else(|| any.downcast().ok())
}

/// The observers that a runtime was built with.
#[derive(Default)]
pub(crate) struct Observers {
    all: Vec<Arc<dyn Observer>>,
    panics: AtomicU64,
}

impl Observers {
    pub(crate) fn new(all: Vec<Arc<dyn Observer>>) -> Self {
        Self { all, panics: AtomicU64::new(0) }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How often one has panicked.
    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// The first of this type.
    pub(crate) fn find<T: Observer>(&self) -> Option<Arc<T>> {
        self.all.iter().find_map(found)
    }

    pub(crate) fn fact(&self, seen: &ShownFact<'_>) {
        self.each(|observer| observer.fact(seen));
    }

    /// Tells new facts, one after another, and appends them to `past`.
    pub(crate) fn facts(
        &self,
        run: &RunId,
        session: &SessionKey,
        past: &mut Vec<Arc<Record>>,
        new: Vec<Arc<Record>>,
        now: Stamp,
        pieces: Option<u64>,
    ) {
        for record in new {
            self.fact(&ShownFact { run, session, record: &record, past, now, pieces });
            past.push(record);
        }
    }

    pub(crate) fn addendum(&self, learned: &ShownAddendum<'_>) {
        self.each(|observer| observer.addendum(learned));
    }

    pub(crate) fn stalled(&self, run: &RunId, session: &SessionKey, why: &JournalError) {
        self.each(|observer| observer.stalled(run, session, why));
    }

    pub(crate) fn broken_off(&self, run: &RunId, session: &SessionKey, why: &JournalError) {
        self.each(|observer| observer.broken_off(run, session, why));
    }

    fn each(&self, tell: impl Fn(&dyn Observer)) {
        for observer in &self.all {
            // Whatever state it left when it panicked is its own (invariant 3).
            if catch_unwind(AssertUnwindSafe(|| tell(&**observer))).is_err() {
                self.panics.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
