//! The seam to the journal: where a run's truth is kept.
//!
//! Appending is split in two, because a wait may be dropped and an effect may not: [`Journal::append`] accepts the
//! batch at once and in order, and the [`Append`] that it returns only waits. Dropping an `Append` undoes nothing.

mod error;
pub(crate) mod export;
pub(crate) mod layer;
pub(crate) mod lease;
pub(crate) mod memory;
pub(crate) mod reported;
pub(crate) mod sessions;
pub(crate) mod shelf;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use andon_core::cancel::CancelRequest;
use andon_core::event::{Accepted, Addendum, AddendumKind, Entry, Epoch, Event, Record};
use andon_core::id::{RunId, SessionKey};
use andon_core::message::Message;
use andon_core::progress::{Phase, RunProgress, RunState};
use andon_core::receipt::Receipt;
use andon_core::time::Stamp;
use tokio::sync::oneshot;

pub use error::JournalError;

use crate::journal::lease::Lease;
use crate::journal::reported::LastReported;
use crate::journal::sessions::Sessions;
use crate::journal::shelf::Shelf;
use crate::lanes::BoxFuture;

/// The ordered, durable log of events.
///
/// What goes around another journal is a [`JournalLayer`](crate::JournalLayer), which forwards what it does not change.
/// `andon_testkit::conformance` checks these promises on a journal of your own.
pub trait Journal: Send + Sync + 'static {
    /// Accepts a batch. Never blocks. Batches of one run become durable in the order in which they are given, whole or
    /// not at all. A batch of another epoch than the run's is refused as [fenced](JournalError::Fenced). A run's epoch
    /// rises only by a [claim](Self::claim), or by a batch that [takes the run over](Batch::takes_over) from the owner
    /// that it names and makes its writer the owner, in the same step. Once a batch of a run has failed, every later one
    /// of that epoch is refused, because it would leave a gap; so is everything after `run_settled`.
    fn append(&self, batch: Batch) -> Append;

    /// Accepts an addendum to a run; the journal numbers it.
    fn append_addendum(&self, run: &RunId, at: Stamp, what: AddendumKind) -> Append;

    /// Accepts the instant at which a run's outcome was durable, by the writer's clock. It is kept beside the record as
    /// cheaply as possible: with a commit that happens anyway, or without a sync, so a crash may lose it. Nobody waits
    /// for it, and reads return it at once. Only the first is kept, and only for a run that has settled.
    fn keep_settled(&self, run: &RunId, at: Stamp);

    /// Waits until every instant that was accepted is written: for a program that is about to exit. A journal that
    /// writes them at once has nothing to wait for.
    fn keep_all(&self) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }

    /// Everything that is durable of a run; `None` if it is unknown.
    fn read(&self, run: &RunId) -> BoxFuture<Result<Option<JournaledRun>, JournalError>>;

    /// For each of these runs, at least its `model_started` and `usage` events and its addenda, for lists of many runs: a store
    /// reads nothing else if it can. `None` for one that is unknown or cannot be read, which must not fail the list that it is in.
    fn accounts(&self, runs: &[RunId]) -> BoxFuture<Result<Vec<Option<JournaledRun>>, JournalError>> {
        let reads: Vec<_> = runs.iter().map(|run| self.read(run)).collect();
        Box::pin(async move {
            let mut accounts = Vec::with_capacity(reads.len());
            for read in reads {
                accounts.push(match read.await {
                    Err(JournalError::Unreadable(_)) => None,
                    read => read?,
                });
            }
            Ok(accounts)
        })
    }

    /// A session's history: the messages of all its runs that started and have settled, in the order in which they started.
    fn history(&self, session: &SessionKey) -> BoxFuture<Result<Vec<Arc<Message>>, JournalError>>;

    /// The last call among the messages of [`history`](Self::history) that the provider reported, found as
    /// [`LookingBack`](crate::LookingBack) does. `None` if there is none among the latest, or the journal does not look for it.
    fn last_reported(&self, session: &SessionKey) -> BoxFuture<Result<Option<LastReported>, JournalError>> {
        let _ = session;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// What was said in a run's session before it: as [`history`](Self::history), by the runs that started before this
    /// one, or were accepted before it if it never started. Those that have not settled are named. At most about `most`
    /// bytes are returned, counting this run and the named ones: older runs are left out, each as a whole, and are not
    /// read. `None` if the run is unknown.
    fn history_before(&self, run: &RunId, most: usize) -> BoxFuture<Result<Option<HistoryBefore>, JournalError>>;

    /// The runs that have no outcome.
    fn unsettled(&self) -> BoxFuture<Result<Vec<RunId>, JournalError>>;

    /// The runs that have no outcome and that this process may take up: all of them, unless others share the journal. Then they
    /// are its own, and those of processes whose lease is over and that it is the heir of.
    fn abandoned(&self) -> BoxFuture<Result<Vec<RunId>, JournalError>> {
        self.unsettled()
    }

    /// Until when this process may drive runs; `None` if it has the journal to itself.
    fn lease(&self) -> Option<Arc<Lease>> {
        None
    }

    /// Makes the caller the run's owner, with a new epoch, if the run still belongs to `from`: older writers are
    /// refused from then on. If it has another owner, nothing changes and the caller is refused as
    /// [fenced](JournalError::Fenced), or as [owned](JournalError::Owned) if that owner's lease is not over. A claim is queued behind the batches that were accepted before it: when it
    /// returns, those are durable or refused. `None` if the run is unknown.
    fn claim(&self, run: &RunId, from: Epoch) -> BoxFuture<Result<Option<Epoch>, JournalError>>;

    /// Leaves a cancel request for a run that has no driver here. It is queued with the batches: either it is durable
    /// before the run has settled, and whoever drives or recovers the run carries it out, or it comes too late.
    fn request_cancel(&self, run: &RunId, request: CancelRequest) -> BoxFuture<Result<RequestFate, JournalError>>;

    /// Why nothing can be written now, if that is so. Not called before a write: an append reports its own result.
    fn trouble(&self) -> Option<JournalError> {
        None
    }

    /// What is stored about sessions besides the facts of their runs.
    fn sessions(&self) -> &dyn Sessions;

    /// Values that belong to no session.
    fn shelf(&self) -> &dyn Shelf;
}

// What it does not forward would be lost without a word.
#[deny(clippy::missing_trait_methods)]
impl<J: Journal + ?Sized> Journal for Arc<J> {
    fn append(&self, batch: Batch) -> Append {
        (**self).append(batch)
    }

    fn append_addendum(&self, run: &RunId, at: Stamp, what: AddendumKind) -> Append {
        (**self).append_addendum(run, at, what)
    }

    fn keep_settled(&self, run: &RunId, at: Stamp) {
        (**self).keep_settled(run, at);
    }

    fn keep_all(&self) -> BoxFuture<()> {
        (**self).keep_all()
    }

    fn read(&self, run: &RunId) -> BoxFuture<Result<Option<JournaledRun>, JournalError>> {
        (**self).read(run)
    }

    fn accounts(&self, runs: &[RunId]) -> BoxFuture<Result<Vec<Option<JournaledRun>>, JournalError>> {
        (**self).accounts(runs)
    }

    fn history(&self, session: &SessionKey) -> BoxFuture<Result<Vec<Arc<Message>>, JournalError>> {
        (**self).history(session)
    }

    fn last_reported(&self, session: &SessionKey) -> BoxFuture<Result<Option<LastReported>, JournalError>> {
        (**self).last_reported(session)
    }

    fn history_before(&self, run: &RunId, most: usize) -> BoxFuture<Result<Option<HistoryBefore>, JournalError>> {
        (**self).history_before(run, most)
    }

    fn unsettled(&self) -> BoxFuture<Result<Vec<RunId>, JournalError>> {
        (**self).unsettled()
    }

    fn abandoned(&self) -> BoxFuture<Result<Vec<RunId>, JournalError>> {
        (**self).abandoned()
    }

    fn lease(&self) -> Option<Arc<Lease>> {
        (**self).lease()
    }

    fn claim(&self, run: &RunId, from: Epoch) -> BoxFuture<Result<Option<Epoch>, JournalError>> {
        (**self).claim(run, from)
    }

    fn request_cancel(&self, run: &RunId, request: CancelRequest) -> BoxFuture<Result<RequestFate, JournalError>> {
        (**self).request_cancel(run, request)
    }

    fn trouble(&self) -> Option<JournalError> {
        (**self).trouble()
    }

    fn sessions(&self) -> &dyn Sessions {
        (**self).sessions()
    }

    fn shelf(&self) -> &dyn Shelf {
        (**self).shelf()
    }
}

/// What was said before a run.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct HistoryBefore {
    /// The messages of the runs that have settled, the oldest first.
    pub messages: Vec<Arc<Message>>,
    /// The earlier runs that have not settled, whose messages come after these: those that started, then those that
    /// wait, in order.
    pub unsettled: Vec<RunId>,
    /// Whether older messages were left out.
    pub truncated: bool,
}

andon_core::with!(HistoryBefore: messages: Vec<Arc<Message>>, unsettled: Vec<RunId>, truncated: bool);

/// Gathers what was said before a run, the latest first, until there is no more room.
#[derive(Debug)]
pub struct HistoryGatherer {
    /// `None` once something did not fit: everything older is left out, too.
    room: Option<usize>,
    unsettled: Vec<RunId>,
    settled: Vec<Vec<Arc<Message>>>,
    truncated: bool,
}

impl HistoryGatherer {
    /// With room for `most` bytes, of which the run itself takes `own`.
    pub fn new(most: usize, own: usize) -> Self {
        Self { room: most.checked_sub(own), unsettled: Vec::new(), settled: Vec::new(), truncated: false }
    }

    /// Adds the latest unsettled run that is not gathered yet, and its size. All of them must be added before the
    /// settled ones.
    pub fn unsettled(&mut self, run: RunId, size: usize) {
        if self.has_room(size) {
            self.unsettled.push(run);
        }
    }

    /// Adds the latest settled run that is not gathered yet. It is read only if there is room for its size; returns
    /// whether there was.
    pub fn settled<E>(&mut self, size: usize, read: impl FnOnce() -> Result<Vec<Arc<Message>>, E>) -> Result<bool, E> {
        let fits = self.has_room(size);
        if fits {
            self.settled.push(read()?);
        }
        Ok(fits)
    }

    fn has_room(&mut self, size: usize) -> bool {
        self.room = self.room.and_then(|room| room.checked_sub(size));
        self.truncated |= self.room.is_none();
        self.room.is_some()
    }

    /// Everything that was gathered, the oldest first.
    pub fn done(self) -> HistoryBefore {
        let messages = self.settled.into_iter().rev().flatten().collect();
        let unsettled = self.unsettled.into_iter().rev().collect();
        HistoryBefore { messages, unsettled, truncated: self.truncated }
    }
}

/// What became of a cancel request that was left for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFate {
    /// It is durable, and the run has not settled.
    Recorded,
    /// The run has settled; nothing was changed.
    TooLate,
    /// There is no such run; nothing was changed.
    Unknown,
}

/// Entries that are appended together.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Batch {
    /// The run.
    pub run: RunId,
    /// The writer's epoch.
    pub epoch: Epoch,
    /// The entries, in order.
    pub entries: Vec<Entry>,
    /// Set by a writer that takes over the run: the epoch of the owner before it. If the run has another owner by now,
    /// nothing is written.
    pub takes_over: Option<Epoch>,
    /// Where the run stands after these entries, if the writer says so. Otherwise the journal folds the run when it is
    /// asked.
    pub standing: Option<BatchStanding>,
}

/// Where a run stands, folded from its events.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchStanding {
    /// Its state.
    pub state: RunState,
    /// What it is doing.
    pub phase: Phase,
    /// All its messages, once it has settled.
    pub said: Option<Vec<Arc<Message>>>,
}

impl BatchStanding {
    /// Where a run with this progress stands.
    pub fn of(progress: &RunProgress) -> Self {
        let state = progress.state();
        let said = (state == RunState::Settled).then(|| progress.messages().to_vec());
        Self { state, phase: progress.phase(), said }
    }
}

impl Batch {
    /// A batch from the run's owner.
    pub fn new(run: RunId, epoch: Epoch, entries: Vec<Entry>) -> Self {
        Self { run, epoch, entries, takes_over: None, standing: None }
    }

    /// A batch that makes its writer the owner of a run whose last owner had `epoch`.
    pub fn taking_over(run: RunId, epoch: Epoch, entries: Vec<Entry>) -> Self {
        Self { run, epoch: epoch.saturating_add(1), entries, takes_over: Some(epoch), standing: None }
    }

    /// The epoch that the run must have for this batch to be accepted, unless it is the run's first.
    pub(crate) fn expects(&self) -> Epoch {
        self.takes_over.unwrap_or(self.epoch)
    }

    /// Says where the run stands after the entries. A batch of lumps alone need not say: streamed text does not change
    /// it.
    #[must_use]
    pub fn standing(mut self, standing: BatchStanding) -> Self {
        self.standing = Some(standing);
        self
    }
}

/// What a journal holds of a run.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct JournaledRun {
    /// The owner's epoch.
    pub epoch: Epoch,
    /// Its events and lumps, in order.
    pub entries: Vec<Entry>,
    /// What was learned after its end.
    pub addenda: Vec<Addendum>,
    /// Cancel requests that were left for it, in order. Those that its driver heard itself are among its events.
    pub requests: Vec<Arc<CancelRequest>>,
    /// When its outcome was durable, if it has one and that instant was [kept](Journal::keep_settled).
    pub settled_at: Option<Stamp>,
}

andon_core::with!(JournaledRun: epoch: Epoch, entries: Vec<Entry>, addenda: Vec<Addendum>, requests: Vec<Arc<CancelRequest>>,
    settled_at: into Option<Stamp>);

impl JournaledRun {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Its receipt; `None` if its record does not begin with `run_accepted`.
    pub fn receipt(&self) -> Option<Receipt> {
        Receipt::fold(self.facts(), self.addenda.iter().cloned(), self.settled_at)
    }

    /// Its beginning; `None` if its record does not begin with `run_accepted`.
    pub(crate) fn accepted(&self) -> Option<&Arc<Accepted>> {
        match &self.facts().next()?.event {
            Event::RunAccepted { accepted } => Some(accepted),
            _ => None,
        }
    }

    /// Its end, if it has one.
    pub fn end(&self) -> Option<&Arc<Record>> {
        self.facts().next_back().filter(|last| matches!(last.event, Event::RunSettled { .. }))
    }

    /// Its events, in order.
    pub fn facts(&self) -> impl DoubleEndedIterator<Item = &Arc<Record>> {
        self.entries.iter().filter_map(Entry::fact)
    }
}

/// Waits for an append to be durable.
///
/// # Cancel safety
///
/// Cancel safe: the batch was accepted when the `Append` was made.
#[derive(Debug)]
#[must_use = "an append is durable only once this has been awaited"]
pub struct Append(AppendState);

#[derive(Debug)]
enum AppendState {
    Ready(Result<(), JournalError>),
    Pending(oneshot::Receiver<Result<(), JournalError>>),
}

/// The journal's end of a pending [`Append`].
#[derive(Debug)]
pub struct AppendDone(oneshot::Sender<Result<(), JournalError>>);

impl AppendDone {
    /// Reports the result to whoever waits.
    pub fn done(self, result: Result<(), JournalError>) {
        // The `Append` may have been dropped, which changes nothing.
        let _ = self.0.send(result);
    }
}

impl Append {
    /// An append that is finished.
    pub fn ready(result: Result<(), JournalError>) -> Self {
        Self(AppendState::Ready(result))
    }

    /// An append that is not finished, and the handle that finishes it.
    pub fn pending() -> (Self, AppendDone) {
        let (sender, receiver) = oneshot::channel();
        (Self(AppendState::Pending(receiver)), AppendDone(sender))
    }

    /// The result, if it is known without waiting.
    pub fn now(&self) -> Option<Result<(), JournalError>> {
        match &self.0 {
            AppendState::Ready(result) => Some(result.clone()),
            AppendState::Pending(_) => None,
        }
    }
}

impl Future for Append {
    type Output = Result<(), JournalError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            AppendState::Ready(result) => Poll::Ready(result.clone()),
            AppendState::Pending(receiver) => {
                Pin::new(receiver).poll(cx).map(|result| result.unwrap_or(Err(JournalError::Closed)))
            }
        }
    }
}
