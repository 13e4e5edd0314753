//! HTTP/1.1 by hand, so that a stall, half a chunk and a reset are exact.
//!
//! # Invariants
//!
//! 1. The socket is read all the time, even while nothing is sent and while the client reads nothing.
//! 2. A connection is used again only after a whole answer.

mod parse;

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderName;
use http::header::{CONNECTION, CONTENT_LENGTH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::board::Connection;
use super::play::{Ending, Wire, play};
use super::request::Request;
use super::script::{Break, Script};
use super::seen::{ClosedHow, Hangup};
use parse::parse;

/// Answers requests until the connection is closed by either side.
pub(super) async fn serve(socket: TcpStream, connection: &Connection) {
    let (reader, writer) = socket.into_split();
    let mut wire = Http1 { reader, writer, unread: BytesMut::new(), body: Body::Chunked };
    while let Some(request) = wire.request().await {
        let (record, script) = connection.begin(request);
        let ending = play(&script, &mut wire, &record).await;
        match ending {
            Ending::Whole => record.close(ClosedHow::Whole),
            Ending::HungUp(hangup) => return record.close(ClosedHow::ByClient(hangup)),
            Ending::Broken(how) => {
                wire.break_off(how);
                return record.close(ClosedHow::ByServer);
            }
        }
        if wire.body == Body::UntilClosed {
            return;
        }
    }
}

/// How the client knows the end of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    /// By the last chunk.
    Chunked,
    /// By the length that was announced.
    Counted,
    /// By the end of the connection.
    UntilClosed,
}

/// One connection.
struct Http1 {
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    /// What the client has sent and nobody has read.
    unread: BytesMut,
    /// How the body that is being sent will end.
    body: Body,
}

impl Wire for Http1 {
    async fn head(&mut self, script: &Script) -> Result<(), Hangup> {
        let has = |name: HeaderName| script.headers.iter().find(|(known, _)| known == name.as_str());
        self.body = match (has(CONTENT_LENGTH), has(CONNECTION)) {
            (Some(_), _) => Body::Counted,
            (None, Some((_, value))) if value == "close" => Body::UntilClosed,
            (None, _) => Body::Chunked,
        };
        let mut head = format!("HTTP/1.1 {} {}\r\n", script.status, reason(script.status));
        for (name, value) in &script.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if self.body == Body::Chunked {
            head.push_str("transfer-encoding: chunked\r\n");
        }
        head.push_str("\r\n");
        self.write(head.as_bytes()).await
    }

    async fn body(&mut self, bytes: Bytes) -> Result<(), Hangup> {
        match self.body {
            // An empty chunk would be the last one.
            _ if bytes.is_empty() => Ok(()),
            Body::Chunked => {
                // In one write, so that what the client sees does not depend on how the system cuts three.
                let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
                chunk.extend_from_slice(&bytes);
                chunk.extend_from_slice(b"\r\n");
                self.write(&chunk).await
            }
            Body::Counted | Body::UntilClosed => self.write(&bytes).await,
        }
    }

    async fn end(&mut self) -> Result<(), Hangup> {
        match self.body {
            Body::Chunked => self.write(b"0\r\n\r\n").await,
            Body::Counted | Body::UntilClosed => Ok(()),
        }
    }

    async fn hung_up(&mut self) -> Hangup {
        hung_up(&mut self.reader, &mut self.unread).await
    }
}

impl Http1 {
    /// Writes all of it, and reads meanwhile (invariant 1).
    async fn write(&mut self, bytes: &[u8]) -> Result<(), Hangup> {
        tokio::select! {
            biased;
            hangup = hung_up(&mut self.reader, &mut self.unread) => Err(hangup),
            written = self.writer.write_all(bytes) => written.map_err(|error| hangup(&error)),
        }
    }

    /// Closes the connection without the end of the body.
    fn break_off(self, how: Break) {
        if let Break::Reset(_) = how {
            // If it fails, the client sees a FIN instead of an RST.
            let _ = self.writer.as_ref().set_zero_linger();
            // Dropping the writer would send a FIN first.
            self.writer.forget();
        }
    }

    /// The next whole request; `None` if the client sends no more, or does not speak HTTP.
    async fn request(&mut self) -> Option<Request> {
        loop {
            if let Some((request, length)) = parse(&self.unread).ok()? {
                self.unread.advance(length);
                return Some(request);
            }
            if self.reader.read_buf(&mut self.unread).await.ok()? == 0 {
                return None;
            }
        }
    }
}

/// Waits until the client goes away. What it sends meanwhile is kept for later.
async fn hung_up(reader: &mut OwnedReadHalf, unread: &mut BytesMut) -> Hangup {
    loop {
        match reader.read_buf(unread).await {
            Ok(0) => return Hangup::Closed,
            Ok(_) => {}
            Err(error) => return hangup(&error),
        }
    }
}

/// What an error of the socket says about the client.
fn hangup(error: &io::Error) -> Hangup {
    match error.kind() {
        io::ErrorKind::ConnectionReset => Hangup::Reset,
        _ => Hangup::Closed,
    }
}

fn reason(status: u16) -> &'static str {
    // Some clients expect a word here; none reads it.
    http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Status")
}
