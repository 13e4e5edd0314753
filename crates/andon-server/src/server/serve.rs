//! The accept loop.
//!
//! # Invariants
//!
//! 1. Nothing that a client does or fails to do keeps a connection open forever: its head, its body and its reading
//!    have time limits, and shutdown closes what is left.
//! 2. Other machines are not let in unless requests are authenticated.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use crate::access::gate::Asked;
use crate::http::slots::{ConnectionSlot, ConnectionSlots, Guest, Reserved, SlotCounts};
use crate::http::socket::{Socket, Written};
use crate::server::Server;
use crate::server::files::{Spares, file_limit, open_files};
use crate::server::mount::Part;
use crate::server::router::router;
use crate::server::shutdown::Serving;

/// How long a connection may take to finish when the server shuts down.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long to pause accepting when no file can be opened. Somebody has to close one first.
const OUT_OF_FILES: Duration = Duration::from_millis(20);
/// The minimum buffer size that hyper accepts.
const LEAST_BUFFER: usize = 8 << 10;

/// Why a server cannot start serving.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum ServeError {
    /// Other machines could reach the server, and nothing checks who they are.
    #[error(
        "{0} can be reached from other machines, and nothing would check who connects: require keys (--auth), or bind \
         to 127.0.0.1 or [::1]"
    )]
    NotLoopback(SocketAddr),
    /// A dialect is not configured correctly.
    #[error("{0}")]
    Dialect(String),
    /// The given folder does not contain the web page.
    #[error("{} has no index.html, so the web page is not in it: use the folder `crates/andon-server/web` of Andon's source", .0.display())]
    NoWebPage(PathBuf),
    /// The listener does not work.
    #[error("the listener cannot be used: {0}")]
    Listener(#[from] std::io::Error),
}

impl Server {
    /// Serves on a listener until the server is [shut down](Serving::shut_down).
    pub fn serve(&self, listener: TcpListener) -> Result<Serving, ServeError> {
        let address = listener.local_addr()?;
        if !self.core.auth.is_on() && !address.ip().to_canonical().is_loopback() {
            return Err(ServeError::NotLoopback(address));
        }
        self.check()?;
        drop(self.core.tasks.spawn(accept(self.clone(), listener)));
        Ok(Serving::new(self.clone(), address))
    }

    /// Checks that everything that it serves is there.
    pub(super) fn check(&self) -> Result<(), ServeError> {
        for dialect in &*self.dialects {
            dialect.check().map_err(ServeError::Dialect)?;
        }
        self.core.options.web_dir.as_deref().map_or(Ok(()), has_web_page)
    }
}

/// Checks that a folder contains the web page; the error says what to do.
pub fn has_web_page(folder: &Path) -> Result<(), ServeError> {
    if folder.join("index.html").is_file() { Ok(()) } else { Err(ServeError::NoWebPage(folder.to_owned())) }
}

async fn accept(server: Server, listener: TcpListener) {
    let usual = router(&server, &Part::ALL, Asked::Nobody);
    let reserved = usual.clone().layer(Extension(Reserved));
    let (core, options) = (&server.core, &server.core.options);
    let counts = SlotCounts::new(options.max_connections, options.reserved_connections, file_limit(), open_files());
    let slots = ConnectionSlots::new(&core.connections, options.head_time, counts);
    let mut spares = Spares::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = server.stopping.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            // Without a slot, the connection is closed at once.
            Ok((stream, _)) => {
                if let Some(slot) = slots.make_room().await {
                    let router = if slot.guest().is_some() { &reserved } else { &usual };
                    drop(core.tasks.spawn(connection(server.clone(), stream, slot, router.clone())));
                }
                spares.put_back();
            }
            // Either no more files can be opened, or the client is already gone. Freeing a spare file or a reserved
            // slot helps in the first case; trying again at once never does.
            Err(_) if spares.give_up_one() || slots.free_one().await => {}
            Err(_) => sleep(OUT_OF_FILES).await,
        }
    }
}

async fn connection(server: Server, stream: TcpStream, slot: ConnectionSlot, router: Router) {
    let options = &server.core.options;
    let head_time = slot.head_time();
    let guest = slot.guest().cloned();
    let written = Written::default();
    let socket = TokioIo::new(Socket::new(stream, slot, options.stalled, written.clone()));
    let router = TowerToHyperService::new(router);
    let asking = guest.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(written.clone());
        if let Some(guest) = &asking {
            guest.asks();
            request.extensions_mut().insert(Arc::clone(guest));
        }
        let (answering, guest) = (router.call(request), asking.clone());
        async move {
            let answer = answering.await;
            guest.inspect(|guest| guest.was_answered());
            answer
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_time)
        .max_header_size(options.max_head)
        .max_buf_size(options.max_head.max(LEAST_BUFFER))
        .serve_connection(socket, service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        biased;
        () = server.stopping.cancelled() => {}
        // Whatever ended the connection, the client is gone.
        _ = connection.as_mut() => return,
        () = leaving(guest) => return,
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(LAST_WORDS, connection).await;
}

/// Waits until another connection should get this slot; forever if it is not a reserved one.
async fn leaving(guest: Option<Arc<Guest>>) {
    match guest {
        Some(guest) => guest.leaves().await,
        None => std::future::pending().await,
    }
}
