//! The agents of a runtime by their names: a run that outlives its process goes on with the agent of its name.

use std::sync::{Arc, Weak};

use super::AgentCore;
use crate::lanes::sync::{AtomicU64, HashMap, Mutex, Ordering};
use crate::session::registry::AgentId;

/// The agents of a runtime by their names.
#[derive(Default)]
pub(crate) struct AgentNames {
    next: AtomicU64,
    /// The agents of each name, the newest last. Weak, so that an agent is dropped with its last handle.
    by_name: Mutex<HashMap<Arc<str>, Vec<Weak<AgentCore>>>>,
}

impl AgentNames {
    /// An id that no other agent of this runtime has.
    pub(crate) fn next_id(&self) -> AgentId {
        AgentId(self.next.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn add(&self, agent: &Arc<AgentCore>) {
        let mut by_name = self.by_name.lock();
        let namesakes = by_name.entry(Arc::clone(&agent.name)).or_default();
        // Removes dropped agents now and then: a program may build one for each request.
        if namesakes.len().is_power_of_two() {
            namesakes.retain(|agent| agent.strong_count() > 0);
        }
        namesakes.push(Arc::downgrade(agent));
    }

    /// The agent of this name that was built last.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<AgentCore>> {
        self.by_name.lock().get(name)?.iter().rev().find_map(Weak::upgrade)
    }
}
