//! The witness: an observer of every runtime of a world. What it was told is compared with what is on record.

use std::sync::Arc;

use andon_runtime::core::event::{Addendum, Record};
use andon_runtime::{MemoryJournal, Observer, RunId, ShownAddendum, ShownFact};
use parking_lot::Mutex;

/// What was told about runs, in order.
type Told<T> = Arc<Mutex<Vec<(RunId, T)>>>;

/// Writes down what it is told. Clones are the same witness.
#[derive(Clone, Default)]
pub(super) struct Witness {
    told: Told<Arc<Record>>,
    learned: Told<Addendum>,
    broken: Arc<Mutex<Vec<String>>>,
}

impl Observer for Witness {
    fn fact(&self, seen: &ShownFact<'_>) {
        let is_whole = seen.past.iter().map(|record| record.seq).eq(1..seen.record.seq);
        if !is_whole {
            let (run, seq, past) = (seen.run, seen.record.seq, seen.past.len());
            self.broken.lock().push(format!("{run}: an observer was told of event {seq} with {past} before it"));
        }
        self.told.lock().push((seen.run.clone(), Arc::clone(seen.record)));
    }

    fn addendum(&self, learned: &ShownAddendum<'_>) {
        self.learned.lock().push((learned.run.clone(), learned.addendum.clone()));
    }
}

impl Witness {
    /// Each fact that is on record was told once, in order. `excused` are the facts that a process wrote at its last moment, when
    /// nobody was told, and those of a process without a witness.
    pub(super) fn check(&self, journal: &MemoryJournal, excused: impl Fn(&RunId, &Record) -> bool) -> Vec<String> {
        let mut broken = std::mem::take(&mut *self.broken.lock());
        for run in journal.run_ids() {
            let stored = journal.stored(&run).unwrap_or_default();
            let told = about(&self.told, &run);
            let mut told = told.iter().peekable();
            for record in stored.facts() {
                if told.next_if(|next| *next == record).is_none() && !excused(&run, record) {
                    broken.push(format!("{run}: no observer was told of event {} in its turn", record.seq));
                }
            }
            broken.extend(told.map(|extra| format!("{run}: an observer was also told of event {}", extra.seq)));
        }
        broken
    }

    /// Each addendum that is on record was told, and no other. The `excused` runs have been taken over by a process without a witness.
    pub(super) fn check_addenda(&self, journal: &MemoryJournal, excused: &[RunId]) -> Vec<String> {
        let runs = journal.run_ids().into_iter().filter(|run| !excused.contains(run)).filter_map(|run| {
            let stored = journal.stored(&run)?.addenda;
            let told = about(&self.learned, &run);
            (told != stored).then(|| format!("{run}: {} addenda are on record, {} were told", stored.len(), told.len()))
        });
        runs.collect()
    }
}

/// What was told about one run.
fn about<T: Clone>(told: &Told<T>, run: &RunId) -> Vec<T> {
    told.lock().iter().filter(|(of, _)| of == run).map(|(_, it)| it.clone()).collect()
}
