//! A handle on one run.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use andon_core::cancel::Reason;
use andon_core::digest::Digest;
use andon_core::event::{Event, Record, Seq};
use andon_core::id::{CallId, RunId, SessionKey};
use andon_core::outcome::Outcome;
use andon_core::progress::{Phase, Progress, State};
use andon_core::receipt::Receipt;

use crate::journal::JournalError;
use crate::lanes::probe::Passed;
use crate::live::cord::{Cancel, Cord, Reader, Reply};
use crate::live::feed::{Cursor, Feed};
use crate::live::{DecideError, Live};

/// A handle on one run: its id, its feed, its cord, its outcome.
///
/// Dropping it does not cancel the run, unless the run was started with
/// [`cancel_on_drop`](crate::Prompt::cancel_on_drop).
pub struct Run {
    live: Arc<Live>,
    cancels_on_drop: bool,
}

impl Run {
    pub(crate) fn new(live: Arc<Live>) -> Self {
        Self { live, cancels_on_drop: false }
    }

    pub(crate) fn cancelling_on_drop(live: Arc<Live>) -> Self {
        Self { live, cancels_on_drop: true }
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

    /// Its events, from a place in it. A place past what is stored gets [`FeedItem::TextLost`](crate::FeedItem::TextLost)
    /// and then what follows.
    pub fn feed_from(&self, from: Cursor) -> Feed {
        Feed::new(Arc::clone(&self.live), from)
    }

    /// A handle that only stops: cheap to clone and to send to another thread.
    pub fn cord(&self) -> Cord {
        Cord::new(Arc::clone(&self.live), None)
    }

    /// Stops the run. Synchronous, from any thread, never blocks and cannot fail: once it has returned, no piece is
    /// accepted, no tool starts and no model is called.
    pub fn cancel(&self, cancel: Cancel) -> Reply {
        self.cord().pull(cancel)
    }

    /// Stops one tool call alone; the run goes on, and the model is told.
    pub fn cancel_call(&self, call: &CallId, cancel: Cancel) -> Reply {
        let (kind, number) = self.live.pull_call(call, cancel.at(self.live.now()));
        Reply::about(&self.live, kind, number)
    }

    /// A person says yes to a call that waits for it, with the arguments that it has. The yes is bound to them, on record.
    pub fn approve(&self, call: &CallId, by: Option<&str>) -> Result<(), DecideError> {
        self.live.approve(call, None, by)
    }

    /// A person says yes to exactly the arguments that they have seen: those of the digest in
    /// [`ApprovalRequested`](andon_core::event::Event::ApprovalRequested). Use it where a yes travels, as over a network.
    pub fn approve_exactly(&self, call: &CallId, arguments: Digest, by: Option<&str>) -> Result<(), DecideError> {
        self.live.approve(call, Some(arguments), by)
    }

    /// A person says no to a call that waits for a yes; the model is told why.
    pub fn deny(&self, call: &CallId, by: Option<&str>, why: Option<&str>) -> Result<(), DecideError> {
        self.live.deny(call, by, why)
    }

    /// A person answers several calls that wait, each with yes or no. All answers are taken, or none is: where one call does not
    /// wait, or is answered twice, nothing is decided.
    pub fn decide_all(&self, answers: &[(CallId, bool)], by: Option<&str>) -> Result<(), DecideError> {
        self.live.decide_all(answers, by)
    }

    /// Waits until the run has settled, and says how. Settled means on disk: while the journal
    /// [does not take the run's end](Self::stalled), this waits. [`settled`](Self::settled) does not.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn outcome(&self) -> Arc<Outcome> {
        let reader = Reader { live: &self.live, key: self.live.next_reader() };
        poll_fn(|cx| self.live.poll_outcome(reader.key, cx)).await
    }

    /// Waits until the run has settled, and says how; or says at once why the journal does not take its end. Then the run's
    /// work is over and its record is not: it is completed as soon as the journal takes writes, here or in the next
    /// process.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn settled(&self) -> Result<Arc<Outcome>, JournalError> {
        let reader = Reader { live: &self.live, key: self.live.next_reader() };
        poll_fn(|cx| self.live.poll_settled(reader.key, cx)).await
    }

    /// Why the journal does not take the run's end, if it does not. The run's work is over, and it has not settled: it can
    /// still be cancelled, and settles as soon as the journal takes writes again.
    pub fn stalled(&self) -> Option<JournalError> {
        self.live.stalled()
    }

    /// The outcome, if the run has settled. One that was given up while the journal did not take its end has not.
    pub fn try_outcome(&self) -> Option<Arc<Outcome>> {
        self.live.outcome().filter(|_| !self.live.is_left_open())
    }

    /// The run's state, as its durable events tell it. A pull shows here as soon as it is delivered.
    pub fn state(&self) -> State {
        self.state_and_phase().0
    }

    /// The run's [state](Self::state), and what it is doing; nothing once it has settled. Once this has said that the run
    /// has settled, its outcome is there.
    pub fn state_and_phase(&self) -> (State, Option<Phase>) {
        if let Some(stands) = self.live.stands.get() {
            return stands;
        }
        match (self.try_outcome(), self.live.with_log(|log| log.standing())) {
            (Some(_), _) => (State::Settled, None),
            (None, Some(told)) => (told.state, told.phase),
            (None, None) => (State::Queued, None),
        }
    }

    /// Its first durable event and its last, which may be the same; nothing before it is on record.
    pub fn first_and_last(&self) -> Option<(Arc<Record>, Arc<Record>)> {
        self.live.with_log(|log| log.facts().first().cloned().zip(log.facts().last().cloned()))
    }

    /// Whether a call of it may wait for a person: of a run that this process does not drive only its
    /// [events](Self::progress) say so.
    pub fn may_await_approval(&self) -> bool {
        self.live.stands.get().is_none() || self.live.awaits_approval()
    }

    /// How far the run has come, as its durable events tell it; nothing before it is on record.
    pub fn progress(&self) -> Option<Progress> {
        let records = self.records();
        let (first, rest) = records.split_first()?;
        let Event::RunAccepted { accepted } = &first.event else { return None };
        let mut progress = Progress::new(Arc::clone(accepted));
        for record in rest {
            // Facts that were published have been folded by the driver before.
            let _ = progress.apply_record(record);
        }
        Some(progress)
    }

    /// Waits until the run is on record, or says why it never will be.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn accepted(&self) -> Result<(), JournalError> {
        let reader = Reader { live: &self.live, key: self.live.next_reader() };
        poll_fn(|cx| self.live.poll_accepted(reader.key, cx)).await
    }

    /// The account of the run so far; of its end, once it has settled, with what was learnt later folded in.
    pub fn receipt(&self) -> Option<Receipt> {
        self.live.receipt()
    }

    /// Waits until the run has settled and nothing more is being learnt about or from what its model calls used; gives its
    /// receipt. A program that is about to leave waits for it, so that nothing is unlearnt, and that its receipt says when the
    /// run settled.
    /// Of a run that this process did not run there is nothing to wait for.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn last_word(&self) -> Option<Receipt> {
        self.outcome().await;
        let reader = Reader { live: &self.live, key: self.live.next_reader() };
        poll_fn(|cx| self.live.poll_last_word(reader.key, cx)).await;
        self.live.services.journal.keep_all().await;
        self.receipt()
    }

    /// The durable events so far.
    pub fn records(&self) -> Vec<Arc<Record>> {
        self.live.with_log(|log| log.facts().to_vec())
    }

    /// The place of the last durable event.
    pub fn seq(&self) -> Seq {
        self.live.with_log(|log| log.seq())
    }

    /// How many pieces of its answers were accepted; nothing where nobody knows, because another process took some.
    pub fn pieces(&self) -> Option<u64> {
        self.live.pieces()
    }

    /// How often each of the three things that a pull forbids has happened. For tests of the gate.
    #[doc(hidden)]
    pub fn passed(&self) -> Passed {
        self.live.passed()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.cancels_on_drop {
            let cancel = Cancel::graceful().reason(Reason::ClientDisconnected).note("the run's handle was dropped");
            self.cancel(cancel);
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("id", &self.live.id).finish_non_exhaustive()
    }
}
