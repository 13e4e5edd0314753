//! Counts tasks, so that a shutdown can wait for them.
//!
//! # Invariants
//!
//! 1. A task is counted from before it is spawned until its future is dropped, however it ends.
//! 2. Waiters are woken whenever the count becomes zero, and look again: tasks may have been added meanwhile.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::sync::Notify;

/// Tasks that have not ended.
#[derive(Default)]
pub(super) struct TaskTracker(Arc<Running>);

#[derive(Default)]
struct Running {
    tasks: AtomicUsize,
    none_left: Notify,
}

impl TaskTracker {
    /// The same task, counted.
    pub(super) fn track<T: Future<Output = ()>>(&self, task: T) -> Tracked<T> {
        Tracked { task, place: self.place() }
    }

    /// The same function, counted.
    pub(super) fn track_function<F: FnOnce()>(&self, function: F) -> impl FnOnce() + use<F> {
        let place = self.place();
        move || {
            // Dropped after the function has returned or panicked.
            let _place = place;
            function();
        }
    }

    /// How many tasks there are.
    pub(super) fn len(&self) -> usize {
        self.0.tasks.load(Ordering::Acquire)
    }

    /// Waits until there are no tasks.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub(super) async fn wait(&self) {
        loop {
            // It hears every notification from here on, so none is missed between the count and the wait.
            let none_left = self.0.none_left.notified();
            if self.len() == 0 {
                return;
            }
            none_left.await;
        }
    }

    fn place(&self) -> Place {
        self.0.tasks.fetch_add(1, Ordering::Relaxed);
        Place(Arc::clone(&self.0))
    }
}

/// A task in the count.
struct Place(Arc<Running>);

impl Drop for Place {
    fn drop(&mut self) {
        // What the task did happens before what its waiters do.
        if self.0.tasks.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.none_left.notify_waiters();
        }
    }
}

pin_project! {
    /// A task that is counted. The task is dropped before its place is.
    pub(super) struct Tracked<T> {
        #[pin]
        task: T,
        place: Place,
    }
}

impl<T: Future<Output = ()>> Future for Tracked<T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().task.poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn waiting_ends_when_the_last_task_has_ended_and_not_before() {
        let tracker = TaskTracker::default();
        tracker.wait().await;

        let (end_first, first) = oneshot::channel::<()>();
        let (end_second, second) = oneshot::channel::<()>();
        let end_of = |end: oneshot::Receiver<()>| async move { drop(end.await) };
        Handle::current().spawn(tracker.track(end_of(first)));
        Handle::current().spawn(tracker.track(end_of(second)));
        let mut waiting = Box::pin(tracker.wait());
        assert_eq!(tracker.len(), 2);

        drop(end_first);
        while tracker.len() > 1 {
            tokio::task::yield_now().await;
        }
        let is_over = std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_ready())).await;
        assert!(!is_over);

        drop(end_second);
        waiting.await;
        assert_eq!(tracker.len(), 0);
    }

    #[tokio::test]
    async fn a_task_that_panics_or_is_never_polled_is_no_longer_counted() {
        let tracker = TaskTracker::default();
        Handle::current().spawn(tracker.track(async { panic!("on purpose") }));
        Handle::current().spawn_blocking(tracker.track_function(|| panic!("on purpose")));
        tracker.wait().await;

        let never = tracker.track(std::future::pending());
        assert_eq!(tracker.len(), 1);
        drop(never);
        assert_eq!(tracker.len(), 0);
    }
}
