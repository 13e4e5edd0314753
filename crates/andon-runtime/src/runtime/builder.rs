//! Builds a runtime.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use crate::agent::names::AgentNames;
use crate::driver::RuntimeCore;
use crate::driver::learner::Learner;
use crate::driver::mender::Mender;
use crate::journal::Journal;
use crate::journal::lease::LeaseHolder;
use crate::journal::memory::MemoryJournal;
use crate::lanes::blocking::BlockingPool;
use crate::lanes::clock::{Clock, SystemClock};
use crate::lanes::door::{Door, Lanes};
use crate::lanes::probe::{Probe, Probes};
use crate::lanes::sync::Mutex;
use crate::live::Services;
use crate::live::flusher::Flusher;
use crate::live::observe::{Observer, Observers};
use crate::live::presence::Presence;
use crate::live::services::Ids;
use crate::runtime::Runtime;
use crate::session::known::KnownSessions;
use crate::session::registry::Registry;
use crate::session::unnamed::UnnamedAgents;
use crate::session::warm::{self, Warm};

/// Builds a [`Runtime`].
#[derive(Default)]
pub struct RuntimeBuilder {
    journal: Option<Arc<dyn Journal>>,
    clock: Option<Arc<dyn Clock>>,
    probe: Option<Arc<dyn Probe>>,
    observers: Vec<Arc<dyn Observer>>,
    lanes: Lanes,
    seed: Option<u64>,
    blocking: Option<BlockingPool>,
    warm: Option<usize>,
}

impl RuntimeBuilder {
    /// Where runs are recorded; in memory by default. An `Arc` of a journal is one, too.
    #[must_use]
    pub fn journal(mut self, journal: impl Journal) -> Self {
        self.journal = Some(Arc::new(journal));
        self
    }

    /// Where the time comes from.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Called each time a run passes a seam. For test kits.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn probe(mut self, probe: Arc<dyn Probe>) -> Self {
        self.probe = Some(probe);
        self
    }

    /// Adds an observer, which is told every fact of every run when it is shown. Several are told in turn. An `Arc` of an observer is one,
    /// too, so a program can keep a handle on its own.
    #[must_use]
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Runs tools and hooks with the drivers, in the caller's runtime, instead of on separate threads. For tests with a
    /// paused clock: a tool that blocks delays every stop.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn one_lane(mut self) -> Self {
        self.lanes = Lanes::One;
        self
    }

    /// Counts ids and seeds randomness, so that a test can be repeated.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// How many blocking tools run at once, and how many may be abandoned before further calls get an error result;
    /// both are 64 by default.
    #[must_use]
    pub fn blocking_tools(mut self, at_once: usize, abandoned: usize) -> Self {
        self.blocking = Some(BlockingPool::new(at_once, abandoned));
        self
    }

    /// How many bytes of history may stay in memory for sessions that are not in use, so that their next prompt need
    /// not read it again; 64 MiB by default.
    #[must_use]
    pub fn warm_sessions(mut self, bytes: usize) -> Self {
        self.warm = Some(bytes);
        self
    }

    /// Builds the runtime.
    pub fn build(self) -> Runtime {
        let journal = self.journal.unwrap_or_else(|| Arc::new(MemoryJournal::new()));
        let lease = journal.lease();
        let services = Services {
            journal,
            lease: lease.clone(),
            clock: self.clock.unwrap_or_else(|| Arc::new(SystemClock::new())),
            probes: Probes(self.probe),
            observers: Observers::new(self.observers),
            door: Door::new(self.lanes),
            blocking: self.blocking.unwrap_or_default(),
            flusher: Flusher::default(),
            presence: Presence::default(),
            ids: Ids::new(self.seed),
            seed: self.seed,
            compensating: Mutex::default(),
            give_up: Mutex::default(),
        };
        let core = RuntimeCore {
            services: Arc::new(services),
            agents: AgentNames::default(),
            registry: Registry::default(),
            sessions: KnownSessions::default(),
            unnamed: UnnamedAgents::default(),
            warm: Warm::new(self.warm.unwrap_or(warm::ROOM)),
            parked: Mutex::default(),
            mender: Mender::default(),
            learner: Learner::default(),
            restored_models: Mutex::default(),
            has_recovered: AtomicBool::new(false),
            recovering: tokio::sync::Mutex::default(),
            estimated: Mutex::default(),
            estimating: tokio::sync::Mutex::default(),
        };
        let core = Arc::new(core);
        if let Some(lease) = lease {
            lease.add_holder(Arc::downgrade(&core) as Weak<dyn LeaseHolder>);
        }
        Runtime { core }
    }
}

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeBuilder").field("lanes", &self.lanes).field("seed", &self.seed).finish_non_exhaustive()
    }
}
