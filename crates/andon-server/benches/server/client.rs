//! A client that does only what it must: it shares two cores with the server that is measured.

use std::net::SocketAddr;

use bytes::BytesMut;
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection that is kept open.
pub(crate) struct Connection {
    stream: TcpStream,
    /// Bytes that have arrived and are not consumed yet.
    buffer: BytesMut,
}

/// A response's head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// The length of its body; `None` if the body is chunked.
    length: Option<usize>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("a connection");
        Self { stream, buffer: BytesMut::new() }
    }

    /// Sends a request, and reads the head of the response.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> Head {
        self.stream.write_all(request).await.expect("a server that takes the request");
        let end = self.until(b"\r\n\r\n").await;
        let head = self.buffer.split_to(end).to_ascii_lowercase();
        let after = |name: &str| memmem::find(&head, name.as_bytes()).and_then(|at| head.get(at + name.len()..));
        let number = |text: &[u8]| {
            let digits = text.iter().copied().skip_while(|byte| *byte == b' ').take_while(u8::is_ascii_digit);
            digits.fold(0_usize, |number, digit| number * 10 + usize::from(digit - b'0'))
        };
        let status = after("http/1.1").map(number).expect("a status");
        Head { status: u16::try_from(status).unwrap_or_default(), length: after("\r\ncontent-length:").map(number) }
    }

    /// Sends a request, and reads the whole response.
    pub(crate) async fn whole(&mut self, request: &[u8]) -> (u16, Vec<u8>) {
        let head = self.ask(request).await;
        let length = head.length.expect("an answer of known length");
        while self.buffer.len() < length {
            self.read().await;
        }
        (head.status, self.buffer.split_to(length).to_vec())
    }

    /// Requests a feed, and reads its head.
    pub(crate) async fn feed(&mut self, request: &[u8]) {
        let head = self.ask(request).await;
        assert_eq!((head.status, head.length), (200, None), "the answer is a feed");
    }

    /// The next chunk of a feed; `None` at its end. The server writes whole events.
    pub(crate) async fn chunk(&mut self) -> Option<BytesMut> {
        let line = self.until(b"\r\n").await;
        let size = self.buffer.get(..line - 2).and_then(|size| std::str::from_utf8(size).ok());
        let size = size.and_then(|size| usize::from_str_radix(size, 16).ok()).expect("a chunk's size");
        while self.buffer.len() < line + size + 2 {
            self.read().await;
        }
        let mut chunk = self.buffer.split_to(line + size + 2).split_off(line);
        chunk.truncate(size);
        (size > 0).then_some(chunk)
    }

    /// The offset after the first occurrence of `mark`; reads until there is one.
    async fn until(&mut self, mark: &[u8]) -> usize {
        loop {
            if let Some(at) = memmem::find(&self.buffer, mark) {
                return at + mark.len();
            }
            self.read().await;
        }
    }

    async fn read(&mut self) {
        let read = self.stream.read_buf(&mut self.buffer).await.expect("an answer");
        assert_ne!(read, 0, "the server has closed the connection");
    }
}

/// A request with a body.
pub(crate) fn with_body(what: &str, accept: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{what} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// A request without a body.
pub(crate) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}
