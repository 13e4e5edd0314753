//! A request as the provider saw it: what was asked, how far the answer has come, and how it was closed.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::request::Request;

/// How a client went away before the answer was whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum Hangup {
    /// It closed the connection (FIN).
    Closed,
    /// It reset the connection (RST).
    Reset,
    /// It reset the stream (HTTP/2's RST_STREAM), with this code: 8 is CANCEL.
    StreamReset(u32),
}

/// Who ended an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum ClosedHow {
    /// The answer was sent to its end.
    Whole,
    /// The script broke it off, or the provider was dropped.
    ByServer,
    /// The client went away first.
    ByClient(Hangup),
}

/// How an answer ended, and what had been sent by then.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// When the server saw it.
    pub at: Instant,
    /// Who ended it.
    pub how: ClosedHow,
    /// Whole frames that had been sent.
    pub sent_frames: usize,
    /// Bytes of the body that had been sent, without what HTTP adds. A write in which the client left does not count.
    pub sent_bytes: u64,
    /// What the model had said in those whole frames: thinking, text and arguments, one after the other. A flood says nothing.
    pub said: String,
}

impl Closed {
    /// Whether the client went away first.
    pub fn by_client(&self) -> bool {
        matches!(self.how, ClosedHow::ByClient(_))
    }
}

/// How far an answer has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) reached: Vec<String>,
    pub(super) sent_frames: usize,
    pub(super) sent_bytes: u64,
    pub(super) said: String,
    pub(super) closed: Option<Closed>,
}

/// A request that the provider received, and what became of its answer. Dereferences to the [`Request`].
#[derive(Clone)]
pub struct SeenRequest(pub(super) Arc<Exchange>);

/// What [`SeenRequest`] and the server share.
pub(super) struct Exchange {
    pub(super) request: Request,
    pub(super) number: usize,
    pub(super) connection: usize,
    pub(super) progress: watch::Sender<Progress>,
}

impl SeenRequest {
    /// Which request it is, counted from 0.
    pub fn number(&self) -> usize {
        self.0.number
    }

    /// On which connection it came, counted from 0.
    pub fn connection(&self) -> usize {
        self.0.connection
    }

    /// Waits until the answer is over, and returns how it ended.
    ///
    /// # Cancel safety
    ///
    /// It only waits.
    pub async fn closed(&self) -> Closed {
        let mut progress = self.0.progress.subscribe();
        loop {
            if let Some(closed) = progress.borrow_and_update().closed.clone() {
                return closed;
            }
            // The exchange holds the sender, so the wait cannot fail.
            let _ = progress.changed().await;
        }
    }

    /// How the answer ended, if it has.
    pub fn closed_already(&self) -> Option<Closed> {
        self.0.progress.borrow().closed.clone()
    }

    /// Waits until the script has reached a step: a name given with [`Script::mark`](super::Script::mark), or one of `headers`
    /// (they are sent), `stall`, `pause`, `flood`, `end`, `cut`, `reset`. True at once if it was there already; false if the
    /// answer was over first.
    ///
    /// # Cancel safety
    ///
    /// It only waits.
    pub async fn reached(&self, step: &str) -> bool {
        self.when(|progress| progress.reached.iter().any(|reached| reached == step)).await
    }

    /// Waits until this many whole frames have been sent; false if the answer was over first.
    ///
    /// # Cancel safety
    ///
    /// It only waits.
    pub async fn sent_frames(&self, frames: usize) -> bool {
        self.when(|progress| progress.sent_frames >= frames).await
    }

    /// Waits until this many bytes of the body have been sent; false if the answer was over first.
    ///
    /// # Cancel safety
    ///
    /// It only waits.
    pub async fn sent_bytes(&self, bytes: u64) -> bool {
        self.when(|progress| progress.sent_bytes >= bytes).await
    }

    async fn when(&self, holds: impl Fn(&Progress) -> bool) -> bool {
        let mut progress = self.0.progress.subscribe();
        match progress.wait_for(|progress| holds(progress) || progress.closed.is_some()).await {
            Ok(progress) => holds(&progress),
            // The exchange holds the sender.
            Err(_) => false,
        }
    }
}

impl Deref for SeenRequest {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.0.request
    }
}

impl fmt::Debug for SeenRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeenRequest")
            .field("number", &self.0.number)
            .field("request", &self.0.request)
            .field("progress", &*self.0.progress.borrow())
            .finish()
    }
}
