//! What the handle and the server share: scripts that wait, requests that came, and what is open.
//!
//! # Invariants
//!
//! 1. A stream counts as open from the moment that its request is whole until its exchange has a [`Closed`].
//! 2. The count goes down before the exchange is closed, so a test that has waited for that sees the count.
//! 3. An exchange whose recorder is dropped without an ending was ended by the server.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::dialect::Frame;
use super::http2::MANY;
use super::request::{Request, fits};
use super::script::Script;
use super::seen::{Closed, ClosedHow, Exchange, Progress, SeenRequest};

/// Scripts for one pattern of paths, or for all other paths.
#[derive(Debug, Default)]
struct Queue {
    pattern: Option<String>,
    next: VecDeque<Script>,
    always: Option<Script>,
}

/// What is open, and what there has been.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) open_streams: usize,
    pub(super) open_connections: usize,
    pub(super) accepted: usize,
}

/// Shared by the handle and the server.
#[derive(Debug)]
pub(super) struct Board {
    queues: Mutex<Vec<Queue>>,
    seen: Mutex<Vec<SeenRequest>>,
    /// The length of `seen`.
    came: watch::Sender<usize>,
    counts: watch::Sender<Counts>,
    /// How many streams an HTTP/2 connection may have at once.
    max_streams: AtomicU32,
}

impl Default for Board {
    fn default() -> Self {
        Self {
            queues: Mutex::default(),
            seen: Mutex::default(),
            came: watch::Sender::default(),
            counts: watch::Sender::default(),
            max_streams: AtomicU32::new(MANY),
        }
    }
}

impl Board {
    pub(super) fn limit_streams(&self, most: u32) {
        self.max_streams.store(most, Ordering::Relaxed);
    }

    pub(super) fn queue(&self, pattern: Option<&str>, script: Script) {
        self.with_queue(pattern, |queue| queue.next.push_back(script));
    }

    pub(super) fn repeat(&self, pattern: Option<&str>, script: Script) {
        self.with_queue(pattern, |queue| queue.always = Some(script));
    }

    fn with_queue(&self, pattern: Option<&str>, change: impl FnOnce(&mut Queue)) {
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.iter_mut().find(|queue| queue.pattern.as_deref() == pattern) {
            return change(queue);
        }
        let mut queue = Queue { pattern: pattern.map(str::to_owned), ..Queue::default() };
        change(&mut queue);
        queues.push(queue);
    }

    /// The script for a request: its path's own, or else the next of the common queue.
    fn script(&self, request: &Request) -> Script {
        let mut queues = self.queues.lock();
        let own =
            queues.iter().position(|queue| queue.pattern.as_ref().is_some_and(|pattern| fits(pattern, &request.path)));
        let queue = match own {
            Some(place) => queues.get_mut(place),
            None => queues.iter_mut().find(|queue| queue.pattern.is_none()),
        };
        let script = queue.and_then(|queue| queue.next.pop_front().or_else(|| queue.always.clone()));
        script.unwrap_or_else(|| Script::missing(request))
    }

    /// Request number `number`, once it has come.
    pub(super) async fn seen(&self, number: usize) -> SeenRequest {
        let mut came = self.came.subscribe();
        loop {
            came.mark_unchanged();
            if let Some(seen) = self.seen.lock().get(number) {
                return seen.clone();
            }
            // The board holds the sender, so the wait cannot fail.
            let _ = came.changed().await;
        }
    }

    pub(super) fn all_seen(&self) -> Vec<SeenRequest> {
        self.seen.lock().clone()
    }

    pub(super) fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// Waits until the counts are like this.
    pub(super) async fn when(&self, holds: impl Fn(&Counts) -> bool) {
        // The board holds the sender, so the wait cannot fail.
        let _ = self.counts.subscribe().wait_for(|counts| holds(counts)).await;
    }

    /// Counts a new connection.
    pub(super) fn connect(self: &Arc<Self>) -> Connection {
        let mut number = 0;
        self.counts.send_modify(|counts| {
            number = counts.accepted;
            counts.accepted += 1;
            counts.open_connections += 1;
        });
        Connection { board: Arc::clone(self), number }
    }
}

/// A connection while it is open.
#[derive(Debug)]
pub(super) struct Connection {
    board: Arc<Board>,
    number: usize,
}

impl Connection {
    /// How many streams it may have at once.
    pub(super) fn max_streams(&self) -> u32 {
        self.board.max_streams.load(Ordering::Relaxed)
    }

    /// A request is whole: puts it on record, and returns the script for it.
    pub(super) fn begin(&self, request: Request) -> (Recorder, Script) {
        let script = self.board.script(&request);
        self.board.counts.send_modify(|counts| counts.open_streams += 1);
        let progress = watch::Sender::new(Progress::default());
        let mut all = self.board.seen.lock();
        let seen = SeenRequest(Arc::new(Exchange { request, number: all.len(), connection: self.number, progress }));
        all.push(seen.clone());
        self.board.came.send_replace(all.len());
        (Recorder { seen, board: Arc::clone(&self.board), how: ClosedHow::ByServer }, script)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.board.counts.send_modify(|counts| counts.open_connections -= 1);
    }
}

/// Writes down one exchange, for the server.
pub(super) struct Recorder {
    seen: SeenRequest,
    board: Arc<Board>,
    /// Who ends the answer, unless it is closed.
    how: ClosedHow,
}

impl Recorder {
    /// A step was reached.
    pub(super) fn reached(&self, step: &str) {
        self.write(|progress| progress.reached.push(step.to_owned()));
    }

    /// Bytes of the body were sent.
    pub(super) fn sent(&self, bytes: usize) {
        self.write(|progress| progress.sent_bytes += bytes as u64);
    }

    /// The last byte of a frame was sent.
    pub(super) fn sent_frame(&self, frame: &Frame) {
        self.write(|progress| {
            progress.sent_frames += 1;
            progress.said.push_str(frame.said());
        });
    }

    fn write(&self, change: impl FnOnce(&mut Progress)) {
        self.seen.0.progress.send_modify(change);
    }

    /// The answer is over.
    pub(super) fn close(mut self, how: ClosedHow) {
        self.how = how;
    }
}

/// Whoever drops it without closing it is the server.
impl Drop for Recorder {
    fn drop(&mut self) {
        let (at, how) = (Instant::now(), self.how);
        self.board.counts.send_modify(|counts| counts.open_streams -= 1);
        self.write(|progress| {
            progress.closed = Some(Closed {
                at,
                how,
                sent_frames: progress.sent_frames,
                sent_bytes: progress.sent_bytes,
                said: progress.said.clone(),
            });
        });
    }
}
