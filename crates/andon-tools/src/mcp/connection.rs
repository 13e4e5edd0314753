//! One connection to a server, from its handshake to its end.
//!
//! # Theory of operation
//!
//! A connection is a task: it starts what has to be started, shakes hands, hands out a [`Connection`], and then waits until
//! somebody wants its end or the other side goes away. Then it closes: rmcp's loop, the HTTP session, the program and all
//! that the program has started. So there is one place where things end, whoever wants it and for whatever reason, and
//! dropping the last handle is enough.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use andon::BoxFuture;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion, TASKS_EXTENSION_ID};
use rmcp::service::{ClientInitializeError, RunningService, serve_client_with_lifecycle};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, ClientLifecycleMode, Peer, RoleClient};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::child::Program;
use super::error::McpError;
use super::home::home;
use super::http::{self, Http};
use super::lines::Lines;
use super::server::{McpProtocol, McpServer, Reach};
use super::wire::{Tap, Wire};

/// How long a program may take to end by itself once its standard input is closed.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long rmcp may take to close, the end of an HTTP session included.
const CLOSING: Duration = Duration::from_secs(2);

/// A handle to a connection. When the last one is dropped the connection ends.
pub(super) struct Connection {
    pub(super) peer: Peer<RoleClient>,
    pub(super) wire: Arc<Wire>,
    pub(super) way: Way,
    /// No new call may use it, and its program need not be waited for.
    lost: Arc<AtomicBool>,
    end: CancellationToken,
    ended: CancellationToken,
    /// Pulled when its program and all that it has started have ended, for which there is proof.
    gone: CancellationToken,
}

/// What decides how a cancel is told, and how one knows that it was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    /// Over HTTP, and not over lines.
    pub(super) http: bool,
    /// By the protocol of 2026-07-28, and not an older one.
    pub(super) modern: bool,
}

impl Connection {
    /// Connects.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if it is dropped, everything that was started for it is ended.
    pub(super) async fn open(server: &McpServer) -> Result<Arc<Self>, McpError> {
        let place = match (&server.reach, home()) {
            (Reach::Stream(_), _) | (_, None) => &Handle::current(),
            (_, Some(home)) => home,
        };
        let end = CancellationToken::new();
        let unwanted = end.clone().drop_guard();
        let (ready, opened) = oneshot::channel();
        drop(place.spawn(live(server.clone(), end, ready)));
        let lost = || McpError::Unusable { server: server.name.clone(), why: "its runtime ended".to_owned() };
        let connection = opened.await.map_err(|_| lost())??;
        drop(unwanted.disarm());
        Ok(Arc::new(connection))
    }

    /// Whether a new call may use it.
    pub(super) fn is_usable(&self) -> bool {
        !self.lost.load(Ordering::Acquire) && !self.wire.closed.is_cancelled() && !self.peer.is_transport_closed()
    }

    /// No new call may use it. It ends when those that do are over.
    pub(super) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// Ends it, and waits until nothing of it is left.
    pub(super) async fn close(&self) {
        self.end.cancel();
        self.ended.cancelled().await;
    }

    /// Waits until nothing of it is left.
    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Lets go of it, and waits until its program has ended. That happens only if nobody else uses it.
    pub(super) async fn gone(self: Arc<Self>) {
        let gone = self.gone.clone();
        drop(self);
        gone.cancelled().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// What a server may know about us. Nothing is advertised that a person would have to answer; requests for it are declined
/// before they come here, by [`Tap`].
struct Client(ClientConfig);

impl Client {
    fn new(version: ProtocolVersion) -> Self {
        let mut capabilities = ClientCapabilities::default();
        capabilities.extensions = Some([(TASKS_EXTENSION_ID.to_owned(), serde_json::Map::new())].into());
        let mut config = ClientConfig::new(capabilities, Implementation::new("andon", env!("CARGO_PKG_VERSION")));
        config.protocol_version = version;
        Self(config)
    }
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        self.0.clone()
    }
}

type Serving = RunningService<RoleClient, Client>;

/// The whole life of a connection.
async fn live(server: McpServer, end: CancellationToken, ready: oneshot::Sender<Result<Connection, McpError>>) {
    let ended = CancellationToken::new();
    let _ended = ended.clone().drop_guard();
    let wire = Arc::new(Wire::default());
    let mut program = Program::default();
    let started = tokio::select! {
        biased;
        () = end.cancelled() => None,
        started = tokio::time::timeout(server.connect_timeout, start(&server, &wire, &mut program)) => Some(started),
    };
    let serving = match started {
        Some(Ok(Ok(serving))) => serving,
        failed => {
            // The program's last words are often why, so it is ended before they are read.
            end_program(program, PATIENCE, &wire).await;
            let error = match failed {
                Some(Ok(Err(error))) => error,
                _ => McpError::TimedOut {
                    server: server.name.clone(),
                    within: server.connect_timeout,
                    why: wire.trouble().map(|trouble| format!(", and {trouble}")).unwrap_or_default(),
                },
            };
            // Whoever wanted it may be gone.
            let _ = ready.send(Err(error));
            return;
        }
    };
    let peer = serving.peer().clone();
    let modern = peer.peer_info().is_some_and(|info| info.protocol_version >= ProtocolVersion::V_2026_07_28);
    let way = Way { http: matches!(server.reach, Reach::Http { .. }), modern };
    let closed = wire.closed.clone();
    let lost = Arc::new(AtomicBool::new(false));
    let gone = CancellationToken::new();
    let connection = Connection {
        peer,
        wire: Arc::clone(&wire),
        way,
        lost: Arc::clone(&lost),
        end: end.clone(),
        ended,
        gone: gone.clone(),
    };
    // If whoever wanted it is gone, the handle is dropped here, and with it all.
    let _ = ready.send(Ok(connection));
    tokio::select! {
        () = end.cancelled() => {}
        () = closed.cancelled() => {}
    }
    // One that did not heed a cancel is not asked again.
    let patience = if lost.load(Ordering::Acquire) { Duration::ZERO } else { PATIENCE };
    close(serving, program, patience, &wire, &gone).await;
}

/// Starts what has to be started, and shakes hands.
async fn start(server: &McpServer, wire: &Arc<Wire>, program: &mut Program) -> Result<Serving, McpError> {
    let unusable = |why: String| McpError::Unusable { server: server.name.clone(), why };
    let shaken = match &server.reach {
        Reach::Stdio(command) => {
            let started = program.start(command, wire).await;
            let (stdout, stdin) =
                started.map_err(|error| McpError::Start { server: server.name.clone(), why: error.to_string() })?;
            shake_hands(server.protocol, Tap::new(Lines::new(stdout, stdin, Arc::clone(wire)), Arc::clone(wire))).await
        }
        Reach::Http { wrong_header: Some(name), .. } => {
            return Err(unusable(format!("`{name}` or its value is no header")));
        }
        Reach::Http { url, headers, .. } => {
            let http = Http::new(headers.clone(), server.connect_timeout, Arc::clone(wire));
            let http = http.map_err(|error| unusable(error.to_string()))?;
            let transport = StreamableHttpClientTransport::with_client(http, http::config(url));
            shake_hands(server.protocol, Tap::new(transport, Arc::clone(wire))).await
        }
        Reach::Stream(open) => {
            let (reader, writer) = tokio::io::split(open());
            shake_hands(server.protocol, Tap::new(Lines::new(reader, writer, Arc::clone(wire)), Arc::clone(wire))).await
        }
    };
    match shaken {
        Ok(serving) => Ok(serving),
        Err(error) => {
            end_program(std::mem::take(program), PATIENCE, wire).await;
            let why = handshake_words(&error);
            Err(unusable(wire.trouble().map_or(why.clone(), |trouble| format!("{why}; {trouble}"))))
        }
    }
}

fn shake_hands<T>(protocol: McpProtocol, transport: Tap<T>) -> BoxFuture<Result<Serving, ClientInitializeError>>
where
    T: rmcp::transport::Transport<RoleClient> + 'static,
{
    let newest = vec![ProtocolVersion::V_2026_07_28];
    let oldest = ProtocolVersion::V_2025_11_25;
    let (version, lifecycle) = match protocol {
        McpProtocol::Newest => {
            let legacy_version = Some(oldest.clone());
            (oldest, ClientLifecycleMode::Auto { preferred_versions: newest, legacy_version })
        }
        McpProtocol::Only2026 => {
            (ProtocolVersion::V_2026_07_28, ClientLifecycleMode::Discover { preferred_versions: newest })
        }
        McpProtocol::Only2025 => (oldest, ClientLifecycleMode::Initialize),
    };
    Box::pin(serve_client_with_lifecycle(Client::new(version), transport, lifecycle))
}

/// rmcp's own words, without the types that it names in them.
fn handshake_words(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => error.error.to_string(),
        ClientInitializeError::ConnectionClosed(when) => format!("it went away before the {when}"),
        ClientInitializeError::JsonRpcError(error) => error.message.to_string(),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => handshake_words(fallback),
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let versions: Vec<_> = server_supported.iter().map(ProtocolVersion::as_str).collect();
            format!("it speaks other versions of the protocol: {}", versions.join(", "))
        }
        _ => "it did not answer the handshake as the protocol wants".to_owned(),
    }
}

async fn close(mut serving: Serving, program: Program, patience: Duration, wire: &Wire, gone: &CancellationToken) {
    // What rmcp says about its end is of no use to anybody; that it is bounded matters.
    let rmcp = serving.close_with_timeout(CLOSING);
    let end = async {
        if end_program(program, patience, wire).await {
            gone.cancel();
        }
    };
    let (_, ()) = tokio::join!(rmcp, end);
}

/// Ends the program, and notes how. Whether nothing of it is left.
async fn end_program(program: Program, patience: Duration, wire: &Wire) -> bool {
    let (how, gone) = program.end(patience).await;
    if let Some(how) = how {
        wire.note_end(&how);
    }
    gone
}
