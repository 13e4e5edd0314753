//! Hands facts and streamed text to the journal, and shows what is durable.

use std::sync::Arc;

use andon_core::answer::Lump;
use andon_core::cancel::{CancelRequest, Force, Stop};
use andon_core::event::{Entry, Record};
use andon_core::outcome::Outcome;
use andon_core::progress::{Phase, RunState};
use andon_core::time::Stamp;

use super::life::Life;
use super::pull::level;
use super::{Inner, Live, News, WakeList};
use crate::journal::{Append, Batch, BatchStanding, JournalError};
use crate::lanes::sync::Ordering;
use crate::live::log::{Flush, Log};

/// A batch that was handed to the journal.
pub(crate) struct Appended {
    pub(crate) append: Append,
    pub(crate) fresh: Fresh,
}

/// Facts that are not shown yet, and where the run stands after them.
#[derive(Clone)]
pub(crate) struct Fresh {
    pub(crate) records: Vec<Arc<Record>>,
    pub(crate) state: RunState,
    pub(crate) phase: Phase,
}

/// The end of a run is shown, or the run is left open: what is to be done about it once no lock is held.
#[must_use]
pub(crate) struct Ended {
    wake: WakeList,
    /// It has settled, or will never be on record.
    is_over: bool,
}

impl Live {
    /// Hands a batch to the journal, after the text that was streamed before it.
    ///
    /// A journal is foreign code, so the run's lock is not held (invariant 3).
    pub(crate) fn append(&self, records: Vec<Arc<Record>>, standing: BatchStanding, now: Stamp) -> Appended {
        let (state, phase) = (standing.state, standing.phase);
        let _in_order = self.writer.lock();
        let flush = self.inner.lock().log.begin_batch(now);
        let lump = flush.map(|flush| Entry::Lump(Arc::new(flush.lump)));
        let facts = records.iter().map(|record| Entry::Fact(Arc::clone(record)));
        let append = self.hand_over(lump.into_iter().chain(facts).collect(), Some(standing));
        Appended { append, fresh: Fresh { records, state, phase } }
    }

    fn hand_over(&self, entries: Vec<Entry>, standing: Option<BatchStanding>) -> Append {
        // A batch after one that failed would leave a gap.
        if let Some(error) = self.inner.lock().life.unwritable().cloned() {
            return Append::ready(Err(error));
        }
        self.services.journal.append(Batch { standing, ..Batch::new(self.id.clone(), self.epoch, entries) })
    }

    /// Shows facts that are durable.
    pub(crate) fn publish(&self, fresh: Fresh) {
        let mut inner = self.inner.lock();
        inner.publish(fresh.records);
        self.state_byte.set(fresh.state, fresh.phase);
        let wake = WakeList::readers(&mut inner.log);
        drop(inner);
        wake.wake();
        self.tell();
    }

    /// Shows the last facts, which observers [have been told](Self::tell_last), and ends the feed. Runs no foreign code.
    pub(crate) fn close(&self, records: Vec<Arc<Record>>, outcome: Arc<Outcome>) -> Ended {
        let mut inner = self.inner.lock();
        inner.publish(records);
        inner.life = Life::Settled { outcome };
        inner.log.close();
        self.state_byte.settle();
        Ended { wake: WakeList::readers(&mut inner.log), is_over: true }
    }

    /// The end is shown and no lock is held: wakes whoever waits for it.
    pub(crate) fn has_ended(&self, ended: Ended) {
        if ended.is_over {
            self.services.presence.run_ended(&self.id);
        }
        ended.wake.wake();
    }

    /// The journal does not accept the run's end: whoever waits for a record is told why, and everybody else goes on
    /// waiting.
    pub(crate) fn stall(&self, error: JournalError) {
        let mut inner = self.inner.lock();
        let is_news = inner.life.stall(error.clone());
        self.state_byte.stall();
        let wake = WakeList::readers(&mut inner.log);
        drop(inner);
        wake.wake();
        if is_news {
            self.tell_stalled(&error);
        }
    }

    /// The journal failed for good: the feed ends here, without a terminal event, and the outcome is known only in memory.
    /// Runs no foreign code; observers are told next.
    pub(crate) fn break_off(&self, error: &JournalError, outcome: Outcome) -> Ended {
        let mut inner = self.inner.lock();
        inner.stop = Stop::Sealed(Arc::clone(&outcome.ending));
        inner.life = Life::LeftOpen { outcome: Arc::new(outcome), error: Box::new(error.clone()) };
        inner.log.close();
        let is_on_record = inner.log.seq() > 0;
        if !is_on_record {
            self.state_byte.settle();
        }
        self.state_byte.stall();
        self.level.store(level(Force::Now), Ordering::Release);
        inner.let_all_go();
        inner.tickets.clear();
        let mut wake = WakeList::readers(&mut inner.log);
        wake.others.append(&mut inner.watchers);
        Ended { wake, is_over: !is_on_record }
    }

    /// Another process has taken the run over: its readers wait for the end that is written there, and it cannot be pulled
    /// here any more.
    /// Returns the request that it was pulled with, if that is not on record.
    pub(crate) fn belongs_elsewhere(&self, taken: JournalError) -> Option<Arc<CancelRequest>> {
        let mut inner = self.inner.lock();
        inner.life = Life::Elsewhere { taken: Some(Box::new(taken)) };
        let request = inner.request.clone().filter(|_| inner.recorded < inner.requests);
        self.level.store(level(Force::Now), Ordering::Release);
        inner.let_all_go();
        inner.tickets.clear();
        let mut wake = WakeList::readers(&mut inner.log);
        wake.others.append(&mut inner.watchers);
        drop(inner);
        wake.wake();
        request
    }

    /// Streamed text that was shown and is not among these entries: the driver may have panicked between taking it and
    /// handing it over.
    pub(crate) fn missing_text(&self, entries: &[Entry]) -> Option<Lump> {
        self.inner.lock().log.missing_text(entries)
    }

    pub(crate) fn with_log<R>(&self, read: impl FnOnce(&Log) -> R) -> R {
        read(&self.inner.lock().log)
    }

    /// Hands streamed text to the journal.
    pub(crate) fn flush(&self) -> Option<(Flush, Append)> {
        let now = self.now();
        let _in_order = self.writer.lock();
        let flush = self.inner.lock().log.take_flush(now)?;
        let append = self.hand_over(vec![Entry::Lump(Arc::new(flush.lump.clone()))], None);
        Some((flush, append))
    }

    /// Streamed text could not be journaled, or the run is another process's: nothing more of it will be written here, and the
    /// driver is told.
    pub(crate) fn writes_failed(&self, error: JournalError) {
        let mut inner = self.inner.lock();
        inner.life.fail(error.clone());
        let wake = inner.post(News::JournalFailed(error));
        drop(inner);
        wake.wake();
    }

    /// A flush is durable: text may be shown again if it had to wait.
    pub(crate) fn flushed(&self, flush: &Flush) {
        let now = self.now();
        let mut inner = self.inner.lock();
        inner.log.flushed(flush);
        inner.log.release_held(now);
        let wake = WakeList { driver: inner.driver.take(), ..WakeList::readers(&mut inner.log) };
        drop(inner);
        wake.wake();
    }
}

impl Inner {
    fn publish(&mut self, records: Vec<Arc<Record>>) {
        let requests = records.iter().filter(|record| record.event.is_request()).count();
        self.recorded += u32::try_from(requests).unwrap_or(u32::MAX);
        self.log.publish(records);
    }
}
