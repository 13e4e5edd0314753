//! A live run: what its driver, its readers and everyone who may pull its cord share, behind one lock.
//!
//! # Theory of operation
//!
//! The driver owns the run, and only the driver advances it. Everybody else leaves [`News`] in the driver's inbox and
//! wakes it: a pull, an approval, a tool that ended. The log of what may be shown is behind the same lock. That makes
//! these invariants possible:
//!
//! # Invariants
//!
//! 1. *The gate.* A piece is accepted, a tool started and a model called only under the lock, after a check of `stop`.
//!    A pull changes `stop` under the lock. So once a pull has returned, none of the three happens any more.
//! 2. *Finish against pull.* The end is sealed under the lock, so a run is completed or cancelled and never both.
//! 3. No foreign code runs under the lock: wakers are woken, probes hit and models called after it is released.
//! 4. Locks are taken in the order session, writer, told, registry, run; never the other way. Observers run under `told`, and
//!    only the task that notifies observers waits for it: no pull, no reader.

pub(crate) mod approval;
mod calls;
pub(crate) mod cord;
pub(crate) mod feed;
pub(crate) mod flusher;
mod gate;
mod life;
pub(crate) mod log;
pub(crate) mod news;
pub(crate) mod observe;
pub(crate) mod presence;
mod pull;
pub(crate) mod run;
pub(crate) mod services;
mod show;
mod state_byte;
mod tell;
mod tickets;
mod write;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use andon_core::cancel::{CancelRequest, Stop};
use andon_core::digest::Digest;
use andon_core::event::{Addendum, Epoch, Event, Record};
use andon_core::id::{CallId, RunId, SessionKey};
use andon_core::outcome::Outcome;
use andon_core::progress::RunProgress;
use andon_core::time::Stamp;

#[cfg(feature = "testing")]
use crate::lanes::probe::GateCounts;
use crate::lanes::sync::{AtomicU8, AtomicU64, Mutex};
use crate::live::log::Log;
pub use calls::DecideError;
pub(crate) use calls::{Decided, PersonsAnswer};
pub(crate) use gate::Offer;
use life::Life;
pub(crate) use news::{AsideEnd, Changed, HookVerdict, News, ToolDone};
pub(crate) use services::Services;
pub(crate) use show::Learning;
pub(crate) use state_byte::StateByte;
use tickets::WorkTicket;
pub(crate) use tickets::{ClosedTicket, Order, REAP, StopRules};
pub(crate) use write::{Appended, Ended, Fresh};

struct Inner {
    stop: Stop,
    /// The request in force, which is the hardest so far.
    request: Option<Arc<CancelRequest>>,
    /// How many requests have changed something, and how many of those are durable.
    requests: u32,
    recorded: u32,
    inbox: Vec<News>,
    driver: Option<Waker>,
    log: Log,
    tickets: Vec<WorkTicket>,
    /// Tasks that are declared to outlive the run, and do.
    detached: Vec<WorkTicket>,
    next_ticket: u32,
    watchers: Vec<(u64, Waker)>,
    /// The turn's calls that have not started. Boxed, like everything that a run which waits for its model does not
    /// need, so that such a run is small.
    unstarted: Option<Box<Unstarted>>,
    /// How many pieces were accepted by this process.
    pieces: u64,
    #[cfg(feature = "testing")]
    passed: GateCounts,
    /// Another process has called its model, so the number of pieces is unknown.
    taken_over: bool,
    life: Life,
    /// What was learned after the end.
    addenda: Vec<Addendum>,
    /// How many calls are still being learned about.
    learning: u32,
}

/// Calls of a turn that have not started.
#[derive(Default)]
struct Unstarted {
    /// Those that wait for a person, and the arguments that an approval is bound to.
    approvals: Vec<(CallId, Digest)>,
    /// Those that may start.
    ready: VecDeque<CallId>,
}

/// A live run.
pub(crate) struct Live {
    pub(crate) id: RunId,
    pub(crate) session: Arc<SessionKey>,
    pub(crate) services: Arc<Services>,
    pub(crate) epoch: Epoch,
    /// How hard the cord was pulled; 0 if it was not. Only a hint, which saves taking the lock.
    level: AtomicU8,
    /// Where it stands, according to its durable events.
    pub(crate) state_byte: StateByte,
    keys: AtomicU64,
    /// Held while a batch is handed to the journal, so that facts and lumps stay in order. Never held by a pull.
    writer: Mutex<()>,
    /// The facts that observers were told; `None` if there are no observers.
    told: Option<Box<Mutex<Vec<Arc<Record>>>>>,
    inner: Mutex<Inner>,
}

/// Whom to wake once the lock is released (invariant 3).
#[must_use]
#[derive(Default)]
struct WakeList {
    driver: Option<Waker>,
    reader: Option<(u64, Waker)>,
    others: Vec<(u64, Waker)>,
}

impl WakeList {
    /// The waiting readers.
    fn readers(log: &mut Log) -> Self {
        let (reader, others) = log.wake_list();
        Self { driver: None, reader, others }
    }

    /// The waiting tasks beside the driver.
    fn watchers(inner: &mut Inner) -> Self {
        Self { others: std::mem::take(&mut inner.watchers), ..Self::default() }
    }

    fn wake(self) {
        if let Some(driver) = self.driver {
            driver.wake();
        }
        for (_, waker) in self.reader.into_iter().chain(self.others) {
            waker.wake();
        }
    }
}

impl Live {
    pub(crate) fn new(id: RunId, session: Arc<SessionKey>, services: Arc<Services>, epoch: Epoch) -> Self {
        let inner = Inner {
            stop: Stop::Open,
            request: None,
            requests: 0,
            recorded: 0,
            inbox: Vec::new(),
            driver: None,
            log: Log::default(),
            tickets: Vec::new(),
            detached: Vec::new(),
            next_ticket: 0,
            watchers: Vec::new(),
            unstarted: None,
            pieces: 0,
            #[cfg(feature = "testing")]
            passed: GateCounts::default(),
            taken_over: false,
            life: Life::Driven,
            addenda: Vec::new(),
            learning: 0,
        };
        let told = (!services.observers.is_empty()).then(Box::default);
        Self {
            id,
            session,
            services,
            epoch,
            level: AtomicU8::new(0),
            state_byte: StateByte::queued(),
            keys: AtomicU64::new(0),
            writer: Mutex::new(()),
            told,
            inner: Mutex::new(inner),
        }
    }

    /// Takes up a run that a dead process left waiting, as read from the journal.
    pub(crate) fn take_up(&self, log: Log, progress: &RunProgress) {
        // The process that wrote them told its own observers.
        self.count_as_told(log.facts());
        let mut inner = self.inner.lock();
        // Whoever has cancelled it already waits for the record.
        let waiting = WakeList::readers(&mut inner.log);
        inner.taken_over = called_a_model(&log);
        inner.log = log;
        self.state_byte.set(progress.state(), progress.phase());
        drop(inner);
        waiting.wake();
    }

    /// A run that this process does not drive, as read from the journal.
    pub(crate) fn from_journal(
        id: RunId,
        session: Arc<SessionKey>,
        services: Arc<Services>,
        log: Log,
        outcome: Option<Outcome>,
        addenda: Vec<Addendum>,
    ) -> Self {
        let live = Self { state_byte: StateByte::unknown(), ..Self::new(id, session, services, 0) };
        {
            let mut inner = live.inner.lock();
            inner.life = match outcome {
                Some(outcome) => {
                    inner.stop = Stop::Sealed(Arc::clone(&outcome.ending));
                    Life::Settled { outcome: Arc::new(outcome) }
                }
                None => Life::Elsewhere { taken: None },
            };
            inner.recorded = u32::MAX;
            inner.taken_over = called_a_model(&log);
            inner.log = log;
            inner.log.close();
            inner.addenda = addenda;
        }
        live
    }

    pub(crate) fn hit(&self, seam: &'static str) {
        self.services.probes.hit(seam);
    }

    pub(crate) fn now(&self) -> Stamp {
        self.services.clock.now()
    }

    /// Leaves something in the driver's inbox.
    pub(crate) fn post(&self, news: News) {
        let wake = self.inner.lock().post(news);
        wake.wake();
    }

    pub(crate) fn take_news(&self) -> Vec<News> {
        std::mem::take(&mut self.inner.lock().inbox)
    }

    /// Ready when there is news; a pull is news.
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
}

fn called_a_model(log: &Log) -> bool {
    log.facts().iter().any(|record| matches!(record.event, Event::ModelStarted { .. }))
}

impl Inner {
    fn post(&mut self, news: News) -> WakeList {
        self.inbox.push(news);
        WakeList { driver: self.driver.take(), ..WakeList::default() }
    }

    fn watch(&mut self, key: u64, waker: &Waker) {
        match self.watchers.iter_mut().find(|(watcher, _)| *watcher == key) {
            Some((_, old)) => old.clone_from(waker),
            None => self.watchers.push((key, waker.clone())),
        }
    }
}
