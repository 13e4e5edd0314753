//! A queue of jobs for a thread.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// A queue of jobs. After it is closed, the thread still finishes what is in it.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<QueueState<T>>,
    news: Condvar,
}

#[derive(Debug)]
struct QueueState<T> {
    jobs: VecDeque<T>,
    closed: bool,
    /// The thread waits without a timeout.
    asleep: bool,
    nudged: bool,
}

/// What [`Queue::take`] returned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken<T> {
    /// These jobs.
    Jobs(Vec<T>),
    /// Nothing came in time, or the thread was nudged.
    Nothing,
    /// The queue is closed and empty.
    Closed,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(QueueState { jobs: VecDeque::new(), closed: false, asleep: false, nudged: false }),
            news: Condvar::new(),
        }
    }

    /// Adds a job at the end; returns it if the queue is closed.
    pub(crate) fn push(&self, job: T) -> Result<(), T> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(job);
        }
        state.jobs.push_back(job);
        drop(state);
        self.news.notify_one();
        Ok(())
    }

    /// Waits for a job; `None` once the queue is closed and empty.
    pub(crate) fn next(&self) -> Option<T> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            self.news.wait(&mut state);
        }
    }

    /// Waits for jobs, and takes as many from the front as weigh no more than `most` together, but at least one. It waits no
    /// longer than `patience`, if that returns a time. `patience` is called under the lock, so that no nudge is missed.
    pub(crate) fn take(
        &self,
        most: usize,
        weight: impl Fn(&T) -> usize,
        patience: impl Fn() -> Option<Duration>,
    ) -> Taken<T> {
        let mut state = self.state.lock();
        while state.jobs.is_empty() {
            if state.closed {
                return Taken::Closed;
            }
            if std::mem::take(&mut state.nudged) {
                return Taken::Nothing;
            }
            match patience() {
                None => {
                    state.asleep = true;
                    self.news.wait(&mut state);
                    state.asleep = false;
                }
                Some(patience) if self.news.wait_for(&mut state, patience).timed_out() => return Taken::Nothing,
                Some(_) => {}
            }
        }
        let mut sum = 0;
        let fits = |job: &T| {
            sum += weight(job);
            sum <= most
        };
        let count = state.jobs.iter().map(fits).take_while(|fits| *fits).count().max(1);
        Taken::Jobs(state.jobs.drain(..count).collect())
    }

    /// Makes [`take`](Self::take) return if it waits without a timeout. With a timeout it returns by itself.
    pub(crate) fn nudge(&self) {
        let mut state = self.state.lock();
        if state.asleep {
            state.nudged = true;
            drop(state);
            self.news.notify_one();
        }
    }

    /// Whether no job is waiting.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().jobs.is_empty()
    }

    /// Whether it was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Accepts no more jobs.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.news.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take_returns_as_many_jobs_as_fit_and_at_least_one() {
        let queue = Queue::new();
        for job in [3, 3, 3, 9, 1] {
            queue.push(job).unwrap();
        }
        let take = || queue.take(7, |job| *job, || Some(Duration::ZERO));
        assert_eq!(take(), Taken::Jobs(vec![3, 3]));
        assert_eq!(take(), Taken::Jobs(vec![3]));
        assert_eq!(take(), Taken::Jobs(vec![9]), "too heavy, so it comes alone");
        queue.close();
        assert_eq!(queue.push(1), Err(1));
        assert_eq!(take(), Taken::Jobs(vec![1]), "jobs queued before the close are still done");
        assert_eq!(take(), Taken::Closed);
    }

    #[test]
    fn a_nudge_wakes_a_sleeping_thread_once_and_is_not_remembered_by_one_that_is_awake() {
        let queue: std::sync::Arc<Queue<u8>> = std::sync::Arc::new(Queue::new());
        queue.nudge();
        let other = std::sync::Arc::clone(&queue);
        let thread = std::thread::spawn(move || other.take(1, |_| 1, || None));
        while !queue.state.lock().asleep {
            std::thread::yield_now();
        }
        queue.nudge();
        assert_eq!(thread.join().unwrap(), Taken::Nothing);
        queue.push(1).unwrap();
        assert_eq!(queue.take(1, |_| 1, || None), Taken::Jobs(vec![1]));
    }
}
