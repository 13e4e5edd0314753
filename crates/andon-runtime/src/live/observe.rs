//! Observers: who is told of every fact, of every run, at the moment it is shown.
//!
//! # Invariants
//!
//! 1. An observer is told of each fact once, in the order of the run, and only of what is durable and shown.
//! 2. No lock that a pull takes is held while an observer runs. Each run has one more lock that only telling takes.
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

/// Is told of every fact of every run, when it has become durable and is shown in the feed.
///
/// It is called on the task that drives the run: what takes long in here delays the run, and the delivery of a stop, though
/// never the pull. Count, copy, hand on; do not wait.
pub trait Observer: Any + Send + Sync {
    /// A fact is shown.
    fn fact(&self, seen: &Seen<'_>);

    /// Something was learnt about a run behind its facts.
    fn addendum(&self, learnt: &SeenLater<'_>) {
        let _ = learnt;
    }

    /// The journal does not take a run's end: its work is over, and it settles when the journal takes writes again.
    fn stalled(&self, run: &RunId, session: &SessionKey, why: &JournalError) {
        let _ = (run, session, why);
    }

    /// The journal failed under a run for good: its feed ends here, without a last event.
    fn broken_off(&self, run: &RunId, session: &SessionKey, why: &JournalError) {
        let _ = (run, session, why);
    }
}

/// A fact that is shown.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The run.
    pub run: &'a RunId,
    /// Its session.
    pub session: &'a SessionKey,
    /// The fact.
    pub record: &'a Arc<Record>,
    /// The run's earlier facts, all of them, in order.
    pub past: &'a [Arc<Record>],
    /// When it was seen to be durable, by the clock of this process: of the last fact, when the run settled.
    pub now: Stamp,
    /// How many pieces the run has accepted by now; nothing where nobody knows, because another process took some.
    pub pieces: Option<u64>,
}

impl Seen<'_> {
    /// The account of the run, up to this fact.
    pub fn receipt(&self) -> Option<Receipt> {
        Receipt::fold(self.past.iter().chain([self.record]), [], Some(self.now))
    }
}

/// What was learnt about a run behind its facts.
#[derive(Debug, Clone, Copy)]
pub struct SeenLater<'a> {
    /// The run.
    pub run: &'a RunId,
    /// Its session.
    pub session: &'a SessionKey,
    /// What was learnt.
    pub addendum: &'a Addendum,
    /// What was learnt before.
    pub earlier: &'a [Addendum],
    /// The run's facts.
    pub facts: &'a [Arc<Record>],
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

    /// Whether there is nobody to tell.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How often one has panicked.
    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// The first of this kind.
    pub(crate) fn find<T: Observer>(&self) -> Option<Arc<T>> {
        self.all.iter().find_map(|observer| {
            let any: Arc<dyn Any + Send + Sync> = Arc::clone(observer) as _;
            any.downcast().ok()
        })
    }

    pub(crate) fn fact(&self, seen: &Seen<'_>) {
        self.each(|observer| observer.fact(seen));
    }

    /// Tells of facts that stand behind others, one after the other; the others grow by them.
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
            self.fact(&Seen { run, session, record: &record, past, now, pieces });
            past.push(record);
        }
    }

    pub(crate) fn addendum(&self, learnt: &SeenLater<'_>) {
        self.each(|observer| observer.addendum(learnt));
    }

    pub(crate) fn stalled(&self, run: &RunId, session: &SessionKey, why: &JournalError) {
        self.each(|observer| observer.stalled(run, session, why));
    }

    pub(crate) fn broken_off(&self, run: &RunId, session: &SessionKey, why: &JournalError) {
        self.each(|observer| observer.broken_off(run, session, why));
    }

    fn each(&self, tell: impl Fn(&dyn Observer)) {
        for observer in &self.all {
            // What it had in its hands when it panicked is its own business (invariant 3).
            if catch_unwind(AssertUnwindSafe(|| tell(&**observer))).is_err() {
                self.panics.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
