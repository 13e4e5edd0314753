//! A queue of jobs in front of a thread.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// A queue of jobs. Closing it lets the thread finish what stands in it.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    news: Condvar,
}

#[derive(Debug)]
struct State<T> {
    jobs: VecDeque<T>,
    closed: bool,
    /// The thread waits for as long as it takes.
    asleep: bool,
    nudged: bool,
}

/// What was taken from a queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken<T> {
    /// These jobs.
    Jobs(Vec<T>),
    /// Nothing came in time, or the thread was nudged.
    Nothing,
    /// Nothing, and nothing will come: the queue is closed and empty.
    Closed,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State { jobs: VecDeque::new(), closed: false, asleep: false, nudged: false }),
            news: Condvar::new(),
        }
    }

    /// Puts a job at the end; gives it back if the queue is closed.
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

    /// Waits for a job; nothing when the queue is closed and empty.
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

    /// Waits for jobs, and takes those from the front that weigh no more than `most` together, one at least. With a
    /// patience it waits no longer than that. The patience is asked for here, so that a nudge either changes it or is felt.
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

    /// Lets [`take`](Self::take) return if it would wait for as long as it takes. One that has patience comes to it anyway.
    pub(crate) fn nudge(&self) {
        let mut state = self.state.lock();
        if state.asleep {
            state.nudged = true;
            drop(state);
            self.news.notify_one();
        }
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().jobs.is_empty()
    }

    /// Whether it takes no more jobs.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Takes no more jobs.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.news.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_as_much_as_fits_and_one_job_at_least() {
        let queue = Queue::new();
        for job in [3, 3, 3, 9, 1] {
            queue.push(job).unwrap();
        }
        let take = || queue.take(7, |job| *job, || Some(Duration::ZERO));
        assert_eq!(take(), Taken::Jobs(vec![3, 3]));
        assert_eq!(take(), Taken::Jobs(vec![3]));
        assert_eq!(take(), Taken::Jobs(vec![9]), "more than fits, and alone");
        queue.close();
        assert_eq!(queue.push(1), Err(1));
        assert_eq!(take(), Taken::Jobs(vec![1]), "what stood in it is done");
        assert_eq!(take(), Taken::Closed);
    }

    #[test]
    fn a_thread_that_sleeps_is_nudged_once_and_one_that_is_awake_is_not() {
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
