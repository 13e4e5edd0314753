//! The server that models call: it streams until the client leaves, and notices when it does.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use andon_testkit::bench::now;
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio::time::{MissedTickBehavior, interval};

/// How often a piece comes.
const PACE: Duration = Duration::from_millis(20);

/// Who waits for the connection of a prompt to be closed.
type Waiting = Rc<RefCell<HashMap<String, oneshot::Sender<Instant>>>>;

/// The server. It lives on the thread of the clients.
#[derive(Clone, Default)]
pub(crate) struct Upstream {
    waiting: Waiting,
}

impl Upstream {
    /// Serves on this port from now on.
    pub(crate) fn serve(&self, listener: std::net::TcpListener) {
        listener.set_nonblocking(true).expect("a port");
        let (listener, waiting) = (TcpListener::from_std(listener).expect("a port"), Rc::clone(&self.waiting));
        spawn_local(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                spawn_local(answer(stream, Rc::clone(&waiting)));
            }
        });
    }

    /// When the connection of the call with this prompt is closed.
    pub(crate) fn closed(&self, prompt: &str) -> oneshot::Receiver<Instant> {
        let (tell, told) = oneshot::channel();
        self.waiting.borrow_mut().insert(prompt.to_owned(), tell);
        told
    }
}

/// Streams until the other side closes, and says when that was.
async fn answer(mut stream: TcpStream, waiting: Waiting) {
    let mut request = Vec::new();
    let Some(prompt) = prompt(&mut stream, &mut request).await else { return };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let event = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word \"}}]}\n\n";
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    let (mut read, mut write) = stream.split();
    let _ = write.write_all(head.as_bytes()).await;
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut more = [0; 64];
    loop {
        tokio::select! {
            biased;
            // The client sends nothing more: any further event is the end, including a reset.
            _ = read.read(&mut more) => break,
            _ = pace.tick() => {
                if write.write_all(chunk.as_bytes()).await.is_err() {
                    break;
                }
            }
        }
    }
    let closed = now();
    if let Some(tell) = waiting.borrow_mut().remove(&prompt) {
        let _ = tell.send(closed);
    }
}

/// The prompt in a request: `run-` and a number.
async fn prompt(stream: &mut TcpStream, request: &mut Vec<u8>) -> Option<String> {
    loop {
        if stream.read_buf(request).await.ok()? == 0 {
            return None;
        }
        let found = memmem::rfind(request, b"run-").and_then(|at| request.get(at..));
        // The end of the text has come, too.
        if let Some(end) = found.and_then(|text| memchr::memchr(b'"', text)) {
            let text = found.and_then(|text| text.get(..end))?;
            // And all of the request: the next thing to be read is the end of the connection.
            if request.ends_with(b"}") {
                return Some(String::from_utf8_lossy(text).into_owned());
            }
        }
    }
}
