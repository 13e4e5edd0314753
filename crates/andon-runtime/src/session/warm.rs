//! Sessions that have no run in progress and stay in memory, so that the next prompt need not read the history again.
//!
//! # Invariants
//!
//! 1. All of them together take about as many bytes as there is room for at most. The least recently used one goes
//!    first.
//! 2. Being here restricts nothing: a session that is in use only has one more reference to it.

use std::sync::Arc;

use lru::LruCache;

use crate::lanes::sync::Mutex;
use crate::session::SessionCore;

/// How many bytes warm sessions may take by default.
pub(crate) const ROOM: usize = 64 << 20;

pub(crate) struct Warm {
    room: usize,
    state: Mutex<WarmState>,
}

struct WarmState {
    /// By address, which is unique while the session is held here; with its size when it was last used.
    sessions: LruCache<usize, (Arc<SessionCore>, usize), foldhash::fast::RandomState>,
    bytes: usize,
}

impl Warm {
    pub(crate) fn new(room: usize) -> Self {
        let sessions = LruCache::unbounded_with_hasher(foldhash::fast::RandomState::default());
        Self { room, state: Mutex::new(WarmState { sessions, bytes: 0 }) }
    }

    /// A run has left this session.
    pub(crate) fn keep(&self, session: &Arc<SessionCore>) {
        let (place, bytes) = (Arc::as_ptr(session).addr(), session.bytes());
        let mut cold = Vec::new();
        let mut state = self.state.lock();
        if bytes <= self.room {
            let before = state.sessions.put(place, (Arc::clone(session), bytes));
            state.bytes += bytes;
            state.forget(before);
        } else {
            let before = state.sessions.pop(&place);
            state.forget(before);
        }
        while state.bytes > self.room {
            let Some((_, oldest)) = state.sessions.pop_lru() else { break };
            cold.push(Arc::clone(&oldest.0));
            state.forget(Some(oldest));
        }
        // Dropping a long conversation takes a while, so `cold` is dropped outside the lock.
        drop(state);
    }
}

impl WarmState {
    fn forget(&mut self, session: Option<(Arc<SessionCore>, usize)>) {
        self.bytes -= session.map_or(0, |(_, bytes)| bytes);
    }
}
