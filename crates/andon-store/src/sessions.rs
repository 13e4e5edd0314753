//! Sessions in an SQLite database.

use andon_runtime::core::id::SessionKey;
use andon_runtime::core::time::Wall;
use andon_runtime::{
    Attachment, BoxFuture, JournalError, RunFilter, RunInfo, SessionCopy, SessionFilter, SessionInfo, Sessions,
    StateChange, StateMap,
};

use crate::journal::SqliteJournal;
use crate::read;
use crate::record::Encoded;

impl Sessions for SqliteJournal {
    fn create(&self, session: &SessionKey, at: Wall, state: StateMap) -> BoxFuture<Result<bool, JournalError>> {
        let session = session.clone();
        self.change(move |store| store.create(&session, at, &state))
    }

    fn state(&self, session: &SessionKey) -> BoxFuture<Result<Option<StateMap>, JournalError>> {
        let session = session.clone();
        self.readers.quick.ask(move |connection| read::state(connection, &session))
    }

    fn change_state(&self, session: &SessionKey, at: Wall, change: StateChange) -> BoxFuture<Result<(), JournalError>> {
        let session = session.clone();
        self.change(move |store| store.change_state(&session, at, &change))
    }

    fn attach(
        &self,
        session: &SessionKey,
        at: Wall,
        things: Vec<Attachment>,
        change: StateChange,
    ) -> BoxFuture<Result<bool, JournalError>> {
        let session = session.clone();
        self.change(move |store| store.attach(&session, at, &things, &change))
    }

    fn attachments(&self, session: &SessionKey, kind: &str) -> BoxFuture<Result<Vec<Attachment>, JournalError>> {
        let (session, kind) = (session.clone(), kind.to_owned());
        self.readers.quick.ask(move |connection| read::attachments(connection, &session, Some(&kind)))
    }

    fn discard_attachment(
        &self,
        session: &SessionKey,
        kind: &str,
        name: &str,
    ) -> BoxFuture<Result<bool, JournalError>> {
        let (session, kind, name) = (session.clone(), kind.to_owned(), name.to_owned());
        self.change_and_erase(move |store| store.discard_attachment(&session, &kind, &name))
    }

    fn list(&self, which: SessionFilter) -> BoxFuture<Result<Vec<SessionInfo>, JournalError>> {
        let pending = self.pending_uses();
        self.readers.slow.ask(move |connection| read::sessions(connection, &which, pending))
    }

    fn list_with_state(&self, which: SessionFilter) -> BoxFuture<Result<Vec<(SessionInfo, StateMap)>, JournalError>> {
        let pending = self.pending_uses();
        self.readers.slow.ask(move |connection| {
            let listed = read::sessions(connection, &which, pending)?;
            read::with_state(connection, listed)
        })
    }

    fn runs(&self, which: RunFilter) -> BoxFuture<Result<Vec<RunInfo>, JournalError>> {
        let pending = self.pending();
        // A lookup by id is quick; a search may take a while.
        let queue = if which.run.is_some() { &self.readers.quick } else { &self.readers.slow };
        queue.ask(move |connection| Ok(pending.add_to_list(read::runs(connection, &which)?)))
    }

    fn delete(&self, session: &SessionKey) -> BoxFuture<Result<bool, JournalError>> {
        let session = session.clone();
        self.change_and_erase(move |store| store.delete(&session))
    }

    fn copy_whole(&self, session: &SessionKey) -> BoxFuture<Result<Option<SessionCopy>, JournalError>> {
        let (session, pending) = (session.clone(), self.pending());
        self.readers.slow.ask(move |connection| {
            Ok(read::copy_whole(connection, &session, None)?.map(|moved| pending.add_to_copy(moved)))
        })
    }

    fn copy_with_attachments(
        &self,
        session: &SessionKey,
        kind: &str,
    ) -> BoxFuture<Result<Option<SessionCopy>, JournalError>> {
        let (session, kind, pending) = (session.clone(), kind.to_owned(), self.pending());
        self.readers.slow.ask(move |connection| {
            Ok(read::copy_whole(connection, &session, Some(&kind))?.map(|moved| pending.add_to_copy(moved)))
        })
    }

    fn put(&self, moved: SessionCopy) -> BoxFuture<Result<(), JournalError>> {
        match Encoded::all(&moved) {
            Ok(runs) => self.change(move |store| store.put(&moved, &runs)),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}
