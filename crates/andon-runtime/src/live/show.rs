//! What readers see: the feed, the outcome, the receipt.

use std::sync::Arc;
use std::task::{Context, Poll};

use andon_core::answer::Kind;
use andon_core::event::{Addendum, AddendumKind};
use andon_core::id::CallId;
use andon_core::outcome::Outcome;
use andon_core::receipt::Receipt;
use andon_core::time::Stamp;

use super::{Inner, Live, WakeList};
use crate::journal::{Append, JournalError};
use crate::lanes::sync::Ordering;
use crate::live::feed::{Cursor, FeedItem};

/// How many bytes one tool call may show of its work.
const MAX_SHOWN: usize = 256 << 10;
const NOT_SHOWN: &str = "\n[output of this call is limited to 256 KiB: the rest is not shown]\n";

impl Live {
    pub(crate) fn next_reader(&self) -> u64 {
        self.keys.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn forget_reader(&self, key: u64) {
        self.inner.lock().log.unregister(key);
    }

    /// The nearest place that exists, at or before this one, and whether text was lost between them.
    pub(crate) fn nearest(&self, from: Cursor) -> (Cursor, bool) {
        let inner = self.inner.lock();
        let last = inner.log.seq();
        if from.seq > last {
            return (Cursor { seq: last, byte: inner.log.bytes_after(last) }, true);
        }
        let bytes = inner.log.bytes_after(from.seq);
        (Cursor { seq: from.seq, byte: from.byte.min(bytes) }, from.byte > bytes)
    }

    pub(crate) fn read(&self, cursor: &mut Cursor) -> Option<FeedItem> {
        self.inner.lock().log.next(cursor)
    }

    pub(crate) fn poll_read(&self, cursor: &mut Cursor, key: u64, cx: &mut Context<'_>) -> Poll<Option<FeedItem>> {
        let mut inner = self.inner.lock();
        if let Some(item) = inner.log.next(cursor) {
            return Poll::Ready(Some(item));
        }
        if inner.log.is_closed() {
            return Poll::Ready(None);
        }
        inner.log.register(key, cx.waker());
        Poll::Pending
    }

    /// Shows what a tool reports of its work, up to a limit, as long as its call is open.
    pub(crate) fn show_output(self: &Arc<Self>, ticket: u32, call: &CallId, text: &str) {
        let now = self.now();
        let mut inner = self.inner.lock();
        if inner.life.has_lost_its_driver() {
            return;
        }
        let Inner { tickets, log, .. } = &mut *inner;
        let Some(ticket) = tickets.iter_mut().find(|open| open.number == ticket) else { return };
        let room = MAX_SHOWN.saturating_sub(ticket.shown);
        if text.is_empty() || ticket.shown > MAX_SHOWN {
            return;
        }
        let kept = text.get(..text.floor_char_boundary(room)).unwrap_or_default();
        let is_cut = kept.len() < text.len();
        ticket.shown = if is_cut { usize::MAX } else { ticket.shown + kept.len() };
        let kind = Kind::ToolOutput(call.clone());
        let mut first_unjournaled = log.push_output(&kind, kept, now);
        if is_cut {
            first_unjournaled |= log.push_output(&kind, NOT_SHOWN, now);
        }
        let wake = WakeList::readers(log);
        drop(inner);
        wake.wake();
        if first_unjournaled {
            self.services.flusher.add(self);
        }
        self.hit("tool: shown");
    }

    /// The outcome, once there is one.
    pub(crate) fn poll_outcome(&self, key: u64, cx: &mut Context<'_>) -> Poll<Arc<Outcome>> {
        let mut inner = self.inner.lock();
        if let Some(outcome) = inner.life.outcome() {
            return Poll::Ready(Arc::clone(outcome));
        }
        inner.log.register(key, cx.waker());
        Poll::Pending
    }

    pub(crate) fn outcome(&self) -> Option<Arc<Outcome>> {
        self.inner.lock().life.outcome().cloned()
    }

    /// Something was learned after the end: it is in the receipt from now on, and handed to the journal at once and in
    /// order. If the journal does not accept it, it is retried until it does or the program is about to exit. The
    /// returned `Append` reports the first try.
    pub(crate) fn learn(self: &Arc<Self>, what: AddendumKind) -> Append {
        let at = self.now();
        let append = self.services.journal.append_addendum(&self.id, at, what.clone());
        self.add_to_receipt(at, what.clone());
        let (told, tell) = Append::pending();
        let live = Arc::clone(self);
        self.services.door.spawn_keeper(async move {
            let tried = append.await;
            tell.done(tried.clone());
            if tried.is_err_and(|error| error.may_pass()) {
                // It was reported already.
                let _ = live.services.add_again(&live.id, at, what).await;
            }
        });
        told
    }

    /// As [`learn`](Self::learn), for an addendum that must not be shown before it is on record: it is tried once, and
    /// is in the receipt once it is durable.
    pub(crate) async fn learn_on_record(&self, what: AddendumKind) -> Result<(), JournalError> {
        let at = self.now();
        self.services.journal.append_addendum(&self.id, at, what.clone()).await?;
        self.add_to_receipt(at, what);
        Ok(())
    }

    fn add_to_receipt(&self, at: Stamp, what: AddendumKind) {
        // Held until the observers were told, so that addenda are told in order.
        let telling = self.told.as_ref().map(|told| told.lock());
        let mut inner = self.inner.lock();
        let number = u32::try_from(inner.addenda.len()).unwrap_or(u32::MAX).saturating_add(1);
        inner.addenda.push(Addendum::new(number, at, what));
        if telling.is_some() {
            let (facts, addenda) = (inner.log.facts().to_vec(), inner.addenda.clone());
            drop(inner);
            self.tell_addendum(&facts, &addenda);
        }
    }

    /// Ready when nothing more is being learned about the usage of this run's calls.
    pub(crate) fn poll_last_word(&self, key: u64, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner.lock();
        if inner.learning == 0 {
            return Poll::Ready(());
        }
        inner.log.register(key, cx.waker());
        Poll::Pending
    }

    /// Something about a call of this run is being learned, until the guard is dropped.
    pub(crate) fn learning(self: &Arc<Self>) -> Learning {
        self.inner.lock().learning += 1;
        Learning(Arc::clone(self))
    }

    pub(crate) fn addenda(&self) -> Vec<Addendum> {
        self.inner.lock().addenda.clone()
    }

    /// Adds the addenda that are on record: they may have come through another handle on this run.
    pub(crate) fn catch_up(&self, on_record: Vec<Addendum>) {
        let mut inner = self.inner.lock();
        let known = std::mem::replace(&mut inner.addenda, on_record);
        for own in known {
            // Those that are not on disk yet come last.
            if !inner.addenda.iter().any(|other| (other.at, &other.what) == (own.at, &own.what)) {
                let number = u32::try_from(inner.addenda.len()).unwrap_or(u32::MAX).saturating_add(1);
                inner.addenda.push(own.number(number));
            }
        }
    }

    /// The run's receipt so far.
    pub(crate) fn receipt(&self) -> Option<Receipt> {
        let (outcome, facts, addenda) = {
            let inner = self.inner.lock();
            (inner.life.outcome().cloned(), inner.log.facts().to_vec(), inner.addenda.clone())
        };
        // Folded without the lock, so that no pull waits for it.
        match outcome {
            Some(outcome) if addenda.is_empty() => Some(outcome.receipt.clone()),
            Some(outcome) => {
                let receipt = Receipt::fold(&facts, addenda, None)?;
                // Addenda do not change when the run ended.
                let Receipt { settled_at, took, run_us, .. } = outcome.receipt;
                let ending = Arc::clone(&outcome.ending);
                Some(receipt.outcome(ending).settled_at(settled_at).took(took).run_us(run_us))
            }
            None => Receipt::fold(&facts, addenda, None),
        }
    }

    /// Ready when the run is on record, or never will be.
    pub(crate) fn poll_accepted(&self, key: u64, cx: &mut Context<'_>) -> Poll<Result<(), JournalError>> {
        let mut inner = self.inner.lock();
        match inner.life.left_open() {
            _ if inner.log.seq() > 0 => Poll::Ready(Ok(())),
            Some(error) => Poll::Ready(Err(error.clone())),
            None => {
                inner.log.register(key, cx.waker());
                Poll::Pending
            }
        }
    }

    /// Ready when this many requests are durable, or the journal does not accept them.
    pub(crate) fn poll_recorded(&self, number: u32, key: u64, cx: &mut Context<'_>) -> Poll<Result<(), JournalError>> {
        let mut inner = self.inner.lock();
        if inner.recorded >= number {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = inner.life.trouble().or(inner.life.taken()) {
            return Poll::Ready(Err(error.clone()));
        }
        if inner.log.is_closed() {
            let message = "the run ended before the request was recorded".to_owned();
            return Poll::Ready(Err(JournalError::Storage(message)));
        }
        inner.log.register(key, cx.waker());
        Poll::Pending
    }

    /// Ready when the outcome is durable, or the journal does not accept it.
    pub(crate) fn poll_settled(&self, key: u64, cx: &mut Context<'_>) -> Poll<Result<Arc<Outcome>, JournalError>> {
        let mut inner = self.inner.lock();
        match (inner.life.trouble(), inner.life.outcome()) {
            (Some(error), _) => Poll::Ready(Err(error.clone())),
            (None, Some(outcome)) => Poll::Ready(Ok(Arc::clone(outcome))),
            (None, None) => {
                inner.log.register(key, cx.waker());
                Poll::Pending
            }
        }
    }

    /// Whether the run was given up, and is on record without an end.
    pub(crate) fn is_left_open(&self) -> bool {
        let inner = self.inner.lock();
        inner.life.left_open().is_some() && inner.log.seq() > 0
    }

    /// Whether a call of it waits for a person.
    pub(crate) fn awaits_approval(&self) -> bool {
        self.inner.lock().unstarted.as_ref().is_some_and(|unstarted| !unstarted.approvals.is_empty())
    }

    /// Whether this process drives the run, or did until it settled.
    pub(crate) fn is_driven_here(&self) -> bool {
        self.state_byte.get().is_some()
    }

    /// Why the journal does not accept the run's end, or did not before the run was given up.
    pub(crate) fn stalled(&self) -> Option<JournalError> {
        self.inner.lock().life.trouble().cloned()
    }
}

/// Something about a call is being learned, until this is dropped.
pub(crate) struct Learning(Arc<Live>);

impl Drop for Learning {
    fn drop(&mut self) {
        let waiting = {
            let mut inner = self.0.inner.lock();
            inner.learning = inner.learning.saturating_sub(1);
            WakeList::readers(&mut inner.log)
        };
        waiting.wake();
    }
}
