//! A transport of lines: one JSON-RPC message per line, as over a program's standard input and output.
//!
//! # Invariants
//!
//! 1. Messages are written in the order in which they were sent: a cancel never overtakes its request.
//! 2. A message is written whole or not at all, even if the sender stops waiting.
//! 3. Memory is bounded: a line longer than [`MAX_MESSAGE`] is dropped as it comes. If it was an answer, its request fails; if
//!    it is not known what it was, the connection ends.
//! 4. No more than [`OUTBOX`] messages wait to be written; one more is an error.
//! 5. Lines that are not messages are skipped, up to [`MAX_GARBAGE`] in a row, and the last one is noted.

use std::io;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::wire::Wire;

/// The largest message that is accepted from a server.
pub(super) const MAX_MESSAGE: usize = 16 * 1024 * 1024;
/// How many lines in a row that are not messages end the connection.
const MAX_GARBAGE: u32 = 1_000;
/// How many messages may wait for a server that does not read. It is more than the replies that may wait (see `wire`).
const OUTBOX: usize = 2_048;
/// How much of a message that is too large is read to find out which request it answers.
const HEAD: usize = 512;
/// A buffer that has grown larger than this is shrunk.
const KEPT: usize = 64 * 1024;
/// How much of a line that is not a message is quoted.
const QUOTE: usize = 120;

type Written = oneshot::Sender<io::Result<()>>;

/// The transport. A separate task writes; it ends when this is closed or dropped.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// Whether the rest of a line that is too long is being dropped.
    discarding: bool,
    garbage: u32,
    outbox: Option<mpsc::Sender<(Vec<u8>, Written)>>,
    wire: Arc<Wire>,
}

impl<R: AsyncRead + Send + Unpin> Lines<R> {
    /// Must be called within a runtime; the writer runs there.
    pub(super) fn new(reader: R, writer: impl AsyncWrite + Send + Unpin + 'static, wire: Arc<Wire>) -> Self {
        let (outbox, letters) = mpsc::channel(OUTBOX);
        drop(tokio::runtime::Handle::current().spawn(write_all(writer, letters)));
        let reader = BufReader::with_capacity(64 * 1024, reader);
        Self { reader, line: Vec::new(), discarding: false, garbage: 0, outbox: Some(outbox), wire }
    }

    /// Reads to the end of a line, or to where it gets too long. Nothing is lost if the wait is dropped.
    async fn read(&mut self) -> io::Result<Read> {
        loop {
            let available = self.reader.fill_buf().await?;
            if available.is_empty() {
                return Ok(Read::End);
            }
            let (taken, ended) = match available.iter().position(|byte| *byte == b'\n') {
                Some(end) => (end + 1, true),
                None => (available.len(), false),
            };
            let discarding = self.discarding;
            if !discarding {
                self.line.extend_from_slice(available.get(..taken).unwrap_or_default());
            }
            self.reader.consume(taken);
            if discarding {
                self.discarding = !ended;
            } else if self.line.len() > MAX_MESSAGE {
                self.discarding = !ended;
                return Ok(Read::TooLong);
            } else if ended {
                return Ok(Read::Line);
            }
        }
    }

    /// Parses the line: a message, nothing, or one bad line too many.
    fn parse(&mut self) -> Parsed {
        let line = self.line.trim_ascii();
        if line.is_empty() {
            return Parsed::Nothing;
        }
        match serde_json::from_slice::<Box<ServerJsonRpcMessage>>(line) {
            Ok(message) => {
                self.garbage = 0;
                Parsed::Message(message)
            }
            Err(_) if is_unknown_notification(line) => Parsed::Nothing,
            Err(error) => {
                self.garbage += 1;
                self.wire.note(format!("it sent something that is not an MCP message ({error}): `{}`", quote(line)));
                if self.garbage > MAX_GARBAGE { Parsed::Enough } else { Parsed::Nothing }
            }
        }
    }

    /// Makes the request of an answer that is too large fail; the connection goes on.
    fn refuse(&mut self) -> Option<ServerJsonRpcMessage> {
        let id = answered(self.line.get(..HEAD).unwrap_or_default());
        self.line = Vec::new();
        self.wire.note(too_large());
        id.map(|id| ServerJsonRpcMessage::error(ErrorData::internal_error(too_large(), None), Some(id)))
    }
}

enum Read {
    Line,
    TooLong,
    End,
}

enum Parsed {
    Message(Box<ServerJsonRpcMessage>),
    Nothing,
    Enough,
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleClient> for Lines<R> {
    type Error = io::Error;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        // The line is queued here, where calls come in order, and not in the future, where they might not.
        let (written, done) = oneshot::channel();
        let queued = serde_json::to_vec(&message).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            let outbox = self.outbox.as_ref().ok_or(io::ErrorKind::NotConnected)?;
            outbox.try_send((line, written)).map_err(|error| match error {
                TrySendError::Full(_) => io::Error::new(io::ErrorKind::WouldBlock, "it does not read its input"),
                TrySendError::Closed(_) => io::ErrorKind::BrokenPipe.into(),
            })
        });
        async move {
            queued?;
            done.await.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            match self.read().await {
                Ok(Read::Line) => {
                    let parsed = self.parse();
                    self.line.clear();
                    self.line.shrink_to(KEPT);
                    match parsed {
                        Parsed::Message(message) => return Some(*message),
                        Parsed::Nothing => {}
                        Parsed::Enough => return None,
                    }
                }
                Ok(Read::TooLong) => return self.refuse(),
                Ok(Read::End) => return None,
                Err(error) => {
                    self.wire.note(format!("reading from it failed: {error}"));
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // The writer ends once it has written the queue, and closes the pipe, so that the server sees the end.
        self.outbox = None;
        Ok(())
    }
}

async fn write_all(mut writer: impl AsyncWrite + Send + Unpin, mut letters: mpsc::Receiver<(Vec<u8>, Written)>) {
    while let Some((line, written)) = letters.recv().await {
        let mut result = writer.write_all(&line).await;
        if result.is_ok() {
            result = writer.flush().await;
        }
        let failed = result.is_err();
        // Nobody has to wait for it.
        let _ = written.send(result);
        if failed {
            break;
        }
    }
    // It fails only if the other side is gone.
    let _ = writer.shutdown().await;
}

/// Notifications of later versions and of other protocols are ignored, and do not count as garbage.
fn is_unknown_notification(line: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(line)
        .is_ok_and(|value| value.get("method").is_some_and(serde_json::Value::is_string) && value.get("id").is_none())
}

/// The request that a message answers, judged by how the message begins.
fn answered(head: &[u8]) -> Option<RequestId> {
    let head = String::from_utf8_lossy(head);
    let before_result = head.split("\"result\"").next()?;
    let after = before_result.split_once("\"id\"")?.1.trim_start().strip_prefix(':')?.trim_start();
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok().map(RequestId::Number)
}

pub(super) fn too_large() -> String {
    format!("it sent a message of more than {} MiB, which was refused", MAX_MESSAGE >> 20)
}

fn quote(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line.get(..QUOTE).unwrap_or(line)).into_owned();
    if line.len() > QUOTE { format!("{text}…") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_large_answer_names_its_request() {
        assert_eq!(answered(br#"{"jsonrpc":"2.0","id":17,"result":{"content":"#), Some(RequestId::Number(17)));
        assert_eq!(answered(br#"{"jsonrpc": "2.0", "id": 17, "result": {"#), Some(RequestId::Number(17)));
        assert_eq!(answered(br#"{"jsonrpc":"2.0","result":{"id":17,"#), None);
        assert_eq!(answered(b"xxxxxxxx"), None);
    }

    fn lines(input: &'static [u8]) -> (Lines<&'static [u8]>, Arc<Wire>) {
        let wire = Arc::new(Wire::default());
        (Lines::new(input, tokio::io::sink(), Arc::clone(&wire)), wire)
    }

    #[tokio::test]
    async fn lines_that_are_not_messages_are_skipped_and_quoted() {
        let (mut lines, wire) =
            lines(b"hello\n\n{\"jsonrpc\":\"2.0\",\"method\":\"x/y\"}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
        assert!(matches!(
            lines.receive().await,
            Some(ServerJsonRpcMessage::Notification(_) | ServerJsonRpcMessage::Response(_))
        ));
        assert!(wire.trouble().unwrap().contains("`hello`"), "{:?}", wire.trouble());
    }

    #[tokio::test]
    async fn endless_garbage_ends_the_connection() {
        let (mut lines, wire) = lines(Box::leak(b"no\n".repeat(2_000).into_boxed_slice()));
        assert!(lines.receive().await.is_none());
        assert!(wire.trouble().unwrap().contains("`no`"));
    }

    #[tokio::test]
    async fn an_answer_that_is_too_large_fails_its_request_and_the_next_one_is_read() {
        let mut input = br#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":""#.to_vec();
        input.extend(std::iter::repeat_n(b'x', MAX_MESSAGE + 10));
        input.extend_from_slice(b"\"}]}}\n{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}}\n");
        let (mut lines, _) = lines(Box::leak(input.into_boxed_slice()));
        let Some(ServerJsonRpcMessage::Error(error)) = lines.receive().await else { panic!("no error") };
        assert_eq!(error.id, Some(RequestId::Number(3)));
        let Some(ServerJsonRpcMessage::Response(next)) = lines.receive().await else { panic!("no answer") };
        assert_eq!(next.id, RequestId::Number(4));
    }
}
