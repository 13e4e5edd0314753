//! A session's state as a tool sees it.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::journal::JournalError;
use crate::journal::sessions::{Scope, StateChange, StateMap};
use crate::live::Live;

/// The session's state, for one call.
#[derive(Clone)]
pub struct SessionState {
    live: Arc<Live>,
    ticket: u32,
}

/// Why a tool could not read or change its session's state.
#[derive(Debug, Clone, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum StateError {
    /// The call was stopped and closed: it may not change anything any more.
    #[error("this call has ended, and can no longer change its session's state")]
    CallIsOver,
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl SessionState {
    pub(crate) fn new(live: Arc<Live>, ticket: u32) -> Self {
        Self { live, ticket }
    }

    /// One value; see [`StateMap`] for the prefixes that are shared.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn get(&self, key: &str) -> Result<Option<Value>, StateError> {
        Ok(self.all().await?.get(key).cloned())
    }

    /// The whole state, including what the session shares with others.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn all(&self) -> Result<StateMap, StateError> {
        let state = self.live.services.journal.sessions().state(&self.live.session).await?;
        Ok(state.unwrap_or_default())
    }

    /// Sets one value. Durable when it returns.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped before it returns, the change is made completely or not at all: read again to learn which.
    pub async fn set(&self, key: impl Into<String>, value: impl Into<Value>) -> Result<(), StateError> {
        self.change(StateChange::from([(key.into(), Some(value.into()))])).await
    }

    /// Changes the state, all of it or nothing; a key without a value is removed. Refused once the call is closed; a
    /// change that was already on its way may still be made.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped before it returns, the change is made completely or not at all: read again to learn which.
    pub async fn change(&self, change: StateChange) -> Result<(), StateError> {
        if !self.live.is_open(self.ticket) {
            return Err(StateError::CallIsOver);
        }
        let now = self.live.now().wall;
        let stored = change.iter().filter(|(key, _)| Scope::of(key) != Scope::Temp);
        let changes = stored.map(|(key, value)| (key.clone(), value.clone().unwrap_or_default())).collect();
        self.live.services.journal.sessions().change_state(&self.live.session, now, change).await?;
        self.live.note_changes(self.ticket, changes);
        Ok(())
    }
}

impl fmt::Debug for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionState").field("session", &self.live.session).finish_non_exhaustive()
    }
}
