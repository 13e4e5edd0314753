//! How much of what clients send is in memory.
//!
//! # Invariants
//!
//! 1. Room for a body is taken before any of it is read, and given back when its request is answered. So however many send
//!    at once, no more than the budget is kept.
//! 2. Cancels and the line have room of their own, and the usual room beyond that: nothing else that is sent keeps them out.
//!    Their bodies are small, so that a few that do not go on do not fill it. Without a body they need no room at all.

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

/// Room is counted in pieces of this many bytes.
const PIECE: usize = 1 << 10;

/// Room for bodies.
pub(crate) struct Budget {
    usual: Semaphore,
    vital: Semaphore,
    limits: BodyLimits,
    /// How many bytes the body of a cancel, or of a change of the line, may have.
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

    /// Takes room for a request's body, and limits the body to it.
    fn take(&self, request: &mut Request) -> Result<Option<SemaphorePermit<'_>>, Problem> {
        let is_vital = request.extensions().get::<Vital>().is_some();
        let most = if is_vital { self.max_vital } else { self.limits.max };
        request.extensions_mut().insert(BodyLimits { max: most, ..self.limits });
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

/// No body takes too long, and all of them together take no more room than there is.
pub(crate) async fn bound_bodies(State(budget): State<Arc<Budget>>, mut request: Request, next: Next) -> Response {
    // Given back when the request is answered.
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
