//! The connection that calls share, which is replaced when it is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool};
use tokio::sync::{Mutex, oneshot};
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::error::McpError;
use super::home::place;
use super::server::McpServer;

/// How many pages of tools are read at most, and how many tools.
const MAX_PAGES: usize = 100;
const MAX_TOOLS: usize = 1_000;
/// How long to wait for a connection to close. Closing is bounded itself; this is a second bound.
const CLOSING: Duration = Duration::from_secs(5);

/// A server and the connection to it, which ends when the last handle is dropped.
pub(super) struct Session {
    pub(super) server: McpServer,
    shared: Arc<Shared>,
}

struct Shared {
    slot: Mutex<Slot>,
    /// Whether the tools have been listed before: then each new connection lists them at once.
    listed: AtomicBool,
    /// Whether the server has said since then that they have changed, on this connection or a later one.
    tools_changed: Arc<AtomicBool>,
    /// Cancelled when no connection is needed any more.
    closing: CancellationToken,
}

enum Slot {
    Empty,
    Open(Arc<Connection>),
    Closed,
}

impl Session {
    pub(super) fn new(server: McpServer) -> Self {
        let shared = Shared {
            slot: Mutex::new(Slot::Empty),
            listed: AtomicBool::new(false),
            tools_changed: Arc::default(),
            closing: CancellationToken::new(),
        };
        Self { server, shared: Arc::new(shared) }
    }

    /// A usable connection, a new one if necessary. Callers at the same time wait for the same one.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a connection that is being opened is opened anyway, within its time, for the next caller. Otherwise a call
    /// with a time limit could never use a server that takes longer to start.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>, McpError> {
        if let Ok(slot) = self.shared.slot.try_lock()
            && let Slot::Open(connection) = &*slot
            && connection.is_usable()
        {
            return Ok(Arc::clone(connection));
        }
        let closing = self.shared.closing.clone();
        let (tell, told) = oneshot::channel();
        let making = make(self.server.clone(), Arc::clone(&self.shared), tell);
        drop(place(&self.server).spawn(async move {
            tokio::select! {
                biased;
                () = closing.cancelled() => {}
                () = making => {}
            }
        }));
        told.await.unwrap_or_else(|_| Err(McpError::Closed { server: self.server.name.clone() }))
    }

    /// All tools of the server.
    pub(super) async fn list(&self) -> Result<Vec<Tool>, McpError> {
        let within = self.server.connect_timeout;
        let listed = tokio::time::timeout(within, async {
            let connection = self.connection().await?;
            // Changes from here on are new.
            self.shared.tools_changed.store(false, Ordering::Relaxed);
            let tools = list(&self.server, &connection).await?;
            self.shared.listed.store(true, Ordering::Relaxed);
            Ok(tools)
        });
        let why = || ", because it did not list its tools".to_owned();
        listed
            .await
            .unwrap_or_else(|_| Err(McpError::TimedOut { server: self.server.name.clone(), within, why: why() }))
    }

    /// Whether the server has said that its tools have changed since they were listed.
    pub(super) fn tools_changed(&self) -> bool {
        self.shared.tools_changed.load(Ordering::Relaxed)
    }

    /// Makes this connection take no new calls.
    pub(super) fn lose(&self, connection: &Arc<Connection>) {
        connection.lose();
        // If somebody holds the lock, they will notice that it cannot be used.
        if let Ok(mut slot) = self.shared.slot.try_lock()
            && matches!(&*slot, Slot::Open(open) if Arc::ptr_eq(open, connection))
        {
            *slot = Slot::Empty;
        }
    }

    /// Ends the connection for good, and waits until it is gone.
    pub(super) async fn close(&self) {
        self.shared.closing.cancel();
        let slot = std::mem::replace(&mut *self.shared.slot.lock().await, Slot::Closed);
        if let Slot::Open(connection) = slot {
            // Closing is bounded; if that fails, this does not wait forever.
            let _ = tokio::time::timeout(CLOSING, connection.close()).await;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.closing.cancel();
    }
}

/// Opens a connection, unless there is a usable one or nobody waits for it any more.
async fn make(server: McpServer, shared: Arc<Shared>, tell: oneshot::Sender<Result<Arc<Connection>, McpError>>) {
    let mut slot = shared.slot.lock().await;
    if tell.is_closed() {
        return;
    }
    let made = make_in(&server, &shared, &mut slot).await;
    // The caller may be gone.
    drop(tell.send(made));
}

async fn make_in(server: &McpServer, shared: &Shared, slot: &mut Slot) -> Result<Arc<Connection>, McpError> {
    match slot {
        Slot::Open(connection) if connection.is_usable() => return Ok(Arc::clone(connection)),
        Slot::Closed => return Err(McpError::Closed { server: server.name.clone() }),
        Slot::Open(_) | Slot::Empty => *slot = Slot::Empty,
    }
    let connection = Connection::open(server, &shared.tools_changed).await?;
    if connection.dialect.is_modern_http() && shared.listed.load(Ordering::Relaxed) {
        // The list says which arguments go into headers, so each connection needs one. Without it, the server refuses those
        // calls and says why.
        tokio::time::timeout(server.connect_timeout, list(server, &connection)).await.ok();
    }
    *slot = Slot::Open(Arc::clone(&connection));
    Ok(connection)
}

async fn list(server: &McpServer, connection: &Connection) -> Result<Vec<Tool>, McpError> {
    let unusable = |why: String| McpError::Unusable { server: server.name.clone(), why };
    let mut tools = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let params = cursor.clone().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let request = ListToolsRequest { params, ..ListToolsRequest::default() };
        let answer = connection.peer.send_request(ClientRequest::ListToolsRequest(request)).await;
        let page = match answer {
            Ok(ServerResult::ListToolsResult(page)) => page,
            Ok(_) => return Err(unusable("its answer is not a list of tools".to_owned())),
            Err(error) => return Err(unusable(format!("it did not list its tools: {}", lost_words(&error)))),
        };
        tools.extend(page.tools);
        if tools.len() > MAX_TOOLS {
            return Err(unusable(format!("it has more than {MAX_TOOLS} tools")));
        }
        match page.next_cursor {
            None => return Ok(tools),
            next if next == cursor => return Err(unusable("it keeps sending more pages of tools".to_owned())),
            next => cursor = next,
        }
    }
    Err(unusable("it keeps sending more pages of tools".to_owned()))
}

/// rmcp's message, without the names of its types.
pub(super) fn lost_words(error: &rmcp::ServiceError) -> String {
    match error {
        rmcp::ServiceError::McpError(error) => error.message.to_string(),
        rmcp::ServiceError::TransportSend(error) => error.error.to_string(),
        rmcp::ServiceError::TransportClosed => "the connection was lost".to_owned(),
        other => other.to_string(),
    }
}
