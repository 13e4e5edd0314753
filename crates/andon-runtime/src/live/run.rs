//! A handle on one run.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use andon_core::cancel::Reason;
use andon_core::event::{Record, Seq};
use andon_core::id::{CallId, RunId, SessionKey};
use andon_core::outcome::Outcome;
use andon_core::progress::{Phase, RunProgress, RunState};
use andon_core::receipt::Receipt;
use andon_core::standing::RunStanding;

use crate::journal::JournalError;
use crate::lanes::block::{block_on, may_block};
#[cfg(feature = "testing")]
use crate::lanes::probe::GateCounts;
use crate::live::approval::{self, ApprovalDecision, PendingApproval, Undecided};
use crate::live::cord::{Cancel, Cord, RegisteredReader, Reply};
use crate::live::feed::{Cursor, Feed};
use crate::live::{DecideError, Live};

/// A handle on one run: its id, its feed, its cord, its outcome.
///
/// Dropping it does not cancel the run, unless the run was started with
/// [`cancel_on_drop`](crate::Prompt::cancel_on_drop). Nor does dropping a wait, such as the future of
/// [`outcome`](Self::outcome): the run goes on, and can be waited for again. Only where there is no handle, in
/// [`Agent::run`](crate::Agent::run) and [`Prompt::run`](crate::Prompt::run), dropping the future cancels the run.
///
/// ```
/// # use andon_practice::Practice;
/// # use andon_runtime::{Agent, Cancel};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let agent = Agent::builder().model(Practice::new()).build()?;
/// let run = agent.start("Tell me a long story")?;
/// println!("{} is {}", run.id(), run.state().as_str());
/// run.cancel(Cancel::graceful().by("ada"));
/// assert!(run.outcome().await.is_cancelled());
/// # Ok(())
/// # }
/// ```
pub struct Run {
    live: Arc<Live>,
    /// Dropping this handle cancels the run, with this note.
    cancels_on_drop: Option<&'static str>,
}

impl Run {
    pub(crate) fn new(live: Arc<Live>) -> Self {
        Self { live, cancels_on_drop: None }
    }

    /// The handle that cancels the run when it is dropped, with this note.
    pub(crate) fn cancelling(mut self, note: &'static str) -> Self {
        self.cancels_on_drop = Some(note);
        self
    }

    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// The run's id.
    pub fn id(&self) -> &RunId {
        &self.live.id
    }

    /// The session that it belongs to.
    pub fn session(&self) -> &SessionKey {
        &self.live.session
    }

    /// Its events, from the beginning.
    pub fn feed(&self) -> Feed {
        self.feed_from(Cursor::default())
    }

    /// Its events, from this place on. If the place is past what is stored, the feed begins with
    /// [`FeedItem::TextLost`](crate::FeedItem::TextLost).
    pub fn feed_from(&self, from: Cursor) -> Feed {
        Feed::new(Arc::clone(&self.live), from)
    }

    /// The run's cord: cheap to clone and to send to another thread.
    pub fn cord(&self) -> Cord {
        Cord::new(Arc::clone(&self.live), None)
    }

    /// Cancels the run. Synchronous, from any thread, never blocks and cannot fail: once it has returned, no piece is
    /// accepted, no tool starts and no model is called.
    pub fn cancel(&self, cancel: Cancel) -> Reply {
        self.cord().pull(cancel)
    }

    /// Cancels one tool call alone; the run goes on, and the model is told.
    pub fn cancel_call(&self, call: &CallId, cancel: Cancel) -> Reply {
        let (kind, number) = self.live.pull_call(call, cancel.at(self.live.now()));
        Reply::about(&self.live, kind, number)
    }

    /// The calls that wait for a person, with everything that the person must see, in the model's order. Empty from the
    /// moment when the run is told to stop, and without a call from the moment when it is decided.
    ///
    /// ```
    /// # use andon_practice::Practice;
    /// # use andon_runtime::{Agent, Run};
    /// # fn decide(run: &Run) -> Result<(), andon_runtime::DecideError> {
    /// for call in run.approvals() {
    ///     match call.tool() {
    ///         "launch" => call.deny().by("ada").note("The weather is bad.").send()?,
    ///         _ => call.approve().by("ada").send()?,
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn approvals(&self) -> Vec<PendingApproval> {
        if !self.may_await_approval() {
            return Vec::new();
        }
        approval::pending(&self.live, &self.records())
    }

    /// A person decides a waiting call that is known only by its id: `run.decide(&call).approve().send()`. Where the
    /// call can be looked at, decide one of [`approvals`](Self::approvals) instead: it is bound to its arguments.
    pub fn decide(&self, call: &CallId) -> Undecided {
        Undecided::new(Arc::clone(&self.live), call.clone())
    }

    /// A person decides several waiting calls of this run. All decisions are accepted, or none is: if a call is not
    /// waiting, or is listed twice, nothing is decided. [`ApprovalDecision::send`] says when a decision is durable.
    pub fn decide_all(&self, decisions: impl IntoIterator<Item = ApprovalDecision>) -> Result<(), DecideError> {
        approval::decide_all(&self.live, decisions)
    }

    /// Waits until the run has settled, and returns its outcome. Settled means on disk: while the journal [does not
    /// accept the run's end](Self::stalled), this waits. [`settled`](Self::settled) does not.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits. Dropping it, for example in a `timeout`, does not cancel the run.
    pub async fn outcome(&self) -> Arc<Outcome> {
        let reader = RegisteredReader { live: &self.live, key: self.live.next_reader() };
        poll_fn(|cx| self.live.poll_outcome(reader.key, cx)).await
    }

    /// As [`outcome`](Self::outcome), for a handle that nobody needs any more when the run has settled.
    pub(crate) async fn into_outcome(mut self) -> Arc<Outcome> {
        let outcome = self.outcome().await;
        // There is nothing left to cancel.
        self.cancels_on_drop = None;
        outcome
    }

    /// Blocks this thread until the run has settled, and returns its outcome: [`outcome`](Self::outcome) for programs and
    /// threads without tokio.
    ///
    /// A run that is started outside a tokio runtime is driven by threads of its own [`Runtime`](crate::Runtime), and needs
    /// nothing from its caller. A run that is started inside one is driven there, so that runtime must go on.
    ///
    /// Refused inside a tokio runtime, where blocking could stop the task that drives the run: await the outcome there. A
    /// blocking tool may wait, and in `spawn_blocking` there is `Handle::current().block_on(run.outcome())`.
    ///
    /// ```
    /// # use andon_practice::Practice;
    /// # use andon_runtime::Agent;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let agent = Agent::builder().model(Practice::instant()).build()?;
    /// let run = agent.start("Hello")?;
    /// let text = run.wait()?.completed()?.text();
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait(&self) -> Result<Arc<Outcome>, WaitError> {
        if !may_block() {
            return Err(WaitError::InsideTokio);
        }
        Ok(block_on(self.outcome()))
    }

    /// Waits until the run has settled, and returns its outcome; or returns at once the reason why the journal does not
    /// accept its end. In that case the run's work has ended and its record is not complete: it is completed as soon as
    /// the journal accepts writes, here or in the next process.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub async fn settled(&self) -> Result<Arc<Outcome>, JournalError> {
        let reader = RegisteredReader { live: &self.live, key: self.live.next_reader() };
        poll_fn(|cx| self.live.poll_settled(reader.key, cx)).await
    }

    /// Why the journal does not accept the run's end, if that is so. The run's work has ended, and the run has not
    /// settled: it can still be cancelled, and settles as soon as the journal accepts writes again.
    pub fn stalled(&self) -> Option<JournalError> {
        self.live.stalled()
    }

    /// The outcome, if the run has settled. A run that was given up while the journal did not accept its end has not.
    pub fn try_outcome(&self) -> Option<Arc<Outcome>> {
        self.live.outcome().filter(|_| !self.live.is_left_open())
    }

    /// The run's state, according to its durable events. A pull shows here once the request is on record.
    pub fn state(&self) -> RunState {
        self.live.state_byte.get().map_or_else(|| self.standing().state, |(state, _)| state)
    }

    /// Where the run stands, according to its durable events: its [state](Self::state), its phase, and how hard it was
    /// told to stop. If the state is `Settled`, the [outcome](Self::try_outcome) is available.
    pub fn standing(&self) -> RunStanding {
        // This is read before the log, which says `Settled` from the moment when the outcome is available.
        let is_settled = match self.live.state_byte.get() {
            Some((state, _)) => state == RunState::Settled,
            // A run whose journal is unreadable has an outcome, whatever its events say.
            None => self.try_outcome().is_some(),
        };
        let accepted = RunStanding::new(RunState::Queued, Some(Phase::Queued), None);
        let logged = self.live.with_log(|log| log.standing()).unwrap_or(accepted);
        if is_settled { logged.state(RunState::Settled).phase(None) } else { logged }
    }

    /// Its first durable event and its last, which may be the same; `None` before it is on record.
    pub fn first_and_last(&self) -> Option<(Arc<Record>, Arc<Record>)> {
        self.live.with_log(|log| log.facts().first().cloned().zip(log.facts().last().cloned()))
    }

    /// Whether a call of this run may be waiting for a person. Always true for a run that this process does not drive:
    /// there only its [events](Self::progress) say.
    pub fn may_await_approval(&self) -> bool {
        self.live.state_byte.get().is_none() || self.live.awaits_approval()
    }

    /// How far the run has come, according to its durable events; `None` before it is on record.
    pub fn progress(&self) -> Option<RunProgress> {
        RunProgress::of_records(&self.records())
    }

    /// Waits until the run is on record, or returns why it never will be.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub async fn accepted(&self) -> Result<(), JournalError> {
        let reader = RegisteredReader { live: &self.live, key: self.live.next_reader() };
        poll_fn(|cx| self.live.poll_accepted(reader.key, cx)).await
    }

    /// The run's receipt so far; once the run has settled, with its addenda folded in.
    pub fn receipt(&self) -> Option<Receipt> {
        self.live.receipt()
    }

    /// Waits until the run has settled and nothing more is being learned about or from the usage of its model calls;
    /// returns its receipt. A program that is about to exit should wait for this, so that nothing learned is lost and
    /// the receipt says when the run settled. There is nothing to wait for if another process ran the run.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub async fn last_word(&self) -> Option<Receipt> {
        self.outcome().await;
        let reader = RegisteredReader { live: &self.live, key: self.live.next_reader() };
        poll_fn(|cx| self.live.poll_last_word(reader.key, cx)).await;
        self.live.services.journal.keep_all().await;
        self.receipt()
    }

    /// The durable events so far.
    pub fn records(&self) -> Vec<Arc<Record>> {
        self.live.with_log(|log| log.facts().to_vec())
    }

    /// The seq of the last durable event.
    pub fn seq(&self) -> Seq {
        self.live.with_log(|log| log.seq())
    }

    /// How many pieces of its answers were accepted; `None` if that is unknown, because another process accepted some.
    pub fn pieces(&self) -> Option<u64> {
        self.live.pieces()
    }

    /// How often each of the three things that a pull forbids has passed the gate.
    #[cfg(feature = "testing")]
    pub fn passed(&self) -> GateCounts {
        self.live.passed()
    }
}

/// Why [`Run::wait`] does not block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum WaitError {
    /// The thread belongs to a tokio runtime, which may be the one that drives the run.
    #[error(
        "wait() would block a thread of a tokio runtime, perhaps the one that drives this run: use outcome().await, or wait on a thread of your own"
    )]
    InsideTokio,
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(note) = self.cancels_on_drop {
            self.cancel(Cancel::graceful().reason(Reason::ClientDisconnected).note(note));
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("id", &self.live.id).finish_non_exhaustive()
    }
}
