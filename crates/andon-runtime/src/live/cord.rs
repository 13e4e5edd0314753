//! The cord: a run's stop handle.
//!
//! It is not simply a `CancellationToken`, because a stop has a reason, a force that can rise, somebody who asked for
//! it and a reply that says what it did; and it competes with the run's own end under one lock. See `docs/decisions/`.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use andon_core::cancel::{CancelRequest, Force, Reason, ReplyKind};
use andon_core::id::RunId;
use andon_core::outcome::Ending;
use andon_core::time::Stamp;

use crate::journal::JournalError;
use crate::live::{Live, Order};

/// A request to cancel, to pull a cord with.
///
/// ```
/// use andon_runtime::Cancel;
///
/// let cancel = Cancel::graceful().note("stop button").by("ada");
/// # let _ = cancel;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    force: Force,
    reason: Reason,
    by: Option<Arc<str>>,
    note: Option<Arc<str>>,
    grace: Option<Duration>,
}

impl Cancel {
    fn new(force: Force) -> Self {
        Self { force, reason: Reason::Requested, by: None, note: None, grace: None }
    }

    /// Cuts the model's stream at once; running tools are told and get their grace.
    pub fn graceful() -> Self {
        Self::new(Force::Graceful)
    }

    /// As graceful, with no grace.
    pub fn now() -> Self {
        Self::new(Force::Now)
    }

    /// Lets the answer in progress and its tools finish, and makes no further model call.
    pub fn after_turn() -> Self {
        Self::new(Force::AfterTurn)
    }

    /// The reason; `requested` by default.
    #[must_use]
    pub fn reason(mut self, reason: Reason) -> Self {
        self.reason = reason;
        self
    }

    /// Who asks.
    #[must_use]
    pub fn by(mut self, by: impl Into<Arc<str>>) -> Self {
        self.by = Some(by.into());
        self
    }

    /// Free text for the receipt.
    #[must_use]
    pub fn note(mut self, note: impl Into<Arc<str>>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// The grace for running tools, instead of each tool's own.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    pub(crate) fn at(self, requested_at: Stamp) -> CancelRequest {
        let grace_ms = self.grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
        let Self { force, reason, by, note, .. } = self;
        CancelRequest::new(reason, force, requested_at).by(by).note(note).grace_ms(grace_ms)
    }
}

impl Default for Cancel {
    fn default() -> Self {
        Self::graceful()
    }
}

/// A run's stop handle: watch it, or pull it. Cheap to clone, usable from any thread.
///
/// ```
/// # use andon_practice::Practice;
/// # use andon_runtime::{Agent, Cancel};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let agent = Agent::builder().model(Practice::new()).build()?;
/// let run = agent.start("Tell me a long story")?;
/// let cord = run.cord();
/// std::thread::spawn(move || cord.pull(Cancel::graceful().by("ada")));
/// assert_eq!(run.outcome().await.receipt.by.as_deref(), Some("ada"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Cord {
    live: Arc<Live>,
    /// The ticket of the tool call that has this handle, if one does.
    ticket: Option<u32>,
}

impl Cord {
    pub(crate) fn new(live: Arc<Live>, ticket: Option<u32>) -> Self {
        Self { live, ticket }
    }

    /// The run that this cord stops.
    pub fn run_id(&self) -> &RunId {
        &self.live.id
    }

    /// Pulls the cord. Synchronous, from any thread, never blocks for long and cannot fail: once it has returned, no
    /// piece is accepted, no tool starts and no model is called.
    pub fn pull(&self, cancel: Cancel) -> Reply {
        let request = cancel.at(self.live.now());
        let (kind, number) = self.live.pull(request);
        Reply::about(&self.live, kind, number)
    }

    /// Whether work in progress was told to stop: the whole run's, or this call's alone. `after_turn` does not count,
    /// because it lets the turn finish.
    pub fn is_pulled(&self) -> bool {
        self.live.is_told(self.ticket)
    }

    /// Waits until work in progress is told to stop, as [`is_pulled`](Self::is_pulled) says.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub async fn pulled(&self) {
        let watcher = RegisteredWatcher { live: &self.live, key: self.live.next_watcher() };
        poll_fn(|cx| self.live.poll_told(self.ticket, watcher.key, cx)).await;
    }

    /// The request that told work in progress to stop: its reason, who asked, its note. `None` while the cord is not
    /// pulled.
    pub fn request(&self) -> Option<Arc<CancelRequest>> {
        self.live.told_by(self.ticket)
    }

    /// The grace that is left in which to stop: `None` while the cord is not pulled, zero when it is over.
    pub fn time_left(&self) -> Option<Duration> {
        match self.live.order_now(self.ticket?) {
            Order::GoOn => None,
            Order::StopNow => Some(Duration::ZERO),
            Order::StopBy(end) => Some(end.since(self.live.now())),
        }
    }
}

/// Removes its waker from the run's list when the wait ends or is dropped.
struct RegisteredWatcher<'a> {
    live: &'a Live,
    key: u64,
}

impl Drop for RegisteredWatcher<'_> {
    fn drop(&mut self) {
        self.live.forget_watcher(self.key);
    }
}

impl fmt::Debug for Cord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cord").field("run", &self.live.id).finish_non_exhaustive()
    }
}

/// The answer to one cancel request: what it did, from memory and at once.
///
/// ```
/// # use andon_practice::Practice;
/// # use andon_runtime::{Agent, Cancel};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let agent = Agent::builder().model(Practice::new()).build()?;
/// let run = agent.start("Tell me a long story")?;
/// let reply = run.cancel(Cancel::graceful());
/// assert!(reply.is_stopping());
/// reply.recorded().await?; // the request is durable
/// # run.outcome().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Reply {
    run: RunId,
    kind: ReplyKind,
    about: Option<(Arc<Live>, u32)>,
}

impl Reply {
    pub(crate) fn about(live: &Arc<Live>, kind: ReplyKind, number: u32) -> Self {
        Self { run: live.id.clone(), kind, about: Some((Arc::clone(live), number)) }
    }

    /// A reply about a run that has no driver: what it says is durable already, or there is nothing to record.
    pub(crate) fn undriven(run: RunId, kind: ReplyKind) -> Self {
        Self { run, kind, about: None }
    }

    /// What the request did.
    pub fn kind(&self) -> &ReplyKind {
        &self.kind
    }

    /// The run that it was aimed at.
    pub fn run_id(&self) -> &RunId {
        &self.run
    }

    /// Whether the run is stopping, because of this request or an earlier one.
    pub fn is_stopping(&self) -> bool {
        matches!(self.kind, ReplyKind::Accepted | ReplyKind::Hardened | ReplyKind::AlreadyCancelling)
    }

    /// How the run had ended, if the request came too late.
    pub fn too_late(&self) -> Option<&Ending> {
        match &self.kind {
            ReplyKind::TooLate { outcome } => Some(outcome),
            _ => None,
        }
    }

    /// Waits until what the reply says is durable: this request, the earlier one that it joined, or the outcome that it
    /// came too late for.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub async fn recorded(&self) -> Result<(), JournalError> {
        let Some((live, number)) = &self.about else { return Ok(()) };
        let reader = RegisteredReader { live, key: live.next_reader() };
        match self.kind {
            ReplyKind::Accepted | ReplyKind::Hardened | ReplyKind::AlreadyCancelling => {
                poll_fn(|cx| live.poll_recorded(*number, reader.key, cx)).await
            }
            ReplyKind::TooLate { .. } => poll_fn(|cx| live.poll_settled(reader.key, cx)).await.map(drop),
            ReplyKind::NotRunning | ReplyKind::Armed | ReplyKind::NotFound => Ok(()),
            #[cfg(not(andon_whole))]
            _ => Ok(()),
        }
    }
}

/// What one cancel did to several runs, in one word: the reply of the first run that is stopping, or of the first run if
/// none is; `not_running` if there were none.
pub(crate) fn kind_of_all(replies: &[Reply]) -> ReplyKind {
    let stopping = replies.iter().find(|reply| reply.is_stopping());
    stopping.or_else(|| replies.first()).map_or(ReplyKind::NotRunning, |reply| reply.kind().clone())
}

/// Waits until everything that these replies say is durable.
pub(crate) async fn all_recorded(replies: &[Reply]) -> Result<(), JournalError> {
    for reply in replies {
        reply.recorded().await?;
    }
    Ok(())
}

/// Removes its waker from the readers' list when the wait ends or is dropped.
pub(crate) struct RegisteredReader<'a> {
    pub(crate) live: &'a Live,
    pub(crate) key: u64,
}

impl Drop for RegisteredReader<'_> {
    fn drop(&mut self) {
        self.live.forget_reader(self.key);
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("run", &self.run).field("kind", &self.kind).finish_non_exhaustive()
    }
}
