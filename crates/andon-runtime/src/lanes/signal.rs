//! A signal that is given once, and that many tasks wait for.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::watch;

/// A signal that is given once. Its clones are the same signal.
#[derive(Clone)]
pub(crate) struct Signal(Arc<watch::Sender<bool>>);

impl Default for Signal {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Signal {
    /// Gives the signal. Giving it again changes nothing.
    pub(crate) fn give(&self) {
        self.0.send_replace(true);
    }

    /// Waits until the signal is given.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub(crate) async fn given(&self) {
        // This is one of its senders, so the channel is not closed, and the wait ends with the signal.
        drop(self.0.subscribe().wait_for(|is_given| *is_given).await);
    }

    /// Does this work, unless the signal is given before it is done: it is then dropped.
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as the work is.
    pub(crate) async fn unless_given<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let (mut given, mut work) = (pin!(self.given()), pin!(work));
        std::future::poll_fn(|cx| match given.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => work.as_mut().poll(cx).map(Some),
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn a_signal_reaches_those_who_wait_and_those_who_come_later() {
        let signal = Signal::default();
        assert_eq!(signal.unless_given(ready(1)).await, Some(1));

        let same = signal.clone();
        let mut waiting = Box::pin(same.unless_given(pending::<u32>()));
        let is_over = std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_ready())).await;
        assert!(!is_over);

        signal.give();
        signal.give();
        assert_eq!(waiting.await, None);
        same.given().await;
        assert_eq!(signal.unless_given(ready(1)).await, None);
    }
}
