//! A socket that notices which HTTP/2 frames were written to it.
//!
//! HTTP/2's writer lives in a task of its own, and a reset throws away what still waits there. So only the socket shows what was
//! really sent, and where to cut exactly after it.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// What was written of one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Written {
    /// Whether its headers were.
    pub(super) headers: bool,
    /// How many bytes of its body.
    pub(super) body: u64,
    /// Whether its end was.
    pub(super) end: bool,
}

/// What was written, by stream number.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger(Arc<watch::Sender<HashMap<u32, Written>>>);

impl Ledger {
    /// Waits until enough of a stream was written.
    pub(super) async fn when(&self, stream: u32, enough: impl Fn(Written) -> bool) {
        let holds = |all: &HashMap<u32, Written>| enough(all.get(&stream).copied().unwrap_or_default());
        // The ledger holds the sender, so the wait cannot fail.
        let _ = self.0.subscribe().wait_for(holds).await;
    }
}

/// The socket.
#[derive(Debug)]
pub(super) struct Tap {
    socket: TcpStream,
    frames: Frames,
    ledger: Ledger,
}

impl Tap {
    pub(super) fn new(socket: TcpStream) -> (Self, Ledger) {
        let ledger = Ledger::default();
        (Self { socket, frames: Frames::default(), ledger: ledger.clone() }, ledger)
    }
}

impl AsyncRead for Tap {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Tap {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.socket).poll_write(cx, buf))?;
        let (written_bytes, _) = buf.split_at(written);
        this.ledger.0.send_modify(|all| this.frames.pass(written_bytes, all));
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;

/// The frames of a connection as they pass by, in pieces of any size.
#[derive(Debug, Default)]
struct Frames {
    /// The beginning of the next frame's head.
    head: Vec<u8>,
    /// The frame whose payload is passing.
    frame: Frame,
}

#[derive(Debug, Clone, Copy, Default)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    /// How much of its payload is still to come.
    left: usize,
}

impl Frames {
    fn pass(&mut self, mut bytes: &[u8], all: &mut HashMap<u32, Written>) {
        while !bytes.is_empty() {
            if self.frame.left > 0 {
                let (payload, rest) = bytes.split_at(self.frame.left.min(bytes.len()));
                self.frame.left -= payload.len();
                if self.frame.kind == DATA {
                    all.entry(self.frame.stream).or_default().body += payload.len() as u64;
                }
                bytes = rest;
            } else {
                let (head, rest) = bytes.split_at((9 - self.head.len()).min(bytes.len()));
                self.head.extend_from_slice(head);
                bytes = rest;
                let Ok([a, b, c, kind, flags, stream @ ..]) = <[u8; 9]>::try_from(self.head.as_slice()) else { return };
                self.head.clear();
                let left = u32::from_be_bytes([0, a, b, c]) as usize;
                self.frame = Frame { kind, flags, stream: u32::from_be_bytes(stream), left };
            }
            if self.frame.left == 0 && self.head.is_empty() {
                self.frame.done(all);
            }
        }
    }
}

impl Frame {
    /// Counts the frame, whose last byte has passed.
    fn done(self, all: &mut HashMap<u32, Written>) {
        let (headers, end) = match self.kind {
            HEADERS => (true, self.flags & END_STREAM != 0),
            DATA => (false, self.flags & END_STREAM != 0),
            _ => return,
        };
        let written = all.entry(self.stream).or_default();
        written.headers |= headers;
        written.end |= end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_counted_at_their_last_byte_however_they_are_cut() {
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let headers = [0, 0, 2, HEADERS, 4, 0, 0, 0, 3, 0x88, 0x88];
        let data = [0, 0, 3, DATA, 0, 0, 0, 0, 3, b'a', b'b', b'c'];
        let end = [0, 0, 0, DATA, END_STREAM, 0, 0, 0, 3];
        let whole = [&settings[..], &headers, &data, &end].concat();
        for size in 1..=whole.len() {
            let (mut frames, mut all) = (Frames::default(), HashMap::new());
            let mut passed = 0;
            for piece in whole.chunks(size) {
                frames.pass(piece, &mut all);
                passed += piece.len();
                let written = all.get(&3).copied().unwrap_or_default();
                assert_eq!(written.headers, passed >= 20, "{size} {passed}");
                assert_eq!(written.body, passed.saturating_sub(29).min(3) as u64, "{size} {passed}");
                assert_eq!(written.end, passed == whole.len(), "{size} {passed}");
            }
            assert_eq!(all.len(), 1);
        }
    }
}
