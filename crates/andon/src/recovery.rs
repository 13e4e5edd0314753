//! Settling what a dead process, or a driver that panicked, has left open. The same fold as a live run's, and the same
//! words.

use std::sync::Arc;

use andon_core::closing::{close_lost, stopped_result};
use andon_core::event::{Accepted, Entry, Epoch, Event, Record, Seq, ToolEnd};
use andon_core::id::{RunId, SessionKey};
use andon_core::message::Message;
use andon_core::outcome::{Ending, Failure, FailureKind, Outcome};
use andon_core::progress::{Call, CallState, FoldError, Progress};
use andon_core::receipt::Receipt;

use crate::aside::AsideEnd;
use crate::driver::judge;
use crate::journal::{Batch, Journal, JournalError, Stored};
use crate::live::{Live, News};
use crate::runtime::RuntimeCore;
use crate::session::SessionCore;
use crate::tool::{ToolError, ToolOutput};

/// A run that was settled after its process had died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The run.
    pub run: RunId,
    /// Its session.
    pub session: SessionKey,
    /// How it was settled: `lost`, or `cancelled` where a request was on record.
    pub outcome: Arc<Ending>,
}

/// What a journal tells about a run.
pub(crate) struct Told {
    pub(crate) session: SessionKey,
    pub(crate) outcome: Option<Outcome>,
}

pub(crate) fn tell(stored: &Stored) -> Result<Told, FoldError> {
    let progress = Progress::fold(&stored.entries)?;
    let session = progress.accepted().session.clone();
    let receipt = Receipt::fold_entries(&stored.entries, stored.addenda.iter().cloned());
    let outcome = receipt.zip(progress.ending()).map(|(receipt, ending)| Outcome {
        ending: Arc::clone(ending),
        message: progress.last_answer().cloned(),
        usage: receipt.usage,
        receipt,
    });
    Ok(Told { session, outcome })
}

/// The outcome of a settled run.
pub(crate) fn outcome_of<'a>(progress: &Progress, records: impl IntoIterator<Item = &'a Arc<Record>>) -> Outcome {
    let ending = progress.ending().cloned().unwrap_or_else(|| Arc::new(Ending::Lost));
    let receipt = Receipt::fold(records, []).unwrap_or_else(|| Receipt::empty(progress.accepted()));
    Outcome { ending, message: progress.last_answer().cloned(), usage: progress.used(), receipt }
}

/// Frees the session and the registry: what must be done before a run's end is shown.
pub(crate) fn conclude(live: &Arc<Live>, session: &SessionCore, messages: &[Arc<Message>]) {
    live.runtime.registry.remove(&live.id);
    session.leave(live, messages);
}

/// Why a live run has no driver.
#[derive(Debug)]
pub(crate) enum Gone {
    /// It panicked, and said this.
    Panicked(String),
    /// It was dropped with the tokio runtime that it ran in.
    Dropped,
}

/// Settles every unsettled run of a journal. One that cannot be read keeps no other from being settled.
pub(crate) async fn recover_all(runtime: &Arc<RuntimeCore>) -> Result<Vec<Recovered>, JournalError> {
    let mut recovered = Vec::new();
    let mut unreadable = Vec::new();
    for run in runtime.journal.unsettled().await? {
        match recover(runtime, &run).await {
            Ok(settled) => recovered.extend(settled),
            Err(JournalError::Unreadable(why)) => unreadable.push(format!("{run}: {why}")),
            Err(other) => return Err(other),
        }
    }
    if unreadable.is_empty() { Ok(recovered) } else { Err(JournalError::Unreadable(unreadable.join("; "))) }
}

async fn recover(runtime: &Arc<RuntimeCore>, run: &RunId) -> Result<Option<Recovered>, JournalError> {
    let epoch = runtime.journal.claim(run).await?;
    let Some(stored) = runtime.journal.read(run).await? else { return Ok(None) };
    let mut progress = fold(&stored)?;
    let mut events = close_lost(&progress);
    let outcome = Arc::new(match progress.cancel() {
        Some((reason, _)) => Ending::Cancelled { reason },
        None => Ending::Lost,
    });
    events.push(Event::RunSettled { outcome: Arc::clone(&outcome) });
    let records = number(runtime, &mut progress, epoch, events)?;
    append(&*runtime.journal, run, epoch, &records).await?;
    Ok(Some(Recovered { run: run.clone(), session: progress.accepted().session.clone(), outcome }))
}

/// Settles a run whose driver is gone, in the process that is still alive: the text that was shown and the results that
/// tools have returned are kept.
pub(crate) async fn recover_live(
    live: &Arc<Live>,
    session: &Arc<SessionCore>,
    accepted: &Arc<Accepted>,
    unwritten: Vec<Event>,
    gone: Gone,
) {
    live.stop_asides();
    live.asides_over().await;
    if let Err(error) = settle_orphan(live, session, accepted, unwritten, &gone).await {
        let ending = Arc::new(Ending::Failed(Failure { error: FailureKind::Journal, message: error.to_string() }));
        let receipt = live.with_log(|log| Receipt::fold(log.facts(), []));
        conclude(live, session, &[]);
        let receipt = receipt.unwrap_or_else(|| Receipt::unknown(&live.id, &live.session));
        live.break_off(error, Outcome { ending, message: None, usage: receipt.usage, receipt });
    }
}

async fn settle_orphan(
    live: &Arc<Live>,
    session: &Arc<SessionCore>,
    accepted: &Arc<Accepted>,
    unwritten: Vec<Event>,
    gone: &Gone,
) -> Result<(), JournalError> {
    let runtime = &live.runtime;
    let (epoch, stored) = take_over(live, accepted).await?;
    let mut progress = fold(&stored)?;
    if let Some(ending) = progress.ending().cloned() {
        // The last commit had become durable before the panic: only the end has to be shown.
        let missing = unseen(live, &stored);
        let outcome = outcome_of(&progress, live.with_log(|log| log.facts().to_vec()).iter().chain(&missing));
        conclude(live, session, progress.messages());
        live.close(missing, u32::MAX, Outcome { ending, ..outcome });
        return Ok(());
    }
    let (mut events, closed) = went_on(live, &progress, unwritten)?;
    if closed.ending().is_none() {
        events.extend(close_lost(&closed));
        events.push(Event::RunSettled { outcome: ending_after(live, &closed, gone) });
    }
    let records = number(runtime, &mut progress, epoch, events)?;
    append(&*runtime.journal, &live.id, epoch, &records).await?;
    let mut missing = unseen(live, &stored);
    missing.extend(records);
    let outcome = outcome_of(&progress, live.with_log(|log| log.facts().to_vec()).iter().chain(&missing));
    conclude(live, session, progress.messages());
    live.close(missing, u32::MAX, outcome);
    Ok(())
}

/// Makes what is left of a run our own: its journal, with what was shown and had not been handed over.
async fn take_over(live: &Arc<Live>, accepted: &Arc<Accepted>) -> Result<(Epoch, Stored), JournalError> {
    let journal = &live.runtime.journal;
    let mut stored = journal.read(&live.id).await?.unwrap_or_default();
    let mut missing = Vec::new();
    let epoch = if stored.entries.is_empty() {
        let event = Event::RunAccepted { accepted: Arc::clone(accepted) };
        let record = Record { v: andon_core::FORMAT_VERSION, seq: 1, epoch: live.epoch, at: live.now(), event };
        missing.push(Entry::Fact(Arc::new(record)));
        live.epoch
    } else {
        journal.claim(&live.id).await?
    };
    missing.extend(live.missing_text(&stored.entries).map(|lump| Entry::Lump(Arc::new(lump))));
    if !missing.is_empty() {
        journal.append(Batch { run: live.id.clone(), epoch, entries: missing.clone() }).await?;
        stored.entries.extend(missing);
    }
    Ok((epoch, stored))
}

/// How a run ends whose driver is gone: as it was sealed, cancelled if that was asked for, or else failed or lost.
fn ending_after(live: &Live, progress: &Progress, gone: &Gone) -> Arc<Ending> {
    live.seal_after_panic(Arc::new(match (progress.cancel(), gone) {
        (Some((reason, _)), _) => Ending::Cancelled { reason },
        (None, Gone::Dropped) => Ending::Lost,
        (None, Gone::Panicked(text)) => {
            let message =
                format!("the run's driver panicked: {text}; this is a defect in the model adapter or in Andon");
            Ending::Failed(Failure { error: FailureKind::Internal, message })
        }
    }))
}

/// What had happened when the driver panicked and is not in the journal: what it had staged, and what it had not heard.
fn went_on(
    live: &Arc<Live>,
    progress: &Progress,
    unwritten: Vec<Event>,
) -> Result<(Vec<Event>, Progress), JournalError> {
    let mut progress = progress.clone();
    let mut events = Vec::new();
    let is_new = |event: &Event| !matches!(event, Event::RunAccepted { .. });
    for event in unwritten.into_iter().filter(is_new) {
        progress.apply(&event).map_err(unreadable)?;
        events.push(event);
    }
    let has_settled = progress.ending().is_some();
    let news = if has_settled { Vec::new() } else { live.take_news() };
    for news in news {
        let event = match news {
            News::Pulled(request) => Some(Event::CancelRequested { request, delivered_at: live.now() }),
            News::ToolEnded(ticket, end) => tool_ended(live, &progress, ticket, end),
            News::CallPulled(..) | News::Decided(..) | News::HookEnded(..) | News::Seated | News::JournalFailed(_) => {
                None
            }
        };
        if let Some(event) = event {
            progress.apply(&event).map_err(unreadable)?;
            events.push(event);
        }
    }
    for call in live.unreported_calls() {
        let is_running = |open: &Call| open.call.id == call && matches!(open.state, CallState::Running(_));
        if progress.calls().iter().any(is_running) {
            let result = Arc::new(stopped_result(call.clone(), ToolEnd::Leaked, Vec::new()));
            let event = Event::ToolFinished { call, end: ToolEnd::Leaked, result };
            progress.apply(&event).map_err(unreadable)?;
            events.push(event);
        }
    }
    Ok((events, progress))
}

/// The end of a tool that had not been heard: what it returned is kept, and one that did not return is given up.
fn tool_ended(
    live: &Arc<Live>,
    progress: &Progress,
    ticket: u32,
    end: AsideEnd<Result<ToolOutput, ToolError>>,
) -> Option<Event> {
    let (call, closed) = live.call_of(ticket)?;
    let open = progress.calls().iter().find(|open| open.call.id == call)?;
    let CallState::Running(effect) = open.state else { return None };
    let (end, result) = judge(&call, effect, end, closed, true);
    Some(Event::ToolFinished { call, end, result: Arc::new(result) })
}

fn fold(stored: &Stored) -> Result<Progress, JournalError> {
    Progress::fold(&stored.entries).map_err(unreadable)
}

fn unreadable(error: FoldError) -> JournalError {
    JournalError::Unreadable(error.to_string())
}

/// Numbers events behind those of the journal, and folds them in.
fn number(
    runtime: &RuntimeCore,
    progress: &mut Progress,
    epoch: Epoch,
    events: Vec<Event>,
) -> Result<Vec<Arc<Record>>, JournalError> {
    let at = runtime.clock.now();
    let mut records = Vec::with_capacity(events.len());
    for event in events {
        let seq: Seq = progress.seq() + 1;
        let record = Record { v: andon_core::FORMAT_VERSION, seq, epoch, at, event };
        progress.apply_record(&record).map_err(unreadable)?;
        records.push(Arc::new(record));
    }
    Ok(records)
}

async fn append(journal: &dyn Journal, run: &RunId, epoch: Epoch, records: &[Arc<Record>]) -> Result<(), JournalError> {
    let entries = records.iter().map(|record| Entry::Fact(Arc::clone(record))).collect();
    journal.append(Batch { run: run.clone(), epoch, entries }).await
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
