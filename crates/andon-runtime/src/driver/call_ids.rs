//! The ids of a session's calls, so that a new call gets an id that no other has. A run may make thousands of calls,
//! and a model may give all of them the same id.

use andon_core::history::History;
use andon_core::id::CallId;
use andon_core::message::Message;

use crate::lanes::sync::{HashMap, HashSet};

/// How many characters of an id stay if a number must be added.
const MAX_BASE: usize = 24;

/// The ids that are taken.
pub(super) struct CallIds {
    taken: HashSet<CallId>,
    /// The number that was last added to an id.
    last: HashMap<String, u64>,
}

impl CallIds {
    fn of(history: &History) -> Self {
        Self { taken: history.iter().flat_map(|message| ids(message)).collect(), last: HashMap::default() }
    }

    /// Adds the calls of an answer that has joined the conversation.
    pub(super) fn take(&mut self, answer: &Message) {
        self.taken.extend(ids(answer));
    }

    pub(super) fn is_taken(&self, id: &CallId) -> bool {
        self.taken.contains(id)
    }

    /// An id like `base` that is not taken, here or elsewhere. `None` if none can be made from it.
    pub(super) fn free(&mut self, base: &str, is_taken_elsewhere: impl Fn(&CallId) -> bool) -> Option<CallId> {
        let short: String = base.chars().take(MAX_BASE).collect();
        let last = self.last.entry(short.clone()).or_insert(1);
        loop {
            *last += 1;
            let id = CallId::new(format!("{short}-{last}")).ok()?;
            if !self.taken.contains(&id) && !is_taken_elsewhere(&id) {
                return Some(id);
            }
        }
    }
}

/// The ids that are taken, collected only if there is a call.
pub(super) struct LazyIds<'a> {
    pub(super) known: &'a mut Option<Box<CallIds>>,
    pub(super) history: &'a History,
}

impl LazyIds<'_> {
    pub(super) fn get(&mut self) -> &mut CallIds {
        self.known.get_or_insert_with(|| Box::new(CallIds::of(self.history)))
    }
}

fn ids(message: &Message) -> impl Iterator<Item = CallId> {
    message.calls().map(|call| call.id.clone())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use andon_core::message::{Part, Role, ToolCall};

    use super::*;

    fn answer(ids: &[&str]) -> Message {
        let call = |id: &&str| {
            let id = CallId::new(*id).unwrap();
            Part::ToolCall(ToolCall::new(id, "tool", String::new()))
        };
        Message::new(Role::Assistant, ids.iter().map(call).collect())
    }

    #[test]
    fn a_new_id_is_unused_in_the_conversation_and_the_answer() {
        let history = History::from(vec![Arc::new(answer(&["c", "c-2", "d"]))]);
        let mut known = None;
        let mut lazy = LazyIds { known: &mut known, history: &history };
        let ids = lazy.get();
        ids.take(&answer(&["c-3"]));
        assert!(["c", "c-2", "c-3", "d"].iter().all(|id| ids.is_taken(&CallId::new(*id).unwrap())));
        let mut free = |base: &str| ids.free(base, |id| id.as_str() == "c-4").unwrap().to_string();
        assert_eq!([free("c"), free("c"), free("d")], ["c-5", "c-6", "d-2"]);
        assert_eq!(free(&"é".repeat(100)), format!("{}-2", "é".repeat(MAX_BASE)));
    }
}
