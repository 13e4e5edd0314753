//! A client's socket, with time limits on writing.
//!
//! # Invariants
//!
//! 1. A write that makes no progress for `stalled` fails, and so does the connection. What was not sent is not kept:
//!    the reader comes back with the id of the last event it received.
//! 2. What the kernel buffers for a client is limited, and so is what hyper buffers: together about [`KERNEL_BUFFER`]
//!    and a frame. Of that, at most [`UNSENT`] has not been sent yet. So what a slow link carries next is recent.
//! 3. A client that is still sending when it is answered and closed can still read the answer: what it sends is
//!    discarded for a moment. Closing at once would make it lose the answer.

use std::convert::Infallible;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use crate::http::slots::ConnectionSlot;

/// How much the kernel buffers for a client that does not read. It uses twice that, because of its own bookkeeping.
const KERNEL_BUFFER: usize = 512 << 10;
/// How much the kernel accepts before it can send it. Where this cannot be set, it is as much as it buffers.
const UNSENT: u32 = 16 << 10;
/// How long, and how much, a client may keep sending after it was answered.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 4 << 20;

/// How much was written to a client, which shows whether a long write makes progress. It is among the extensions of a
/// request.
#[derive(Debug, Clone, Default)]
pub struct Written(Arc<AtomicU64>);

impl Written {
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl<S: Sync> FromRequestParts<S> for Written {
    type Rejection = Infallible;

    /// Another server does not set this, so nothing is known about the progress of writes there.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

/// Lets the kernel detect that a machine is gone while only heartbeats are sent to it. Not while a write waits for the
/// client: the kernel would take a client that reads a little at a time for one that is gone, so that case is watched
/// here.
fn watch(stream: &TcpStream, time: Option<Duration>) {
    #[cfg(target_os = "linux")]
    {
        let millis = time.map_or(0, |time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1));
        // If it cannot be set, the socket works without it.
        let _ = rustix::net::sockopt::set_tcp_user_timeout(stream, millis);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (stream, time);
}

/// A client's socket.
pub(crate) struct Socket {
    stream: TcpStream,
    _slot: ConnectionSlot,
    written: Written,
    stalled: Duration,
    /// Runs while a write waits.
    timer: Option<Pin<Box<Sleep>>>,
    /// When a write last had to wait, if that was recently.
    waited: Option<Instant>,
    closing: Closing,
}

enum Closing {
    NotYet,
    /// The client has been told, but may still be sending.
    Lingering {
        timer: Pin<Box<Sleep>>,
        bytes: usize,
    },
    Done,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream, slot: ConnectionSlot, stalled: Duration, written: Written) -> Self {
        // Options that cannot be set are skipped; the socket works without them.
        let _ = stream.set_nodelay(true);
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&stream, KERNEL_BUFFER);
        #[cfg(target_os = "linux")]
        let _ = socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT);
        watch(&stream, Some(stalled));
        let (timer, waited, closing) = (None, None, Closing::NotYet);
        Self { stream, _slot: slot, written, stalled, timer, waited, closing }
    }

    /// Notes how a write went (invariant 1).
    fn wrote(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = written {
            self.timer = None;
            if self.waited.is_some_and(|waited| waited.elapsed() >= self.stalled) {
                self.waited = None;
                watch(&self.stream, Some(self.stalled));
            }
            let bytes = written.as_ref().map_or(0, |written| *written as u64);
            self.written.0.fetch_add(bytes, Ordering::Relaxed);
            return Poll::Ready(written);
        }
        if self.waited.replace(Instant::now()).is_none() {
            watch(&self.stream, None);
        }
        let stalled = self.stalled;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(stalled)));
        timer.as_mut().poll(cx).map(|()| Err(io::Error::new(ErrorKind::TimedOut, "the client has stopped reading")))
    }

    /// Discards what the client still sends, for a moment (invariant 3).
    fn linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Closing::Lingering { timer, bytes } = &mut self.closing else { return Poll::Ready(()) };
        let mut waste = [0_u8; 4096];
        while *bytes < LINGER_BYTES {
            let mut buffer = ReadBuf::new(&mut waste);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => *bytes += buffer.filled().len(),
                Poll::Ready(_) => return Poll::Ready(()),
                // The client was not sending.
                Poll::Pending if *bytes == 0 => return Poll::Ready(()),
                Poll::Pending => return timer.as_mut().poll(cx),
            }
        }
        Poll::Ready(())
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.wrote(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if matches!(self.closing, Closing::NotYet) {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            self.closing = Closing::Lingering { timer: Box::pin(sleep(LINGER)), bytes: 0 };
        }
        ready!(self.linger(cx));
        self.closing = Closing::Done;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;
    use crate::http::slots::{ConnectionSlots, SlotCounts};

    #[tokio::test]
    async fn a_write_that_makes_no_progress_fails_in_time_and_little_was_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _deaf = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let slot = ConnectionSlots::new(&Arc::default(), Duration::from_secs(9), SlotCounts::new(1, 0, 100, 0))
            .take()
            .unwrap();
        let stalled = Duration::from_millis(300);
        let mut socket = Socket::new(stream, slot, stalled, Written::default());
        assert!(sockopt::socket_send_buffer_size(&socket.stream).unwrap() <= 2 * KERNEL_BUFFER);
        // Turned off, because the kernel would close the socket on its own.
        #[cfg(target_os = "linux")]
        sockopt::set_tcp_user_timeout(&socket.stream, 0).unwrap();
        let begun = Instant::now();
        let piece = vec![b'x'; 64 << 10];
        let writing = async {
            let mut pieces = 0;
            loop {
                if let Err(error) = socket.write_all(&piece).await {
                    return (error, pieces * piece.len());
                }
                pieces += 1;
            }
        };
        let (error, taken) = timeout(Duration::from_secs(20), writing).await.unwrap();
        assert!(taken <= 4 * KERNEL_BUFFER, "{taken} bytes were taken for a client that does not read");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(begun.elapsed() >= stalled);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_slow_client_applies_back_pressure() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let narrow = tokio::net::TcpSocket::new_v4().unwrap();
        narrow.set_recv_buffer_size(4 << 10).unwrap();
        let _deaf = narrow.connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let slot = ConnectionSlots::new(&Arc::default(), Duration::from_secs(9), SlotCounts::new(1, 0, 100, 0))
            .take()
            .unwrap();
        let written = Written::default();
        let mut socket = Socket::new(stream, slot, Duration::from_millis(300), written.clone());
        while socket.write_all(&[b'x'; 1 << 10]).await.is_ok() {}
        assert!(written.bytes() > 0 && written.bytes() <= 64 << 10, "{} bytes are on their way", written.bytes());
    }
}
