//! The bad provider: a real server that speaks each provider's stream format and misbehaves on command.
//!
//! A [`BadProvider`] listens on a port of this machine, over HTTP/1.1 or over HTTP/2 in clear text with prior knowledge. Each
//! request takes the next [`Script`]: a status, headers, and then steps that send frames, dribble, stall, flood, cut or reset.
//! [`Dialect`] writes the frames of a [`Reply`] as that provider really sends them. [`SeenRequest`] says what was asked, what was sent,
//! and when the connection or stream was closed, so a test waits for a state and never for a while.
//!
//! # Invariants
//!
//! 1. The server notices in every step that the client went away, even while nothing is being sent: it always reads.
//! 2. A request is [`SeenRequest`] once it is whole, and gets exactly one [`Closed`], even if the provider itself is dropped.
//! 3. By the time that [`SeenRequest::closed`] returns, [`BadProvider::open_streams`] no longer counts that request.
//! 4. Nothing outlives the provider: dropping it ends every task and closes every socket.
//! 5. What counts as sent has been written to the socket, and a cut or a reset comes after it, never before.

mod board;
mod dialect;
mod faults;
mod gate;
mod http1;
mod http2;
mod lookup;
mod play;
mod reply;
mod request;
mod script;
mod seen;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use board::Board;

pub use andon_core::outcome::ModelStop;
pub use dialect::{Dialect, Frame};
pub use faults::Refusal;
pub use gate::Gate;
pub use lookup::Generation;
pub use reply::{Call, Reply, Thought, Tokens, UsageWhen};
pub use request::Request;
pub use script::Script;
pub use seen::{Closed, ClosedHow, Hangup, SeenRequest};

/// What a [`BadProvider`] speaks below the provider's own format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP/1.1: one answer at a time on a connection, which is kept open after a whole one.
    Http1,
    /// HTTP/2 in clear text, for clients that know it beforehand (`http2_prior_knowledge`).
    Http2,
}

impl Protocol {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Http1, Self::Http2];
}

/// A server of scripts on a port of this machine. It ends when it is dropped.
#[derive(Debug)]
pub struct BadProvider {
    board: Arc<Board>,
    address: SocketAddr,
    /// Dropping it tells the server to end.
    _alive: oneshot::Sender<()>,
}

impl BadProvider {
    /// Starts a provider on the current runtime.
    ///
    /// Not for a paused clock: a runtime that waits for a socket looks idle, and time jumps.
    ///
    /// # Panics
    ///
    /// If this machine has no port for it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing listens before it returns.
    #[expect(clippy::expect_used, reason = "a test whose provider cannot listen cannot go on")]
    pub async fn start(protocol: Protocol) -> Self {
        let listener = TcpListener::bind(ANY_PORT).await.expect("a port of this machine can be listened on");
        let address = listener.local_addr().expect("a listener has an address");
        let (provider, server) = Self::parts(address, protocol);
        #[expect(clippy::disallowed_methods, reason = "the provider is not part of the runtime under test")]
        tokio::spawn(server.serve(listener));
        provider
    }

    /// Starts a provider on a thread and a runtime of its own, so that a busy client does not distort closing times.
    ///
    /// # Panics
    ///
    /// If this machine has no port or no thread for it.
    #[expect(clippy::expect_used, reason = "a test whose provider cannot listen cannot go on")]
    pub fn start_on_thread(protocol: Protocol) -> Self {
        let listener = std::net::TcpListener::bind(ANY_PORT).expect("a port of this machine can be listened on");
        listener.set_nonblocking(true).expect("a socket can be told not to block");
        let address = listener.local_addr().expect("a listener has an address");
        let (provider, server) = Self::parts(address, protocol);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be built");
        let serve = move || {
            runtime.block_on(async {
                // It fails only outside a runtime.
                if let Ok(listener) = TcpListener::from_std(listener) {
                    server.serve(listener).await;
                }
            });
        };
        std::thread::Builder::new().name("bad-provider".to_owned()).spawn(serve).expect("a thread can be started");
        provider
    }

    /// Its address as a URL: `http://127.0.0.1:PORT`, without a slash at the end.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its address, for connecting by hand.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a script to the queue. Each request takes the next; without one it gets a 500 that says so.
    pub fn answer(&self, script: Script) {
        self.board.queue(None, script);
    }

    /// What every request gets once the queue is empty.
    pub fn always(&self, script: Script) {
        self.board.repeat(None, script);
    }

    /// Adds a script for requests to a path. They never take from the common queue.
    ///
    /// The pattern is matched against the path without its query; `*` stands for any characters, or none.
    pub fn answer_at(&self, pattern: &str, script: Script) {
        self.board.queue(Some(pattern), script);
    }

    /// What every request to a path gets once that path's own queue is empty.
    pub fn always_at(&self, pattern: &str, script: Script) {
        self.board.repeat(Some(pattern), script);
    }

    /// How many streams an HTTP/2 connection may have at once, for new connections. The client is told, and must wait before it
    /// opens more. By default there is no limit that a test would reach.
    pub fn limit_streams(&self, most: u32) {
        self.board.limit_streams(most);
    }

    /// Waits for request number `number`, counted from 0 in the order in which they became whole.
    ///
    /// # Cancel safety
    ///
    /// It only waits.
    pub async fn seen(&self, number: usize) -> SeenRequest {
        self.board.seen(number).await
    }

    /// Every request so far.
    pub fn all_seen(&self) -> Vec<SeenRequest> {
        self.board.all_seen()
    }

    /// How many requests are being answered now.
    pub fn open_streams(&self) -> usize {
        self.board.counts().open_streams
    }

    /// How many connections are open now, idle ones included.
    pub fn open_connections(&self) -> usize {
        self.board.counts().open_connections
    }

    /// How many connections there have been.
    pub fn connections(&self) -> usize {
        self.board.counts().accepted
    }

    /// Waits until no request is being answered.
    ///
    /// # Cancel safety
    ///
    /// It only waits.
    pub async fn all_streams_closed(&self) {
        self.board.when(|counts| counts.open_streams == 0).await;
    }

    /// Waits until no connection is open.
    ///
    /// # Cancel safety
    ///
    /// It only waits.
    pub async fn all_connections_closed(&self) {
        self.board.when(|counts| counts.open_connections == 0).await;
    }

    /// The handle, and the server that ends with it.
    fn parts(address: SocketAddr, protocol: Protocol) -> (Self, Server) {
        let (board, (alive, over)) = (Arc::new(Board::default()), oneshot::channel());
        let server = Server { board: Arc::clone(&board), protocol, over };
        (Self { board, address, _alive: alive }, server)
    }
}

/// Any free port of this machine.
const ANY_PORT: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));

/// The accepting side.
struct Server {
    board: Arc<Board>,
    protocol: Protocol,
    /// Resolves when the provider has been dropped.
    over: oneshot::Receiver<()>,
}

impl Server {
    /// Serves until the provider is dropped. The connections' tasks are dropped with the set that holds them.
    async fn serve(mut self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                biased;
                _ = &mut self.over => return,
                Some(_) = connections.join_next() => continue,
                accepted = listener.accept() => accepted,
            };
            // A client may be gone before it was accepted.
            let Ok((socket, _)) = accepted else { continue };
            connections.spawn(serve_connection(socket, self.protocol, Arc::clone(&self.board)));
        }
    }
}

async fn serve_connection(socket: TcpStream, protocol: Protocol, board: Arc<Board>) {
    let connection = Arc::new(board.connect());
    // Without it, small writes would wait for each other. If it cannot be set, they only come later.
    let _ = socket.set_nodelay(true);
    match protocol {
        Protocol::Http1 => http1::serve(socket, &connection).await,
        Protocol::Http2 => http2::serve(socket, &connection).await,
    }
}
