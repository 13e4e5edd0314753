//! Settling what a dead process has left open. The same fold as a live run's, and the same words.

use std::sync::Arc;

use andon_core::closing::close_lost;
use andon_core::event::{Entry, Epoch, Event, Record, Seq};
use andon_core::id::{RunId, SessionKey};
use andon_core::message::Message;
use andon_core::outcome::{Ending, Outcome};
use andon_core::progress::{FoldError, Progress};
use andon_core::receipt::Receipt;

use crate::journal::{Batch, Journal, JournalError, Stored};
use crate::live::Live;
use crate::runtime::RuntimeCore;
use crate::session::SessionCore;

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
    let receipt = Receipt::fold(records, [])
        .unwrap_or_else(|| Receipt::unknown(&progress.accepted().run, &progress.accepted().session));
    Outcome { ending, message: progress.last_answer().cloned(), usage: progress.used(), receipt }
}

/// Frees the session and the registry: what must be done before a run's end is shown.
pub(crate) fn conclude(live: &Arc<Live>, session: &SessionCore, messages: &[Arc<Message>]) {
    live.runtime.registry.remove(&live.id);
    session.leave(live, messages);
}

/// Settles every unsettled run of a journal. One that cannot be read keeps no other from being settled.
pub(crate) async fn recover_all(runtime: &Arc<RuntimeCore>) -> Result<Vec<Recovered>, JournalError> {
    let mut recovered = Vec::new();
    let mut unreadable = Vec::new();
    let live = |run: &RunId| runtime.registry.find(run).is_some();
    for run in runtime.journal.unsettled().await?.into_iter().filter(|run| !live(run)) {
        match recover(runtime, &run).await {
            Ok(settled) => recovered.extend(settled),
            Err(JournalError::Unreadable(why)) => unreadable.push(format!("{run}: {why}")),
            Err(other) => return Err(other),
        }
    }
    if unreadable.is_empty() { Ok(recovered) } else { Err(JournalError::Unreadable(unreadable.join("; "))) }
}

async fn recover(runtime: &Arc<RuntimeCore>, run: &RunId) -> Result<Option<Recovered>, JournalError> {
    let Some(epoch) = runtime.journal.claim(run).await? else { return Ok(None) };
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

pub(crate) fn fold(stored: &Stored) -> Result<Progress, JournalError> {
    Progress::fold(&stored.entries).map_err(unreadable)
}

pub(crate) fn unreadable(error: FoldError) -> JournalError {
    JournalError::Unreadable(error.to_string())
}

/// Numbers events behind those of the journal, and folds them in.
pub(crate) fn number(
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

pub(crate) async fn append(
    journal: &dyn Journal,
    run: &RunId,
    epoch: Epoch,
    records: &[Arc<Record>],
) -> Result<(), JournalError> {
    let entries = records.iter().map(|record| Entry::Fact(Arc::clone(record))).collect();
    journal.append(Batch { run: run.clone(), epoch, entries }).await
}
