//! The sessions that are in use, by their keys.

use std::sync::{Arc, Weak};

use andon_core::id::SessionKey;

use super::SessionCore;
use crate::lanes::sync::{HashMap, Mutex};
use crate::live::Live;
use crate::live::cord::{Cancel, Reply};

/// The sessions that are in use.
#[derive(Default)]
pub(crate) struct KnownSessions {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    sessions: HashMap<Arc<SessionKey>, Weak<SessionCore>>,
    /// At this size the entries of sessions that are not in use are removed.
    full: usize,
}

impl KnownSessions {
    /// A session by its key; the same one as long as it is in use.
    pub(crate) fn get(&self, key: &SessionKey) -> Arc<SessionCore> {
        let mut table = self.table.lock();
        if let Some(session) = table.sessions.get(key).and_then(Weak::upgrade) {
            return session;
        }
        let session = Arc::new(SessionCore::new(Arc::new(key.clone())));
        table.add(&session);
        session
    }

    /// A session that is in use.
    pub(crate) fn find(&self, key: &SessionKey) -> Option<Arc<SessionCore>> {
        self.table.lock().sessions.get(key).and_then(Weak::upgrade)
    }

    /// Cancels runs of any sessions together, and returns the replies in the order of the runs.
    pub(crate) fn pull_together(&self, runs: &[Arc<Live>], cancel: &Cancel) -> Vec<Reply> {
        let place = |live: &Arc<Live>| self.find(&live.session).map_or(0, |session| session.place(live));
        super::pull_together(runs, |_, live| place(live), cancel)
    }
}

impl Table {
    fn add(&mut self, session: &Arc<SessionCore>) {
        if self.sessions.len() >= self.full {
            self.sessions.retain(|_, session| session.strong_count() > 0);
            // Doubling keeps the cost of a new session constant, on average.
            self.full = (2 * self.sessions.len()).max(64);
        }
        self.sessions.insert(Arc::clone(&session.key), Arc::downgrade(session));
    }
}
