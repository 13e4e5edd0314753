//! One connection to a server, from its handshake to its end.
//!
//! # Theory of operation
//!
//! A connection is a task: it starts what has to be started, shakes hands, hands out a [`Connection`], and then waits until
//! somebody wants its end or the other side goes away. Then it closes: rmcp's loop, the HTTP session, the program and all
//! that the program has started. So there is one place where things end, whoever wants it and for whatever reason, and
//! dropping the last handle is enough.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use andon_runtime::{BoxFuture, Remains};
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion, TASKS_EXTENSION_ID};
use rmcp::service::{ClientInitializeError, RunningService, serve_client_with_lifecycle};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, ClientLifecycleMode, Peer, RoleClient};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::child::Program;
use super::error::McpError;
use super::home::place;
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
    end: CancellationToken,
    /// Its program need not be waited for.
    hurry: CancellationToken,
    ended: CancellationToken,
    program: Arc<ProgramEnd>,
}

/// The end of a connection's program and of all that it has started.
#[derive(Default)]
struct ProgramEnd {
    over: CancellationToken,
    /// What could not be ended, and what is to be known of how the rest was.
    left: OnceLock<Remains>,
}

/// What decides how a cancel is told, and how one knows that it was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) over: Over,
    /// By the protocol of 2026-07-28, and not an older one.
    pub(super) modern: bool,
}

/// What a server is spoken to over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// Lines from and to a program that was started for it: its end is the end of whatever it does.
    Program,
    /// Lines over a stream to somebody else.
    Stream,
    Http,
}

impl Way {
    /// Whether a call is cancelled by closing its response stream: nothing is sent, and nothing can come any more.
    pub(super) fn is_modern_http(self) -> bool {
        self.over == Over::Http && self.modern
    }
}

impl Connection {
    /// Connects. It is noted in `tools_changed` if the server says so of its tools.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if it is dropped, everything that was started for it is ended.
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

    /// No new call may use it. It ends when those that do are over.
    pub(super) fn lose(&self) {
        self.wire.in_progress.close();
    }

    /// Ends it, with its program. No new call may use it.
    pub(super) fn end(&self) {
        self.lose();
        self.end.cancel();
    }

    /// Does not wait for its program, should it have to end.
    pub(super) fn hurry(&self) {
        self.hurry.cancel();
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

    /// Waits until its program and all that it has started have ended, or could not be.
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
            // The program's last words are often why, so it is ended before they are read.
            end_program(program, &hurry, &wire).await;
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
    let over = match server.reach {
        Reach::Stdio(_) => Over::Program,
        Reach::Stream(_) => Over::Stream,
        Reach::Http { .. } => Over::Http,
    };
    let closed = wire.closed.clone();
    let program_end = Arc::new(ProgramEnd::default());
    let connection = Connection {
        peer,
        wire: Arc::clone(&wire),
        way: Way { over, modern },
        end: end.clone(),
        hurry: hurry.clone(),
        ended,
        program: Arc::clone(&program_end),
    };
    // If whoever wanted it is gone, the handle is dropped here, and with it all.
    let _ = ready.send(Ok(connection));
    tokio::select! {
        () = end.cancelled() => {}
        () = closed.cancelled() => {}
    }
    close(serving, program, &hurry, &wire, &program_end).await;
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

async fn close(
    mut serving: Serving,
    program: Program,
    hurry: &CancellationToken,
    wire: &Wire,
    program_end: &ProgramEnd,
) {
    // What rmcp says about its end is of no use to anybody; that it is bounded matters.
    let rmcp = serving.close_with_timeout(CLOSING);
    let end = async {
        let left = end_program(program, hurry, wire).await;
        // Nobody else sets it.
        let _ = program_end.left.set(left);
        program_end.over.cancel();
    };
    let (_, ()) = tokio::join!(rmcp, end);
}

/// Ends the program, and notes how. What is left of it.
async fn end_program(program: Program, hurry: &CancellationToken, wire: &Wire) -> Remains {
    let (how, left) = program.end(PATIENCE, hurry).await;
    if let Some(how) = how {
        wire.note_end(&how);
    }
    left
}
