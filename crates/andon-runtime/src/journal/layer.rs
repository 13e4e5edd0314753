//! A layer around a journal, which changes some of what it does and forwards the rest.
//!
//! # Invariants
//!
//! 1. What a layer does not change is the inner journal's, also what journals will be asked in a later version: no promise of a journal is
//!    lost because something is around it.

use std::sync::Arc;

use andon_core::cancel::CancelRequest;
use andon_core::event::{AddendumKind, Epoch};
use andon_core::id::{RunId, SessionKey};
use andon_core::message::Message;
use andon_core::time::Stamp;

use super::{Append, Batch, HistoryBefore, Journal, JournalError, JournaledRun, RequestFate};
use crate::journal::lease::Lease;
use crate::journal::reported::LastReported;
use crate::journal::sessions::Sessions;
use crate::journal::shelf::Shelf;
use crate::lanes::BoxFuture;

/// A layer around a journal: a [`Journal`] that changes some of what another one does and forwards the rest.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use andon::{Agent, Practice, Runtime};
/// use andon::journal::{Append, Batch, Journal, JournalLayer, MemoryJournal};
///
/// /// Counts what is appended.
/// struct Counting<J> {
///     inner: J,
///     appends: AtomicUsize,
/// }
///
/// impl<J: Journal> JournalLayer for Counting<J> {
///     fn inner(&self) -> &dyn Journal {
///         &self.inner
///     }
///
///     fn append(&self, batch: Batch) -> Append {
///         self.appends.fetch_add(1, Ordering::SeqCst);
///         self.inner.append(batch)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let journal = Arc::new(Counting { inner: MemoryJournal::new(), appends: AtomicUsize::new(0) });
/// let runtime = Runtime::builder().journal(Arc::clone(&journal)).build();
/// let agent = Agent::builder().model(Practice::instant()).runtime(&runtime).build()?;
/// agent.run("Hello").await?.completed()?;
/// assert!(journal.appends.load(Ordering::SeqCst) > 0);
/// # Ok(())
/// # }
/// ```
///
/// Everything else is the inner journal's, its [sessions](Journal::sessions) and its [shelf](Journal::shelf) among it. A layer keeps the
/// promises of a journal: one that changes what is [read](Journal::read) changes [`accounts`](Self::accounts) and
/// [`history`](Self::history) in the same way, and one that refuses a batch refuses every later one of that run and epoch.
/// `andon_testkit::conformance` checks them.
pub trait JournalLayer: Send + Sync + 'static {
    /// The journal inside.
    fn inner(&self) -> &dyn Journal;

    /// As [`Journal::append`].
    fn append(&self, batch: Batch) -> Append {
        self.inner().append(batch)
    }

    /// As [`Journal::append_addendum`].
    fn append_addendum(&self, run: &RunId, at: Stamp, what: AddendumKind) -> Append {
        self.inner().append_addendum(run, at, what)
    }

    /// As [`Journal::keep_settled`].
    fn keep_settled(&self, run: &RunId, at: Stamp) {
        self.inner().keep_settled(run, at);
    }

    /// As [`Journal::keep_all`].
    fn keep_all(&self) -> BoxFuture<()> {
        self.inner().keep_all()
    }

    /// As [`Journal::read`].
    fn read(&self, run: &RunId) -> BoxFuture<Result<Option<JournaledRun>, JournalError>> {
        self.inner().read(run)
    }

    /// As [`Journal::accounts`].
    fn accounts(&self, runs: &[RunId]) -> BoxFuture<Result<Vec<Option<JournaledRun>>, JournalError>> {
        self.inner().accounts(runs)
    }

    /// As [`Journal::history`].
    fn history(&self, session: &SessionKey) -> BoxFuture<Result<Vec<Arc<Message>>, JournalError>> {
        self.inner().history(session)
    }

    /// As [`Journal::last_reported`].
    fn last_reported(&self, session: &SessionKey) -> BoxFuture<Result<Option<LastReported>, JournalError>> {
        self.inner().last_reported(session)
    }

    /// As [`Journal::history_before`].
    fn history_before(&self, run: &RunId, most: usize) -> BoxFuture<Result<Option<HistoryBefore>, JournalError>> {
        self.inner().history_before(run, most)
    }

    /// As [`Journal::unsettled`].
    fn unsettled(&self) -> BoxFuture<Result<Vec<RunId>, JournalError>> {
        self.inner().unsettled()
    }

    /// As [`Journal::abandoned`].
    fn abandoned(&self) -> BoxFuture<Result<Vec<RunId>, JournalError>> {
        self.inner().abandoned()
    }

    /// As [`Journal::lease`].
    fn lease(&self) -> Option<Arc<Lease>> {
        self.inner().lease()
    }

    /// As [`Journal::claim`].
    fn claim(&self, run: &RunId, from: Epoch) -> BoxFuture<Result<Option<Epoch>, JournalError>> {
        self.inner().claim(run, from)
    }

    /// As [`Journal::request_cancel`].
    fn request_cancel(&self, run: &RunId, request: CancelRequest) -> BoxFuture<Result<RequestFate, JournalError>> {
        self.inner().request_cancel(run, request)
    }

    /// As [`Journal::trouble`].
    fn trouble(&self) -> Option<JournalError> {
        self.inner().trouble()
    }

    /// As [`Journal::sessions`].
    fn sessions(&self) -> &dyn Sessions {
        self.inner().sessions()
    }

    /// As [`Journal::shelf`].
    fn shelf(&self) -> &dyn Shelf {
        self.inner().shelf()
    }
}

// Without this, what a journal is asked in a later version would stop at the layer without a word.
#[deny(clippy::missing_trait_methods)]
#[diagnostic::do_not_recommend]
impl<L: JournalLayer> Journal for L {
    fn append(&self, batch: Batch) -> Append {
        JournalLayer::append(self, batch)
    }

    fn append_addendum(&self, run: &RunId, at: Stamp, what: AddendumKind) -> Append {
        JournalLayer::append_addendum(self, run, at, what)
    }

    fn keep_settled(&self, run: &RunId, at: Stamp) {
        JournalLayer::keep_settled(self, run, at);
    }

    fn keep_all(&self) -> BoxFuture<()> {
        JournalLayer::keep_all(self)
    }

    fn read(&self, run: &RunId) -> BoxFuture<Result<Option<JournaledRun>, JournalError>> {
        JournalLayer::read(self, run)
    }

    fn accounts(&self, runs: &[RunId]) -> BoxFuture<Result<Vec<Option<JournaledRun>>, JournalError>> {
        JournalLayer::accounts(self, runs)
    }

    fn history(&self, session: &SessionKey) -> BoxFuture<Result<Vec<Arc<Message>>, JournalError>> {
        JournalLayer::history(self, session)
    }

    fn last_reported(&self, session: &SessionKey) -> BoxFuture<Result<Option<LastReported>, JournalError>> {
        JournalLayer::last_reported(self, session)
    }

    fn history_before(&self, run: &RunId, most: usize) -> BoxFuture<Result<Option<HistoryBefore>, JournalError>> {
        JournalLayer::history_before(self, run, most)
    }

    fn unsettled(&self) -> BoxFuture<Result<Vec<RunId>, JournalError>> {
        JournalLayer::unsettled(self)
    }

    fn abandoned(&self) -> BoxFuture<Result<Vec<RunId>, JournalError>> {
        JournalLayer::abandoned(self)
    }

    fn lease(&self) -> Option<Arc<Lease>> {
        JournalLayer::lease(self)
    }

    fn claim(&self, run: &RunId, from: Epoch) -> BoxFuture<Result<Option<Epoch>, JournalError>> {
        JournalLayer::claim(self, run, from)
    }

    fn request_cancel(&self, run: &RunId, request: CancelRequest) -> BoxFuture<Result<RequestFate, JournalError>> {
        JournalLayer::request_cancel(self, run, request)
    }

    fn trouble(&self) -> Option<JournalError> {
        JournalLayer::trouble(self)
    }

    fn sessions(&self) -> &dyn Sessions {
        JournalLayer::sessions(self)
    }

    fn shelf(&self) -> &dyn Shelf {
        JournalLayer::shelf(self)
    }
}
