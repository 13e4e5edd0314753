//! The clients of this process. Connections are pooled in them, so they are kept and shared.
//!
//! # Invariants
//!
//! 1. A client serves one runtime. Its connections are driven by the runtime that opened them, and a call from another runtime
//!    would wait whenever that one stands still.
//! 2. Answers are spread over several clients once there are many: an HTTP/2 server takes only so many on a connection, often
//!    100, and silently lets the next one wait.
//! 3. An answer that nobody reads fills its own window but never the connection's, so it delays no other.
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

/// A client with this many open answers is full. Most HTTP/2 servers take more on one connection.
const FULL: usize = 64;

/// How many clients of one kind there may be. When all are full, the least busy one gets more. A server that takes 100 answers on
/// a connection then takes 25,600 of ours.
const MOST_OF_A_KIND: usize = 256;

/// How many clients are kept.
const MOST: usize = 2 * MOST_OF_A_KIND;

/// How many bytes of one answer may wait for its reader.
const STREAM_WINDOW: u32 = 256 * 1024;

/// How many bytes may wait on one connection: enough for all answers that it can have.
const CONNECTION_WINDOW: u32 = 1024 * STREAM_WINDOW;

/// Which HTTP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Protocol {
    /// What server and client agree on: HTTP/2 with TLS where the server has it, else HTTP/1.1.
    #[default]
    Agreed,
    /// HTTP/2 from the first byte, without negotiation, even without TLS.
    Http2,
}

/// Which clients suit a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClientKind {
    runtime: Id,
    protocol: Protocol,
    /// Whether it bypasses any proxy.
    is_direct: bool,
}

/// Counts one open answer of a client.
#[derive(Debug)]
pub(crate) struct OpenAnswer(#[expect(dead_code, reason = "it is counted, not read")] Arc<()>);

/// A client, and how many answers it has open.
struct SharedClient {
    kind: ClientKind,
    client: Client,
    /// One reference for the client itself, and one for each open answer.
    answers: Arc<()>,
}

impl SharedClient {
    fn open(&self) -> usize {
        Arc::strong_count(&self.answers) - 1
    }

    fn take(&self) -> (Client, OpenAnswer) {
        (self.client.clone(), OpenAnswer(Arc::clone(&self.answers)))
    }
}

/// The clients that are kept, oldest first.
static CLIENTS: Mutex<Vec<SharedClient>> = Mutex::new(Vec::new());

/// A client of this runtime, with one more open answer.
pub(super) fn take(protocol: Protocol, is_direct: bool) -> Result<(Client, OpenAnswer), ModelError> {
    let no_runtime = |_| ModelError::fatal("a model can only be called on a tokio runtime, and there is none here");
    let runtime = Handle::try_current().map_err(no_runtime)?.id();
    let kind = ClientKind { runtime, protocol, is_direct };
    let mut clients = CLIENTS.lock();
    let alike = || clients.iter().filter(|shared| shared.kind == kind);
    if let Some(shared) = alike().min_by_key(|shared| shared.open())
        && (shared.open() < FULL || alike().count() >= MOST_OF_A_KIND)
    {
        return Ok(shared.take());
    }
    let no_client = |error| ModelError::fatal(format!("TLS cannot be set up on this machine: {error}"));
    let shared = SharedClient { kind, client: build(kind).map_err(no_client)?, answers: Arc::default() };
    let taken = shared.take();
    if clients.len() >= MOST
        && let Some(idle) = clients.iter().position(|shared| shared.open() == 0)
    {
        clients.remove(idle);
    }
    if clients.len() < MOST {
        clients.push(shared);
    }
    Ok(taken)
}

fn build(kind: ClientKind) -> Result<Client, String> {
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
            CLIENTS.lock().iter().filter(|shared| shared.kind.runtime == runtime).count()
        };
        let take = || take(Protocol::Http2, true).unwrap();
        // What is open is kept, whatever other tests do.
        let mut open = vec![take()];
        for _ in 0..10 {
            drop(take());
        }
        assert_eq!(clients(), 1);
        for number in 1..FULL * (MOST_OF_A_KIND + 1) {
            open.push(take());
            assert_eq!(clients(), (number / FULL + 1).min(MOST_OF_A_KIND), "{number}");
        }
        let runtime = Handle::current().id();
        drop(open);
        assert!(CLIENTS.lock().iter().all(|shared| shared.kind.runtime != runtime || shared.open() == 0));
    }

    #[test]
    fn a_runtime_that_is_gone_leaves_no_more_than_the_clients_that_are_kept() {
        for _ in 0..MOST + 8 {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async { take(Protocol::Agreed, true).unwrap() });
        }
        assert!(CLIENTS.lock().len() <= MOST);
    }

    #[test]
    fn without_a_runtime_there_is_an_error_and_no_panic() {
        assert!(take(Protocol::Agreed, true).unwrap_err().message.contains("tokio runtime"));
    }
}
