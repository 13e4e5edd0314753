//! The seam to the journal: where a run's truth is kept.
//!
//! Appending is split in two, because a wait may be dropped and an effect may not: [`Journal::append`] takes the batch at
//! once and in order, and the [`Append`] that it returns only waits. A dropped `Append` undoes nothing.

pub(crate) mod export;
pub(crate) mod memory;
pub(crate) mod sessions;
pub(crate) mod shelf;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use andon_core::cancel::CancelRequest;
use andon_core::event::{Addendum, Entry, Epoch, Event, Learnt, Record};
use andon_core::id::{RunId, SessionKey};
use andon_core::message::Message;
use andon_core::progress::{Phase, Progress, State};
use andon_core::receipt::Receipt;
use andon_core::time::Stamp;
use tokio::sync::oneshot;

use crate::journal::sessions::Sessions;
use crate::journal::shelf::Shelf;
use crate::lanes::BoxFuture;

/// The ordered, durable log of events.
pub trait Journal: Send + Sync + 'static {
    /// Takes a batch. Never blocks; batches of one run become durable in the order in which they are given, whole or not
    /// at all. A batch with an epoch older than the run's is refused; one with a newer epoch makes its writer the run's
    /// owner, in the same step, if the run is still [whose it was](Batch::takes_over). Once a batch of a run has failed, every
    /// later one of that epoch is refused, because it would leave a gap; so is everything behind `run_settled`.
    fn append(&self, batch: Batch) -> Append;

    /// Takes an addendum to a run; the journal numbers it.
    fn append_addendum(&self, run: &RunId, at: Stamp, what: Learnt) -> Append;

    /// Takes the instant at which a run's outcome was durable, by the clock of who wrote it. It is kept beside the record as
    /// cheaply as can be: with a commit that happens anyway, or without a sync, so a crash may lose it. Nobody waits for it,
    /// and reads tell it at once. Only the first is kept, and only of a run that has settled.
    fn keep_settled(&self, run: &RunId, at: Stamp);

    /// Waits until every instant that was taken is written: a program that is about to leave asks for it. One that keeps them
    /// at once has nothing to wait for.
    fn keep_all(&self) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }

    /// All that is durable of a run; nothing if it is unknown.
    fn read(&self, run: &RunId) -> BoxFuture<Result<Option<Stored>, JournalError>>;

    /// A session's history: the messages of all its runs that started and have settled, in the order in which they started.
    fn history(&self, session: &SessionKey) -> BoxFuture<Result<Vec<Arc<Message>>, JournalError>>;

    /// What was said in a run's session before it: as [`history`](Self::history), by the runs that started before this one, or,
    /// if this one never did, were accepted before it. Those of them that have not settled are named. Of more than about
    /// `most` bytes, the run's own and those of the named ones included, only the latest runs, each as a whole; what is
    /// left out is not read. Nothing if the run is unknown.
    fn said_before(&self, run: &RunId, most: usize) -> BoxFuture<Result<Option<Earlier>, JournalError>>;

    /// The runs that have no outcome.
    fn unsettled(&self) -> BoxFuture<Result<Vec<RunId>, JournalError>>;

    /// Makes the caller the run's owner, with a new epoch, if it still belongs to `from`: older writers are refused from now
    /// on. If it is somebody else's by now, nothing changes and the caller is refused as
    /// [fenced](JournalError::Fenced). It stands in line behind the batches that were taken before: when it returns, those
    /// are durable or refused. `None` if the run is unknown.
    fn claim(&self, run: &RunId, from: Epoch) -> BoxFuture<Result<Option<Epoch>, JournalError>>;

    /// Leaves a cancel request for a run that has no driver here. It stands in line with the batches: either it is durable
    /// before the run has settled, and whoever drives or recovers the run carries it out, or it comes too late.
    fn request_cancel(&self, run: &RunId, request: CancelRequest) -> BoxFuture<Result<Requested, JournalError>>;

    /// Why nothing can be written now, if nothing can. Not asked before a write: an append says for itself what becomes of it.
    fn trouble(&self) -> Option<JournalError> {
        None
    }

    /// What is kept of sessions beside the facts of their runs.
    fn sessions(&self) -> &dyn Sessions;

    /// What is kept that belongs to no session.
    fn shelf(&self) -> &dyn Shelf;
}

/// What was said before a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Earlier {
    /// The messages of the runs that have settled, the oldest first.
    pub messages: Vec<Arc<Message>>,
    /// The runs before it that have not settled, and say what they say behind these messages: those that started, then
    /// those that wait, in their order.
    pub unsettled: Vec<RunId>,
    /// There was more, said before these, that is left out.
    pub truncated: bool,
}

/// Gathers what was said before a run: the latest first, until there is no more room.
#[derive(Debug)]
pub struct Gathering {
    /// Nothing once something did not fit: what is older is left out, too.
    room: Option<usize>,
    unsettled: Vec<RunId>,
    settled: Vec<Vec<Arc<Message>>>,
    truncated: bool,
}

impl Gathering {
    /// With room for `most` bytes, of which the run itself takes its own.
    pub fn new(most: usize, own: usize) -> Self {
        Self { room: most.checked_sub(own), unsettled: Vec::new(), settled: Vec::new(), truncated: false }
    }

    /// The latest of the unsettled runs that is not gathered yet, and its size. They come before those that have settled.
    pub fn unsettled(&mut self, run: RunId, size: usize) {
        if self.has_room(size) {
            self.unsettled.push(run);
        }
    }

    /// The latest of the settled runs that is not gathered yet. It is read only if there is room for its size; says whether
    /// there was.
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

    /// All that was gathered, in its order.
    pub fn done(self) -> Earlier {
        let messages = self.settled.into_iter().rev().flatten().collect();
        let unsettled = self.unsettled.into_iter().rev().collect();
        Earlier { messages, unsettled, truncated: self.truncated }
    }
}

/// What became of a cancel request that was left for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requested {
    /// It is durable, and the run has not settled.
    Recorded,
    /// The run has settled: nothing was changed.
    TooLate,
    /// There is no such run: nothing was changed.
    Unknown,
}

/// What is appended together.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The run.
    pub run: RunId,
    /// The writer's epoch.
    pub epoch: Epoch,
    /// The entries, in order.
    pub entries: Vec<Entry>,
    /// Who takes a run over says whose it was: if it is somebody else's by now, nothing is written.
    pub takes_over: Option<Epoch>,
    /// Where the run stands behind its entries, if the writer says so. A journal that is not told folds the run when
    /// it is asked.
    pub standing: Option<Standing>,
}

/// Where a run stands, as folding its events tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Its state.
    pub state: State,
    /// What it is doing.
    pub phase: Phase,
    /// All that it has said, once it has settled.
    pub said: Option<Vec<Arc<Message>>>,
}

impl Standing {
    /// Where a run stands that has come this far.
    pub fn of(progress: &Progress) -> Self {
        let state = progress.state();
        let said = (state == State::Settled).then(|| progress.messages().to_vec());
        Self { state, phase: progress.phase(), said }
    }
}

impl Batch {
    /// What the owner of a run appends.
    pub fn new(run: RunId, epoch: Epoch, entries: Vec<Entry>) -> Self {
        Self { run, epoch, entries, takes_over: None, standing: None }
    }

    /// What makes its writer the owner of a run that was last owned by `epoch`.
    pub fn taking_over(run: RunId, epoch: Epoch, entries: Vec<Entry>) -> Self {
        Self { run, epoch: epoch.saturating_add(1), entries, takes_over: Some(epoch), standing: None }
    }

    /// Says where the run stands behind the entries. Text that streams moves nothing, so a batch of lumps alone need not say.
    #[must_use]
    pub fn standing(mut self, standing: Standing) -> Self {
        self.standing = Some(standing);
        self
    }
}

/// What a journal holds of a run.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    /// The owner's epoch.
    pub epoch: Epoch,
    /// Its events and lumps, in order.
    pub entries: Vec<Entry>,
    /// What was learnt after its end.
    pub addenda: Vec<Addendum>,
    /// Cancel requests that were left for it, in order. Those that its driver heard itself are among its events.
    pub requests: Vec<Arc<CancelRequest>>,
    /// When its outcome was durable, if it has one and that instant was [kept](Journal::keep_settled).
    pub settled_at: Option<Stamp>,
}

impl Stored {
    /// Its receipt; `None` if the record does not begin with `run_accepted`.
    pub fn receipt(&self) -> Option<Receipt> {
        Receipt::fold(self.facts(), self.addenda.iter().cloned(), self.settled_at)
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

/// Why the journal did not take or give something. Small: every run has room for one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// Another process owns the run now.
    #[error("the run is owned by another process now (epoch {owner}, ours is {ours})")]
    Fenced {
        /// The writer's epoch.
        ours: Epoch,
        /// The owner's.
        owner: Epoch,
    },
    /// The storage failed.
    #[error("the journal could not be written: {0}")]
    Storage(String),
    /// What is stored makes no sense.
    #[error("the journal cannot be read: {0}")]
    Unreadable(String),
    /// A run of this id is on record already.
    #[error("run id {0} is used by a run that is on record already: choose another, or leave it out")]
    RunExists(RunId),
    /// A session of this key is there.
    #[error("there is a session {0} already: delete it first")]
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
    #[error("session {0} is being deleted already")]
    SessionClosing(Box<SessionKey>),
    /// The journal's writer is gone.
    #[error("the journal is closed")]
    Closed,
}

impl JournalError {
    /// Whether what failed may succeed later, when the storage is well again.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Storage(_))
    }
}

/// Waits for an append to be durable.
///
/// # Cancel safety
///
/// Cancel safe: the batch was taken when the `Append` was made.
#[must_use = "an append is durable only once this has been awaited"]
pub struct Append(AppendState);

enum AppendState {
    Ready(Result<(), JournalError>),
    Pending(oneshot::Receiver<Result<(), JournalError>>),
}

/// The journal's end of a pending [`Append`].
#[derive(Debug)]
pub struct AppendDone(oneshot::Sender<Result<(), JournalError>>);

impl AppendDone {
    /// Tells whoever waits.
    pub fn done(self, result: Result<(), JournalError>) {
        // Nobody may be waiting any more, and that changes nothing.
        let _ = self.0.send(result);
    }
}

impl Append {
    /// An append that is over.
    pub fn ready(result: Result<(), JournalError>) -> Self {
        Self(AppendState::Ready(result))
    }

    /// An append that is not over, and the handle that ends it.
    pub fn pending() -> (Self, AppendDone) {
        let (sender, receiver) = oneshot::channel();
        (Self(AppendState::Pending(receiver)), AppendDone(sender))
    }

    /// The result, if it is there without waiting.
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

impl fmt::Debug for Append {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            AppendState::Ready(_) => "Append(ready)",
            AppendState::Pending(_) => "Append(pending)",
        })
    }
}
