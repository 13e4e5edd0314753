//! Writers that must not write: one whose run was taken over by another process, and one so confused that it ends its run twice.

use std::sync::Arc;

use andon_runtime::core::answer::{Kind, Lump, Span};
use andon_runtime::core::event::{Entry, Epoch, Event, Record, Seq};
use andon_runtime::core::time::Stamp;
use andon_runtime::{Batch, Ending, Journal, JournalError, JournaledRun, RunId};

use crate::log::{What, Witness};

/// The writer of a dead process, which does not know that it is dead.
pub(crate) struct Ghost {
    journal: Arc<dyn Journal>,
    witness: Arc<Witness>,
    /// The runs that it believes it owns, and its epoch in each.
    owns: Vec<(RunId, Epoch)>,
}

impl Ghost {
    /// The writer of all runs that are open now.
    pub(crate) async fn of_the_dead(journal: &Arc<dyn Journal>, witness: &Arc<Witness>) -> Result<Self, JournalError> {
        let mut owns = Vec::new();
        for run in journal.unsettled().await? {
            owns.extend(journal.read(&run).await?.map(|stored| (run, stored.epoch)));
        }
        Ok(Self { journal: Arc::clone(journal), witness: Arc::clone(witness), owns })
    }

    /// Before recovery it still owns its runs, and may do what an owner may. But it must not end a run twice, and must not write
    /// in an older epoch than its own.
    pub(crate) async fn haunt_before(&self) -> Result<(), JournalError> {
        for (run, epoch) in &self.owns {
            let Some(stored) = self.journal.read(run).await? else { continue };
            let next = seq(&stored) + 1;
            if *epoch > 1 {
                self.attempt(run, epoch - 1, vec![settled(next, epoch - 1)], "an end of an epoch before").await;
            }
            let twice = [settled(next, *epoch), settled(next + 1, *epoch)];
            self.attempt(run, *epoch, twice.into(), "two ends").await;
        }
        Ok(())
    }

    /// After recovery it owns nothing.
    pub(crate) async fn haunt_after(&self) -> Result<(), JournalError> {
        for (run, epoch) in &self.owns {
            let Some(stored) = self.journal.read(run).await? else { continue };
            let last = seq(&stored);
            self.attempt(run, *epoch, vec![text(last)], "text of the old epoch").await;
            self.attempt(run, *epoch, vec![settled(last + 1, *epoch)], "an end of the old epoch").await;
        }
        Ok(())
    }

    async fn attempt(&self, run: &RunId, epoch: Epoch, entries: Vec<Entry>, tried: &str) {
        let result = self.journal.append(Batch::new(run.clone(), epoch, entries)).await;
        let (run, tried) = (run.to_string(), format!("{tried}, as epoch {epoch}"));
        self.witness.tell(What::Ghost { run, tried, taken: result.is_ok(), answer: format!("{result:?}") });
    }
}

fn seq(stored: &JournaledRun) -> Seq {
    stored.facts().last().map_or(0, |record| record.seq)
}

fn settled(seq: Seq, epoch: Epoch) -> Entry {
    let event = Event::RunSettled { outcome: Arc::new(Ending::Lost) };
    let record = Record::new(seq, epoch, Stamp::default(), event);
    Entry::Fact(Arc::new(record))
}

fn text(after: Seq) -> Entry {
    let mut span = Span::new(after);
    span.push(&Kind::Text, "I am a ghost. ");
    Entry::Lump(Arc::new(Lump { v: andon_runtime::core::FORMAT_VERSION, from: 0, span }))
}
