//! A run as its journal has it, and how more is appended.

use std::sync::Arc;

use andon_core::event::{Addendum, Entry, Epoch, Event, Record, Seq};
use andon_core::id::{RunId, SessionKey};
use andon_core::outcome::{Ending, Outcome};
use andon_core::progress::{FoldError, RunProgress};
use andon_core::receipt::Receipt;
use andon_core::time::Stamp;

use crate::journal::{Batch, BatchStanding, Journal, JournalError, JournaledRun};

/// What the journal has about a run.
pub(crate) struct RunSummary {
    pub(crate) session: SessionKey,
    pub(crate) outcome: Option<Outcome>,
}

pub(crate) fn summarize(stored: &JournaledRun) -> Result<RunSummary, FoldError> {
    let progress = RunProgress::fold(&stored.entries)?;
    let session = progress.accepted().session.clone();
    let outcome = stored.receipt().zip(progress.ending()).map(|(receipt, ending)| {
        Outcome::new(Arc::clone(ending), progress.last_answer().cloned(), receipt.usage, receipt)
    });
    Ok(RunSummary { session, outcome })
}

/// The outcome of a settled run.
pub(crate) fn outcome_of<'a>(
    progress: &RunProgress,
    records: impl IntoIterator<Item = &'a Arc<Record>>,
    addenda: Vec<Addendum>,
    settled: Option<Stamp>,
) -> Outcome {
    let ending = progress.ending().cloned().unwrap_or_else(|| Arc::new(Ending::Lost));
    let receipt = Receipt::fold(records, addenda, settled)
        .unwrap_or_else(|| Receipt::unknown(&progress.accepted().run, &progress.accepted().session));
    Outcome::new(ending, progress.last_answer().cloned(), progress.used(), receipt)
}

pub(crate) fn fold(stored: &JournaledRun) -> Result<RunProgress, JournalError> {
    RunProgress::fold(&stored.entries).map_err(unreadable)
}

pub(crate) fn unreadable(error: FoldError) -> JournalError {
    JournalError::Unreadable(error.to_string())
}

/// Numbers events after those in the journal, and folds them in.
pub(crate) fn number(
    at: Stamp,
    progress: &mut RunProgress,
    epoch: Epoch,
    events: Vec<Event>,
) -> Result<Vec<Arc<Record>>, JournalError> {
    let mut records = Vec::with_capacity(events.len());
    for event in events {
        let seq: Seq = progress.seq() + 1;
        let record = Record::new(seq, epoch, at, event);
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
    progress: &RunProgress,
) -> Result<(), JournalError> {
    journal.append(Batch::new(run.clone(), epoch, entries(records)).standing(BatchStanding::of(progress))).await
}

pub(crate) fn entries(records: &[Arc<Record>]) -> Vec<Entry> {
    records.iter().map(|record| Entry::Fact(Arc::clone(record))).collect()
}
