//! How much of what clients send is in memory.
//!
//! # Invariants
//!
//! 1. Room for a body is taken before any of it is read, and given back when its request is answered. So however many send
//!    at once, no more than the budget is kept.
//! 2. Cancels and the line have room of their own, and the usual room beyond that: nothing else that is sent keeps them out.
//!    Their bodies are small, so that a few that do not go on do not fill it. Without a body they need no room at all.

use axum::extract::{DefaultBodyLimit, Request};
use http_body::Body as _;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::http::problem::Problem;
use crate::http::seats::is_vital;
use crate::options::Options;

/// Room is counted in pieces of this many bytes.
const PIECE: usize = 1 << 10;

/// Room for bodies.
pub(crate) struct Budget {
    usual: Semaphore,
    vital: Semaphore,
}

/// How many bytes the body of a request may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MaxBody(pub(crate) usize);

impl Budget {
    pub(crate) fn new(options: &Options) -> Self {
        let pieces = |bytes: usize| Semaphore::new((bytes / PIECE).min(Semaphore::MAX_PERMITS));
        Self { usual: pieces(options.max_bodies), vital: pieces(options.max_vital_bodies) }
    }

    /// Takes room for a request's body, and limits the body to it.
    pub(crate) fn take(
        &self,
        request: &mut Request,
        options: &Options,
    ) -> Result<Option<SemaphorePermit<'_>>, Problem> {
        let is_vital = is_vital(request.method(), request.uri().path());
        let most = if is_vital { options.max_body.min(options.max_frame) } else { options.max_body };
        request.extensions_mut().insert(MaxBody(most));
        DefaultBodyLimit::max(most).apply(request);
        let told = request.body().size_hint().exact().map(|told| usize::try_from(told).unwrap_or(usize::MAX));
        // Nothing is to be read, or it is too large and is not going to be.
        if told.is_some_and(|told| told == 0 || told > most) {
            return Ok(None);
        }
        let pieces = u32::try_from(told.unwrap_or(most).div_ceil(PIECE)).unwrap_or(u32::MAX);
        let own = if is_vital { self.vital.try_acquire_many(pieces).ok() } else { None };
        own.or_else(|| self.usual.try_acquire_many(pieces).ok()).map(Some).ok_or_else(|| {
            let detail = "the server is reading as much as it has room for: send it again in a moment, with its length";
            Problem::unavailable("too-many-bodies", detail).closing()
        })
    }
}
