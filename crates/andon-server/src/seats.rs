//! Who may stay connected.
//!
//! # Invariants
//!
//! 1. However many connections are open, a few more are let in, and on those the cord can be pulled, the line be held and the
//!    server's health be asked for. Nothing else is served there, so that nothing else fills them.
//!    Nobody waits there for runs to settle, either.
//! 2. A seat is given back when its socket is closed, however that came about.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;

use crate::Shared;
use crate::api::create::is_a_cancel;
use crate::idle::FOR_EVER;
use crate::problem::Problem;

/// How long the head, and then the body, of a request may take on a reserved seat: there are few of them.
pub(crate) const HURRY: Duration = Duration::from_secs(2);

/// How many seats there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    usual: usize,
    reserved: usize,
}

impl Room {
    /// What is asked for, as far as the process may open files. A quarter of them is for the journal, tools and models.
    pub(crate) fn new(usual: usize, reserved: usize, files: usize) -> Self {
        let reserved = reserved.min(files / 8);
        Self { usual: usual.min(files - files / 4 - reserved), reserved }
    }
}

/// A place among the connections.
pub(crate) struct Seat {
    core: Shared,
    is_reserved: bool,
}

impl Seat {
    /// Takes a seat; nothing if even the reserved ones are taken.
    pub(crate) fn take(core: &Shared, room: Room) -> Option<Self> {
        let taken = core.counts.connections.fetch_add(1, Ordering::Relaxed);
        let taken = usize::try_from(taken).unwrap_or(usize::MAX);
        // Given back by the drop, if it was none.
        let seat = Self { core: Arc::clone(core), is_reserved: taken >= room.usual };
        (taken < room.usual.saturating_add(room.reserved)).then_some(seat)
    }

    pub(crate) fn is_reserved(&self) -> bool {
        self.is_reserved
    }

    /// How long the head of a request may take here.
    pub(crate) fn head_time(&self) -> Duration {
        let usual = self.core.options.head_time.min(FOR_EVER);
        if self.is_reserved { usual.min(HURRY) } else { usual }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.core.counts.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The mark of a request that came in over a reserved seat.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reserved;

/// Whether a request may wait for runs to settle: not on a reserved seat (invariant 1).
pub(crate) struct MayWait(pub(crate) bool);

impl<S: Send + Sync> FromRequestParts<S> for MayWait {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get::<Reserved>().is_none()))
    }
}

/// Serves nothing but the cord, the line and health on reserved seats, and one request on each (invariant 1).
pub(crate) async fn keep_the_reserve(request: Request, next: Next) -> Response {
    if request.extensions().get::<Reserved>().is_none() {
        return next.run(request).await;
    }
    let mut response = match is_vital(request.method(), request.uri().path()) {
        true => next.run(request).await,
        false => {
            let detail =
                "too many connections are open: only cancels, the line and health are served now; try again later";
            Problem::unavailable("too-many-connections", detail).into_response()
        }
    };
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

pub(crate) fn is_vital(method: &Method, path: &str) -> bool {
    match *method {
        Method::POST => {
            path == "/v1/cancel"
                || (path.starts_with("/v1/runs/") && path.ends_with("/cancel"))
                || (path.starts_with("/apps/") && is_a_cancel(&percent_decode_str(path).decode_utf8_lossy()))
        }
        Method::PUT => path == "/v1/line",
        Method::GET => matches!(path, "/v1/line" | "/healthz" | "/readyz"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_seats_than_files() {
        assert_eq!(Room::new(25_000, 256, 1 << 20), Room { usual: 25_000, reserved: 256 });
        assert_eq!(Room::new(25_000, 256, 1_024), Room { usual: 640, reserved: 128 });
        assert_eq!(Room::new(10, 2, usize::MAX), Room { usual: 10, reserved: 2 });
    }

    #[test]
    fn the_cord_the_line_and_health_are_vital_and_nothing_else() {
        for (method, path) in [
            (Method::POST, "/v1/cancel"),
            (Method::POST, "/v1/runs/r1/cancel"),
            (Method::POST, "/v1/runs/r1/calls/c1/cancel"),
            (Method::POST, "/apps/shop/users/ada/sessions/s1:cancel"),
            (Method::POST, "/apps/shop/users/ada/sessions/s1%3Acancel"),
            (Method::PUT, "/v1/line"),
            (Method::GET, "/readyz"),
        ] {
            assert!(is_vital(&method, path), "{method} {path}");
        }
        for (method, path) in [
            (Method::POST, "/v1/runs"),
            (Method::GET, "/v1/runs/r1/cancel"),
            (Method::GET, "/v1/runs/r1/events"),
            (Method::POST, "/run"),
            (Method::POST, "/apps/shop/users/ada/sessions/s1"),
            (Method::GET, "/apps/shop/users/ada/sessions/s1:cancel"),
        ] {
            assert!(!is_vital(&method, path), "{method} {path}");
        }
    }
}
