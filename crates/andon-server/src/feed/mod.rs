//! A run's feed as Server-Sent Events.
//!
//! # Invariants
//!
//! 1. Nothing is kept for a reader but its position: what it has not read stays in the run. So a stalled reader costs
//!    nothing, and when it reads on it gets what it missed in a few large chunks.
//! 2. Everything that is ready is sent together: up to [`FRAME`] bytes, plus the rest of the last event. In another
//!    dialect, events are sent one by one.
//! 3. A feed ends by itself: after the run's last event, when the server shuts down, and within five seconds after the
//!    reader's key or token stops being valid. The feed of a run that waits for its agent stays open until the run is
//!    resumed or cancelled. Only then does the reader have to reconnect.

pub(crate) mod presence;
pub(crate) mod talk;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use andon_runtime::core::time::Wall;
use andon_runtime::{Feed, FeedItem, RunId, Runtime};
use andon_telemetry::Figures;
use axum::body::Bytes;
use axum::http::{HeaderName, HeaderValue, header};
use bytes::{BufMut, BytesMut};
use futures_core::Stream;
use http_body::Frame;
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::access::principal::{Pass, Principal, RECHECK, User};
use crate::access::scopes::Scope;
use crate::feed::presence::FeedWatcher;
use crate::http::problem::Problem;
use crate::time::after;

/// How many bytes are sent together.
pub(crate) const FRAME: usize = 16 << 10;

/// The headers of a response that is a feed.
pub(crate) const SSE_HEADERS: [(HeaderName, HeaderValue); 3] = [
    (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    // A buffering proxy would delay the events.
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
];

/// How often to check whether a run has been resumed.
const LOOK: Duration = Duration::from_secs(1);

/// What a reader holds while it reads: its slot among the feeds, its presence at the run, and its permission to read.
#[derive(Debug)]
pub struct Reading {
    pub(crate) _slot: FeedSlot,
    pub(crate) watcher: FeedWatcher,
    pub(crate) permission: ReadPermission,
    pub(crate) figures: Arc<Figures>,
    /// When the reader arrived.
    pub(crate) since: Wall,
}

impl Reading {
    /// The reader leaves because it has received everything it should get, which does not count as a disconnect.
    pub fn leave_without_disconnect(&self) {
        self.watcher.leave_without_disconnect();
    }

    /// An item was handed to the reader's connection. Measures how far the reader is behind, for the metrics. What
    /// existed before the reader arrived does not count.
    pub(crate) fn saw(&self, item: &FeedItem) {
        if let FeedItem::Fact(record) = item
            && record.at.wall >= self.since
        {
            let lag = self.permission.runtime.now().wall.0.saturating_sub(record.at.wall.0);
            self.figures.feed_lag(Duration::from_micros(lag));
        }
    }
}

/// Permission to read, which can end.
#[derive(Debug, Clone)]
pub(crate) struct ReadPermission {
    pass: Pass,
    runtime: Runtime,
    /// Whether the reader may cancel runs. A reader that may not does not cancel a run by disconnecting, either.
    pub(crate) may_stop: bool,
}

impl ReadPermission {
    pub(crate) fn new(principal: &Principal, runtime: &Runtime) -> Self {
        let may_stop = principal.allows(Scope::RunCancel);
        Self { pass: principal.pass.clone(), runtime: runtime.clone(), may_stop }
    }

    /// Whether it can end at all.
    pub(crate) fn can_end(&self) -> bool {
        self.pass.can_end()
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.pass.can_end() && !self.pass.is_valid(self.runtime.now().wall)
    }

    /// How long to wait before checking it again: at most `time`.
    pub(crate) fn at_most(&self, time: Duration) -> Duration {
        if self.pass.can_end() { time.min(RECHECK) } else { time }
    }
}

/// Writes a feed in some format.
pub trait FeedFormat: Send + Unpin {
    /// Appends an item.
    fn write(&mut self, item: &FeedItem);

    /// What must be sent now, even if more could be added at once.
    fn full(&mut self) -> Option<Bytes>;

    /// What is sent if nothing more can be added at once.
    fn rest(&mut self) -> Option<Bytes>;

    /// Whether this reader has received everything it should get, although the run goes on.
    fn is_done(&self) -> bool;
}

/// The native feed, with the items as they are.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    frame: BytesMut,
}

impl FeedFormat for Plain {
    fn write(&mut self, item: &FeedItem) {
        write(&mut self.frame, item);
    }

    fn full(&mut self) -> Option<Bytes> {
        if self.frame.len() < FRAME { None } else { self.rest() }
    }

    fn rest(&mut self) -> Option<Bytes> {
        // Nothing that was sent is kept (invariant 1).
        (!self.frame.is_empty()).then(|| std::mem::take(&mut self.frame).freeze())
    }

    fn is_done(&self) -> bool {
        false
    }
}

/// A feed as a response body.
pub struct SseBody<F> {
    feed: Feed,
    format: F,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    heartbeat: Duration,
    /// When the next heartbeat is due.
    timer: Pin<Box<Sleep>>,
    is_over: bool,
    /// Set if the run waits for its agent, so nobody drives it: everything so far has been sent, and more will come when
    /// the run is resumed.
    parked: Option<RunId>,
    reading: Reading,
}

impl<F: FeedFormat> SseBody<F> {
    pub(crate) fn new(
        feed: Feed,
        format: F,
        reading: Reading,
        parked: Option<RunId>,
        closing: CancellationToken,
        heartbeat: Duration,
    ) -> Self {
        // Check often, so that the reader reconnects as soon as there is something to read.
        let heartbeat = if parked.is_some() { heartbeat.min(LOOK) } else { heartbeat };
        let heartbeat = reading.permission.at_most(heartbeat);
        Self {
            parked,
            feed,
            format,
            closing: Box::pin(closing.cancelled_owned()),
            heartbeat,
            timer: Box::pin(sleep_until(after(Instant::now(), heartbeat))),
            is_over: false,
            reading,
        }
    }

    /// What is ready to be sent, if anything (invariant 2).
    fn ready(&mut self, cx: &mut Context<'_>) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.format.full() {
                return Some(frame);
            }
            if self.format.is_done() {
                self.is_over = true;
                self.reading.watcher.leave_without_disconnect();
                return None;
            }
            match Pin::new(&mut self.feed).poll_next(cx) {
                Poll::Ready(Some(item)) => {
                    self.reading.saw(&item);
                    self.format.write(&item);
                }
                Poll::Ready(None) => {
                    let runtime = &self.reading.permission.runtime;
                    self.is_over = self.parked.as_ref().is_none_or(|run| !runtime.is_parked(run));
                    if self.is_over {
                        // The run goes on, and the reader should reconnect.
                        self.reading.watcher.leave_without_disconnect();
                    }
                    return self.format.rest();
                }
                Poll::Pending => return self.format.rest(),
            }
        }
    }

    /// A heartbeat, if one is due.
    fn beat(&mut self, cx: &mut Context<'_>) -> Option<Bytes> {
        self.timer.as_mut().poll(cx).is_ready().then(|| {
            self.rest();
            Bytes::from_static(b": \n\n")
        })
    }

    fn rest(&mut self) {
        let next = after(Instant::now(), self.heartbeat);
        self.timer.as_mut().reset(next);
    }
}

impl<F: FeedFormat> http_body::Body for SseBody<F> {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.is_over || self.reading.permission.is_over() {
            self.is_over = true;
            return Poll::Ready(None);
        }
        if let Some(frame) = self.ready(cx) {
            self.rest();
            return Poll::Ready(Some(Ok(Frame::data(frame))));
        }
        if self.is_over || self.closing.as_mut().poll(cx).is_ready() {
            self.is_over = true;
            return Poll::Ready(None);
        }
        if let Some(beat) = self.beat(cx) {
            // Polling the timer registers its new deadline.
            let _ = self.timer.as_mut().poll(cx);
            return Poll::Ready(Some(Ok(Frame::data(beat))));
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }
}

/// Writes one event.
fn write(frame: &mut BytesMut, item: &FeedItem) {
    frame.extend_from_slice(b"id: ");
    frame.extend_from_slice(item.cursor().to_string().as_bytes());
    frame.extend_from_slice(b"\ndata: ");
    // An item is plain data and a frame accepts everything, so this does not fail; if it did, the event would be empty.
    let _ = serde_json::to_writer(frame.writer(), item);
    frame.extend_from_slice(b"\n\n");
}

/// How many feeds are open.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    open: Arc<Mutex<OpenFeeds>>,
}

#[derive(Debug, Default)]
struct OpenFeeds {
    all: usize,
    users: HashMap<User, usize>,
}

impl Feeds {
    /// Takes a slot, which is released when it is dropped.
    pub(crate) fn take(&self, user: User, max: usize, max_of_user: usize) -> Result<FeedSlot, Problem> {
        let mut open = self.open.lock();
        if open.all >= max {
            let detail = "too many feeds are open: try again later, or read the run without a feed";
            return Err(Problem::unavailable("too-many-feeds", detail));
        }
        if open.users.get(&user).copied().unwrap_or(0) >= max_of_user {
            let detail = "this user has too many feeds open: close one";
            return Err(Problem::too_many("too-many-feeds-of-user", detail));
        }
        *open.users.entry(user.clone()).or_default() += 1;
        open.all += 1;
        Ok(FeedSlot { open: Arc::clone(&self.open), user })
    }

    /// How many feeds are open.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().all
    }
}

/// A slot for a feed.
#[derive(Debug)]
pub(crate) struct FeedSlot {
    open: Arc<Mutex<OpenFeeds>>,
    user: User,
}

impl Drop for FeedSlot {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        open.all -= 1;
        match open.users.get_mut(&self.user) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(open.users.remove(&self.user)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_feed_leaves_nothing_behind() {
        let feeds = Feeds::default();
        let user: User = ("local".into(), "ada".into());
        assert_eq!(feeds.take(user.clone(), 9, 0).unwrap_err().kind(), "too-many-feeds-of-user");
        assert_eq!(feeds.take(user.clone(), 0, 9).unwrap_err().kind(), "too-many-feeds");
        assert!(feeds.open.lock().users.is_empty());
        drop(feeds.take(user, 9, 9));
        assert!(feeds.open.lock().users.is_empty());
    }

    #[test]
    fn a_feed_with_nothing_to_say_costs_little() {
        let own = size_of::<SseBody<Plain>>();
        let boxed = size_of::<Sleep>() + size_of::<WaitForCancellationFutureOwned>();
        assert!(own + boxed < 512, "{own} and {boxed} bytes");
    }
}
