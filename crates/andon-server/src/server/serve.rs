//! The accept loop.
//!
//! # Invariants
//!
//! 1. Nothing that a client does or leaves undone keeps a connection for ever: its head, its body and its reading have their
//!    times, and the end of the server closes what is left.
//! 2. Nobody beyond this machine is let in, unless it is checked who asks.

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

use crate::http::seats::{Guest, Reserved, Room, Seat, Seats};
use crate::http::socket::{Socket, Written};
use crate::server::files::{Spares, file_limit, open_files};
use crate::server::shutdown::Serving;
use crate::{Server, Shared};

/// How long a connection may take to say its last words when the server ends.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long nobody is let in when a file cannot be opened. Somebody has to close one first.
const OUT_OF_FILES: Duration = Duration::from_millis(20);
/// The least buffer that hyper takes.
const LEAST_BUFFER: usize = 8 << 10;

/// Why a server does not begin to serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Others than this machine could reach it, and nobody checks who they are.
    #[error(
        "{0} can be reached from other machines, and nobody would check who asks: ask for keys (--auth), or bind to \
         127.0.0.1 or [::1]"
    )]
    NotLoopback(SocketAddr),
    /// ADK's web page is not in the folder that it is to be served from.
    #[error(
        "{} has no index.html, so ADK's web page is not in it: get it with `pip download --no-deps google-adk` and \
         `unzip google_adk-*.whl 'google/adk/cli/browser/*'`, and name the folder google/adk/cli/browser", .0.display()
    )]
    NoPage(PathBuf),
    /// The web page is not in the folder that it is to be served from.
    #[error("{} has no index.html, so the web page is not in it: name the folder web of Andon's source", .0.display())]
    NoWebPage(PathBuf),
    /// The listener is none.
    #[error("the listener cannot be used: {0}")]
    Listener(#[from] std::io::Error),
}

impl Server {
    /// Serves at a listener, until it is [shut down](Serving::shut_down).
    pub fn serve(&self, listener: TcpListener) -> Result<Serving, ServeError> {
        let address = listener.local_addr()?;
        if !self.core.auth.is_on() && !address.ip().to_canonical().is_loopback() {
            return Err(ServeError::NotLoopback(address));
        }
        if let Some(folder) = &self.core.options.adk_ui {
            has_page(folder)?;
        }
        if let Some(folder) = &self.core.options.web_dir {
            has_web_page(folder)?;
        }
        drop(self.core.spawn(accept(Arc::clone(&self.core), listener, Routers::new(self.router()))));
        Ok(Serving::new(self.clone(), address))
    }
}

/// Whether ADK's web page is in a folder; what to do if it is not.
pub fn has_page(folder: &Path) -> Result<(), ServeError> {
    if folder.join("index.html").is_file() { Ok(()) } else { Err(ServeError::NoPage(folder.to_owned())) }
}

/// Whether the web page is in a folder; what to do if it is not.
pub fn has_web_page(folder: &Path) -> Result<(), ServeError> {
    if folder.join("index.html").is_file() { Ok(()) } else { Err(ServeError::NoWebPage(folder.to_owned())) }
}

/// What is served on the usual seats, and on those that are kept for the cord.
struct Routers {
    usual: Router,
    reserved: Router,
}

impl Routers {
    fn new(usual: Router) -> Self {
        Self { reserved: usual.clone().layer(Extension(Reserved)), usual }
    }

    fn of(&self, seat: &Seat) -> Router {
        if seat.guest().is_some() { self.reserved.clone() } else { self.usual.clone() }
    }
}

async fn accept(core: Shared, listener: TcpListener, routers: Routers) {
    let options = &core.options;
    let room = Room::new(options.max_connections, options.reserved_connections, file_limit(), open_files());
    let seats = Seats::new(&core, room);
    let mut spares = Spares::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = core.stopping.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            // Without a seat it is closed at once.
            Ok((stream, _)) => {
                if let Some(seat) = seats.make_room().await {
                    let router = routers.of(&seat);
                    drop(core.spawn(connection(Arc::clone(&core), stream, seat, router)));
                }
                spares.put_back();
            }
            // No more files can be opened, or the client is gone already. The first is helped by a file that is kept for it, or
            // by somebody who leaves; nothing by trying again at once.
            Err(_) if spares.give_up_one() || seats.free_one().await => {}
            Err(_) => sleep(OUT_OF_FILES).await,
        }
    }
}

async fn connection(core: Shared, stream: TcpStream, seat: Seat, router: Router) {
    let options = &core.options;
    let head_time = seat.head_time();
    let guest = seat.guest().cloned();
    let written = Written::default();
    let socket = TokioIo::new(Socket::new(stream, seat, options.stalled, written.clone()));
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
        () = core.stopping.cancelled() => {}
        // Whatever ended it, the client is gone.
        _ = connection.as_mut() => return,
        () = leaving(guest) => return,
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(LAST_WORDS, connection).await;
}

/// Waits until somebody else is to have this seat; for ever if it is none of the reserved ones.
async fn leaving(guest: Option<Arc<Guest>>) {
    match guest {
        Some(guest) => guest.leaves().await,
        None => std::future::pending().await,
    }
}
