//! How much of what clients have asked for is in memory until they have read it.
//!
//! A session can be large, and whoever asks for one need not read it. Feeds have bounds of their own.
//!
//! # Invariants
//!
//! 1. A few whole sessions are read from the journal and written down at one time. The next one waits for a place, and is
//!    told to come again if none gets free.
//! 2. What is written down counts until its last byte was handed to the socket, and its place is not free before it counts.
//!    So however many ask, and however slowly they read, no more is kept than there is room for. An answer that is larger
//!    than all the room is kept if it is the only large one: nobody is refused for the size of their session alone.
//! 3. Small answers have room of their own: a client that reads large ones slowly keeps nobody from small ones.
//! 4. Only requests that change nothing are refused for want of room: what a change did is always told.

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

use crate::http::json::Json;
use crate::http::problem::Problem;
use crate::options::Options;

/// An answer up to this many bytes is small.
const SMALL: usize = 256 << 10;
/// How long a place for reading a session is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Room for answers.
pub(crate) struct Answers {
    reading: Arc<Semaphore>,
    small: Arc<Room>,
    large: Arc<Room>,
}

impl Answers {
    pub(crate) fn new(options: &Options) -> Self {
        let room = || Arc::new(Room { held: AtomicUsize::new(0), most: options.max_answers });
        Self { reading: Arc::new(crate::http::places(options.max_reading)), small: room(), large: room() }
    }

    /// A place for reading a whole session (invariant 1).
    pub(crate) async fn place(&self) -> Result<SessionRead, Problem> {
        match timeout(PATIENCE, Arc::clone(&self.reading).acquire_owned()).await {
            Ok(Ok(place)) => Ok(SessionRead(Arc::new(place))),
            Ok(Err(_)) | Err(_) => {
                let detail = "too many sessions are being read: try again in a moment";
                Err(Problem::unavailable("too-many-answers", detail))
            }
        }
    }

    fn room_for(&self, bytes: usize) -> &Arc<Room> {
        if bytes <= SMALL { &self.small } else { &self.large }
    }
}

/// A place among those who read whole sessions. The answer has it until the answer counts.
#[derive(Debug, Clone)]
pub struct SessionRead(
    #[expect(dead_code, reason = "it is held, and given back when it is dropped")] Arc<OwnedSemaphorePermit>,
);

impl SessionRead {
    /// The answer that is made here. Making and writing much text takes its time: not where others are served.
    pub async fn answer<T: Serialize>(self, make: impl FnOnce() -> T + Send + 'static) -> Result<Response, Problem> {
        let written = tokio::task::spawn_blocking(move || Json(make()).into_response()).await;
        let defect = |_| Problem::unavailable("defect", "the session cannot be written down: please report it");
        let mut response = written.map_err(defect)?;
        response.extensions_mut().insert(self);
        Ok(response)
    }
}

/// Bytes that are held, and how many may be.
#[derive(Debug)]
struct Room {
    held: AtomicUsize,
    most: usize,
}

impl Room {
    fn take(self: &Arc<Self>, bytes: usize, is_refused: impl Fn(usize) -> bool) -> Option<Taken> {
        let taken = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
            (!is_refused(held)).then_some(held.saturating_add(bytes))
        });
        taken.ok().map(|_| Taken { room: Arc::clone(self), bytes })
    }

    /// Takes room if there is some, or if nothing else is here (invariant 2).
    fn take_if_free(self: &Arc<Self>, bytes: usize) -> Option<Taken> {
        self.take(bytes, |held| held > 0 && held.saturating_add(bytes) > self.most)
    }
}

/// Room that is given back when this is dropped.
#[derive(Debug)]
struct Taken {
    room: Arc<Room>,
    bytes: usize,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// An answer with the room that it takes, which is given back when its last byte is dropped.
struct Held {
    text: Bytes,
    _taken: Taken,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// Keeps no more answers than there is room for (invariants 2 to 4).
pub(crate) async fn bound_answers(State(answers): State<Arc<Answers>>, request: Request, next: Next) -> Response {
    let does_nothing = request.method().is_safe();
    let mut response = next.run(request).await;
    let reading = response.extensions_mut().remove::<SessionRead>();
    let Some(bytes) = size(&response) else { return response };
    let room = answers.room_for(bytes);
    let taken = if does_nothing { room.take_if_free(bytes) } else { room.take(bytes, |_| false) };
    drop(reading);
    let Some(taken) = taken else {
        let detail =
            "the server holds as many large answers as it has room for until they are read: try again in a moment";
        return Problem::unavailable("too-many-answers", detail).into_response();
    };
    let (parts, body) = response.into_parts();
    // It is in memory already, in one piece.
    let Ok(text) = to_bytes(body, usize::MAX).await else {
        return Problem::unavailable("defect", "the answer cannot be sent: please report it").into_response();
    };
    Response::from_parts(parts, Body::from(Bytes::from_owner(Held { text, _taken: taken })))
}

/// How many bytes of an answer in JSON are in memory. `None` for any other answer: files are in the program or on disk, and a
/// feed comes bit by bit.
fn size(response: &Response) -> Option<usize> {
    let is_json = response.headers().get(header::CONTENT_TYPE) == Some(&HeaderValue::from_static("application/json"));
    let exact = response.body().size_hint().exact().filter(|_| is_json)?;
    usize::try_from(exact).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_given_back_and_what_is_too_large_comes_alone() {
        let room = Arc::new(Room { held: AtomicUsize::new(0), most: 100 });
        let first = room.take_if_free(60).unwrap();
        assert!(room.take_if_free(60).is_none() && room.take_if_free(40).is_some());
        let told = room.take(500, |_| false).unwrap();
        drop(first);
        assert!(room.take_if_free(1).is_none(), "what a request did is told, and counts");
        drop(told);
        let all = room.take_if_free(1_000).unwrap();
        assert!(room.take_if_free(1).is_none());
        drop(all);
        assert_eq!(room.held.load(Ordering::Relaxed), 0);
    }
}
