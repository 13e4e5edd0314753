//! An impolite client: it writes bytes to a socket and looks at what comes back.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::house::House;

/// Nothing here takes this long unless something is wrong.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A client's socket.
pub(crate) struct Raw {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A server's response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The problem's type.
    pub(crate) fn problem(&self) -> &str {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        assert_eq!(self.header("x-content-type-options"), Some("nosniff"), "{self:?}");
        assert_eq!(self.body["status"], self.status, "{self:?}");
        assert!(!self.body["detail"].as_str().unwrap_or_default().is_empty(), "{self:?}");
        self.body["type"].as_str().and_then(|kind| kind.strip_prefix("urn:andon:")).unwrap_or("?")
    }
}

impl Raw {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), buffer: Vec::new() }
    }

    /// A socket with a small receive buffer, which is soon full.
    pub(crate) async fn narrow(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        Self { stream: socket.connect(address).await.unwrap(), buffer: Vec::new() }
    }

    /// Sends bytes; returns whether the server was still reading.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).await.is_ok()
    }

    pub(crate) async fn no_more(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Reads more; `None` when the connection is closed, in whatever way.
    async fn more(&mut self) -> Option<()> {
        let mut piece = vec![0; 16 << 10];
        let read = timeout(PATIENCE, self.stream.read(&mut piece)).await.expect("the server is silent");
        match read {
            Ok(0) => None,
            Ok(read) => {
                self.buffer.extend_from_slice(&piece[..read]);
                Some(())
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// The next response; `None` if the connection is closed without one.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8(self.buffer.drain(..end + 4).collect()).unwrap();
                return Some(self.body(head).await);
            }
            self.more().await?;
        }
    }

    /// The head of the next response, without waiting for its body.
    pub(crate) async fn head(&mut self) -> String {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                return String::from_utf8(self.buffer.drain(..end + 4).collect()).unwrap();
            }
            self.more().await.expect("it was closed without an answer");
        }
    }

    async fn body(&mut self, head: String) -> Answer {
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer { status, head, body: Value::Null };
        let length: usize = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        while self.buffer.len() < length {
            self.more().await.expect("the answer broke off");
        }
        let body: Vec<u8> = self.buffer.drain(..length).collect();
        answer.body = serde_json::from_slice(&body)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned()));
        answer
    }

    /// Waits until the server closes, and returns what came before.
    pub(crate) async fn closed(mut self) -> Vec<u8> {
        while self.more().await.is_some() {}
        self.buffer
    }
}

impl House {
    /// Sends bytes on a new connection.
    pub(crate) async fn sent(&self, bytes: impl AsRef<[u8]>) -> Raw {
        let mut raw = Raw::open(self.address()).await;
        raw.send(bytes).await;
        raw
    }

    /// Sends bytes on a new connection, and returns the response.
    pub(crate) async fn raw(&self, bytes: impl AsRef<[u8]>) -> Option<Answer> {
        self.sent(bytes).await.answer().await
    }

    /// Sends a request with these headers and a JSON body.
    pub(crate) async fn ask(&self, line: &str, headers: &[&str], body: &str) -> Answer {
        let mut head = format!("{line} HTTP/1.1\r\n");
        for header in headers {
            head += &format!("{header}\r\n");
        }
        if !body.is_empty() {
            head += &format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        }
        self.raw(format!("{head}\r\n{body}")).await.expect("it was closed without an answer")
    }

    /// A metric from `/metrics`.
    pub(crate) async fn figure(&self, name: &str) -> u64 {
        let (_, text) = self.get("/metrics").await;
        let text = text.as_str().unwrap().to_owned();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).unwrap();
        line.parse().unwrap()
    }

    /// Waits until a metric matches.
    pub(crate) async fn until_figure(&self, name: &str, is_it: impl Fn(u64) -> bool) {
        let wait = async { while !is_it(self.figure(name).await) {} };
        timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{name} stays as it is"));
    }
}
