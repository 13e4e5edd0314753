//! One connection to a server, from its handshake to its end.
//!
//! # Theory of operation
//!
//! A connection is a task: it starts the program, if there is one, does the handshake, returns a [`Connection`], and then waits
//! until somebody ends it or the other side closes it. Then it closes everything: rmcp's loop, the HTTP session, the program and
//! all that the program has started. So everything ends in one place, for whatever reason, and dropping the last handle is
//! enough.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use andon_runtime::{BoxFuture, Remains};
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion, TASKS_EXTENSION_ID};
use rmcp::service::{ClientInitializeError, RunningService, serve_client_with_lifecycle};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientLifecycleMode, Peer, RoleClient};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::child::Program;
use super::error::McpError;
use super::home::place;
use super::http::{self, Http};
use super::lines::Lines;
use super::server::{McpProtocol, McpServer, ServerKind};
use super::wire::{Tap, Wire};

/// How long a program may take to end by itself once its standard input is closed.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long rmcp may take to close, including the end of an HTTP session.
const CLOSING: Duration = Duration::from_secs(2);

/// A handle to a connection, which ends when the last handle is dropped.
pub(super) struct Connection {
    pub(super) peer: Peer<RoleClient>,
    pub(super) wire: Arc<Wire>,
    pub(super) dialect: Dialect,
    end: CancellationToken,
    /// Cancelled if nobody should wait for its program.
    hurry: CancellationToken,
    ended: CancellationToken,
    program: Arc<ProgramEnd>,
}

/// The end of a connection's program and of all that it has started.
#[derive(Default)]
struct ProgramEnd {
    over: CancellationToken,
    /// What could not be ended, with notes about the rest.
    left: OnceLock<Remains>,
}

/// What determines how a cancel is sent, and how we know that it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) over: TransportKind,
    /// Whether it uses the protocol of 2026-07-28, and not an older one.
    pub(super) modern: bool,
}

/// The kind of transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransportKind {
    /// Lines from and to a program that we started: when it ends, everything that it does ends.
    Program,
    /// Lines over a stream to somebody else's server.
    Stream,
    Http,
}

impl Dialect {
    /// Whether a call is cancelled by closing its response stream: then nothing is sent, and no answer can come.
    pub(super) fn is_modern_http(self) -> bool {
        self.over == TransportKind::Http && self.modern
    }
}

impl Connection {
    /// Connects. Sets `tools_changed` when the server says that its tools have changed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if it is dropped, everything that it started is ended.
    pub(super) async fn open(server: &McpServer, tools_changed: &Arc<AtomicBool>) -> Result<Arc<Self>, McpError> {
        let end = CancellationToken::new();
        let unwanted = end.clone().drop_guard();
        let (ready, opened) = oneshot::channel();
        let wire = Arc::new(Wire::new(Arc::clone(tools_changed)));
        drop(place(server).spawn(live(server.clone(), wire, end, ready)));
        let lost = || McpError::Unusable { server: server.name.clone(), why: "its runtime ended".to_owned() };
        let connection = opened.await.map_err(|_| lost())??;
        drop(unwanted.disarm());
        Ok(Arc::new(connection))
    }

    /// Whether a new call may use it.
    pub(super) fn is_usable(&self) -> bool {
        self.wire.in_progress.is_open() && !self.wire.closed.is_cancelled() && !self.peer.is_transport_closed()
    }

    /// Takes no new calls. It ends with its last call.
    pub(super) fn lose(&self) {
        self.wire.in_progress.close();
    }

    /// Ends it and its program. It takes no new calls.
    pub(super) fn end(&self) {
        self.lose();
        self.end.cancel();
    }

    /// Gives its program no time to end by itself.
    pub(super) fn hurry(&self) {
        self.hurry.cancel();
    }

    /// Ends it, and waits until it is gone.
    pub(super) async fn close(&self) {
        self.end.cancel();
        self.ended.cancelled().await;
    }

    /// Waits until it is gone.
    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Waits until its program and everything that it started have ended, or could not be ended.
    pub(super) async fn program_over(&self) -> Remains {
        self.program.over.cancelled().await;
        self.program.left.get().cloned().unwrap_or_default()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// What a server gets to know about us. Nothing is advertised that a person would have to answer; [`Tap`] declines such
/// requests.
fn client(version: ProtocolVersion) -> ClientConfig {
    let mut capabilities = ClientCapabilities::default();
    capabilities.extensions = Some([(TASKS_EXTENSION_ID.to_owned(), serde_json::Map::new())].into());
    let mut config = ClientConfig::new(capabilities, Implementation::new("andon", env!("CARGO_PKG_VERSION")));
    config.protocol_version = version;
    config
}

type Serving = RunningService<RoleClient, ClientConfig>;

/// The whole life of a connection.
async fn live(
    server: McpServer,
    wire: Arc<Wire>,
    end: CancellationToken,
    ready: oneshot::Sender<Result<Connection, McpError>>,
) {
    let ended = CancellationToken::new();
    let _ended = ended.clone().drop_guard();
    let hurry = CancellationToken::new();
    let mut program = Program::default();
    let started = tokio::select! {
        biased;
        () = end.cancelled() => None,
        started = tokio::time::timeout(server.connect_timeout, start(&server, &wire, &mut program)) => Some(started),
    };
    let serving = match started {
        Some(Ok(Ok(serving))) => serving,
        failed => {
            // The program's last output often says why, so the program is ended before that is read.
            end_program(program, &hurry, &wire).await;
            let error = match failed {
                Some(Ok(Err(error))) => error,
                _ => McpError::TimedOut {
                    server: server.name.clone(),
                    within: server.connect_timeout,
                    why: wire.trouble().map(|trouble| format!(", and {trouble}")).unwrap_or_default(),
                },
            };
            // The caller may be gone.
            let _ = ready.send(Err(error));
            return;
        }
    };
    let peer = serving.peer().clone();
    let modern = peer.peer_info().is_some_and(|info| info.protocol_version >= ProtocolVersion::V_2026_07_28);
    let over = match server.kind {
        ServerKind::Stdio(_) => TransportKind::Program,
        ServerKind::Stream(_) => TransportKind::Stream,
        ServerKind::Http { .. } => TransportKind::Http,
    };
    let closed = wire.closed.clone();
    let program_end = Arc::new(ProgramEnd::default());
    let connection = Connection {
        peer,
        wire: Arc::clone(&wire),
        dialect: Dialect { over, modern },
        end: end.clone(),
        hurry: hurry.clone(),
        ended,
        program: Arc::clone(&program_end),
    };
    // If the caller is gone, the handle is dropped here, which ends everything.
    let _ = ready.send(Ok(connection));
    tokio::select! {
        () = end.cancelled() => {}
        () = closed.cancelled() => {}
    }
    close(serving, program, &hurry, &wire, &program_end).await;
}

/// Starts the program, if there is one, and does the handshake.
async fn start(server: &McpServer, wire: &Arc<Wire>, program: &mut Program) -> Result<Serving, McpError> {
    let unusable = |why: String| McpError::Unusable { server: server.name.clone(), why };
    let shaken = match &server.kind {
        ServerKind::Stdio(command) => {
            let started = program.start(command, wire).await;
            let (stdout, stdin) =
                started.map_err(|error| McpError::Start { server: server.name.clone(), why: error.to_string() })?;
            shake_hands(server.protocol, Tap::new(Lines::new(stdout, stdin, Arc::clone(wire)), Arc::clone(wire))).await
        }
        ServerKind::Http { wrong_header: Some(name), .. } => {
            return Err(unusable(format!("`{name}` or its value is not a valid header")));
        }
        ServerKind::Http { url, headers, .. } => {
            let http = Http::new(headers.clone(), server.connect_timeout, Arc::clone(wire));
            let http = http.map_err(|error| unusable(error.to_string()))?;
            let transport = StreamableHttpClientTransport::with_client(http, http::config(url));
            shake_hands(server.protocol, Tap::new(transport, Arc::clone(wire))).await
        }
        ServerKind::Stream(open) => {
            let (reader, writer) = tokio::io::split(open());
            shake_hands(server.protocol, Tap::new(Lines::new(reader, writer, Arc::clone(wire)), Arc::clone(wire))).await
        }
    };
    match shaken {
        Ok(serving) => Ok(serving),
        Err(error) => {
            end_program(std::mem::take(program), &CancellationToken::new(), wire).await;
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
    Box::pin(serve_client_with_lifecycle(client(version), transport, lifecycle))
}

/// rmcp's message, without the names of its types.
fn handshake_words(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => error.error.to_string(),
        ClientInitializeError::ConnectionClosed(when) => format!("it closed the connection before the {when}"),
        ClientInitializeError::JsonRpcError(error) => error.message.to_string(),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => handshake_words(fallback),
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let versions: Vec<_> = server_supported.iter().map(ProtocolVersion::as_str).collect();
            format!("it supports only other versions of the protocol: {}", versions.join(", "))
        }
        _ => "its answer to the handshake violates the protocol".to_owned(),
    }
}

async fn close(
    mut serving: Serving,
    program: Program,
    hurry: &CancellationToken,
    wire: &Wire,
    program_end: &ProgramEnd,
) {
    // The result does not matter, only that it is bounded.
    let rmcp = serving.close_with_timeout(CLOSING);
    let end = async {
        let left = end_program(program, hurry, wire).await;
        // Nobody else sets it.
        let _ = program_end.left.set(left);
        program_end.over.cancel();
    };
    let (_, ()) = tokio::join!(rmcp, end);
}

/// Ends the program, notes how it ended, and returns what remains.
async fn end_program(program: Program, hurry: &CancellationToken, wire: &Wire) -> Remains {
    let (how, left) = program.end(PATIENCE, hurry).await;
    if let Some(how) = how {
        wire.note_end(&how);
    }
    left
}
