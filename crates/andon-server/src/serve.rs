//! The accept loop, and the end of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use andon::{Cancel, Reason};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{Server, Shared};

/// Why a server does not begin to serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Others than this machine could reach it, and nobody checks who they are.
    #[error("{0} can be reached from other machines, and nobody would check who asks: bind to 127.0.0.1 or [::1]")]
    NotLoopback(SocketAddr),
    /// The listener is none.
    #[error("the listener cannot be used: {0}")]
    Listener(#[from] std::io::Error),
}

impl Server {
    /// Serves at a listener, until it is [shut down](Serving::shut_down).
    pub fn serve(&self, listener: TcpListener) -> Result<Serving, ServeError> {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback(address));
        }
        let stop_accepting = CancellationToken::new();
        let accepting =
            self.core.spawn(accept(Arc::clone(&self.core), listener, self.router(), stop_accepting.clone()));
        Ok(Serving { server: self.clone(), address, stop_accepting, accepting })
    }
}

async fn accept(core: Shared, listener: TcpListener, router: axum::Router, stop: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                drop(core.spawn(connection(Arc::clone(&core), stream, router.clone(), stop.clone())));
            }
            // No more files can be opened, or the client is gone already: neither is helped by trying at once.
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn connection(core: Shared, stream: TcpStream, router: axum::Router, stop: CancellationToken) {
    let _ = stream.set_nodelay(true);
    core.counts.connections.fetch_add(1, Ordering::Relaxed);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(core.options.head_time)
        .max_buf_size(core.options.max_head)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let is_over = tokio::select! {
        biased;
        () = stop.cancelled() => false,
        // Whatever ended it, the client is gone.
        _ = connection.as_mut() => true,
    };
    if !is_over {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
    core.counts.connections.fetch_sub(1, Ordering::Relaxed);
}

/// A server that serves.
#[derive(Debug)]
pub struct Serving {
    server: Server,
    address: SocketAddr,
    stop_accepting: CancellationToken,
    accepting: JoinHandle<()>,
}

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShutDown {
    /// Runs that were stopped because their time was over.
    pub cancelled: usize,
    /// Tasks of runs that had not ended when it was over.
    pub left: usize,
}

impl Serving {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets nothing in, lets runs finish for a while, cancels the rest with reason `shutdown`, and waits until all is
    /// settled and told. Bounded in all.
    pub async fn shut_down(self) -> ShutDown {
        let core = &self.server.core;
        core.admission.drain();
        let drained = timeout(core.options.drain, core.runtime.idle()).await;
        let cancelled = if drained.is_ok() { 0 } else { core.runtime.in_progress().len() };
        let left = core.runtime.shutdown(core.options.settle).await.err().unwrap_or(0);
        core.closing.cancel();
        self.stop_accepting.cancel();
        let _ = self.accepting.await;
        core.tasks.close();
        let _ = timeout(Duration::from_secs(2), core.tasks.wait()).await;
        ShutDown { cancelled, left }
    }

    /// Stops all runs now, without waiting for the drain or any grace.
    pub fn harden(&self) {
        for run in self.server.core.runtime.in_progress() {
            run.cancel(Cancel::now().reason(Reason::Shutdown).by("server").note("told again to shut down"));
        }
    }
}
