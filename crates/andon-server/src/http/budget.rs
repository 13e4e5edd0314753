//! Limits how much memory request bodies take.
//!
//! # Invariants
//!
//! 1. Memory for a body is reserved before any of it is read, and released when its request has been answered. So
//!    however many clients send at once, the budget holds.
//! 2. Cancels and changes of the line have a budget of their own, and may use the usual one beyond that: no other
//!    request keeps them out. Their bodies are small, so a few that stall do not use it up. Without a body they need no
//!    memory at all.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body::Body as _;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::http::body::BodyLimits;
use crate::http::idle::TimedBody;
use crate::http::problem::Problem;
use crate::http::slots::{Guest, HURRY, Reserved, Vital};
use crate::options::Options;

/// Memory is counted in units of this many bytes.
const PIECE: usize = 1 << 10;

/// The memory for bodies.
pub(crate) struct Budget {
    usual: Semaphore,
    vital: Semaphore,
    limits: BodyLimits,
    /// The maximum size of the body of a cancel or of a change of the line, in bytes.
    max_vital: usize,
}

impl Budget {
    pub(crate) fn new(options: &Options) -> Self {
        let pieces = |bytes: usize| Semaphore::new((bytes / PIECE).min(Semaphore::MAX_PERMITS));
        Self {
            usual: pieces(options.max_bodies),
            vital: pieces(options.max_vital_bodies),
            limits: BodyLimits::new(options),
            max_vital: options.max_body.min(options.max_frame),
        }
    }

    /// Reserves memory for a request's body, and limits the body to it.
    fn take(&self, request: &mut Request) -> Result<Option<SemaphorePermit<'_>>, Problem> {
        let is_vital = request.extensions().get::<Vital>().is_some();
        let most = if is_vital { self.max_vital } else { self.limits.max };
        request.extensions_mut().insert(BodyLimits { max: most, ..self.limits });
        DefaultBodyLimit::max(most).apply(request);
        let told = request.body().size_hint().exact().map(|told| usize::try_from(told).unwrap_or(usize::MAX));
        // There is nothing to read, or the body is too large and will not be read.
        if told.is_some_and(|told| told == 0 || told > most) {
            return Ok(None);
        }
        let pieces = u32::try_from(told.unwrap_or(most).div_ceil(PIECE)).unwrap_or(u32::MAX);
        let own = if is_vital { self.vital.try_acquire_many(pieces).ok() } else { None };
        own.or_else(|| self.usual.try_acquire_many(pieces).ok()).map(Some).ok_or_else(|| {
            let detail = "the server has no room for this body: send it again in a moment, with its content-length";
            Problem::unavailable("too-many-bodies", detail).closing()
        })
    }
}

/// Limits the time that each body takes, and the memory that all of them take together.
pub(crate) async fn bound_bodies(State(budget): State<Arc<Budget>>, mut request: Request, next: Next) -> Response {
    // Released when the request has been answered.
    let _room = match budget.take(&mut request) {
        Ok(room) => room,
        Err(problem) => return problem.into_response(),
    };
    let is_reserved = request.extensions().get::<Reserved>().is_some();
    let patience = budget.limits.patience;
    let patience = if is_reserved { patience.at_most(HURRY) } else { patience };
    let guest = request.extensions().get::<Arc<Guest>>().cloned();
    next.run(request.map(|body| Body::new(TimedBody::new(body, patience, guest)))).await
}
