//! Limits how much memory answers take until clients have read them.
//!
//! A session can be large, and a client that asks for one need not read it. Feeds have limits of their own.
//!
//! # Invariants
//!
//! 1. Only a few whole sessions are read from the journal and serialized at the same time. Further requests wait for a
//!    slot, and are told to try again if none becomes free.
//! 2. A serialized answer counts until its last byte was handed to the socket, and it keeps its slot until it counts.
//!    So however many clients ask, and however slowly they read, the limit holds. An answer that is larger than the
//!    whole limit is accepted if it is the only large one: nobody is refused just because of the size of their session.
//! 3. Small answers have a limit of their own: clients that read large ones slowly do not block small ones.
//! 4. Only requests that change nothing are refused for lack of memory: a client always learns what its change did.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body::Body as _;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::http::json::JsonBody;
use crate::http::problem::Problem;
use crate::options::Options;

/// Answers up to this many bytes are small.
const SMALL: usize = 256 << 10;
/// How long to wait for a slot to read a session.
const PATIENCE: Duration = Duration::from_secs(5);

/// The memory for answers.
pub(crate) struct Answers {
    reading: Arc<Semaphore>,
    small: Arc<AnswerMemory>,
    large: Arc<AnswerMemory>,
}

impl Answers {
    pub(crate) fn new(options: &Options) -> Self {
        let memory = || Arc::new(AnswerMemory { held: AtomicUsize::new(0), most: options.max_answers });
        Self { reading: Arc::new(crate::http::semaphore(options.max_reading)), small: memory(), large: memory() }
    }

    /// A slot for reading a whole session (invariant 1).
    pub(crate) async fn slot(&self) -> Result<SessionRead, Problem> {
        match timeout(PATIENCE, Arc::clone(&self.reading).acquire_owned()).await {
            Ok(Ok(slot)) => Ok(SessionRead(Arc::new(slot))),
            Ok(Err(_)) | Err(_) => {
                let detail = "too many sessions are being read: try again in a moment";
                Err(Problem::unavailable("too-many-answers", detail))
            }
        }
    }

    fn memory_for(&self, bytes: usize) -> &Arc<AnswerMemory> {
        if bytes <= SMALL { &self.small } else { &self.large }
    }
}

/// A slot for reading a whole session. The answer holds it until it counts against the limit.
#[derive(Debug, Clone)]
pub struct SessionRead(
    #[expect(dead_code, reason = "it is held, and given back when it is dropped")] Arc<OwnedSemaphorePermit>,
);

impl SessionRead {
    /// Makes the answer and serializes it. That takes time, so it must not block the async threads.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what it was making is dropped.
    pub async fn answer<T: Serialize>(self, make: impl FnOnce() -> T + Send + 'static) -> Result<Response, Problem> {
        let written = tokio::task::spawn_blocking(move || JsonBody(make()).into_response()).await;
        let defect = |_| Problem::unavailable("defect", "the session cannot be serialized: please report this");
        let mut response = written.map_err(defect)?;
        response.extensions_mut().insert(self);
        Ok(response)
    }
}

/// How many bytes are held, and how many may be.
#[derive(Debug)]
struct AnswerMemory {
    held: AtomicUsize,
    most: usize,
}

impl AnswerMemory {
    fn take(self: &Arc<Self>, bytes: usize, is_refused: impl Fn(usize) -> bool) -> Option<Taken> {
        let taken = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            (!is_refused(held)).then_some(held.saturating_add(bytes))
        });
        taken.ok().map(|_| Taken { memory: Arc::clone(self), bytes })
    }

    /// Takes memory if there is enough, or if nothing else is held (invariant 2).
    fn take_if_free(self: &Arc<Self>, bytes: usize) -> Option<Taken> {
        self.take(bytes, |held| held > 0 && held.saturating_add(bytes) > self.most)
    }
}

/// Memory that is released when this is dropped.
#[derive(Debug)]
struct Taken {
    memory: Arc<AnswerMemory>,
    bytes: usize,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.memory.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A response and the slot that it takes, which is released when the last byte is dropped.
struct AccountedBody<T, P> {
    text: T,
    _slot: P,
}

impl<T: AsRef<[u8]>, P> AsRef<[u8]> for AccountedBody<T, P> {
    fn as_ref(&self) -> &[u8] {
        self.text.as_ref()
    }
}

/// The text of a response, which holds this slot until its last byte is dropped.
pub(crate) fn holding<P: Send + 'static>(text: impl AsRef<[u8]> + Send + 'static, slot: P) -> Bytes {
    Bytes::from_owner(AccountedBody { text, _slot: slot })
}

/// Limits the memory that answers take (invariants 2 to 4).
pub(crate) async fn bound_answers(State(answers): State<Arc<Answers>>, request: Request, next: Next) -> Response {
    let does_nothing = request.method().is_safe();
    let mut response = next.run(request).await;
    let reading = response.extensions_mut().remove::<SessionRead>();
    let Some(bytes) = size(&response) else { return response };
    let memory = answers.memory_for(bytes);
    let taken = if does_nothing { memory.take_if_free(bytes) } else { memory.take(bytes, |_| false) };
    drop(reading);
    let Some(taken) = taken else {
        let detail = "the server is waiting for clients to read earlier responses: try again in a moment";
        return Problem::unavailable("too-many-answers", detail).into_response();
    };
    let (parts, body) = response.into_parts();
    // The body is already in memory, in one piece.
    let Ok(text) = to_bytes(body, usize::MAX).await else {
        return Problem::unavailable("defect", "the answer cannot be sent: please report this").into_response();
    };
    Response::from_parts(parts, Body::from(holding(text, taken)))
}

/// The size of a JSON answer in memory. `None` for any other answer: files are in the program or on disk, and a feed is
/// sent bit by bit.
fn size(response: &Response) -> Option<usize> {
    let is_json = response.headers().get(header::CONTENT_TYPE) == Some(&HeaderValue::from_static("application/json"));
    let exact = response.body().size_hint().exact().filter(|_| is_json)?;
    usize::try_from(exact).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_and_what_is_too_large_comes_alone() {
        let memory = Arc::new(AnswerMemory { held: AtomicUsize::new(0), most: 100 });
        let first = memory.take_if_free(60).unwrap();
        assert!(memory.take_if_free(60).is_none() && memory.take_if_free(40).is_some());
        let told = memory.take(500, |_| false).unwrap();
        drop(first);
        assert!(memory.take_if_free(1).is_none(), "the result of a change is always reported, and counts");
        drop(told);
        let all = memory.take_if_free(1_000).unwrap();
        assert!(memory.take_if_free(1).is_none());
        drop(all);
        assert_eq!(memory.held.load(Ordering::Relaxed), 0);
    }
}
