//! What ends every wait of the driver: news, the caller's signal, the deadline.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use andon_core::cancel::Reason;
use tokio::time::{Sleep, sleep};

use crate::journal::{Append, JournalError};
use crate::lanes::BoxFuture;
use crate::live::Live;
use crate::live::cord::Cancel;

/// What ended a wait.
pub(super) enum Woke<T> {
    /// Something reached the run from outside. The work is untouched and can be waited for again.
    News,
    /// The work is ready.
    Work(T),
}

pub(super) struct Watch {
    live: Arc<Live>,
    signal: Option<BoxFuture<Cancel>>,
    limit: Option<Duration>,
    /// How much of the limit had passed before this process.
    waited: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Watch {
    pub(super) fn new(
        live: Arc<Live>,
        limit: Option<Duration>,
        waited: Duration,
        signal: Option<BoxFuture<Cancel>>,
    ) -> Self {
        Self { live, signal, limit, waited, deadline: None }
    }

    /// Starts the deadline. Called on the driver's task, because whoever starts a run may have no timer.
    pub(super) fn begin(&mut self) {
        self.deadline = self.limit.map(|limit| Box::pin(sleep(limit.saturating_sub(self.waited))));
    }

    /// Waits for `work` until there is news.
    ///
    /// # Cancel safety
    ///
    /// `work` is only polled: nothing is lost when news comes first, and it can be raced again.
    pub(super) async fn race<T>(&mut self, mut work: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Woke<T> {
        poll_fn(|cx| {
            self.poll_limits(cx);
            if self.live.poll_news(cx).is_ready() {
                return Poll::Ready(Woke::News);
            }
            work(cx).map(Woke::Work)
        })
        .await
    }

    /// Waits for news.
    pub(super) async fn news(&mut self) {
        self.race(|_| Poll::<()>::Pending).await;
    }

    /// Waits until a batch is durable. A deadline that is reached meanwhile still pulls the cord.
    pub(super) async fn wait_for_disk(&mut self, append: &mut Append) -> Result<(), JournalError> {
        poll_fn(|cx| {
            self.poll_limits(cx);
            Pin::new(&mut *append).poll(cx)
        })
        .await
    }

    /// Checks the caller's signal and the deadline without waiting.
    pub(super) fn look(&mut self) {
        if self.signal.is_some() || self.deadline.is_some() {
            self.poll_limits(&mut Context::from_waker(Waker::noop()));
        }
    }

    /// Pulls the cord when the caller's signal has fired or the deadline is reached.
    fn poll_limits(&mut self, cx: &mut Context<'_>) {
        if let Some(signal) = &mut self.signal
            && let Poll::Ready(cancel) = signal.as_mut().poll(cx)
        {
            self.signal = None;
            self.pull(cancel);
        }
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            let note = format!("the deadline of {:?} was reached", self.limit.unwrap_or_default());
            self.deadline = None;
            self.pull(Cancel::graceful().reason(Reason::Deadline).by("limit").note(note));
        }
    }

    fn pull(&self, cancel: Cancel) {
        self.live.pull(cancel.at(self.live.now()));
    }
}
