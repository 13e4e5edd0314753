//! Sessions on a PostgreSQL server.

use andon_runtime::core::id::SessionKey;
use andon_runtime::core::time::Wall;
use andon_runtime::{
    Attachment, BoxFuture, JournalError, RunFilter, RunInfo, SessionCopy, SessionFilter, SessionInfo, Sessions,
    StateChange, StateMap,
};

use super::journal::{PostgresJournal, ask};
use super::read;
use super::sql::Transaction;
use super::write::{self, Kind};
use crate::record::Encoded;

impl Sessions for PostgresJournal {
    fn create(&self, session: &SessionKey, at: Wall, state: StateMap) -> BoxFuture<Result<bool, JournalError>> {
        let session = session.clone();
        self.change(Kind::Small, async move |transaction: Transaction<'_>| {
            write::create(transaction, &session, at, &state).await
        })
    }

    fn state(&self, session: &SessionKey) -> BoxFuture<Result<Option<StateMap>, JournalError>> {
        let session = session.clone();
        ask(&self.readers.quick, async move |transaction: Transaction<'_>| read::state(transaction, &session).await)
    }

    fn change_state(&self, session: &SessionKey, at: Wall, change: StateChange) -> BoxFuture<Result<(), JournalError>> {
        let session = session.clone();
        self.change(Kind::Small, async move |transaction: Transaction<'_>| {
            write::change_state(transaction, &session, at, &change).await
        })
    }

    fn attach(
        &self,
        session: &SessionKey,
        at: Wall,
        things: Vec<Attachment>,
        change: StateChange,
    ) -> BoxFuture<Result<bool, JournalError>> {
        let session = session.clone();
        self.change(Kind::Small, async move |transaction: Transaction<'_>| {
            write::attach(transaction, &session, at, &things, &change).await
        })
    }

    fn attachments(&self, session: &SessionKey, kind: &str) -> BoxFuture<Result<Vec<Attachment>, JournalError>> {
        let (session, kind) = (session.clone(), kind.to_owned());
        ask(&self.readers.quick, async move |transaction: Transaction<'_>| {
            read::attachments(transaction, &session, Some(&kind)).await
        })
    }

    fn discard_attachment(
        &self,
        session: &SessionKey,
        kind: &str,
        name: &str,
    ) -> BoxFuture<Result<bool, JournalError>> {
        let (session, kind, name) = (session.clone(), kind.to_owned(), name.to_owned());
        self.change(Kind::Small, async move |transaction: Transaction<'_>| {
            write::discard_attachment(transaction, &session, &kind, &name).await
        })
    }

    fn list(&self, which: SessionFilter) -> BoxFuture<Result<Vec<SessionInfo>, JournalError>> {
        ask(&self.readers.slow, async move |transaction: Transaction<'_>| read::sessions(transaction, &which).await)
    }

    fn list_with_state(&self, which: SessionFilter) -> BoxFuture<Result<Vec<(SessionInfo, StateMap)>, JournalError>> {
        ask(&self.readers.slow, async move |transaction: Transaction<'_>| {
            let listed = read::sessions(transaction, &which).await?;
            read::with_state(transaction, listed).await
        })
    }

    fn runs(&self, which: RunFilter) -> BoxFuture<Result<Vec<RunInfo>, JournalError>> {
        let pending = self.pending();
        // A lookup by id is quick; a search may take a while.
        let queue = if which.run.is_some() { &self.readers.quick } else { &self.readers.slow };
        ask(queue, async move |transaction: Transaction<'_>| {
            Ok(pending.add_to_list(read::runs(transaction, &which).await?))
        })
    }

    fn delete(&self, session: &SessionKey) -> BoxFuture<Result<bool, JournalError>> {
        let session = session.clone();
        self.change(Kind::Alone, async move |transaction: Transaction<'_>| write::delete(transaction, &session).await)
    }

    fn copy_whole(&self, session: &SessionKey) -> BoxFuture<Result<Option<SessionCopy>, JournalError>> {
        let (session, pending) = (session.clone(), self.pending());
        ask(&self.readers.slow, async move |transaction: Transaction<'_>| {
            let copied = read::copy_whole(transaction, &session, None).await?;
            Ok(copied.map(|moved| pending.add_to_copy(moved)))
        })
    }

    fn copy_with_attachments(
        &self,
        session: &SessionKey,
        kind: &str,
    ) -> BoxFuture<Result<Option<SessionCopy>, JournalError>> {
        let (session, kind, pending) = (session.clone(), kind.to_owned(), self.pending());
        ask(&self.readers.slow, async move |transaction: Transaction<'_>| {
            let copied = read::copy_whole(transaction, &session, Some(&kind)).await?;
            Ok(copied.map(|moved| pending.add_to_copy(moved)))
        })
    }

    fn put(&self, moved: SessionCopy) -> BoxFuture<Result<(), JournalError>> {
        match Encoded::all(&moved) {
            Ok(runs) => self.change(Kind::Alone, async move |transaction: Transaction<'_>| {
                write::put(transaction, &moved, &runs).await
            }),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}
