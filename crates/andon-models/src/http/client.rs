//! The clients of this process. Connections are pooled in them, so they are kept and shared.
//!
//! # Invariants
//!
//! 1. A client serves one runtime. Its connections are driven by the runtime that opened them, and whoever used one from
//!    elsewhere would wait for as long as that runtime stands still.
//! 2. Answers are spread over several clients once there are many: an HTTP/2 server takes only so many on a connection, often
//!    100, and lets the next one wait without a word.
//! 3. An answer that nobody reads fills its own window and never the connection's, so it holds up no other.
//! 4. At most [`MOST`] clients are kept. When all of them are in use, a new one lives as long as its answer.

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::ModelError;
use parking_lot::Mutex;
use reqwest::Client;
use reqwest::redirect::Policy;
use tokio::runtime::{Handle, Id};

/// How long a connection may take, TLS included.
pub(crate) const CONNECT: Duration = Duration::from_secs(15);

/// From so many open answers on, a client is full: what most HTTP/2 servers take on one connection is more.
const FULL: usize = 64;

/// How many clients of one kind there may be. When all are full, the least busy one gets more: a server that takes 100
/// answers on a connection takes 25,600 of ours.
const MOST_OF_A_KIND: usize = 256;

/// How many clients are kept.
const MOST: usize = 2 * MOST_OF_A_KIND;

/// How much of one answer may wait for its reader.
const STREAM_WINDOW: u32 = 256 * 1024;

/// How much of all answers on one connection may: enough for all that can come to be there.
const CONNECTION_WINDOW: u32 = 1024 * STREAM_WINDOW;

/// Which HTTP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Protocol {
    /// What server and client agree on: HTTP/2 with TLS where the server has it, else HTTP/1.1.
    #[default]
    Agreed,
    /// HTTP/2 from the first byte, without asking, also without TLS.
    Http2,
}

/// Which clients will do for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    runtime: Id,
    protocol: Protocol,
    /// Whether it goes past any proxy.
    is_direct: bool,
}

/// A place on a client, for as long as an answer is open.
#[derive(Debug)]
pub(crate) struct Place(#[expect(dead_code, reason = "it is counted, not read")] Arc<()>);

/// A client, and how many answers it has open.
struct Lane {
    kind: Kind,
    client: Client,
    /// One for the lane, and one for each place.
    places: Arc<()>,
}

impl Lane {
    fn open(&self) -> usize {
        Arc::strong_count(&self.places) - 1
    }

    fn take(&self) -> (Client, Place) {
        (self.client.clone(), Place(Arc::clone(&self.places)))
    }
}

/// Those that are kept, the oldest first.
static LANES: Mutex<Vec<Lane>> = Mutex::new(Vec::new());

/// A place on a client of this runtime.
pub(super) fn place(protocol: Protocol, is_direct: bool) -> Result<(Client, Place), ModelError> {
    let no_runtime = |_| ModelError::fatal("a model can only be called on a tokio runtime, and there is none here");
    let runtime = Handle::try_current().map_err(no_runtime)?.id();
    let kind = Kind { runtime, protocol, is_direct };
    let mut lanes = LANES.lock();
    let alike = || lanes.iter().filter(|lane| lane.kind == kind);
    if let Some(lane) = alike().min_by_key(|lane| lane.open())
        && (lane.open() < FULL || alike().count() >= MOST_OF_A_KIND)
    {
        return Ok(lane.take());
    }
    let no_client = |error| ModelError::fatal(format!("this machine's TLS cannot be set up: {error}"));
    let lane = Lane { kind, client: build(kind).map_err(no_client)?, places: Arc::default() };
    let taken = lane.take();
    if lanes.len() >= MOST
        && let Some(idle) = lanes.iter().position(|lane| lane.open() == 0)
    {
        lanes.remove(idle);
    }
    if lanes.len() < MOST {
        lanes.push(lane);
    }
    Ok(taken)
}

fn build(kind: Kind) -> Result<Client, String> {
    let builder = Client::builder()
        .user_agent(concat!("andon/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        // A request carries a key and a conversation: it goes where it was sent, or nowhere.
        .redirect(Policy::none())
        // The run's own retries are counted, recorded and stopped; nothing is repeated beneath them.
        .retry(reqwest::retry::never())
        .referer(false);
    let builder = match kind.protocol {
        Protocol::Agreed => builder,
        Protocol::Http2 => builder.http2_prior_knowledge(),
    };
    let builder = if kind.is_direct { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| super::failure::chain(&error).join(": "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_new_client_is_made_only_when_all_are_full_and_there_is_an_end_to_it() {
        let clients = || {
            let runtime = Handle::current().id();
            LANES.lock().iter().filter(|lane| lane.kind.runtime == runtime).count()
        };
        let take = || place(Protocol::Http2, true).unwrap();
        // What is open is kept, whatever other tests do.
        let mut places = vec![take()];
        for _ in 0..10 {
            drop(take());
        }
        assert_eq!(clients(), 1);
        for number in 1..FULL * (MOST_OF_A_KIND + 1) {
            places.push(take());
            assert_eq!(clients(), (number / FULL + 1).min(MOST_OF_A_KIND), "{number}");
        }
        let runtime = Handle::current().id();
        drop(places);
        assert!(LANES.lock().iter().all(|lane| lane.kind.runtime != runtime || lane.open() == 0));
    }

    #[test]
    fn a_runtime_that_is_gone_leaves_no_more_than_the_clients_that_are_kept() {
        for _ in 0..MOST + 8 {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async { place(Protocol::Agreed, true).unwrap() });
        }
        assert!(LANES.lock().len() <= MOST);
    }

    #[test]
    fn without_a_runtime_there_is_an_error_and_no_panic() {
        assert!(place(Protocol::Agreed, true).unwrap_err().message.contains("tokio runtime"));
    }
}
