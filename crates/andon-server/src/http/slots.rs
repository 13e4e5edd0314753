//! Which connections may stay open.
//!
//! # Invariants
//!
//! 1. However many connections are open, a few more are accepted. These are reserved for cancelling runs, holding the
//!    line and checking the server's health. They serve nothing else, so that nothing else fills them, and no request
//!    on them waits for runs to settle.
//! 2. A new connection takes the place of the oldest reserved one that has not sent a complete request. What that one
//!    has sent so far is read first, and if it is a complete request, another one has to go. So a flood of connections
//!    that send nothing, or stop halfway, keeps out nobody who sends a request at once, however busy the server is.
//! 3. A slot is released when its socket is closed, whatever the cause.
//! 4. There are no more slots than files that can be opened, minus those that the server already has open and those
//!    that its work needs.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::timeout;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body::Body as _;

use crate::http::idle::{Patience, TimedBody};
use crate::http::problem::Problem;
use crate::time::A_YEAR;

/// How long the head, and then the body, of a request may take on a reserved slot. It is short because there are few of
/// them.
pub(crate) const HURRY: Duration = Duration::from_secs(2);

/// How many slots there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotCounts {
    usual: usize,
    reserved: usize,
}

impl SlotCounts {
    /// The requested numbers, as far as the process can open files, of which `open` are open already. A quarter of all
    /// files, and at least [`WORK`], is left for the journal, tools and models (invariant 4).
    pub(crate) fn new(usual: usize, reserved: usize, files: usize, open: usize) -> Self {
        let own = open.saturating_add(WORK).max(files / 4);
        let free = files.saturating_sub(own).max(FEWEST);
        let reserved = reserved.min((files / 8).min(free - 1));
        Self { usual: usual.min(free - reserved), reserved }
    }
}

/// How many files the server needs at least for its work, besides those that are open when it starts.
const WORK: usize = 16;
/// The minimum number of slots. Without even these, a machine cannot serve at all.
const FEWEST: usize = 4;
/// How long to wait for a connection to close after it was told to. It takes longer only if the machine is very busy.
const LEAVING: Duration = Duration::from_millis(200);
/// How much of a request is read before anything else is done with it. This is enough for a cancel.
const AHEAD: usize = 64 << 10;
/// How often a connection is polled before it is closed to make room: the first time reads its head, the next its body.
const LAST_LOOKS: usize = 3;

/// All connection slots.
#[derive(Clone)]
pub(crate) struct ConnectionSlots {
    /// How many connections are open.
    connections: Arc<AtomicU64>,
    head_time: Duration,
    counts: SlotCounts,
    reserved: Arc<Mutex<Vec<Arc<Guest>>>>,
    /// Notified when a connection that was told to leave has closed, or stays.
    decided: Arc<Notify>,
}

/// A connection on a reserved slot.
#[derive(Debug)]
pub(crate) struct Guest {
    occupied: Mutex<Occupied>,
    told_to_leave: Notify,
    decided: Arc<Notify>,
}

#[derive(Debug)]
struct Occupied {
    sent: Sent,
    is_to_leave: bool,
}

/// How much of a request has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sent {
    Nothing,
    Head,
    /// The request is being answered.
    All,
}

impl Guest {
    fn new(decided: &Arc<Notify>) -> Self {
        let occupied = Mutex::new(Occupied { sent: Sent::Nothing, is_to_leave: false });
        Self { occupied, told_to_leave: Notify::new(), decided: Arc::clone(decided) }
    }

    /// The head of a request has arrived.
    pub(crate) fn asks(&self) {
        self.occupied.lock().sent = Sent::Head;
    }

    /// The whole request has arrived: from here on, nobody takes the slot away.
    pub(crate) fn has_asked(&self) {
        self.occupied.lock().sent = Sent::All;
    }

    /// The request was answered.
    pub(crate) fn was_answered(&self) {
        self.occupied.lock().sent = Sent::Nothing;
    }

    /// Waits until somebody else should get the slot. The connection is polled before each check of this, so that
    /// everything that has arrived is read by then (invariant 2).
    pub(crate) async fn leaves(&self) {
        loop {
            self.told_to_leave.notified().await;
            for _ in 0..LAST_LOOKS {
                yield_now().await;
            }
            let mut occupied = self.occupied.lock();
            if occupied.sent != Sent::All {
                return;
            }
            occupied.is_to_leave = false;
            self.decided.notify_waiters();
        }
    }

    /// How much of a request has arrived; `None` if this connection may not be told to leave.
    fn may_leave(&self) -> Option<Sent> {
        let occupied = self.occupied.lock();
        (!occupied.is_to_leave && occupied.sent != Sent::All).then_some(occupied.sent)
    }

    fn tell_to_leave(&self) {
        self.occupied.lock().is_to_leave = true;
        self.told_to_leave.notify_one();
    }
}

impl ConnectionSlots {
    /// `head_time` is how long the head of a request may take.
    pub(crate) fn new(connections: &Arc<AtomicU64>, head_time: Duration, counts: SlotCounts) -> Self {
        let connections = Arc::clone(connections);
        Self { connections, head_time, counts, reserved: Arc::default(), decided: Arc::default() }
    }

    /// Takes a slot; `None` if even the reserved ones are taken.
    pub(crate) fn take(&self) -> Option<ConnectionSlot> {
        let taken = self.connections.fetch_add(1, Ordering::Relaxed);
        let taken = usize::try_from(taken).unwrap_or(usize::MAX);
        let guest = (taken >= self.counts.usual).then(|| Arc::new(Guest::new(&self.decided)));
        if let Some(guest) = &guest {
            self.reserved.lock().push(Arc::clone(guest));
        }
        // If it is one too many, dropping it gives it back.
        let slot = ConnectionSlot { slots: self.clone(), guest };
        (taken < self.counts.usual.saturating_add(self.counts.reserved)).then_some(slot)
    }

    /// Takes a slot, if necessary that of a connection that has not sent a complete request yet (invariant 2).
    pub(crate) async fn make_room(&self) -> Option<ConnectionSlot> {
        loop {
            let slot = self.take();
            if slot.is_some() || !self.free_one().await {
                return slot;
            }
        }
    }

    /// Tells the reserved connection that has sent the least of a request to leave; if there are several, the oldest.
    /// Returns once it is decided whether that connection leaves. False if all of them have sent a complete request.
    pub(crate) async fn free_one(&self) -> bool {
        let decided = self.decided.notified();
        {
            let guests = self.reserved.lock();
            let may_leave = guests.iter().filter_map(|guest| Some((guest.may_leave()?, guest)));
            let Some((_, guest)) = may_leave.min_by_key(|(sent, _)| *sent) else { return false };
            guest.tell_to_leave();
        }
        // Its file stays open until its socket is closed.
        timeout(LEAVING, decided).await.is_ok()
    }
}

/// The slot of one connection.
pub(crate) struct ConnectionSlot {
    slots: ConnectionSlots,
    guest: Option<Arc<Guest>>,
}

impl ConnectionSlot {
    /// The connection, if it is on a reserved slot.
    pub(crate) fn guest(&self) -> Option<&Arc<Guest>> {
        self.guest.as_ref()
    }

    /// How long the head of a request may take on this slot.
    pub(crate) fn head_time(&self) -> Duration {
        let usual = self.slots.head_time.min(A_YEAR);
        if self.guest.is_some() { usual.min(HURRY) } else { usual }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.slots.connections.fetch_sub(1, Ordering::Relaxed);
        if let Some(guest) = &self.guest {
            self.slots.reserved.lock().retain(|other| !Arc::ptr_eq(other, guest));
            self.slots.decided.notify_waiters();
        }
    }
}

/// Marks a request that came over a reserved slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reserved;

/// Whether a request may wait for runs to settle. Not on a reserved slot (invariant 1).
pub struct MayWait(pub bool);

impl<S: Send + Sync> FromRequestParts<S> for MayWait {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get::<Reserved>().is_none()))
    }
}

/// Marks a request that cancels a run, concerns the line or checks health.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vital;

/// Whether a method and a path cancel a run, concern the line or check health.
pub(crate) type IsVital = Arc<dyn Fn(&Method, &str) -> bool + Send + Sync>;

/// Marks the requests that cancel a run, concern the line or check health. Reserved slots serve only these, and one
/// request each (invariant 1).
pub(crate) async fn enforce_reserve(State(is_vital): State<IsVital>, mut request: Request, next: Next) -> Response {
    let is_vital = is_vital(request.method(), request.uri().path());
    if is_vital {
        request.extensions_mut().insert(Vital);
    }
    if request.extensions().get::<Reserved>().is_none() {
        return next.run(request).await;
    }
    let mut response = match is_vital {
        true => next.run(read_ahead(request).await).await,
        false => {
            let detail =
                "too many connections are open: only cancels, the line and health checks work now; try again later";
            Problem::unavailable("too-many-connections", detail).into_response()
        }
    };
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Reads the whole request before anything else is done with it: from then on, nobody takes its slot away, however long
/// it takes to find out who sent it. Errors are reported when the body is read again.
async fn read_ahead(request: Request) -> Request {
    if request.body().size_hint().lower() > AHEAD as u64 {
        return request;
    }
    let guest = request.extensions().get::<Arc<Guest>>().cloned();
    let (parts, body) = request.into_parts();
    let patience = Patience { idle: HURRY, total: HURRY };
    let body = match to_bytes(Body::new(TimedBody::new(body, patience, guest)), AHEAD).await {
        Ok(bytes) => Body::from(bytes),
        Err(error) => Body::from_stream(futures_util::stream::iter([Err::<Bytes, _>(error)])),
    };
    Request::from_parts(parts, body)
}

/// Whether a request of the native API cancels a run, concerns the line or checks health.
pub(crate) fn is_vital(method: &Method, path: &str) -> bool {
    match *method {
        Method::POST => path == "/v1/cancel" || (path.starts_with("/v1/runs/") && path.ends_with("/cancel")),
        Method::PUT => path == "/v1/line",
        Method::GET => matches!(path, "/v1/line" | "/healthz" | "/readyz"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_slots_than_files() {
        assert_eq!(SlotCounts::new(25_000, 256, 1 << 20, 20), SlotCounts { usual: 25_000, reserved: 256 });
        assert_eq!(SlotCounts::new(25_000, 256, 1_024, 20), SlotCounts { usual: 640, reserved: 128 });
        assert_eq!(SlotCounts::new(10, 2, usize::MAX, 20), SlotCounts { usual: 10, reserved: 2 });
        assert_eq!(SlotCounts::new(25_000, 256, 64, 20), SlotCounts { usual: 20, reserved: 8 });
        assert_eq!(SlotCounts::new(25_000, 256, 32, 20), SlotCounts { usual: 1, reserved: 3 });
        assert_eq!(SlotCounts::new(0, 1, 1_024, 20), SlotCounts { usual: 0, reserved: 1 });
    }

    #[tokio::test]
    async fn idle_connections_are_evicted_oldest_first_and_busy_ones_stay() {
        let slots = ConnectionSlots::new(&Arc::default(), HURRY, SlotCounts { usual: 0, reserved: 3 });
        let [first, second, third] = [(); 3].map(|()| Some(slots.take().unwrap()));
        let guest = |slot: &Option<ConnectionSlot>| Arc::clone(slot.as_ref().unwrap().guest().unwrap());
        let guests = [guest(&first), guest(&second), guest(&third)];
        guests[0].has_asked();
        guests[1].asks();
        let mut held = [first, second, third];
        for (slot, others) in [(2, [0, 1]), (1, [0, 0])] {
            let making = slots.make_room();
            let leaving = async {
                guests[slot].leaves().await;
                drop(held[slot].take());
            };
            let (made, ()) = tokio::join!(making, leaving);
            let made = made.expect("a slot is free");
            made.guest().unwrap().has_asked();
            held[slot] = Some(made);
            assert!(others.iter().all(|other| !guests[*other].occupied.lock().is_to_leave));
        }
        assert!(slots.make_room().await.is_none(), "all have asked");
    }

    /// Checks P1: a cancel that has arrived, but was not yet read when its slot was needed, is not lost.
    #[tokio::test]
    async fn a_connection_that_turns_out_to_be_busy_stays_and_the_next_one_is_evicted() {
        let slots = ConnectionSlots::new(&Arc::default(), HURRY, SlotCounts { usual: 0, reserved: 2 });
        let (cancel, silent) = (slots.take().unwrap(), slots.take().unwrap());
        let (asking, waiting) = (Arc::clone(cancel.guest().unwrap()), Arc::clone(silent.guest().unwrap()));
        let reading = async {
            yield_now().await;
            asking.asks();
            yield_now().await;
            asking.has_asked();
        };
        let silent_leaves = async {
            waiting.leaves().await;
            drop(silent);
        };
        let made = tokio::select! {
            biased;
            () = asking.leaves() => panic!("a client that sent its request was disconnected"),
            (made, (), ()) = async { tokio::join!(slots.make_room(), reading, silent_leaves) } => made,
        };
        assert!(made.is_some() && !asking.occupied.lock().is_to_leave);
    }

    #[test]
    fn the_cord_the_line_and_health_are_vital_and_nothing_else() {
        for (method, path) in [
            (Method::POST, "/v1/cancel"),
            (Method::POST, "/v1/runs/r1/cancel"),
            (Method::POST, "/v1/runs/r1/calls/c1/cancel"),
            (Method::PUT, "/v1/line"),
            (Method::GET, "/readyz"),
        ] {
            assert!(is_vital(&method, path), "{method} {path}");
        }
        for (method, path) in
            [(Method::POST, "/v1/runs"), (Method::GET, "/v1/runs/r1/cancel"), (Method::GET, "/v1/runs/r1/events")]
        {
            assert!(!is_vital(&method, path), "{method} {path}");
        }
    }
}
