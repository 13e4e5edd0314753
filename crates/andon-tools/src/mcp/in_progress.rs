//! The calls in progress on one connection. They decide when a program that was told to stop something may be ended.
//!
//! A server that obeys a cancel is silent, and so is one that ignores it. The end of its program is the only proof, and that
//! ends every call on it.
//!
//! # Invariants
//!
//! 1. A program is ended for a stop only if every call on it was stopped and has nothing more to wait for.
//! 2. No call starts on a connection that is about to end: both are decided under one lock.
//! 3. A call that left without proof is remembered until its answer comes. When the last call ends, its program is ended.

use std::collections::{BTreeMap, HashSet};
use std::pin::pin;
use std::sync::Arc;

use andon_runtime::Cord;
use parking_lot::Mutex;
use rmcp::model::RequestId;
use tokio::sync::Notify;

use super::connection::Connection;

/// How many calls that left without proof are remembered; beyond that, their answers are not recognized as proof.
const UNPROVEN: usize = 1_000;

/// The calls in progress on one connection.
#[derive(Default)]
pub(super) struct InProgress {
    state: Mutex<CallsState>,
    changed: Notify,
}

#[derive(Default)]
struct CallsState {
    /// Whether no more calls may start.
    closed: bool,
    next: u64,
    calls: BTreeMap<u64, CallInProgress>,
    unproven: Unproven,
}

struct CallInProgress {
    cord: Cord,
    /// Whether it was told to stop and only the end of the program can prove that it did.
    wants_the_end: bool,
}

/// The calls that were told to stop, and left without proof that they did.
#[derive(Default)]
struct Unproven {
    requests: HashSet<RequestId>,
    /// Whether one of them can never be answered.
    for_good: bool,
}

/// Whether the program may be ended for one call.
pub(super) enum MayEnd {
    Yes,
    /// Another call uses it, which was not stopped.
    InUse,
}

impl InProgress {
    /// Whether a call may start.
    pub(super) fn is_open(&self) -> bool {
        !self.state.lock().closed
    }

    /// Lets no more calls start.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
    }

    /// Notes an answer, which is proof that the call has ended.
    pub(super) fn answered(&self, id: &RequestId) {
        self.state.lock().unproven.requests.remove(id);
    }

    /// Decides for one call, and closes the connection to others if the program may be ended. `None` while other stopped calls
    /// still wait for an answer.
    fn decide(&self, key: u64) -> Option<MayEnd> {
        let mut state = self.state.lock();
        if !state.calls.iter().all(|(other, call)| *other == key || call.cord.is_pulled()) {
            return Some(MayEnd::InUse);
        }
        if !state.calls.values().all(|call| call.wants_the_end) {
            return None;
        }
        state.closed = true;
        Some(MayEnd::Yes)
    }

    /// Removes a call. Returns whether the program must be ended for those that left without proof.
    fn leave(&self, key: u64) -> bool {
        let mut state = self.state.lock();
        state.calls.remove(&key);
        let must_end = state.calls.is_empty() && state.unproven.is_some();
        state.closed |= must_end;
        must_end
    }
}

impl Unproven {
    fn is_some(&self) -> bool {
        self.for_good || !self.requests.is_empty()
    }
}

/// One call on a connection, from before its request until its end, when this is dropped.
pub(super) struct CallSlot {
    pub(super) connection: Arc<Connection>,
    key: u64,
}

impl CallSlot {
    /// `None` if the connection is about to end: the caller uses the next one.
    pub(super) fn take(connection: &Arc<Connection>, cord: &Cord) -> Option<Self> {
        let mut state = connection.wire.in_progress.state.lock();
        if state.closed {
            return None;
        }
        let key = state.next;
        state.next += 1;
        state.calls.insert(key, CallInProgress { cord: cord.clone(), wants_the_end: false });
        Some(Self { connection: Arc::clone(connection), key })
    }

    /// Waits until it is known whether the program may be ended for this call. If it may, no more calls start on it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it can be called again.
    pub(super) async fn may_end_program(&self) -> MayEnd {
        let in_progress = &self.connection.wire.in_progress;
        if let Some(call) = in_progress.state.lock().calls.get_mut(&self.key) {
            call.wants_the_end = true;
        }
        in_progress.changed.notify_waiters();
        loop {
            let mut changed = pin!(in_progress.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            if let Some(decided) = in_progress.decide(self.key) {
                return decided;
            }
            changed.await;
        }
    }

    /// Notes that the call ends without proof. Its answer, if one can come, would be proof.
    pub(super) fn is_unproven(&self, request: Option<&RequestId>) {
        let mut state = self.connection.wire.in_progress.state.lock();
        match request {
            Some(id) if state.unproven.requests.len() < UNPROVEN => drop(state.unproven.requests.insert(id.clone())),
            _ => state.unproven.for_good = true,
        }
    }
}

impl Drop for CallSlot {
    fn drop(&mut self) {
        let in_progress = &self.connection.wire.in_progress;
        if in_progress.leave(self.key) {
            self.connection.end();
        }
        in_progress.changed.notify_waiters();
    }
}
