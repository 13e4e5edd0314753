//! Which agent has which session under the name of agents that were given none.
//!
//! # Invariants
//!
//! 1. As long as an agent that has opened such a session lives, another agent is refused the session, also when nothing of
//!    the session is in memory. Of more than [`MOST`] sessions, those that were opened longest ago are forgotten.
//! 2. Entries of agents that are gone are removed. Until then they take at most about as much room as the rest.

use std::collections::hash_map::Entry;
use std::sync::{Arc, Weak};

use andon_core::id::SessionKey;

use crate::lanes::sync::{HashMap, Mutex};
use crate::session::anchors::Asked;

/// How many sessions are remembered.
const MOST: usize = 1 << 16;

/// Tells agents under that name apart. Equal agents share one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Unnamed {
    /// It was given no name, and is known by its model and setup.
    NoName(Asked),
    /// It was given this name. Such agents are versions of one agent.
    ByName,
}

/// Which agent has which session.
pub(crate) struct UnnamedAgents {
    table: Mutex<Table>,
    most: usize,
}

#[derive(Default)]
struct Table {
    agents: HashMap<Unnamed, Weak<Unnamed>>,
    /// Who has a session, and which opening of a session that was.
    sessions: HashMap<Arc<SessionKey>, (Weak<Unnamed>, u64)>,
    opened: u64,
    /// At these sizes entries are removed.
    full_agents: usize,
    full_sessions: usize,
}

impl Default for UnnamedAgents {
    fn default() -> Self {
        Self { table: Mutex::default(), most: MOST }
    }
}

impl UnnamedAgents {
    /// The value that all agents equal to this one share.
    pub(crate) fn share(&self, agent: Unnamed) -> Arc<Unnamed> {
        let mut table = self.table.lock();
        if let Some(same) = table.agents.get(&agent).and_then(Weak::upgrade) {
            return same;
        }
        if table.agents.len() >= table.full_agents {
            table.agents.retain(|_, agent| agent.strong_count() > 0);
            table.full_agents = (2 * table.agents.len()).max(64);
        }
        let shared = Arc::new(agent.clone());
        table.agents.insert(agent, Arc::downgrade(&shared));
        shared
    }

    /// An agent opens a session. Returns `false` if another one has it.
    pub(crate) fn open(&self, key: &Arc<SessionKey>, agent: &Arc<Unnamed>) -> bool {
        let mut table = self.table.lock();
        table.opened += 1;
        let opened = table.opened;
        match table.sessions.entry(Arc::clone(key)) {
            Entry::Occupied(known) if known.get().0.upgrade().is_some_and(|has| !Arc::ptr_eq(&has, agent)) => {
                return false;
            }
            known => drop(known.insert_entry((Arc::downgrade(agent), opened))),
        }
        if table.sessions.len() > table.full_sessions {
            table.make_room(self.most);
        }
        true
    }
}

impl Table {
    fn make_room(&mut self, most: usize) {
        self.sessions.retain(|_, (has, _)| has.strong_count() > 0);
        if self.sessions.len() >= most {
            // Removing half at once keeps the cost of a new session constant, on average.
            let mut opened: Vec<u64> = self.sessions.values().map(|(_, opened)| *opened).collect();
            let middle = opened.len() / 2;
            let (_, middle, _) = opened.select_nth_unstable(middle);
            let middle = *middle;
            self.sessions.retain(|_, (_, opened)| *opened >= middle);
        }
        self.full_sessions = (2 * self.sessions.len()).clamp(64.min(most), most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(model: &str) -> Unnamed {
        Unnamed::NoName(Asked { model: model.into(), setup: Some(1) })
    }

    fn key(number: usize) -> Arc<SessionKey> {
        Arc::new(SessionKey::new("agent", "ada", number.to_string()).unwrap())
    }

    #[test]
    fn a_session_is_another_agents_once_the_last_agent_that_is_the_same_has_gone() {
        let all = UnnamedAgents::default();
        let [one, same, other] = ["a", "a", "b"].map(|model| all.share(asks(model)));
        assert!(all.open(&key(1), &one));
        drop(one);
        assert!(!all.open(&key(1), &other), "the same agent, built twice, is still there");
        drop(same);
        assert!(all.open(&key(1), &other));
    }

    #[test]
    fn sessions_of_agents_that_are_gone_are_removed() {
        let all = UnnamedAgents::default();
        for number in 0..10_000 {
            all.open(&key(number), &all.share(asks(&number.to_string())));
        }
        let table = all.table.lock();
        assert!(table.sessions.len() <= 64 && table.agents.len() <= 64);
    }

    #[test]
    fn of_too_many_sessions_those_that_were_opened_longest_ago_are_forgotten() {
        let all = UnnamedAgents { most: 100, ..UnnamedAgents::default() };
        let [one, other] = ["a", "b"].map(|model| all.share(asks(model)));
        for number in 0..1000 {
            assert!(all.open(&key(number), &one));
            assert!(all.open(&key(0), &one), "this one is in use");
        }
        assert!(all.table.lock().sessions.len() <= 100);
        assert!(!all.open(&key(0), &other));
        assert!(!all.open(&key(999), &other));
    }
}
