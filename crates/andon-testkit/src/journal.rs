//! A journal for tests: in memory, with seams before and after each append, that can be slow, fail, or die.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use andon_runtime::core::cancel::CancelRequest;
use andon_runtime::core::event::{AddendumKind, Entry, Epoch, Event, HookChange};
use andon_runtime::core::id::{CallId, RunId, SessionKey};
use andon_runtime::core::message::{Message, ToolCall};
use andon_runtime::core::time::Stamp;
use andon_runtime::{
    Append, AppendDone, Batch, BoxFuture, HistoryBefore, Journal, JournalError, JournaledRun, LastReported, Lease,
    MemoryJournal, Probe, RequestFate, Sessions, Shelf,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

/// A journal for tests. Clones are the same journal.
#[derive(Clone)]
pub struct TestJournal {
    inner: Arc<Inner>,
}

/// A fence that is ahead of the clock.
const HELD: u64 = 1;

/// One write to the disk.
struct Write {
    /// The run and epoch that it continues, if it is a batch for a run that has begun and does not take the run over.
    continues: Option<(RunId, Epoch)>,
    write: Box<dyn FnOnce(&MemoryJournal) -> Append + Send>,
}

struct Inner {
    memory: Arc<MemoryJournal>,
    probe: Option<Arc<dyn Probe>>,
    delay: Option<Duration>,
    /// If it is shared with other processes.
    lease: Option<Arc<Lease>>,
    state: Mutex<DiskState>,
}

#[derive(Default)]
struct DiskState {
    /// What was durable when the process died.
    crashed: Option<Arc<MemoryJournal>>,
    /// Why every further write fails, if it does.
    failing: Option<JournalError>,
    /// Why what was said before a run cannot be read, if it cannot.
    unreadable: Option<JournalError>,
    /// Runs with a failed batch, and its epoch: what comes after it would leave a gap.
    failed: HashMap<RunId, Epoch>,
    /// Writes that wait for the slow disk, and when each is due.
    waiting: std::collections::VecDeque<(Instant, Write, AppendDone)>,
    busy: bool,
}

impl std::fmt::Debug for TestJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TestJournal")
    }
}

impl TestJournal {
    /// A journal on top of what is there already.
    pub fn new(memory: MemoryJournal, probe: Option<Arc<dyn Probe>>) -> Self {
        Self::build(memory, probe, None)
    }

    /// A journal whose every append takes a while. Works on a current-thread runtime with a paused clock.
    pub fn slow(probe: Option<Arc<dyn Probe>>, delay: Duration) -> Self {
        Self::build(MemoryJournal::new(), probe, Some(delay))
    }

    /// Like [`slow`](Self::slow), on top of what is there already.
    pub fn slow_on(memory: MemoryJournal, delay: Duration) -> Self {
        Self::build(memory, None, Some(delay))
    }

    fn build(memory: MemoryJournal, probe: Option<Arc<dyn Probe>>, delay: Option<Duration>) -> Self {
        let memory = Arc::new(memory);
        Self { inner: Arc::new(Inner { memory, probe, delay, lease: None, state: Mutex::default() }) }
    }

    /// The same journal as one that is shared with other processes: with a lease, which is held.
    #[must_use]
    pub fn shared(self) -> Self {
        let lease = Lease::new(|| 0);
        lease.hold_until(HELD);
        let Inner { memory, probe, delay, .. } = &*self.inner;
        let inner = Inner {
            memory: Arc::clone(memory),
            probe: probe.clone(),
            delay: *delay,
            lease: Some(Arc::new(lease)),
            state: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The same record as another process sees it, which has a quick disk.
    #[must_use]
    pub fn of_another_process(&self) -> Self {
        let memory = Arc::clone(&self.inner.memory);
        Self { inner: Arc::new(Inner { memory, probe: None, delay: None, lease: None, state: Mutex::default() }) }
    }

    /// Tells whoever drives runs that these are others' now.
    pub fn tell_lost(&self, runs: &[RunId]) {
        self.inner.lease.iter().flat_map(|lease| lease.holders()).for_each(|holder| holder.runs_are_lost(runs));
    }

    /// The lease is over, and nobody is told.
    pub fn end_lease(&self) {
        self.inner.lease.iter().for_each(|lease| lease.hold_until(0));
    }

    /// Tells whoever drives runs that the lease is over.
    pub fn tell_lease_is_over(&self) {
        self.inner.lease.iter().flat_map(|lease| lease.holders()).for_each(|holder| holder.lease_is_over());
    }

    /// The lease is held again.
    pub fn renew_lease(&self) {
        self.inner.lease.iter().for_each(|lease| lease.hold_until(HELD));
    }

    /// The process dies here: nothing that is appended from now on is durable.
    pub fn crash(&self) {
        let mut state = self.inner.state.lock();
        if state.crashed.is_none() {
            state.crashed = Some(Arc::new(self.inner.memory.snapshot()));
            state.failing = Some(JournalError::Closed);
        }
    }

    /// Every write from now on fails.
    pub fn fail(&self, error: JournalError) {
        self.inner.state.lock().failing = Some(error);
    }

    /// Writes succeed again.
    pub fn heal(&self) {
        self.inner.state.lock().failing = None;
    }

    /// What was said before a run cannot be read from now on, because of this; with `None` it can again.
    pub fn hide_history(&self, error: Option<JournalError>) {
        self.inner.state.lock().unreadable = error;
    }

    /// Whether the process has died.
    pub fn is_dead(&self) -> bool {
        self.inner.state.lock().crashed.is_some()
    }

    /// How many tasks it has: the slow disk is one while it writes.
    pub(crate) fn tasks(&self) -> usize {
        usize::from(self.inner.state.lock().busy)
    }

    /// What was durable: at the crash, or now.
    pub fn durable(&self) -> MemoryJournal {
        let state = self.inner.state.lock();
        match &state.crashed {
            Some(crashed) => crashed.snapshot(),
            None => self.inner.memory.snapshot(),
        }
    }

    /// How many events of a run are durable.
    pub fn facts(&self, run: &RunId) -> u64 {
        self.inner.memory.stored(run).unwrap_or_default().facts().count() as u64
    }

    /// Whether a matching event of a run is durable.
    pub fn has(&self, run: &RunId, is_it: impl Fn(&Event) -> bool) -> bool {
        self.inner.memory.stored(run).unwrap_or_default().facts().any(|record| is_it(&record.event))
    }

    /// A call of a run as it is on record: as the model wrote it, or as a hook left it.
    pub fn call(&self, run: &RunId, id: &CallId) -> Option<ToolCall> {
        let stored = self.inner.memory.stored(run).unwrap_or_default();
        stored.facts().rev().find_map(|record| match &record.event {
            Event::Message { message } => message.calls().find(|call| call.id == *id).cloned(),
            Event::HookFinished { change: Some(change), .. } => match &**change {
                HookChange::Call { call } if call.id == *id => Some(call.clone()),
                _ => None,
            },
            _ => None,
        })
    }

    fn hit(&self, seam: &'static str) {
        if let Some(probe) = &self.inner.probe {
            probe.hit(seam);
        }
    }

    /// Fails while nothing can be written.
    fn check(&self) -> Result<(), JournalError> {
        self.inner.state.lock().failing.clone().map_or(Ok(()), Err)
    }

    /// Takes a write: at once, or when the slow disk is ready.
    fn take(
        &self,
        continues: Option<(RunId, Epoch)>,
        write: impl FnOnce(&MemoryJournal) -> Append + Send + 'static,
    ) -> Append {
        let write = Write { continues, write: Box::new(write) };
        match self.inner.delay {
            None => Append::ready(self.write_now(write)),
            Some(delay) => self.write_later(write, delay),
        }
    }

    fn write_now(&self, Write { continues, write }: Write) -> Result<(), JournalError> {
        if let Some((run, epoch)) = &continues {
            self.check_batch(run, *epoch)?;
        }
        self.check()?;
        // A journal in memory is never pending.
        write(&self.inner.memory).now().unwrap_or(Err(JournalError::Closed))
    }

    /// After a failed batch nothing of its epoch is accepted.
    fn check_batch(&self, run: &RunId, epoch: Epoch) -> Result<(), JournalError> {
        let mut state = self.inner.state.lock();
        if state.failing.is_some() {
            let failed = state.failed.entry(run.clone()).or_default();
            *failed = epoch.max(*failed);
        } else if state.failed.get(run).is_some_and(|failed| *failed >= epoch) {
            return Err(JournalError::Storage(format!("a batch of run {run} before this one failed")));
        }
        Ok(())
    }

    fn write_later(&self, write: Write, delay: Duration) -> Append {
        let (append, done) = Append::pending();
        let mut state = self.inner.state.lock();
        state.waiting.push_back((Instant::now() + delay, write, done));
        if !std::mem::replace(&mut state.busy, true) {
            let journal = self.clone();
            #[expect(clippy::disallowed_methods, reason = "the disk is not part of the runtime under test")]
            drop(tokio::spawn(async move { journal.write().await }));
        }
        append
    }

    /// The slow disk: one write after the other, each when it is due.
    async fn write(&self) {
        loop {
            let next = self.inner.state.lock().waiting.pop_front();
            let Some((due, write, done)) = next else {
                let mut state = self.inner.state.lock();
                if state.waiting.is_empty() {
                    state.busy = false;
                    return;
                }
                continue;
            };
            sleep_until(due).await;
            let result = self.write_now(write);
            done.done(result);
        }
    }
}

impl Journal for TestJournal {
    fn append(&self, batch: Batch) -> Append {
        self.hit("journal: before append");
        let begins = batch.entries.first().and_then(Entry::fact).is_some_and(|record| record.seq == 1);
        let goes_on = !begins && batch.takes_over.is_none();
        let continues = goes_on.then(|| (batch.run.clone(), batch.epoch));
        let append = self.take(continues, move |memory| memory.append(batch));
        self.hit("journal: after append");
        append
    }

    fn append_addendum(&self, run: &RunId, at: Stamp, what: AddendumKind) -> Append {
        self.hit("journal: before addendum");
        match self.check() {
            Ok(()) => self.inner.memory.append_addendum(run, at, what),
            Err(error) => Append::ready(Err(error)),
        }
    }

    fn keep_settled(&self, run: &RunId, at: Stamp) {
        // A journal on a full disk reports it all the same, and writes it once there is room. A dead one keeps nothing.
        if !self.is_dead() {
            self.inner.memory.keep_settled(run, at);
        }
    }

    fn read(&self, run: &RunId) -> BoxFuture<Result<Option<JournaledRun>, JournalError>> {
        self.inner.memory.read(run)
    }

    fn history(&self, session: &SessionKey) -> BoxFuture<Result<Vec<Arc<Message>>, JournalError>> {
        self.inner.memory.history(session)
    }

    fn last_reported(&self, session: &SessionKey) -> BoxFuture<Result<Option<LastReported>, JournalError>> {
        self.inner.memory.last_reported(session)
    }

    fn history_before(&self, run: &RunId, most: usize) -> BoxFuture<Result<Option<HistoryBefore>, JournalError>> {
        match self.inner.state.lock().unreadable.clone() {
            Some(error) => Box::pin(std::future::ready(Err(error))),
            None => self.inner.memory.history_before(run, most),
        }
    }

    fn unsettled(&self) -> BoxFuture<Result<Vec<RunId>, JournalError>> {
        self.inner.memory.unsettled()
    }

    fn lease(&self) -> Option<Arc<Lease>> {
        self.inner.lease.clone()
    }

    fn claim(&self, run: &RunId, from: Epoch) -> BoxFuture<Result<Option<Epoch>, JournalError>> {
        let (journal, run) = (self.clone(), run.clone());
        Box::pin(async move {
            // It waits for the writes before it.
            while journal.inner.state.lock().busy {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            journal.hit("journal: before claim");
            journal.check()?;
            journal.inner.memory.claim(&run, from).await
        })
    }

    fn request_cancel(&self, run: &RunId, request: CancelRequest) -> BoxFuture<Result<RequestFate, JournalError>> {
        match self.check() {
            Ok(()) => self.inner.memory.request_cancel(run, request),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn sessions(&self) -> &dyn Sessions {
        self.inner.memory.sessions()
    }

    fn shelf(&self) -> &dyn Shelf {
        self
    }
}

impl Shelf for TestJournal {
    fn keep(&self, kind: &str, name: &str, value: Value) -> Append {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        self.take(None, move |memory| memory.keep(&kind, &name, value))
    }

    fn discard(&self, kind: &str, name: &str) -> Append {
        let (kind, name) = (kind.to_owned(), name.to_owned());
        self.take(None, move |memory| memory.discard(&kind, &name))
    }

    fn kept(&self, kind: &str) -> BoxFuture<Result<Vec<(String, Value)>, JournalError>> {
        self.inner.memory.kept(kind)
    }
}
