//! What all drivers of a runtime share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use andon_core::id::{RunId, SessionKey};
use andon_core::message::Message;

use super::learner::Learner;
use super::mender::Mender;
use crate::agent::names::AgentNames;
use crate::lanes::sync::{HashSet, Mutex};
use crate::live::services::Ids;
use crate::live::{Ended, Live, Services};
use crate::session::SessionCore;
use crate::session::known::KnownSessions;
use crate::session::registry::Registry;
use crate::session::unnamed::UnnamedAgents;
use crate::session::warm::Warm;

/// What all drivers of a runtime share.
pub(crate) struct RuntimeCore {
    pub(crate) services: Arc<Services>,
    pub(crate) agents: AgentNames,
    pub(crate) registry: Registry,
    pub(crate) sessions: KnownSessions,
    pub(crate) unnamed: UnnamedAgents,
    pub(crate) warm: Warm,
    /// Runs that wait for an agent of the right name to be built.
    pub(crate) parked: Mutex<HashSet<RunId>>,
    pub(crate) mender: Mender,
    pub(crate) learner: Learner,
    /// Models whose meter has loaded the pages that were learned earlier.
    pub(crate) restored_models: Mutex<HashSet<Arc<str>>>,
    /// Whether the program has recovered once: its agents are there, and recovery may go on by itself.
    pub(crate) has_recovered: AtomicBool,
    /// Held during a recovery.
    pub(crate) recovering: tokio::sync::Mutex<()>,
    /// Runs whose lost call this process estimates or has estimated. One that it gave up is not among them.
    pub(crate) estimated: Mutex<HashSet<RunId>>,
    /// Held while a lost call is being estimated, so that only one is estimated at a time.
    pub(crate) estimating: tokio::sync::Mutex<()>,
}

impl RuntimeCore {
    /// A session with a new id, which has no history.
    pub(crate) fn new_session(&self, tenant: Arc<str>, app: Arc<str>, user: Arc<str>) -> Arc<SessionCore> {
        let session = self.services.ids.session();
        let session = self.sessions.get(&SessionKey::checked(&tenant, app, user, session));
        // A counted id may have been used by an earlier process.
        if let Ids::Unique = self.services.ids {
            session.set_history(Vec::new(), None, session.forgotten());
        }
        session
    }

    /// Makes the next run in a session read the history again.
    pub(crate) fn forget_history(&self, session: &SessionKey) {
        if let Some(session) = self.sessions.find(session) {
            session.forget_history();
        }
    }

    pub(crate) fn park(&self, run: &RunId) {
        self.parked.lock().insert(run.clone());
    }

    pub(crate) fn unpark(&self, run: &RunId) {
        self.parked.lock().remove(run);
    }

    pub(crate) fn is_parked(&self, run: &RunId) -> bool {
        self.parked.lock().contains(run)
    }

    /// Frees the seat, then shows the run's end with `show`, in the stretch in which the run leaves the registry. Observers
    /// have been told of the end: they may take as long as they like, and until they return the run is found, and a
    /// prompt waits for it.
    pub(crate) fn conclude(
        &self,
        live: &Arc<Live>,
        session: &Arc<SessionCore>,
        messages: &[Arc<Message>],
        show: impl FnOnce() -> Ended,
    ) {
        session.leave(live, messages);
        self.warm.keep(session);
        let ended = self.registry.remove_at_its_end(&live.id, show);
        live.has_ended(ended);
    }
}
