//! Tells observers what is shown.
//!
//! Observers are told what is in the log and not in `told`: so each fact is told once and in order, whichever task tells it.
//! The last facts are told before they are in the log.

use std::sync::Arc;

use andon_core::event::{Addendum, Record};
use andon_core::time::Stamp;

use super::Live;
use crate::journal::JournalError;
use crate::live::observe::ShownAddendum;

impl Live {
    /// Tells observers the facts that are shown and that they were not told yet.
    pub(super) fn tell(&self) {
        let Some(told) = &self.told else { return };
        let mut told = told.lock();
        let (new, pieces) = self.untold(told.len());
        self.services.observers.facts(&self.id, &self.session, &mut told, new, self.now(), pieces);
    }

    /// Tells observers the last facts of the run, which are durable since `settled` and are shown next: so whoever has seen
    /// the end can rely on what observers have counted.
    pub(crate) fn tell_last(&self, records: &[Arc<Record>], settled: Stamp) {
        let Some(told) = &self.told else { return };
        let mut told = told.lock();
        let (mut new, pieces) = self.untold(told.len());
        new.extend(records.iter().cloned());
        self.services.observers.facts(&self.id, &self.session, &mut told, new, settled, pieces);
    }

    /// The facts after the first `told` ones, and how many pieces were accepted by now. Both are read under one lock, so
    /// that they agree.
    fn untold(&self, told: usize) -> (Vec<Arc<Record>>, Option<u64>) {
        let inner = self.inner.lock();
        (inner.log.facts().get(told..).unwrap_or_default().to_vec(), inner.pieces())
    }

    /// The process that wrote these facts has told its observers.
    pub(super) fn count_as_told(&self, facts: &[Arc<Record>]) {
        if let Some(told) = &self.told {
            *told.lock() = facts.to_vec();
        }
    }

    /// Tells observers the last addendum.
    pub(super) fn tell_addendum(&self, facts: &[Arc<Record>], addenda: &[Addendum]) {
        let Some((addendum, earlier)) = addenda.split_last() else { return };
        let (run, session) = (&self.id, &self.session);
        self.services.observers.addendum(&ShownAddendum { run, session, addendum, earlier, facts });
    }

    pub(super) fn tell_stalled(&self, why: &JournalError) {
        self.services.observers.stalled(&self.id, &self.session, why);
    }

    pub(crate) fn tell_broken_off(&self, why: &JournalError) {
        self.services.observers.broken_off(&self.id, &self.session, why);
    }
}
