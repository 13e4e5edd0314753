//! Settles a live run that has lost its driver, which panicked, was dropped with its tokio runtime, or could not write
//! the run's journal. The process is still alive, so the text that was shown and the results that tools have returned
//! are kept.
//!
//! # Invariants
//!
//! 1. The run stays in the registry and in its session's seat until its end is durable: it can be found, followed and
//!    cancelled, and no prompt starts without its messages.
//! 2. How it ends is decided once, and only when the journal accepts writes: until then a pull still makes it
//!    `cancelled`.
//! 3. What has happened is kept in memory until it is durable, however often writing it fails.
//! 4. It is written only as long as the run is ours: a process that has taken it over meanwhile is not disturbed.

use std::sync::Arc;
use std::time::Duration;

use andon_core::cancel::{CancelRequest, Reason};
use andon_core::closing::{close_lost, decided, stopped_result, tool_finished};
use andon_core::event::{Accepted, Approval, Entry, Epoch, Event, Record};
use andon_core::id::CallId;
use andon_core::outcome::{Ending, Failure, FailureKind, Outcome};
use andon_core::progress::{Call, CallState, RunProgress, RunState};
use andon_core::receipt::Receipt;

use tokio::time::timeout;

use super::aside::clean_up;
use super::core::RuntimeCore;
use super::stored::{append, fold, number, outcome_of, unreadable};
use super::unaccounted::{self, Unaccounted};
use super::{box_remains, judge};
use crate::journal::{Batch, JournalError, JournaledRun};
use crate::live::{Live, News, ToolDone};
use crate::session::SessionCore;

/// How often a run that another process has taken over is looked up, until it ends.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How long the cleanup of a tool that has not reported may take.
const CLEANUP: Duration = Duration::from_secs(10);

/// A live run that has lost its driver.
pub(crate) struct Orphan {
    pub(crate) runtime: Arc<RuntimeCore>,
    pub(crate) live: Arc<Live>,
    pub(crate) session: Arc<SessionCore>,
    pub(crate) accepted: Arc<Accepted>,
    /// The last epoch in which the run was ours.
    pub(crate) epoch: Epoch,
    /// What has happened and is not in the journal (invariant 3).
    pub(crate) unwritten: Vec<Event>,
    /// How many events turned out to be in the journal although the write was reported as failed.
    pub(crate) skipped: usize,
    pub(crate) gone: DriverGone,
    /// The model call that was open, once the run's end is being written.
    pub(crate) unaccounted: Option<Unaccounted>,
}

/// Why a live run has lost its driver.
#[derive(Debug)]
pub(crate) enum DriverGone {
    /// It panicked with this message.
    Panicked(String),
    /// It was dropped with its tokio runtime.
    Dropped,
    /// It could not write the run's journal.
    Unwritable(JournalError),
}

/// Settles a live run that has lost its driver. If the journal does not accept its end, that is retried until it does.
pub(crate) async fn settle(mut orphan: Orphan) {
    let live = Arc::clone(&orphan.live);
    if let DriverGone::Unwritable(error) = &orphan.gone
        && live.with_log(|log| log.seq()) == 0
    {
        // It is not on record, so nothing of it has begun.
        let (error, message) = (error.clone(), format!("{error}; the run was not started"));
        return orphan.break_off(error, message);
    }
    live.stop_asides();
    live.asides_over().await;
    for cleanup in live.unreported_cleanups() {
        live.services.door.spawn_keeper(async move { drop(clean_up(cleanup, CLEANUP).await) });
    }
    if matches!(orphan.gone, DriverGone::Dropped) && is_waiting(&live) {
        return orphan.leave_waiting();
    }
    if let DriverGone::Unwritable(error) = &orphan.gone
        && !error.may_pass()
    {
        // Another process owns it by now, or the journal is closed: we may not write any more.
        let error = error.clone();
        return orphan.give_away(error).await;
    }
    live.hit("orphan: before settling");
    let mut settled = orphan.try_settle().await;
    if let Err(JournalError::RunExists(_)) = settled {
        // Its first batch was still on its way to the journal, and has arrived now.
        settled = orphan.try_settle().await;
    }
    match settled {
        Ok(()) => {}
        Err(error) if error.may_pass() => {
            live.stall(error);
            Arc::clone(&orphan.runtime).mender.add(orphan);
        }
        Err(error) => orphan.give_away(error).await,
    }
}

/// Whether the run waits for its session or for a person, and nobody has asked to stop it: then nothing of it is open.
fn is_waiting(live: &Arc<Live>) -> bool {
    let facts: Vec<Entry> = live.with_log(|log| log.facts().iter().map(|fact| Entry::Fact(Arc::clone(fact))).collect());
    let state = RunProgress::fold(&facts).map(|progress| progress.state());
    live.force().is_none() && matches!(state, Ok(RunState::Queued | RunState::Waiting))
}

impl Orphan {
    /// Writes the run's end to the journal, and shows it.
    pub(crate) async fn try_settle(&mut self) -> Result<(), JournalError> {
        let (epoch, stored) = self.take_over().await?;
        let mut progress = fold(&stored)?;
        let mut unseen = unseen(&self.live, &stored);
        // The driver's last commit may have become durable: then only the end has to be shown.
        if progress.ending().is_none() {
            self.unwritten = self.last_events(&progress, unseen.len())?;
            let records = number(self.live.now(), &mut progress, epoch, self.unwritten.clone())?;
            append(&*self.live.services.journal, &self.live.id, epoch, &records, &progress).await?;
            unseen.extend(records);
        }
        // If the driver wrote the end, this is when we saw that it was durable.
        let settled = stored.settled_at.unwrap_or_else(|| self.live.now());
        self.live.services.journal.keep_settled(&self.live.id, settled);
        let seen = self.live.with_log(|log| log.facts().to_vec());
        let outcome = outcome_of(&progress, seen.iter().chain(&unseen), self.live.addenda(), Some(settled));
        // Taken before anybody can see the end and ask for the last word.
        let unaccounted = self.unaccounted.take().map(|unaccounted| (unaccounted, self.live.learning()));
        unaccounted.iter().for_each(|(unaccounted, _)| unaccounted.reserve());
        self.live.tell_last(&unseen, settled);
        let messages = progress.messages();
        self.runtime.conclude(&self.live, &self.session, messages, || self.live.close(unseen, Arc::new(outcome)));
        if let Some((unaccounted, learning)) = unaccounted {
            unaccounted.begin_for(&self.live, learning);
        }
        Ok(())
    }

    /// Takes ownership of the run: reads its journal, and adds text that was shown and not handed to the journal.
    async fn take_over(&mut self) -> Result<(Epoch, JournaledRun), JournalError> {
        let (live, journal) = (&self.live, &self.live.services.journal);
        // Claimed first, so that no batch that the driver had on its way can arrive after we have read.
        let claimed = journal.claim(&live.id, self.epoch).await?;
        let mut stored = journal.read(&live.id).await?.unwrap_or_default();
        if claimed.is_some() && !is_ours(live, &self.accepted, &stored) {
            return Err(JournalError::RunExists(live.id.clone()));
        }
        let mut missing = Vec::new();
        self.epoch = claimed.unwrap_or_else(|| {
            let event = Event::RunAccepted { accepted: Arc::clone(&self.accepted) };
            let record = Record::new(1, live.epoch, live.now(), event);
            missing.push(Entry::Fact(Arc::new(record)));
            live.epoch
        });
        missing.extend(live.missing_text(&stored.entries).map(|lump| Entry::Lump(Arc::new(lump))));
        if !missing.is_empty() {
            journal.append(Batch::new(live.id.clone(), self.epoch, missing.clone())).await?;
            stored.entries.extend(missing);
        }
        Ok((self.epoch, stored))
    }

    /// What has happened and is not in the journal, and what closes everything that is open. `unseen` is how many
    /// events are in the journal and were not shown.
    fn last_events(&mut self, progress: &RunProgress, unseen: usize) -> Result<Vec<Event>, JournalError> {
        let mut last = LastEvents { progress: progress.clone(), events: Vec::new() };
        let unwritten = std::mem::take(&mut self.unwritten);
        let written = self.written(unseen);
        let begun = unwritten.len() - self.intents(&unwritten);
        for event in unwritten.into_iter().take(begun).skip(written) {
            // The first event is in the journal already.
            if !matches!(event, Event::RunAccepted { .. }) {
                last.add(event)?;
            }
        }
        if last.progress.ending().is_some() {
            return Ok(last.events);
        }
        let ending = loop {
            last.hear(&self.live)?;
            let ending = Arc::new(ending(&last.progress, &self.gone));
            if self.live.seal_orphan(&ending).is_ok() {
                break ending;
            }
        };
        self.unaccounted = Unaccounted::of(&self.runtime, &last.progress);
        unaccounted::keep(&self.runtime, &last.progress);
        let awaited = self.unaccounted.as_ref().map(|unaccounted| unaccounted.awaited);
        for event in close_lost(&last.progress, awaited) {
            last.add(event)?;
        }
        last.add(Event::RunSettled { outcome: ending })?;
        Ok(last.events)
    }

    /// How many of the unwritten events are in the journal after all, because a write that was reported as failed had
    /// succeeded. What a driver that panicked or was dropped had handed over is not among the unwritten events.
    fn written(&mut self, unseen: usize) -> usize {
        match self.gone {
            DriverGone::Unwritable(_) => unseen - std::mem::replace(&mut self.skipped, unseen),
            DriverGone::Panicked(_) | DriverGone::Dropped => 0,
        }
    }

    /// How many intents are at the end of the unwritten events. Nothing begins before it is on record, so they did not
    /// happen. A driver that panicked may have come further than its journal.
    fn intents(&self, unwritten: &[Event]) -> usize {
        let is_intent = |event: &&Event| {
            matches!(event, Event::ModelStarted { .. } | Event::ToolStarted { .. } | Event::HookStarted { .. })
        };
        match self.gone {
            DriverGone::Unwritable(_) => unwritten.iter().rev().take_while(is_intent).count(),
            DriverGone::Panicked(_) | DriverGone::Dropped => 0,
        }
    }

    /// Leaves a waiting run as it is on record, as after a crash: it goes on when it is recovered.
    fn leave_waiting(self) {
        let message =
            "the tokio runtime that drove this run was shut down while the run was waiting; it is on record and goes \
                       on when Runtime::recover is called"
                .to_owned();
        let ending = Arc::new(Ending::Failed(Failure::new(FailureKind::Internal, message)));
        self.runtime.park(&self.live.id);
        self.leave_open(&JournalError::Closed, ending);
    }

    /// Gives up a run that this process may not write. If another process has taken it over, it is that one's run from here
    /// on: cancels and readers go by the record, and whoever has a handle on it gets the end that its owner writes.
    pub(crate) async fn give_away(self, error: JournalError) {
        let is_on_record = self.live.with_log(|log| log.seq()) > 0;
        if !error.is_anothers() || !is_on_record {
            return self.leave(error);
        }
        let live = &self.live;
        let request = live.belongs_elsewhere(error.clone());
        self.runtime.registry.remove(&live.id);
        live.tell_broken_off(&error);
        if let Some(request) = request.filter(|request| request.reason != Reason::OwnerLost) {
            // Its owner hears of it. If that cannot be written, whoever asked is told that it is not on record.
            let _ = live.services.journal.request_cancel(&live.id, CancelRequest::clone(&request)).await;
        }
        let leaving = live.services.give_up();
        loop {
            match self.follow().await {
                Ok(true) => return,
                // It can be read again once the journal is back.
                Ok(false) | Err(JournalError::Storage(_)) => {}
                Err(error) => return self.leave(error),
            }
            if timeout(LOOK_AGAIN, leaving.given()).await.is_ok() {
                return self.leave(error);
            }
        }
    }

    /// Shows how the run ended at its new owner. Returns whether it has.
    async fn follow(&self) -> Result<bool, JournalError> {
        let live = &self.live;
        let Some(stored) = live.services.journal.read(&live.id).await? else { return Err(JournalError::Closed) };
        let progress = fold(&stored)?;
        if progress.ending().is_none() {
            return Ok(false);
        }
        let unseen = unseen(live, &stored);
        let seen = live.with_log(|log| log.facts().to_vec());
        let outcome = Arc::new(outcome_of(&progress, seen.iter().chain(&unseen), stored.addenda, stored.settled_at));
        self.session.forget_history();
        self.runtime.conclude(live, &self.session, &[], || live.close(unseen, outcome));
        Ok(true)
    }

    /// Leaves the run to recovery, because it cannot be settled now. If it is still ours it can be cancelled meanwhile.
    pub(crate) fn leave(self, error: JournalError) {
        if error.may_pass() {
            self.runtime.park(&self.live.id);
        }
        let message = format!("{error}; the run was stopped, and its record will be completed by recovery");
        self.break_off(error, message);
    }

    fn break_off(self, error: JournalError, message: String) {
        let ending = Arc::new(Ending::Failed(Failure::new(FailureKind::Journal, message)));
        // Its messages are in the journal or nowhere, and the next run must not begin with what is in memory.
        self.session.forget_history();
        self.leave_open(&error, ending);
    }

    fn leave_open(&self, error: &JournalError, ending: Arc<Ending>) {
        let outcome = in_memory(&self.live, ending);
        self.runtime.conclude(&self.live, &self.session, &[], || self.live.break_off(error, outcome));
        self.live.tell_broken_off(error);
    }
}

/// The outcome of a run that is not settled in the journal, as far as it is known.
fn in_memory(live: &Live, ending: Arc<Ending>) -> Outcome {
    let receipt = live.with_log(|log| Receipt::fold(log.facts(), [], None));
    let mut receipt = receipt.unwrap_or_else(|| Receipt::unknown(&live.id, &live.session));
    receipt.outcome = Some(Arc::clone(&ending));
    Outcome::new(ending, None, receipt.usage, receipt)
}

/// Whether the journal has this run, and not an older one with the same id.
fn is_ours(live: &Arc<Live>, accepted: &Arc<Accepted>, stored: &JournaledRun) -> bool {
    let has_shown = live.with_log(|log| log.seq()) > 0;
    let first = stored.entries.first().and_then(|entry| match entry {
        Entry::Fact(record) => Some(&record.event),
        Entry::Lump(_) => None,
    });
    has_shown || matches!(first, Some(Event::RunAccepted { accepted: told }) if told == accepted)
}

fn ending(progress: &RunProgress, gone: &DriverGone) -> Ending {
    match (progress.cancel(), gone) {
        (Some((reason, _)), _) => Ending::Cancelled { reason },
        (None, DriverGone::Dropped) => Ending::Lost,
        (None, DriverGone::Unwritable(error)) => {
            let message = format!("{error}; the run was stopped, and its record was completed later");
            Ending::Failed(Failure::new(FailureKind::Journal, message))
        }
        (None, DriverGone::Panicked(text)) => {
            let message = format!("the run's driver panicked: {text}; this is a bug in the model adapter or in Andon");
            Ending::Failed(Failure::new(FailureKind::Internal, message))
        }
    }
}

/// The events of a run that are still to be written, and how far they bring it.
struct LastEvents {
    progress: RunProgress,
    events: Vec<Event>,
}

impl LastEvents {
    fn add(&mut self, event: Event) -> Result<(), JournalError> {
        self.progress.apply(&event).map_err(unreadable)?;
        self.events.push(event);
        Ok(())
    }

    /// Handles news that the driver had not heard. Tools that have not reported are given up by name.
    fn hear(&mut self, live: &Arc<Live>) -> Result<(), JournalError> {
        for news in live.take_news() {
            match news {
                News::Pulled(request) => self.add(Event::CancelRequested { request, delivered_at: live.now() })?,
                News::CallPulled(call, request) => self.add(Event::CallCancelRequested { call, request })?,
                News::ToolEnded(ticket, done) => self.hear_tool(live, ticket, *done)?,
                News::Decided(call, approval) => self.hear_decided(call, approval)?,
                News::HookEnded(..) | News::Seated | News::JournalFailed(_) => {}
            }
        }
        for (call, end) in live.unreported_calls() {
            let is_running = |open: &Call| open.call.id == call && matches!(open.state, CallState::Running(_));
            if self.progress.calls().iter().any(is_running) {
                self.add(tool_finished(end, stopped_result(call, end, Vec::new())))?;
            }
        }
        Ok(())
    }

    /// Handles a person's decision that the driver had not heard: it is on record, though nothing follows from it any more.
    fn hear_decided(&mut self, call: CallId, approval: Approval) -> Result<(), JournalError> {
        if self.progress.call(&call).is_some_and(|open| open.state == CallState::AwaitingApproval) {
            for event in decided(call, approval) {
                self.add(event)?;
            }
        }
        Ok(())
    }

    /// Handles the end of a tool that the driver had not heard: what it returned is kept.
    fn hear_tool(&mut self, live: &Arc<Live>, ticket: u32, done: ToolDone) -> Result<(), JournalError> {
        let Some((call, closed)) = live.call_of(ticket) else { return Ok(()) };
        let Some(open) = self.progress.call(&call) else { return Ok(()) };
        let CallState::Running(effect) = open.state else { return Ok(()) };
        let ToolDone { end, mut remains } = done;
        let (end, result) = judge(&call, effect, end, &mut remains, &closed, true);
        let remains = box_remains(remains);
        self.add(Event::ToolFinished { call, end, result: Arc::new(result), remains, state: closed.state })
    }
}

/// Facts that are durable and were not shown yet.
fn unseen(live: &Arc<Live>, stored: &JournaledRun) -> Vec<Arc<Record>> {
    let seen = live.with_log(|log| log.seq());
    let facts = stored.entries.iter().filter_map(|entry| match entry {
        Entry::Fact(record) if record.seq > seen => Some(Arc::clone(record)),
        Entry::Fact(_) | Entry::Lump(_) => None,
    });
    facts.collect()
}
