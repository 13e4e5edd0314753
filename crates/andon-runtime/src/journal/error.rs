//! What a journal refuses, and why.

use andon_core::event::Epoch;
use andon_core::id::{RunId, SessionKey};

/// Why the journal refused a write or a read. Kept small, because every run has room for one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum JournalError {
    /// Another process owns the run now.
    #[error("another process owns the run (epoch {owner}, ours is {ours})")]
    Fenced {
        /// The writer's epoch.
        ours: Epoch,
        /// The owner's.
        owner: Epoch,
    },
    /// Another process drives the run, and its lease is not over.
    #[error("another process drives the run: {by}")]
    Owned {
        /// What it says of itself.
        by: Box<str>,
    },
    /// The storage failed.
    #[error("the journal could not be written: {0}")]
    Storage(String),
    /// What is stored is not valid.
    #[error("the journal cannot be read: {0}")]
    Unreadable(String),
    /// A run with this id is on record already.
    #[error("there is already a run with the id {0}: choose another id, or leave it out")]
    RunExists(RunId),
    /// A session with this key exists.
    #[error("there is already a session {0}: delete it first")]
    SessionExists(Box<SessionKey>),
    /// A run of the session has not settled.
    #[error("session {session} cannot be deleted while run {run} has not settled: cancel it first")]
    SessionBusy {
        /// The session.
        session: Box<SessionKey>,
        /// The run.
        run: RunId,
    },
    /// The session is being deleted.
    #[error("session {0} is already being deleted")]
    SessionClosing(Box<SessionKey>),
    /// The journal's writer is gone.
    #[error("the journal is closed")]
    Closed,
}

impl JournalError {
    /// Whether the run belongs to another process.
    pub fn is_anothers(&self) -> bool {
        matches!(self, Self::Fenced { .. } | Self::Owned { .. })
    }

    /// Whether the same operation may succeed later, when the storage works again.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Storage(_))
    }
}
