//! The calls in progress on one connection: when a program that was told to stop something may be ended.
//!
//! A server that heeds a cancel is silent, and so is one that does not. The end of its program is the only proof, and it ends
//! every call on it.
//!
//! # Invariants
//!
//! 1. A program is ended for a stop only when every call on it was stopped and has nothing more to wait for.
//! 2. No call begins on a connection that is to end: both are decided under one lock.
//! 3. A call that left without proof is remembered, unless its answer comes. When the last call ends, its program is ended.

use std::collections::{BTreeMap, HashSet};
use std::pin::pin;
use std::sync::Arc;

use andon_runtime::Cord;
use parking_lot::Mutex;
use rmcp::model::RequestId;
use tokio::sync::Notify;

use super::connection::Connection;

/// So many calls that left without proof are told apart; with more, no answer of theirs is proof.
const UNPROVEN: usize = 1_000;

/// The calls in progress on one connection.
#[derive(Default)]
pub(super) struct InProgress {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// No call begins any more.
    closed: bool,
    next: u64,
    calls: BTreeMap<u64, Call>,
    unproven: Unproven,
}

struct Call {
    cord: Cord,
    /// It was told to stop, and nothing but the end of the program can prove that it did.
    wants_the_end: bool,
}

/// What was told to stop, and left without proof that it did.
#[derive(Default)]
struct Unproven {
    requests: HashSet<RequestId>,
    /// Something of which no answer will come.
    for_good: bool,
}

/// Whether the program may be ended for one call.
pub(super) enum MayEnd {
    Yes,
    /// Another call uses it, which nobody has stopped.
    InUse,
}

impl InProgress {
    /// Whether a call may begin.
    pub(super) fn is_open(&self) -> bool {
        !self.state.lock().closed
    }

    /// No call begins any more.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
    }

    /// An answer to a call that left without proof has come: it is over.
    pub(super) fn answered(&self, id: &RequestId) {
        let mut state = self.state.lock();
        state.unproven.requests.remove(id);
    }

    /// Decides for one call, and closes the connection to others if it may be ended. Nothing while others that were
    /// stopped, too, have yet to see whether they are answered.
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

    /// A call is over. Whether the program is to be ended for those that left before it without proof.
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

/// One call on a connection, from before it is asked until it is over. Dropping it is its end.
pub(super) struct Seat {
    pub(super) connection: Arc<Connection>,
    key: u64,
}

impl Seat {
    /// Nothing if the connection is to end: there will be another one.
    pub(super) fn take(connection: &Arc<Connection>, cord: &Cord) -> Option<Self> {
        let mut state = connection.wire.in_progress.state.lock();
        if state.closed {
            return None;
        }
        let key = state.next;
        state.next += 1;
        state.calls.insert(key, Call { cord: cord.clone(), wants_the_end: false });
        Some(Self { connection: Arc::clone(connection), key })
    }

    /// Waits until it is known whether the program may be ended for this call. If it may, no call begins on it any more.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: asked again it goes on waiting.
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

    /// The call will end here without proof that it has ended there. Its answer, if one can come, would be proof.
    pub(super) fn is_unproven(&self, request: Option<&RequestId>) {
        let mut state = self.connection.wire.in_progress.state.lock();
        match request {
            Some(id) if state.unproven.requests.len() < UNPROVEN => drop(state.unproven.requests.insert(id.clone())),
            _ => state.unproven.for_good = true,
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let in_progress = &self.connection.wire.in_progress;
        if in_progress.leave(self.key) {
            self.connection.end();
        }
        in_progress.changed.notify_waiters();
    }
}
