//! The pool of blocking tools: a bounded number of threads at work, and a bounded number that were abandoned.
//!
//! A thread cannot be killed. One that goes on after its grace is abandoned by name: its place is given back, so that the
//! others go on, and it is counted. When too many are abandoned, calls get an error result until some have ended:
//! otherwise a tool that always hangs would eat the machine.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::lanes::sync::{AtomicUsize, Mutex, Ordering};

/// How many blocking tools run together, and how many may be abandoned, unless told otherwise.
const AT_WORK: usize = 64;
const ABANDONED: usize = 64;

pub(crate) struct BlockingPool {
    /// Not bound to one run: a place that is free is anybody's, first come first served.
    places: Arc<Semaphore>,
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
        // Without a place no blocking tool could ever run.
        let at_work = at_work.clamp(1, Semaphore::MAX_PERMITS);
        Self { places: Arc::new(Semaphore::new(at_work)), abandoned: Arc::default(), most_abandoned }
    }

    /// How many threads were abandoned and have not ended.
    pub(crate) fn abandoned(&self) -> usize {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Why no blocking tool may be started, if none may.
    pub(crate) fn refusal(&self) -> Option<String> {
        let abandoned = self.abandoned();
        (abandoned >= self.most_abandoned).then(|| {
            format!(
                "Not run: {abandoned} blocking tools did not stop when they were told and still hold their threads, and \
                 no more are allowed. Try again when some of them have ended."
            )
        })
    }

    /// A place, as soon as one is free.
    pub(crate) fn place(&self) -> impl Future<Output = Option<OwnedSemaphorePermit>> + Send + 'static {
        let places = Arc::clone(&self.places);
        // Nobody closes the pool.
        async move { places.acquire_owned().await.ok() }
    }

    /// The two ends of a job that has a place: who does it, and who waits for it.
    pub(crate) fn job<T>(&self, place: OwnedSemaphorePermit) -> (Doer<T>, Waiter<T>) {
        let job = Arc::new(Job { state: Mutex::new(State::AtWork(None)), abandoned: Arc::clone(&self.abandoned) });
        (Doer { job: Arc::clone(&job) }, Waiter { job, place: Some(place) })
    }
}

struct Job<T> {
    state: Mutex<State<T>>,
    abandoned: Arc<AtomicUsize>,
}

enum State<T> {
    AtWork(Option<Waker>),
    Done(T),
    /// Nobody waits any more; this is told the end.
    Abandoned(Box<dyn FnOnce(T) + Send>),
    Over,
}

/// The end of a job where the work is done.
pub(crate) struct Doer<T> {
    job: Arc<Job<T>>,
}

impl<T> Doer<T> {
    /// The work is done.
    pub(crate) fn finish(self, end: T) {
        let mut state = self.job.state.lock();
        match mem::replace(&mut *state, State::Over) {
            State::AtWork(waker) => {
                *state = State::Done(end);
                drop(state);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            State::Abandoned(late) => {
                drop(state);
                self.job.abandoned.fetch_sub(1, Ordering::Relaxed);
                late(end);
            }
            State::Done(_) | State::Over => {}
        }
    }
}

/// The end of a job where its end is waited for. Holds the job's place.
pub(crate) struct Waiter<T> {
    job: Arc<Job<T>>,
    place: Option<OwnedSemaphorePermit>,
}

impl<T> Waiter<T> {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        let mut state = self.job.state.lock();
        match mem::replace(&mut *state, State::Over) {
            State::Done(end) => {
                self.place = None;
                Poll::Ready(end)
            }
            State::AtWork(_) => {
                *state = State::AtWork(Some(cx.waker().clone()));
                Poll::Pending
            }
            other @ (State::Abandoned(_) | State::Over) => {
                *state = other;
                Poll::Pending
            }
        }
    }

    /// Gives the job up: its place is free, and `late` is told its end. Gives the end back if it has just come.
    pub(crate) fn abandon(mut self, late: Box<dyn FnOnce(T) + Send>) -> Option<T> {
        let mut state = self.job.state.lock();
        let end = match mem::replace(&mut *state, State::Over) {
            State::Done(end) => Some(end),
            State::AtWork(_) => {
                self.job.abandoned.fetch_add(1, Ordering::Relaxed);
                *state = State::Abandoned(late);
                None
            }
            State::Abandoned(_) | State::Over => None,
        };
        drop(state);
        self.place = None;
        end
    }
}
