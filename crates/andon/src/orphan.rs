//! Settling a live run whose driver is gone: it panicked, or was dropped with the tokio runtime that it ran in. The
//! process is still alive, so the text that was shown and the results that tools have returned are kept.

use std::sync::Arc;
use std::time::Duration;

use andon_core::closing::{close_lost, stopped_result, tool_finished};
use andon_core::event::{Accepted, Entry, Epoch, Event, Record};
use andon_core::outcome::{Ending, Failure, FailureKind, Outcome};
use andon_core::progress::{Call, CallState, Progress, State};
use andon_core::receipt::Receipt;

use crate::aside::{ToolDone, clean_up};
use crate::driver::{box_remains, judge};
use crate::journal::{Batch, JournalError, Stored};
use crate::live::{Live, News};
use crate::recovery::{append, conclude, fold, number, outcome_of, unreadable};
use crate::session::SessionCore;

/// How long what a tool has started may take to be ended when nobody else does it.
const CLEANUP: Duration = Duration::from_secs(10);

/// Why a live run has no driver.
#[derive(Debug)]
pub(crate) enum Gone {
    /// It panicked, and said this.
    Panicked(String),
    /// It was dropped with the tokio runtime that it ran in.
    Dropped,
}

/// Settles a live run that has no driver any more.
pub(crate) async fn settle(
    live: &Arc<Live>,
    session: &Arc<SessionCore>,
    accepted: &Arc<Accepted>,
    unwritten: Vec<Event>,
    gone: Gone,
) {
    live.stop_asides();
    live.asides_over().await;
    for cleanup in live.unreported_cleanups() {
        live.runtime.door.spawn_keeper(async move { drop(clean_up(cleanup, CLEANUP).await) });
    }
    if matches!(gone, Gone::Dropped) && is_waiting(live) {
        leave_waiting(live, session);
        return;
    }
    let mut settled = try_settle(live, session, accepted, unwritten.clone(), &gone).await;
    if let Err(JournalError::RunExists(_)) = settled {
        // Its first batch was on its way when we looked, and is there now.
        settled = try_settle(live, session, accepted, unwritten, &gone).await;
    }
    if let Err(error) = settled {
        let ending = Arc::new(Ending::Failed(Failure { error: FailureKind::Journal, message: error.to_string() }));
        let receipt = live.with_log(|log| Receipt::fold(log.facts(), [], None));
        conclude(live, session, &[]);
        let receipt = receipt.unwrap_or_else(|| Receipt::unknown(&live.id, &live.session));
        live.break_off(error, Outcome { ending, message: None, usage: receipt.usage, receipt });
    }
}

/// Whether the run waits, for its session or for a person, and nobody has asked to stop it: then nothing of it is open.
fn is_waiting(live: &Arc<Live>) -> bool {
    let facts: Vec<Entry> = live.with_log(|log| log.facts().iter().map(|fact| Entry::Fact(Arc::clone(fact))).collect());
    let state = Progress::fold(&facts).map(|progress| progress.state());
    live.force().is_none() && matches!(state, Ok(State::Queued | State::Waiting))
}

/// Leaves a waiting run as it is on record, as after a crash: it goes on when it is recovered.
fn leave_waiting(live: &Arc<Live>, session: &Arc<SessionCore>) {
    let message =
        "the tokio runtime that drove this run was shut down while the run was waiting; it is on record and goes \
                   on when Runtime::recover is called"
            .to_owned();
    let ending = Arc::new(Ending::Failed(Failure { error: FailureKind::Internal, message }));
    let receipt = live.with_log(|log| Receipt::fold(log.facts(), [], None));
    let receipt = receipt.unwrap_or_else(|| Receipt::unknown(&live.id, &live.session));
    conclude(live, session, &[]);
    live.runtime.park(&live.id);
    live.break_off(JournalError::Closed, Outcome { ending, message: None, usage: receipt.usage, receipt });
}

async fn try_settle(
    live: &Arc<Live>,
    session: &Arc<SessionCore>,
    accepted: &Arc<Accepted>,
    unwritten: Vec<Event>,
    gone: &Gone,
) -> Result<(), JournalError> {
    let (epoch, stored) = take_over(live, accepted).await?;
    let mut progress = fold(&stored)?;
    let mut unseen = unseen(live, &stored);
    // The last commit may have become durable before the driver was gone: then only the end has to be shown.
    if progress.ending().is_none() {
        let events = what_is_left(live, &progress, unwritten, gone)?;
        let records = number(&live.runtime, &mut progress, epoch, events)?;
        append(&*live.runtime.journal, &live.id, epoch, &records).await?;
        unseen.extend(records);
    }
    // Of an end that the driver wrote this is when we have seen that it is there.
    let settled = stored.settled_at.unwrap_or_else(|| live.now());
    live.runtime.journal.keep_settled(&live.id, settled);
    let seen = live.with_log(|log| log.facts().to_vec());
    let outcome = outcome_of(&progress, seen.iter().chain(&unseen), live.addenda(), Some(settled));
    conclude(live, session, progress.messages());
    live.close(unseen, outcome, settled);
    Ok(())
}

/// Makes what is left of a run our own: its journal, with what was shown and had not been handed over.
async fn take_over(live: &Arc<Live>, accepted: &Arc<Accepted>) -> Result<(Epoch, Stored), JournalError> {
    let journal = &live.runtime.journal;
    // Claimed first: nothing that the driver had on its way can come in after we have read.
    let claimed = journal.claim(&live.id).await?;
    let mut stored = journal.read(&live.id).await?.unwrap_or_default();
    if claimed.is_some() && !is_ours(live, accepted, &stored) {
        return Err(JournalError::RunExists(live.id.clone()));
    }
    let mut missing = Vec::new();
    let epoch = claimed.unwrap_or_else(|| {
        let event = Event::RunAccepted { accepted: Arc::clone(accepted) };
        let record = Record { v: andon_core::FORMAT_VERSION, seq: 1, epoch: live.epoch, at: live.now(), event };
        missing.push(Entry::Fact(Arc::new(record)));
        live.epoch
    });
    missing.extend(live.missing_text(&stored.entries).map(|lump| Entry::Lump(Arc::new(lump))));
    if !missing.is_empty() {
        journal.append(Batch::new(live.id.clone(), epoch, missing.clone())).await?;
        stored.entries.extend(missing);
    }
    Ok((epoch, stored))
}

/// Whether the journal tells of this run, and not of an older one of the same id.
fn is_ours(live: &Arc<Live>, accepted: &Arc<Accepted>, stored: &Stored) -> bool {
    let has_shown = live.with_log(|log| log.seq()) > 0;
    let first = stored.entries.first().and_then(|entry| match entry {
        Entry::Fact(record) => Some(&record.event),
        Entry::Lump(_) => None,
    });
    has_shown || matches!(first, Some(Event::RunAccepted { accepted: told }) if told == accepted)
}

/// What had happened and is not in the journal, and what closes everything that is open.
fn what_is_left(
    live: &Arc<Live>,
    progress: &Progress,
    unwritten: Vec<Event>,
    gone: &Gone,
) -> Result<Vec<Event>, JournalError> {
    let mut left = Left { progress: progress.clone(), events: Vec::new() };
    for event in unwritten {
        // The first event is there already.
        if !matches!(event, Event::RunAccepted { .. }) {
            left.add(event)?;
        }
    }
    if left.progress.ending().is_some() {
        return Ok(left.events);
    }
    let ending = loop {
        left.hear(live)?;
        let ending = Arc::new(ending(&left.progress, gone));
        if live.seal_orphan(&ending).is_ok() {
            break ending;
        }
    };
    for event in close_lost(&left.progress) {
        left.add(event)?;
    }
    left.add(Event::RunSettled { outcome: ending })?;
    Ok(left.events)
}

fn ending(progress: &Progress, gone: &Gone) -> Ending {
    match (progress.cancel(), gone) {
        (Some((reason, _)), _) => Ending::Cancelled { reason },
        (None, Gone::Dropped) => Ending::Lost,
        (None, Gone::Panicked(text)) => {
            let message =
                format!("the run's driver panicked: {text}; this is a defect in the model adapter or in Andon");
            Ending::Failed(Failure { error: FailureKind::Internal, message })
        }
    }
}

/// What is left to be written of a run, and how far that brings it.
struct Left {
    progress: Progress,
    events: Vec<Event>,
}

impl Left {
    fn add(&mut self, event: Event) -> Result<(), JournalError> {
        self.progress.apply(&event).map_err(unreadable)?;
        self.events.push(event);
        Ok(())
    }

    /// Takes in what had reached the run and its driver had not heard. Tools that have not reported are given up by name.
    fn hear(&mut self, live: &Arc<Live>) -> Result<(), JournalError> {
        for news in live.take_news() {
            match news {
                News::Pulled(request) => self.add(Event::CancelRequested { request, delivered_at: live.now() })?,
                News::CallPulled(call, request) => self.add(Event::CallCancelRequested { call, request })?,
                News::ToolEnded(ticket, done) => self.hear_tool(live, ticket, *done)?,
                News::Decided(..) | News::HookEnded(..) | News::Seated | News::JournalFailed(_) => {}
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

    /// The end of a tool that had not been heard: what it returned is kept.
    fn hear_tool(&mut self, live: &Arc<Live>, ticket: u32, done: ToolDone) -> Result<(), JournalError> {
        let Some((call, closed)) = live.call_of(ticket) else { return Ok(()) };
        let Some(open) = self.progress.calls().iter().find(|open| open.call.id == call) else { return Ok(()) };
        let CallState::Running(effect) = open.state else { return Ok(()) };
        let ToolDone { end, mut remains } = done;
        let kept = std::mem::take(&mut remains.output);
        let (end, result) = judge(&call, effect, end, kept, &closed, true);
        let remains = box_remains(remains);
        self.add(Event::ToolFinished { call, end, result: Arc::new(result), remains, state: closed.state })
    }
}

/// Facts that are durable and were not shown yet.
fn unseen(live: &Arc<Live>, stored: &Stored) -> Vec<Arc<Record>> {
    let seen = live.with_log(|log| log.seq());
    let facts = stored.entries.iter().filter_map(|entry| match entry {
        Entry::Fact(record) if record.seq > seen => Some(Arc::clone(record)),
        Entry::Fact(_) | Entry::Lump(_) => None,
    });
    facts.collect()
}
