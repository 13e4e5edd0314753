//! A live run: what its driver, its readers and everyone who may pull its cord share, behind one lock.
//!
//! # Theory of operation
//!
//! The driver owns the run and is the only one that advances it. Everybody else leaves [`News`] in the driver's inbox
//! and wakes it: a pull, an approval, a tool that ended. The log of what may be shown is behind the same lock, and that
//! is the point of it:
//!
//! # Invariants
//!
//! 1. *The gate.* A piece is accepted, a tool started and a model called only under the lock, after a look at `stop`.
//!    A pull changes `stop` under the lock. So once a pull has returned, none of the three happens any more.
//! 2. *Finish against pull.* The end is sealed under the lock, so a run is completed or cancelled and never both.
//! 3. No foreign code runs under the lock: wakers are woken, probes hit and models called after it is let go.
//! 4. Locks are taken in the order session, writer, run; never the other way.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use andon_core::answer::{Kind, Lump, What};
use andon_core::cancel::{CancelRequest, Force, ReplyKind, Stop};
use andon_core::event::{Addendum, Approval, Entry, Epoch, Learnt, Record};
use andon_core::id::{CallId, RunId, SessionKey};
use andon_core::outcome::{Ending, Outcome};
use andon_core::receipt::Receipt;
use andon_core::time::Stamp;

use crate::aside::AsideEnd;
use crate::fault::{Fault, planted};
use crate::feed::{Cursor, FeedItem};
use crate::hook::Decision;
use crate::journal::{Append, Batch, JournalError};
use crate::log::{Flush, Log};
use crate::runtime::RuntimeCore;
use crate::sync::{AtomicU8, AtomicU64, Mutex, Ordering};
use crate::tool::{ToolError, ToolOutput};

/// What reaches the driver from outside.
pub(crate) enum News {
    /// The cord was pulled, or pulled harder.
    Pulled(Arc<CancelRequest>),
    /// One call was cancelled alone.
    CallPulled(CallId, Arc<CancelRequest>),
    /// A person decided.
    Decided(CallId, Approval),
    /// A tool's task is over.
    ToolEnded(u32, AsideEnd<Result<ToolOutput, ToolError>>),
    /// A hook's task is over.
    HookEnded(u32, AsideEnd<Decision>),
    /// The session is this run's now.
    Seated,
    /// Streamed text could not be journaled.
    JournalFailed(JournalError),
}

/// What a task that runs beside the driver is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    GoOn,
    /// Stop by itself until then, or be stopped.
    StopBy(Stamp),
    StopNow,
}

/// How often each of the three things that a pull forbids has happened. For tests of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Passed {
    /// Pieces accepted.
    pub pieces: u64,
    /// Tools started.
    pub tools: u64,
    /// Models called.
    pub models: u64,
}

/// What came of offering a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It is in the log.
    Accepted {
        /// It is the first that waits for the journal.
        first_unjournaled: bool,
    },
    /// The cord was pulled: the piece is not taken.
    Refused,
    /// Text that was shown has waited for the disk for too long: offer it again later.
    Later,
}

/// A task beside the driver: a tool call or a hook.
struct Ticket {
    number: u32,
    call: Option<CallId>,
    grace: Duration,
    since: Stamp,
    /// The call was cancelled alone.
    cancelled: Option<Arc<CancelRequest>>,
    /// It has passed the gate.
    started: bool,
    /// The tool has looked at its cord and seen it pulled.
    saw_it: bool,
}

struct Inner {
    stop: Stop,
    /// The request in force: the hardest.
    request: Option<Arc<CancelRequest>>,
    /// How many requests have changed something, and how many of those are durable.
    requests: u32,
    recorded: u32,
    inbox: Vec<News>,
    driver: Option<Waker>,
    log: Log,
    tickets: Vec<Ticket>,
    next_ticket: u32,
    watchers: Vec<(u64, Waker)>,
    /// Calls that wait for a person.
    approvals: Vec<CallId>,
    /// Calls that may start and have not.
    ready: Vec<CallId>,
    passed: Passed,
    outcome: Option<Arc<Outcome>>,
    /// What was learnt after the end.
    addenda: Vec<Addendum>,
    /// The driver is gone.
    orphaned: bool,
    /// The journal failed and the run could not be settled in it.
    broken: Option<JournalError>,
}

/// A live run.
pub(crate) struct Live {
    pub(crate) id: RunId,
    pub(crate) session: SessionKey,
    pub(crate) runtime: Arc<RuntimeCore>,
    pub(crate) epoch: Epoch,
    /// How hard the cord was pulled: 0 not at all. Only a hint that saves taking the lock.
    level: AtomicU8,
    keys: AtomicU64,
    /// Held while a batch is handed to the journal, so that facts and lumps stand in order. Never held by a pull.
    writer: Mutex<()>,
    inner: Mutex<Inner>,
}

/// Those to be woken once the lock is let go (invariant 3).
#[must_use]
#[derive(Default)]
struct WakeList {
    driver: Option<Waker>,
    others: Vec<(u64, Waker)>,
}

impl WakeList {
    fn wake(self) {
        if let Some(driver) = self.driver {
            driver.wake();
        }
        for (_, waker) in self.others {
            waker.wake();
        }
    }
}

impl Live {
    pub(crate) fn new(id: RunId, session: SessionKey, runtime: Arc<RuntimeCore>, epoch: Epoch) -> Self {
        let inner = Inner {
            stop: Stop::Open,
            request: None,
            requests: 0,
            recorded: 0,
            inbox: Vec::new(),
            driver: None,
            log: Log::default(),
            tickets: Vec::new(),
            next_ticket: 0,
            watchers: Vec::new(),
            approvals: Vec::new(),
            ready: Vec::new(),
            passed: Passed::default(),
            outcome: None,
            addenda: Vec::new(),
            orphaned: false,
            broken: None,
        };
        Self {
            id,
            session,
            runtime,
            epoch,
            level: AtomicU8::new(0),
            keys: AtomicU64::new(0),
            writer: Mutex::new(()),
            inner: Mutex::new(inner),
        }
    }

    /// A run that is over, as its journal tells it.
    pub(crate) fn settled(
        id: RunId,
        session: SessionKey,
        runtime: Arc<RuntimeCore>,
        log: Log,
        outcome: Option<Outcome>,
    ) -> Self {
        let live = Self::new(id, session, runtime, 0);
        {
            let mut inner = live.inner.lock();
            if let Some(outcome) = &outcome {
                inner.stop = Stop::Sealed(Arc::clone(&outcome.ending));
            }
            inner.log = log;
            inner.outcome = outcome.map(Arc::new);
        }
        live
    }

    pub(crate) fn hit(&self, seam: &'static str) {
        self.runtime.probes.hit(seam);
    }

    pub(crate) fn now(&self) -> Stamp {
        self.runtime.clock.now()
    }

    // ---- pulling ----

    /// Pulls the cord. Also says which request the answer is about, to wait for its record.
    pub(crate) fn pull(&self, request: CancelRequest) -> (ReplyKind, u32) {
        let request = Arc::new(request);
        let mut inner = self.inner.lock();
        let reply = inner.stop.pull(request.force);
        let wake = match reply {
            ReplyKind::Accepted | ReplyKind::Hardened => {
                inner.requests += 1;
                inner.request = Some(Arc::clone(&request));
                self.level.store(level(request.force), Ordering::Release);
                let mut wake = inner.post(News::Pulled(request));
                wake.others = std::mem::take(&mut inner.watchers);
                wake
            }
            _ => WakeList::default(),
        };
        let number = inner.requests;
        drop(inner);
        wake.wake();
        (reply, number)
    }

    /// Cancels one call alone.
    pub(crate) fn pull_call(&self, call: &CallId, request: CancelRequest) -> (ReplyKind, u32) {
        let request = Arc::new(request);
        let mut inner = self.inner.lock();
        if let Stop::Sealed(ending) = &inner.stop {
            return (ReplyKind::TooLate { outcome: Arc::clone(ending) }, 0);
        }
        let has_not_started = inner.approvals.contains(call) || inner.ready.contains(call);
        let Some(ticket) = inner.tickets.iter_mut().find(|ticket| ticket.call.as_ref() == Some(call)) else {
            if !has_not_started {
                return (ReplyKind::NotRunning, 0);
            }
            inner.approvals.retain(|open| open != call);
            inner.ready.retain(|open| open != call);
            inner.requests += 1;
            let number = inner.requests;
            let wake = inner.post(News::CallPulled(call.clone(), request));
            drop(inner);
            wake.wake();
            return (ReplyKind::Accepted, number);
        };
        let reply = match &ticket.cancelled {
            None => ReplyKind::Accepted,
            Some(earlier) if request.force > earlier.force => ReplyKind::Hardened,
            Some(_) => return (ReplyKind::AlreadyCancelling, inner.requests),
        };
        ticket.cancelled = Some(Arc::clone(&request));
        inner.requests += 1;
        let number = inner.requests;
        let mut wake = inner.post(News::CallPulled(call.clone(), request));
        wake.others = std::mem::take(&mut inner.watchers);
        drop(inner);
        wake.wake();
        (reply, number)
    }

    /// How hard the cord was pulled, if it was, without taking the lock.
    pub(crate) fn force(&self) -> Option<Force> {
        match self.level.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Force::AfterTurn),
            2 => Some(Force::Graceful),
            _ => Some(Force::Now),
        }
    }

    /// Whether the run is on its way out: pulled, or its end decided.
    pub(crate) fn is_ending(&self) -> bool {
        !matches!(self.inner.lock().stop, Stop::Open)
    }

    /// Decides how the run ends (invariant 2). The requests that are still in the inbox come with it.
    pub(crate) fn seal(&self, ending: &Arc<Ending>) -> Result<Vec<News>, Force> {
        let mut inner = self.inner.lock();
        match inner.stop.seal(ending) {
            Err(_) if planted(Fault::SealIgnoresPull) => inner.stop = Stop::Sealed(Arc::clone(ending)),
            other => other?,
        }
        Ok(std::mem::take(&mut inner.inbox))
    }

    // ---- the gate (invariant 1) ----

    /// Passes the gate before a model call.
    pub(crate) fn may_call_model(&self) -> bool {
        let mut inner = self.inner.lock();
        let open = inner.stop.lets_a_turn_begin() || planted(Fault::ModelAfterPull);
        inner.passed.models += u64::from(open);
        open
    }

    /// Passes the gate before a tool starts.
    pub(crate) fn may_start_tool(&self, ticket: u32) -> bool {
        let mut inner = self.inner.lock();
        let goes_on = inner.stop.lets_the_turn_go_on();
        let Some(ticket) = inner.tickets.iter_mut().find(|open| open.number == ticket) else { return false };
        let open = (goes_on && ticket.cancelled.is_none()) || planted(Fault::ToolAfterPull);
        ticket.started = open;
        inner.passed.tools += u64::from(open);
        open
    }

    /// Whether a tool may still be put on record as started.
    pub(crate) fn lets_the_turn_go_on(&self) -> bool {
        self.inner.lock().stop.lets_the_turn_go_on() || planted(Fault::ToolAfterPull)
    }

    /// Offers streamed bytes.
    pub(crate) fn offer(&self, kind: &Kind, text: &str) -> Offer {
        self.offer_with(|log, now| log.push(kind, text, now))
    }

    /// Offers a mark.
    pub(crate) fn offer_mark(&self, what: What) -> Offer {
        self.offer_with(|log, now| log.mark(what, now))
    }

    fn offer_with(&self, add: impl FnOnce(&mut Log, Stamp) -> bool) -> Offer {
        let now = self.now();
        let mut inner = self.inner.lock();
        if !inner.stop.lets_the_turn_go_on() && !planted(Fault::PieceAfterPull) {
            return Offer::Refused;
        }
        if inner.log.must_wait(now) {
            return Offer::Later;
        }
        inner.passed.pieces += 1;
        let first_unjournaled = add(&mut inner.log, now);
        let readers = inner.log.wake_list();
        drop(inner);
        for (_, reader) in readers {
            reader.wake();
        }
        Offer::Accepted { first_unjournaled }
    }

    pub(crate) fn passed(&self) -> Passed {
        self.inner.lock().passed
    }

    // ---- the driver's side ----

    /// Leaves something in the driver's inbox.
    pub(crate) fn post(&self, news: News) {
        let wake = self.inner.lock().post(news);
        wake.wake();
    }

    pub(crate) fn take_news(&self) -> Vec<News> {
        std::mem::take(&mut self.inner.lock().inbox)
    }

    /// Ready when there is news, or the cord was pulled hard enough to cut.
    pub(crate) fn poll_news(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner.lock();
        if !inner.inbox.is_empty() {
            return Poll::Ready(());
        }
        match &mut inner.driver {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Hands a batch to the journal, behind the text that streams.
    ///
    /// A journal's code is foreign code: the run's own lock is not held (invariant 3).
    pub(crate) fn append(&self, records: Vec<Arc<Record>>) -> Appended {
        let now = self.now();
        let _in_order = self.writer.lock();
        let flush = self.inner.lock().log.take_flush(now);
        let lump = flush.map(|flush| Entry::Lump(Arc::new(flush.lump)));
        let facts = records.iter().map(|record| Entry::Fact(Arc::clone(record)));
        let append = self.hand_over(lump.into_iter().chain(facts).collect());
        Appended { append, records }
    }

    fn hand_over(&self, entries: Vec<Entry>) -> Append {
        self.runtime.journal.append(Batch { run: self.id.clone(), epoch: self.epoch, entries })
    }

    /// Shows facts that are durable.
    pub(crate) fn publish(&self, records: Vec<Arc<Record>>, requests: u32) {
        let mut inner = self.inner.lock();
        inner.recorded += requests;
        inner.log.publish(records);
        let readers = inner.log.wake_list();
        drop(inner);
        for (_, reader) in readers {
            reader.wake();
        }
    }

    /// Shows the last facts and ends the feed.
    pub(crate) fn close(&self, records: Vec<Arc<Record>>, requests: u32, outcome: Outcome) {
        let mut inner = self.inner.lock();
        inner.log.publish(records);
        inner.recorded = inner.recorded.saturating_add(requests);
        inner.outcome = Some(Arc::new(outcome));
        inner.log.close();
        let readers = inner.log.wake_list();
        drop(inner);
        for (_, reader) in readers {
            reader.wake();
        }
    }

    /// The journal failed: the feed ends here, without a terminal event, and the outcome is known only in memory.
    pub(crate) fn break_off(&self, error: JournalError, outcome: Outcome) {
        let mut inner = self.inner.lock();
        inner.broken = Some(error);
        inner.stop = Stop::Sealed(Arc::clone(&outcome.ending));
        inner.outcome = Some(Arc::new(outcome));
        inner.log.close();
        self.level.store(level(Force::Now), Ordering::Release);
        inner.tickets.clear();
        let mut others = inner.log.wake_list();
        others.append(&mut inner.watchers);
        drop(inner);
        WakeList { driver: None, others }.wake();
    }

    /// What was shown of the text that streams and is not among these entries: a panic may have struck between taking it
    /// and handing it over.
    pub(crate) fn missing_text(&self, entries: &[Entry]) -> Option<Lump> {
        self.inner.lock().log.missing_text(entries)
    }

    pub(crate) fn with_log<R>(&self, read: impl FnOnce(&Log) -> R) -> R {
        read(&self.inner.lock().log)
    }

    // ---- tasks beside the driver ----

    /// Registers a tool call or hook that is about to run beside the driver.
    pub(crate) fn open_ticket(&self, call: Option<CallId>, grace: Duration) -> u32 {
        let since = self.now();
        let mut inner = self.inner.lock();
        inner.next_ticket += 1;
        let number = inner.next_ticket;
        inner.ready.retain(|ready| Some(ready) != call.as_ref());
        inner.tickets.push(Ticket { number, call, grace, since, cancelled: None, started: false, saw_it: false });
        number
    }

    /// Forgets a ticket: its task is over, or nobody waits for it any more. Says whether the tool saw the pull.
    pub(crate) fn close_ticket(&self, number: u32) -> Closed {
        let mut inner = self.inner.lock();
        let Some(place) = inner.tickets.iter().position(|ticket| ticket.number == number) else {
            return Closed::default();
        };
        let at_once = inner.order(number) == Order::StopNow;
        let ticket = inner.tickets.swap_remove(place);
        Closed { saw_it: ticket.saw_it, alone: ticket.cancelled.is_some(), at_once }
    }

    /// The call that a ticket belongs to. Closes the ticket.
    pub(crate) fn call_of(&self, number: u32) -> Option<(CallId, Closed)> {
        let call = {
            let inner = self.inner.lock();
            inner.tickets.iter().find(|ticket| ticket.number == number)?.call.clone()?
        };
        Some((call, self.close_ticket(number)))
    }

    /// The driver is gone: everything that runs beside it is to stop now.
    pub(crate) fn stop_asides(&self) {
        let mut inner = self.inner.lock();
        inner.orphaned = true;
        let others = std::mem::take(&mut inner.watchers);
        drop(inner);
        WakeList { driver: None, others }.wake();
    }

    /// Waits until everything that runs beside the driver has reported, or does not yield.
    pub(crate) async fn asides_over(&self) {
        let all_reported = std::future::poll_fn(|cx| {
            let mut inner = self.inner.lock();
            let reported = inner.inbox.iter().filter(|news| matches!(news, News::ToolEnded(..) | News::HookEnded(..)));
            if reported.count() >= inner.tickets.len() {
                return Poll::Ready(());
            }
            inner.driver = Some(cx.waker().clone());
            Poll::Pending
        });
        // What does not yield within that time is given up; its ticket is closed with the run.
        let _ = tokio::time::timeout(crate::driver::REAP, all_reported).await;
    }

    /// Decides how a run ends whose driver panicked: as it was sealed, or else so.
    pub(crate) fn seal_after_panic(&self, ending: Arc<Ending>) -> Arc<Ending> {
        let mut inner = self.inner.lock();
        if let Stop::Sealed(sealed) = &inner.stop {
            return Arc::clone(sealed);
        }
        inner.stop = Stop::Sealed(Arc::clone(&ending));
        inner.tickets.clear();
        ending
    }

    /// An id for a call that has none and for which none could be made.
    pub(crate) fn id_for_call(&self) -> CallId {
        loop {
            if let Ok(id) = CallId::new(self.runtime.next_id("call")) {
                return id;
            }
        }
    }

    /// What a task beside the driver is to do; it is woken when that changes.
    pub(crate) fn order(&self, number: u32, key: u64, waker: &Waker) -> Order {
        let mut inner = self.inner.lock();
        let order = inner.order(number);
        if order != Order::StopNow {
            inner.watch(key, waker);
        }
        order
    }

    /// Whether a tool was told to stop and has not begun: the gate is closed to it, so nobody has to wait for it.
    pub(crate) fn will_never_start(&self, number: u32) -> bool {
        let inner = self.inner.lock();
        let has_begun = inner.tickets.iter().any(|ticket| ticket.number == number && ticket.started);
        !has_begun && inner.order(number) != Order::GoOn
    }

    /// When a task beside the driver must be over at the latest, as things stand.
    pub(crate) fn order_now(&self, number: u32) -> Order {
        self.inner.lock().order(number)
    }

    /// A task beside the driver is over: tells the driver, unless that has given it up.
    pub(crate) fn report(&self, number: u32, news: News) -> Result<(), News> {
        let mut inner = self.inner.lock();
        if !inner.tickets.iter().any(|ticket| ticket.number == number) {
            return Err(news);
        }
        let wake = inner.post(news);
        drop(inner);
        wake.wake();
        Ok(())
    }

    // ---- a tool's view of the cord ----

    /// Whether this task has been told to stop; remembers that it knows.
    pub(crate) fn is_told(&self, ticket: Option<u32>) -> bool {
        let mut inner = self.inner.lock();
        inner.is_told(ticket)
    }

    pub(crate) fn poll_told(&self, ticket: Option<u32>, key: u64, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner.lock();
        if inner.is_told(ticket) {
            return Poll::Ready(());
        }
        inner.watch(key, cx.waker());
        Poll::Pending
    }

    pub(crate) fn next_watcher(&self) -> u64 {
        self.keys.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn forget_watcher(&self, key: u64) {
        self.inner.lock().watchers.retain(|(watcher, _)| *watcher != key);
    }

    // ---- approvals ----

    /// A turn's calls: those that wait for a person, and those that may start.
    pub(crate) fn open_calls(&self, asked: Vec<CallId>, ready: Vec<CallId>) {
        let mut inner = self.inner.lock();
        inner.approvals = asked;
        inner.ready = ready;
    }

    /// A person's decision. Refused once the run was told to stop.
    pub(crate) fn decide(&self, call: &CallId, approval: Approval) -> Result<(), DecideError> {
        let mut inner = self.inner.lock();
        if !inner.stop.lets_the_turn_go_on() {
            return Err(DecideError::TooLate);
        }
        let Some(place) = inner.approvals.iter().position(|open| open == call) else {
            return Err(DecideError::NotWaiting);
        };
        let call = inner.approvals.swap_remove(place);
        if matches!(approval, Approval::Approved { .. }) {
            inner.ready.push(call.clone());
        }
        let wake = inner.post(News::Decided(call, approval));
        drop(inner);
        wake.wake();
        Ok(())
    }

    // ---- readers ----

    pub(crate) fn next_reader(&self) -> u64 {
        self.keys.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn forget_reader(&self, key: u64) {
        self.inner.lock().log.unregister(key);
    }

    /// The place at or before this one that exists, and whether text was lost between.
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

    /// The outcome, once there is one.
    pub(crate) fn poll_outcome(&self, key: u64, cx: &mut Context<'_>) -> Poll<Arc<Outcome>> {
        let mut inner = self.inner.lock();
        if let Some(outcome) = &inner.outcome {
            return Poll::Ready(Arc::clone(outcome));
        }
        inner.log.register(key, cx.waker());
        Poll::Pending
    }

    pub(crate) fn outcome(&self) -> Option<Arc<Outcome>> {
        self.inner.lock().outcome.clone()
    }

    /// Something was learnt after the end: it is journaled, and in the receipt from now on.
    pub(crate) fn learn(&self, what: Learnt) {
        let at = self.now();
        // The journal takes it at once and in order; nobody is there to wait for the disk.
        drop(self.runtime.journal.append_addendum(&self.id, at, what.clone()));
        let mut inner = self.inner.lock();
        let number = u32::try_from(inner.addenda.len()).unwrap_or(u32::MAX).saturating_add(1);
        inner.addenda.push(Addendum { v: andon_core::FORMAT_VERSION, number, at, what });
    }

    /// The account of the run as it is known now.
    pub(crate) fn receipt(&self) -> Option<Receipt> {
        let inner = self.inner.lock();
        match &inner.outcome {
            Some(outcome) if inner.addenda.is_empty() => Some(outcome.receipt.clone()),
            _ => Receipt::fold(inner.log.facts(), inner.addenda.iter().cloned()),
        }
    }

    /// Calls whose tools have not reported: given up when the driver is gone.
    pub(crate) fn unreported_calls(&self) -> Vec<CallId> {
        self.inner.lock().tickets.iter().filter_map(|ticket| ticket.call.clone()).collect()
    }

    /// Ready when this many requests are durable, or never will be.
    pub(crate) fn poll_recorded(&self, number: u32, key: u64, cx: &mut Context<'_>) -> Poll<Result<(), JournalError>> {
        let mut inner = self.inner.lock();
        if inner.recorded >= number {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = &inner.broken {
            return Poll::Ready(Err(error.clone()));
        }
        inner.log.register(key, cx.waker());
        Poll::Pending
    }

    // ---- the flusher's side ----

    /// A call was refused: it can no longer be cancelled alone.
    pub(crate) fn forget_call(&self, call: &CallId) {
        self.inner.lock().ready.retain(|ready| ready != call);
    }

    /// Hands the text that streams to the journal.
    pub(crate) fn flush(&self) -> Option<(Flush, Append)> {
        let now = self.now();
        let _in_order = self.writer.lock();
        let flush = self.inner.lock().log.take_flush(now)?;
        let append = self.hand_over(vec![Entry::Lump(Arc::new(flush.lump.clone()))]);
        Some((flush, append))
    }

    /// A flush is durable: text may be shown again if it had to wait.
    pub(crate) fn flushed(&self, flush: &Flush) {
        let mut inner = self.inner.lock();
        inner.log.flushed(flush);
        let driver = inner.driver.take();
        drop(inner);
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

/// A batch that was handed to the journal.
pub(crate) struct Appended {
    pub(crate) append: Append,
    pub(crate) records: Vec<Arc<Record>>,
}

/// What was known of a task beside the driver when its ticket was closed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Closed {
    /// The tool had seen that it was to stop.
    pub(crate) saw_it: bool,
    /// The call was cancelled alone.
    pub(crate) alone: bool,
    /// It was to stop at once, without a grace.
    pub(crate) at_once: bool,
}

/// Why an approval was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// The run was told to stop first: the call is closed.
    #[error("the run was stopped before this decision: the call will not be made")]
    TooLate,
    /// No approval is open for this call.
    #[error("this call does not wait for an approval: it was decided already, or the run never asked for it")]
    NotWaiting,
}

impl Inner {
    fn post(&mut self, news: News) -> WakeList {
        self.inbox.push(news);
        WakeList { driver: self.driver.take(), others: Vec::new() }
    }

    fn watch(&mut self, key: u64, waker: &Waker) {
        match self.watchers.iter_mut().find(|(watcher, _)| *watcher == key) {
            Some((_, old)) => old.clone_from(waker),
            None => self.watchers.push((key, waker.clone())),
        }
    }

    fn is_told(&mut self, ticket: Option<u32>) -> bool {
        let run_is_cut = !self.stop.lets_the_turn_go_on();
        let Some(number) = ticket else { return run_is_cut };
        let Some(ticket) = self.tickets.iter_mut().find(|ticket| ticket.number == number) else { return true };
        let told = run_is_cut || ticket.cancelled.is_some();
        ticket.saw_it |= told;
        told
    }

    fn order(&self, number: u32) -> Order {
        let Some(ticket) = self.tickets.iter().find(|ticket| ticket.number == number) else { return Order::StopNow };
        if self.orphaned {
            return Order::StopNow;
        }
        let requests = self.request.iter().chain(&ticket.cancelled);
        requests.map(|request| ticket.order(request)).fold(Order::GoOn, Order::sooner)
    }
}

impl Ticket {
    fn order(&self, request: &CancelRequest) -> Order {
        let grace = request.grace_ms.map_or(self.grace, Duration::from_millis);
        match request.force {
            Force::AfterTurn => Order::GoOn,
            Force::Now => Order::StopNow,
            Force::Graceful if grace.is_zero() => Order::StopNow,
            Force::Graceful => {
                let from = self.since.mono_us.max(request.requested_at.mono_us);
                let grace_us = u64::try_from(grace.as_micros()).unwrap_or(u64::MAX);
                Order::StopBy(Stamp { mono_us: from.saturating_add(grace_us), ..request.requested_at })
            }
        }
    }
}

impl Order {
    fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::StopNow, _) | (_, Self::StopNow) => Self::StopNow,
            (Self::GoOn, other) => other,
            (this, Self::GoOn) => this,
            (Self::StopBy(a), Self::StopBy(b)) => Self::StopBy(if a.mono_us <= b.mono_us { a } else { b }),
        }
    }
}

fn level(force: Force) -> u8 {
    match force {
        Force::AfterTurn => 1,
        Force::Graceful => 2,
        Force::Now => 3,
    }
}
