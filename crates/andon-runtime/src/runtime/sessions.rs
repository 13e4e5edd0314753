//! What a runtime does with sessions: their history and state, listing, moving and deleting them.

use std::sync::Arc;

use andon_core::id::{RunId, SessionKey};
use andon_core::message::Message;

use crate::journal::export::{self, ImportError};
use crate::journal::sessions::{
    Attachment, RunFilter, RunInfo, SessionCopy, SessionFilter, SessionInfo, Sessions, StateChange, StateMap,
};
use crate::journal::{HistoryBefore, JournalError, JournaledRun};
use crate::live::cord::Cancel;
use crate::live::presence;
use crate::live::run::Run;
use crate::recovery::{self, Recovered};
use crate::runtime::Runtime;
use crate::session::pull_inside;

/// A session that was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// Its key.
    pub session: SessionKey,
    /// What became of its open runs and of any other open runs in the journal; or why they could not be recovered yet.
    pub recovered: Result<Vec<Recovered>, JournalError>,
}

impl Runtime {
    fn sessions(&self) -> &dyn Sessions {
        self.core.services.journal.sessions()
    }

    /// What was said in a session: the messages of all its runs that have settled.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn history(&self, session: &SessionKey) -> Result<Vec<Arc<Message>>, JournalError> {
        let session = self.core.sessions.get(session);
        match session.history() {
            Some(history) => Ok(history.to_vec()),
            None => self.core.services.journal.history(&session.key).await,
        }
    }

    /// What was said in a run's session before it by runs that have settled, and which earlier runs have not settled.
    /// At most about `most` bytes, counting this run: older runs are left out. `None` if the run is not on record.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn history_before(&self, run: &RunId, most: usize) -> Result<Option<HistoryBefore>, JournalError> {
        self.core.services.journal.history_before(run, most).await
    }

    /// A session's state, including what it shares with others (`app:`, `user:`); `None` if there is no such session.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn state(&self, session: &SessionKey) -> Result<Option<StateMap>, JournalError> {
        self.sessions().state(session).await
    }

    /// Changes a session's state, all of it or nothing; a key without a value is removed. Keys that begin with `app:`
    /// or `user:` are shared, those with `temp:` are not stored. Creates the session if it does not exist.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped before it returns, the change is made completely or not at all: read again to learn which.
    pub async fn change_state(&self, session: &SessionKey, change: StateChange) -> Result<(), JournalError> {
        self.sessions().change_state(session, self.now().wall, change).await
    }

    /// Creates a session with a state; returns `false` and changes nothing if there is already one with this key.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped before it returns, the change is made completely or not at all: read again to learn which.
    pub async fn create_session(&self, session: &SessionKey, state: StateMap) -> Result<bool, JournalError> {
        self.sessions().create(session, self.now().wall, state).await
    }

    /// Keeps things with a session and changes its state, all of it or nothing; returns `false` and does nothing if
    /// there is no such session. They are deleted with the session.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped before it returns, the change is made completely or not at all: read again to learn which.
    pub async fn keep(
        &self,
        session: &SessionKey,
        things: Vec<Attachment>,
        change: StateChange,
    ) -> Result<bool, JournalError> {
        self.sessions().attach(session, self.now().wall, things, change).await
    }

    /// All things of a kind that are kept with a session, in the order of their names.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn kept(&self, session: &SessionKey, kind: &str) -> Result<Vec<Attachment>, JournalError> {
        self.sessions().attachments(session, kind).await
    }

    /// Removes something that is kept with a session; returns whether it was there.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped before it returns, the change is made completely or not at all: read again to learn which.
    pub async fn discard(&self, session: &SessionKey, kind: &str, name: &str) -> Result<bool, JournalError> {
        self.sessions().discard_attachment(session, kind, name).await
    }

    /// A whole session: its state, its runs with their records, and what is kept with it; `None` if there is no such
    /// session.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn copy_session(&self, session: &SessionKey) -> Result<Option<SessionCopy>, JournalError> {
        self.sessions().copy_whole(session).await
    }

    /// As [`copy_session`](Self::copy_session), but with only one kind of the things that are kept with it. The
    /// others, which may be large, are not read.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn copy_session_with_attachments(
        &self,
        session: &SessionKey,
        kind: &str,
    ) -> Result<Option<SessionCopy>, JournalError> {
        self.sessions().copy_with_attachments(session, kind).await
    }

    /// Adds a session from elsewhere, all of it or nothing. Refused if the session or one of its runs exists here
    /// already.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped before it returns, the change is made completely or not at all: read again to learn which.
    pub async fn put_session(&self, moved: SessionCopy) -> Result<(), JournalError> {
        let session = moved.session.clone();
        self.sessions().put(moved).await?;
        self.core.forget_history(&session);
        Ok(())
    }

    /// The sessions on record, the most recently used first.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn list_sessions(&self, which: SessionFilter) -> Result<Vec<SessionInfo>, JournalError> {
        self.sessions().list(which).await
    }

    /// As [`list_sessions`](Self::list_sessions), each with its [state](Self::state).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn list_sessions_with_state(
        &self,
        which: SessionFilter,
    ) -> Result<Vec<(SessionInfo, StateMap)>, JournalError> {
        self.sessions().list_with_state(which).await
    }

    /// The runs on record, the newest first.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn list_runs(&self, which: RunFilter) -> Result<Vec<RunInfo>, JournalError> {
        self.sessions().runs(which).await
    }

    /// What the model calls of these runs used, as far as it is on record: see [`Journal::accounts`](crate::Journal::accounts).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn accounts(&self, runs: &[RunId]) -> Result<Vec<Option<JournaledRun>>, JournalError> {
        self.core.services.journal.accounts(runs).await
    }

    /// Deletes a session so that nothing of it remains; returns whether there was one. Its runs in progress, and those
    /// that wait for it, are cancelled and settled first.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped while runs are still ending, they have been told to stop, nothing is deleted, and the session takes
    /// prompts again. Dropped later, the session is deleted completely or not at all.
    pub async fn delete_session(&self, session: &SessionKey, cancel: Cancel) -> Result<bool, JournalError> {
        let closed = self.core.sessions.get(session).close();
        let (_closed, inside) = closed.ok_or_else(|| JournalError::SessionClosing(Box::new(session.clone())))?;
        pull_inside(&inside, &cancel);
        for live in inside {
            Run::new(live).settled().await?;
        }
        let unsettled = RunFilter {
            tenant: Some(session.tenant.to_string()),
            app: Some(session.app.to_string()),
            user: Some(session.user.to_string()),
            session: Some(session.session.to_string()),
            settled: Some(false),
            ..RunFilter::default()
        };
        for left in self.list_runs(unsettled).await? {
            // A dead process left it, or the journal failed while it ran.
            match self.cancel_undriven(&left.run, cancel.clone()).await {
                Err(JournalError::Unreadable(_)) => recovery::settle_unreadable(&self.core, &left.run).await?,
                other => drop(other?),
            }
        }
        self.sessions().delete(session).await
    }

    /// A whole session as JSON Lines, its journal included; `None` if there is no such session.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn export(&self, session: &SessionKey) -> Result<Option<String>, JournalError> {
        let moved = self.copy_session(session).await?;
        moved.map(|moved| export::write(&moved)).transpose()
    }

    /// Imports a session that was [exported](Self::export), all of it or nothing. Its open runs are then recovered, as
    /// after a crash: a queued run starts here, whatever becomes of it where it came from, unless it must not go on
    /// without its readers.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the session is imported completely or not at all; runs that wait in it may be left for the next
    /// [`recover`](crate::Runtime::recover).
    pub async fn import(&self, lines: &str) -> Result<Imported, ImportError> {
        let moved = export::read(lines)?;
        let session = moved.session.clone();
        let imported = presence::imported(&moved);
        self.put_session(moved).await?;
        self.core.services.presence.import(imported);
        Ok(Imported { session, recovered: self.recover().await })
    }
}
