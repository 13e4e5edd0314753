//! The pool of blocking tools: it limits how many threads are at work, and how many may be abandoned.
//!
//! A thread cannot be killed. One that goes on after its grace is abandoned by name: its slot is freed for other
//! tools, and it is counted. While too many are abandoned, further calls get an error result: otherwise a tool that
//! always hangs would use up the machine.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::lanes::sync::{AtomicUsize, Mutex, Ordering};

/// How many blocking tools run at once, and how many may be abandoned, by default.
const AT_WORK: usize = 64;
const ABANDONED: usize = 64;

pub(crate) struct BlockingPool {
    /// Shared by all runs: first come, first served.
    slots: Arc<Semaphore>,
    abandoned: Arc<AtomicUsize>,
    most_abandoned: usize,
}

impl Default for BlockingPool {
    fn default() -> Self {
        Self::new(AT_WORK, ABANDONED)
    }
}

impl BlockingPool {
    pub(crate) fn new(at_work: usize, most_abandoned: usize) -> Self {
        // Without a slot no blocking tool could ever run.
        let at_work = at_work.clamp(1, Semaphore::MAX_PERMITS);
        Self { slots: Arc::new(Semaphore::new(at_work)), abandoned: Arc::default(), most_abandoned }
    }

    /// How many threads were abandoned and have not ended.
    pub(crate) fn abandoned(&self) -> usize {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Why no blocking tool may be started, if that is so.
    pub(crate) fn refusal(&self) -> Option<String> {
        let abandoned = self.abandoned();
        (abandoned >= self.most_abandoned).then(|| {
            format!(
                "Not run: {abandoned} blocking tools did not stop when they were told and still hold their threads, and \
                 no more are allowed. Try again when some of them have ended."
            )
        })
    }

    /// A slot, as soon as one is free.
    pub(crate) fn slot(&self) -> impl Future<Output = Option<OwnedSemaphorePermit>> + Send + 'static {
        let slots = Arc::clone(&self.slots);
        // The semaphore is never closed.
        async move { slots.acquire_owned().await.ok() }
    }

    /// The two ends of a job that has a slot: one does the work, the other waits for it.
    pub(crate) fn job<T>(&self, slot: OwnedSemaphorePermit) -> (Doer<T>, Waiter<T>) {
        let job = Arc::new(Job { state: Mutex::new(JobState::AtWork(None)), abandoned: Arc::clone(&self.abandoned) });
        (Doer { job: Arc::clone(&job) }, Waiter { job, slot: Some(slot) })
    }
}

struct Job<T> {
    state: Mutex<JobState<T>>,
    abandoned: Arc<AtomicUsize>,
}

enum JobState<T> {
    AtWork(Option<Waker>),
    Done(T),
    /// Nobody waits any more; this is called with the result.
    Abandoned(Box<dyn FnOnce(T) + Send>),
    Over,
}

/// The end of a job that does the work.
pub(crate) struct Doer<T> {
    job: Arc<Job<T>>,
}

impl<T> Doer<T> {
    /// The work is done.
    pub(crate) fn finish(self, end: T) {
        let mut state = self.job.state.lock();
        match mem::replace(&mut *state, JobState::Over) {
            JobState::AtWork(waker) => {
                *state = JobState::Done(end);
                drop(state);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            JobState::Abandoned(late) => {
                drop(state);
                self.job.abandoned.fetch_sub(1, Ordering::Relaxed);
                late(end);
            }
            JobState::Done(_) | JobState::Over => {}
        }
    }
}

/// The end of a job that waits for the result. Holds the job's slot.
pub(crate) struct Waiter<T> {
    job: Arc<Job<T>>,
    slot: Option<OwnedSemaphorePermit>,
}

impl<T> Waiter<T> {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        let mut state = self.job.state.lock();
        match mem::replace(&mut *state, JobState::Over) {
            JobState::Done(end) => {
                self.slot = None;
                Poll::Ready(end)
            }
            JobState::AtWork(_) => {
                *state = JobState::AtWork(Some(cx.waker().clone()));
                Poll::Pending
            }
            other @ (JobState::Abandoned(_) | JobState::Over) => {
                *state = other;
                Poll::Pending
            }
        }
    }

    /// Gives the job up: its slot is freed, and `late` is called with its result. Returns the result if it has just
    /// come.
    pub(crate) fn abandon(mut self, late: Box<dyn FnOnce(T) + Send>) -> Option<T> {
        let mut state = self.job.state.lock();
        let end = match mem::replace(&mut *state, JobState::Over) {
            JobState::Done(end) => Some(end),
            JobState::AtWork(_) => {
                self.job.abandoned.fetch_add(1, Ordering::Relaxed);
                *state = JobState::Abandoned(late);
                None
            }
            JobState::Abandoned(_) | JobState::Over => None,
        };
        drop(state);
        self.slot = None;
        end
    }
}
