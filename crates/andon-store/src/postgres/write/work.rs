//! Work besides appending: done in a transaction, and done again if that was rolled back.

use andon_runtime::{AppendDone, JournalError};
use futures_util::future::LocalBoxFuture;
use tokio::sync::oneshot;

use crate::postgres::server::Fault;
use crate::postgres::sql::Transaction;
use crate::record::{self, Answered};

/// Something for the writer to do.
pub(in crate::postgres) type Job = record::Job<dyn Work>;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub(in crate::postgres) enum WriteError {
    /// It is not allowed; nothing was changed.
    #[error(transparent)]
    Refused(#[from] JournalError),
    /// The server failed; the transaction is rolled back.
    #[error(transparent)]
    Server(#[from] Fault),
}

impl From<tokio_postgres::Error> for WriteError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error.into())
    }
}

/// How work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::postgres) enum Kind {
    /// It may share a transaction: it is small, and a refusal leaves the database as it was.
    Small,
    /// It has a transaction of its own, which is rolled back if it is refused.
    Alone,
}

/// Any work besides appending. It is done again if the transaction is rolled back and retried.
pub(in crate::postgres) trait Work: Answered {
    fn work<'a>(&'a mut self, transaction: Transaction<'a>) -> LocalBoxFuture<'a, Result<(), WriteError>>;

    fn kind(&self) -> Kind;

    /// Whether nobody waits for it any more. Only asked of reads.
    fn is_given_up(&self) -> bool;
}

/// Whoever waits for a result.
pub(in crate::postgres) trait Waiter<T>: Send {
    fn answer(self, result: Result<T, JournalError>);

    fn is_gone(&self) -> bool;
}

impl<T: Send> Waiter<T> for oneshot::Sender<Result<T, JournalError>> {
    fn answer(self, result: Result<T, JournalError>) {
        // The caller may be gone.
        let _ = self.send(result);
    }

    fn is_gone(&self) -> bool {
        self.is_closed()
    }
}

impl Waiter<()> for AppendDone {
    fn answer(self, result: Result<(), JournalError>) {
        self.done(result);
    }

    fn is_gone(&self) -> bool {
        false
    }
}

/// A change or a question, and who waits for its result.
pub(in crate::postgres) struct Change<T, F, W> {
    pub(in crate::postgres) change: F,
    pub(in crate::postgres) kind: Kind,
    pub(in crate::postgres) result: Option<T>,
    pub(in crate::postgres) answer: W,
}

impl<T, F, W> Work for Change<T, F, W>
where
    T: Send,
    F: AsyncFnMut(Transaction<'_>) -> Result<T, WriteError> + Send,
    W: Waiter<T>,
{
    fn work<'a>(&'a mut self, transaction: Transaction<'a>) -> LocalBoxFuture<'a, Result<(), WriteError>> {
        Box::pin(async move {
            self.result = Some((self.change)(transaction).await?);
            Ok(())
        })
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn is_given_up(&self) -> bool {
        self.answer.is_gone()
    }
}

impl<T: Send, F: Send, W: Waiter<T>> Answered for Change<T, F, W> {
    fn done(self: Box<Self>, result: Result<(), JournalError>) {
        let Self { result: found, answer, .. } = *self;
        answer.answer(result.and_then(|()| found.ok_or(JournalError::Closed)));
    }
}
