//! Which runs are in progress, so that a cancel finds exactly what it names.
//!
//! # Invariants
//!
//! 1. A run is in the registry from before its driver starts until its end is shown. It leaves in the same stretch in
//!    which it is shown, under this lock: a run is found until its end is visible, and never after that.
//! 2. Whether an agent is armed and which of its runs are in progress are decided under one lock: a run that starts
//!    while its agent is cancelled is either found by the cancel or takes the arm, never neither.

use std::collections::BTreeMap;
use std::sync::Arc;

use andon_core::id::RunId;
use andon_core::progress::RunState;

use crate::lanes::sync::{HashMap, Mutex};
use crate::live::Live;
use crate::live::cord::Cancel;

/// Names an agent within its process; clones of an agent share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AgentId(pub(crate) u64);

#[derive(Default)]
pub(crate) struct Registry {
    state: Mutex<RegistryState>,
}

#[derive(Default)]
struct RegistryState {
    next: u64,
    /// In the order in which they came.
    runs: BTreeMap<u64, RegisteredRun>,
    by_id: HashMap<RunId, u64>,
    /// How many runs each user has.
    by_user: HashMap<User, usize>,
    armed: BTreeMap<AgentId, Cancel>,
}

/// How many runs in progress there are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RunCounts {
    /// Waiting for their session.
    pub queued: usize,
    /// Being worked on.
    pub running: usize,
    /// Waiting for a person.
    pub waiting: usize,
    /// Told to stop, and not settled yet.
    pub cancelling: usize,
    /// Their end cannot be written to the journal. Each of them is also counted above.
    pub stalled: usize,
}

andon_core::with!(RunCounts: queued: usize, running: usize, waiting: usize, cancelling: usize, stalled: usize);

/// A tenant and one of its users.
type User = (Arc<str>, Arc<str>);

fn user_of(live: &Live) -> User {
    (Arc::clone(&live.session.tenant), Arc::clone(&live.session.user))
}

struct RegisteredRun {
    agent: AgentId,
    live: Arc<Live>,
    /// Its session has let it in. Before that it may still be turned away, and must not be found.
    findable: bool,
}

/// Another run has this id.
#[derive(Debug)]
pub(crate) struct IdTaken;

impl RegistryState {
    fn remove(&mut self, run: &RunId) {
        let number = self.by_id.remove(run);
        let Some(entry) = number.and_then(|number| self.runs.remove(&number)) else { return };
        let user = user_of(&entry.live);
        match self.by_user.get_mut(&user) {
            Some(runs) if *runs > 1 => *runs -= 1,
            _ => drop(self.by_user.remove(&user)),
        }
    }
}

impl Registry {
    /// Reserves a run's id. The run is not found before [`make_findable`](Self::make_findable).
    pub(crate) fn add(&self, agent: AgentId, live: &Arc<Live>) -> Result<(), IdTaken> {
        let mut state = self.state.lock();
        let number = state.next;
        if state.by_id.contains_key(&live.id) {
            return Err(IdTaken);
        }
        state.next += 1;
        state.by_id.insert(live.id.clone(), number);
        *state.by_user.entry(user_of(live)).or_default() += 1;
        state.runs.insert(number, RegisteredRun { agent, live: Arc::clone(live), findable: false });
        Ok(())
    }

    /// Makes a run findable, and takes its agent's arm if it is armed (invariant 2).
    pub(crate) fn make_findable(&self, run: &RunId) -> Option<Cancel> {
        let mut state = self.state.lock();
        let number = *state.by_id.get(run)?;
        let entry = state.runs.get_mut(&number)?;
        entry.findable = true;
        let agent = entry.agent;
        state.armed.remove(&agent)
    }

    /// Releases the id of a run that does not begin.
    pub(crate) fn remove(&self, run: &RunId) {
        self.state.lock().remove(run);
    }

    /// Removes a run while its end is shown (invariant 1). What shows it takes no lock but the run's and runs no foreign
    /// code.
    pub(crate) fn remove_at_its_end<R>(&self, run: &RunId, show: impl FnOnce() -> R) -> R {
        let mut state = self.state.lock();
        state.remove(run);
        show()
    }

    pub(crate) fn find(&self, run: &RunId) -> Option<Arc<Live>> {
        let state = self.state.lock();
        let number = state.by_id.get(run)?;
        state.runs.get(number).filter(|entry| entry.findable).map(|entry| Arc::clone(&entry.live))
    }

    /// A run by its id, whether its session has let it in or may still turn it away.
    pub(crate) fn find_taken(&self, run: &RunId) -> Option<Arc<Live>> {
        let state = self.state.lock();
        let number = state.by_id.get(run)?;
        state.runs.get(number).map(|entry| Arc::clone(&entry.live))
    }

    /// How many runs there are in all, and how many are one user's.
    pub(crate) fn count(&self, tenant: &Arc<str>, user: &Arc<str>) -> (usize, usize) {
        let state = self.state.lock();
        let of_user = state.by_user.get(&(Arc::clone(tenant), Arc::clone(user)));
        (state.runs.len(), of_user.copied().unwrap_or_default())
    }

    /// All runs in progress, in the order in which they came.
    pub(crate) fn all(&self) -> Vec<Arc<Live>> {
        let state = self.state.lock();
        state.runs.values().filter(|entry| entry.findable).map(|entry| Arc::clone(&entry.live)).collect()
    }

    /// How many runs are in each state. Takes no run's lock.
    pub(crate) fn tally(&self) -> RunCounts {
        let mut tally = RunCounts::default();
        for entry in self.state.lock().runs.values().filter(|entry| entry.findable) {
            match entry.live.state_byte.get() {
                Some((RunState::Queued, _)) => tally.queued += 1,
                Some((RunState::Running, _)) => tally.running += 1,
                Some((RunState::Waiting, _)) => tally.waiting += 1,
                Some((RunState::Cancelling, _)) => tally.cancelling += 1,
                // It leaves while it settles (invariant 1).
                Some((RunState::Settled, _)) | None => {}
                #[cfg(not(andon_whole))]
                Some(_) => {}
            }
            tally.stalled += usize::from(entry.live.state_byte.is_stalled());
        }
        tally
    }

    /// The first run over which the journal has stalled.
    pub(crate) fn first_stalled(&self) -> Option<Arc<Live>> {
        let state = self.state.lock();
        let mut findable = state.runs.values().filter(|entry| entry.findable);
        findable.find(|entry| entry.live.state_byte.is_stalled()).map(|entry| Arc::clone(&entry.live))
    }

    /// An agent's runs in progress; if there are none, arms the agent (invariant 2).
    pub(crate) fn of_agent_or_arm(&self, agent: AgentId, cancel: &Cancel) -> Vec<Arc<Live>> {
        let mut state = self.state.lock();
        let own = state.runs.values().filter(|entry| entry.agent == agent && entry.findable);
        let runs: Vec<Arc<Live>> = own.map(|entry| Arc::clone(&entry.live)).collect();
        if runs.is_empty() {
            state.armed.insert(agent, cancel.clone());
        }
        runs
    }

    /// Takes an agent's arm, if it is armed.
    pub(crate) fn take_arm(&self, agent: AgentId) -> Option<Cancel> {
        self.state.lock().armed.remove(&agent)
    }
}
