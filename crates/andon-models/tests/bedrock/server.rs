//! A server that speaks the framing of AWS event streams, and does what a script says.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// What the server does with every request.
#[derive(Clone)]
pub(crate) enum Script {
    /// Streams these events. Between two lists of them it waits for [`Server::go_on`].
    Stream(Vec<Vec<(&'static str, Value)>>),
    /// Streams this text, and then an exception.
    Break { words: &'static str, code: &'static str },
    /// Answers with an error.
    Refuse { status: u16, code: &'static str, message: &'static str },
    /// Closes the connection once the request is whole.
    HangUp,
}

#[derive(Default)]
struct Seen {
    requests: AtomicUsize,
    last: Mutex<(String, String)>,
}

pub(crate) struct Server {
    port: u16,
    seen: Arc<Seen>,
    gate: Arc<Semaphore>,
    closed: Arc<Semaphore>,
}

impl Server {
    pub(crate) async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server =
            Self { port, seen: Arc::default(), gate: Arc::new(Semaphore::new(0)), closed: Arc::new(Semaphore::new(0)) };
        let (seen, gate, closed) = (Arc::clone(&server.seen), Arc::clone(&server.gate), Arc::clone(&server.closed));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (script, seen, gate, closed) =
                    (script.clone(), Arc::clone(&seen), Arc::clone(&gate), Arc::clone(&closed));
                tokio::spawn(async move {
                    serve(stream, script, &seen, &gate).await;
                    closed.add_permits(1);
                });
            }
        });
        server
    }

    /// An address where nobody listens.
    pub(crate) async fn gone() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        Self { port, seen: Arc::default(), gate: Arc::new(Semaphore::new(0)), closed: Arc::new(Semaphore::new(0)) }
    }

    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Lets every stream go on.
    pub(crate) fn go_on(&self) {
        self.gate.add_permits(1_000);
    }

    /// Waits until a connection was closed by the other side.
    pub(crate) async fn closed(&self) {
        self.closed.acquire().await.unwrap().forget();
    }

    pub(crate) fn requests(&self) -> usize {
        self.seen.requests.load(Ordering::SeqCst)
    }

    /// The head and the body of the last request.
    pub(crate) fn request(&self) -> (String, String) {
        self.seen.last.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, script: Script, seen: &Seen, gate: &Semaphore) {
    let Some(request) = read(&mut stream).await else { return };
    *seen.last.lock().unwrap() = request;
    seen.requests.fetch_add(1, Ordering::SeqCst);
    match script {
        Script::HangUp => return,
        Script::Refuse { status, code, message } => {
            let body = format!("{{\"message\":\"{message}\"}}");
            let head = format!(
                "HTTP/1.1 {status} Refused\r\nx-amzn-errortype: {code}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        }
        Script::Break { words, code } => {
            let delta = serde_json::json!({"contentBlockIndex": 0, "delta": {"text": words}});
            send_head(&mut stream).await;
            send(&mut stream, &frame("event", ":event-type", "contentBlockDelta", &delta)).await;
            send(
                &mut stream,
                &frame("exception", ":exception-type", code, &serde_json::json!({"message": "Slow down."})),
            )
            .await;
        }
        Script::Stream(parts) => {
            send_head(&mut stream).await;
            for (place, part) in parts.into_iter().enumerate() {
                if place > 0 && !may_go_on(&mut stream, gate).await {
                    return;
                }
                for (event, data) in part {
                    send(&mut stream, &frame("event", ":event-type", event, &data)).await;
                }
            }
            let _ = stream.write_all(b"0\r\n\r\n").await;
        }
    }
    // The other side closes; whatever it still sends does not matter.
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

/// Waits for the gate; `false` if the other side closed first.
async fn may_go_on(stream: &mut TcpStream, gate: &Semaphore) -> bool {
    let mut byte = [0];
    tokio::select! {
        permit = gate.acquire() => {
            permit.unwrap().forget();
            true
        }
        _ = stream.read(&mut byte) => false,
    }
}

async fn send_head(stream: &mut TcpStream) {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\ntransfer-encoding: chunked\r\n\r\n";
    let _ = stream.write_all(head.as_bytes()).await;
}

async fn send(stream: &mut TcpStream, frame: &[u8]) {
    let _ = stream.write_all(format!("{:x}\r\n", frame.len()).as_bytes()).await;
    let _ = stream.write_all(frame).await;
    let _ = stream.write_all(b"\r\n").await;
}

/// A message: its length, its headers' length, a checksum of both, the headers, the data, and a checksum of all.
fn frame(message_type: &str, kind: &str, name: &str, data: &Value) -> Vec<u8> {
    let mut headers = Vec::new();
    for (name, value) in [(":message-type", message_type), (kind, name), (":content-type", "application/json")] {
        headers.push(u8::try_from(name.len()).unwrap());
        headers.extend_from_slice(name.as_bytes());
        // A text.
        headers.push(7);
        headers.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
        headers.extend_from_slice(value.as_bytes());
    }
    let data = data.to_string();
    let length = |bytes: usize| u32::try_from(bytes).unwrap().to_be_bytes();
    let mut frame = [length(16 + headers.len() + data.len()), length(headers.len())].concat();
    frame.extend_from_slice(&checksum(&frame).to_be_bytes());
    frame.extend_from_slice(&headers);
    frame.extend_from_slice(data.as_bytes());
    frame.extend_from_slice(&checksum(&frame).to_be_bytes());
    frame
}

/// CRC-32, bit by bit.
fn checksum(bytes: &[u8]) -> u32 {
    let bit = |sum: u32| if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), |sum, _| bit(sum)))
}

/// The head and the body of a request.
async fn read(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    loop {
        let mut more = [0; 4096];
        let count = stream.read(&mut more).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&more[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some((head.to_owned(), body.to_owned()));
        }
    }
}
