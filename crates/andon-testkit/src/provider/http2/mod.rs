//! HTTP/2 in clear text.
//!
//! # Invariants
//!
//! 1. The connection is driven all the time, so that RST_STREAM, GOAWAY and the end of the connection are seen at once.
//! 2. What counts as sent has been written to the socket; only then the next step begins. So a reset never overtakes data.

mod tap;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::board::Connection;
use super::play::{Ending, Wire, play};
use super::request::Request;
use super::script::{Break, Script};
use super::seen::{ClosedHow, Hangup};
use tap::{Ledger, Tap, Written};

/// Headers that belong to a connection of HTTP/1.1 and that HTTP/2 forbids.
const OF_CONNECTIONS: [&str; 4] = ["connection", "keep-alive", "transfer-encoding", "upgrade"];

/// More streams than any test opens.
pub(super) const MANY: u32 = 1 << 20;

/// Answers requests until the connection is closed.
pub(super) async fn serve(socket: TcpStream, connection: &Arc<Connection>) {
    let (socket, ledger) = Tap::new(socket);
    let mut settings = Builder::new();
    // A test may open and leave as many as it likes, unless it has set a limit.
    settings.max_concurrent_streams(connection.max_streams()).max_pending_accept_reset_streams(MANY as usize);
    let Ok(mut http2) = settings.handshake(socket).await else { return };
    let mut streams = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            Some(_) = streams.join_next() => continue,
            accepted = http2.accept() => accepted,
        };
        let Some(Ok((request, respond))) = accepted else { break };
        let wire = Http2 { id: respond.stream_id().as_u32(), respond, stream: None, sent: 0, ledger: ledger.clone() };
        streams.spawn(answer(request, wire, Arc::clone(connection)));
    }
    // Each stream learns from the connection that it is over, and puts that on record itself.
    drop(http2);
    while streams.join_next().await.is_some() {}
}

async fn answer(request: http::Request<RecvStream>, mut wire: Http2, connection: Arc<Connection>) {
    let (head, body) = request.into_parts();
    // A client that goes away before its request is whole has asked nothing.
    let Some(body) = read(body).await else { return };
    let request = Request::new(head.method.as_str(), &head.uri, head.headers, body);
    let (record, script) = connection.begin(request);
    let ending = play(&script, &mut wire, &record).await;
    record.close(match ending {
        Ending::Whole => ClosedHow::Whole,
        Ending::HungUp(hangup) => ClosedHow::ByClient(hangup),
        Ending::Broken(how) => {
            wire.reset(match how {
                Break::Cut => Reason::CANCEL,
                Break::Reset(code) => Reason::from(code),
            });
            ClosedHow::ByServer
        }
    });
}

async fn read(mut body: RecvStream) -> Option<Bytes> {
    let mut whole = BytesMut::new();
    while let Some(piece) = body.data().await {
        let piece = piece.ok()?;
        body.flow_control().release_capacity(piece.len()).ok()?;
        whole.extend_from_slice(&piece);
    }
    Some(whole.freeze())
}

/// One stream.
struct Http2 {
    id: u32,
    respond: SendResponse<Bytes>,
    /// `Some` once the headers are sent.
    stream: Option<SendStream<Bytes>>,
    /// How much of the body has been given to the writer.
    sent: u64,
    /// What the writer has written.
    ledger: Ledger,
}

impl Wire for Http2 {
    async fn head(&mut self, script: &Script) -> Result<(), Hangup> {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(script.status).unwrap_or_default();
        for (name, value) in &script.headers {
            let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value)) else { continue };
            if !OF_CONNECTIONS.contains(&name.as_str()) {
                response.headers_mut().append(name, value);
            }
        }
        match self.respond.send_response(response, false) {
            Ok(stream) => self.stream = Some(stream),
            // It can only have failed because the stream is over.
            Err(_) => return Err(self.hung_up().await),
        }
        self.written(|written| written.headers).await
    }

    async fn body(&mut self, mut bytes: Bytes) -> Result<(), Hangup> {
        while !bytes.is_empty() {
            let window = self.window(bytes.len()).await?;
            let piece = bytes.split_to(window.min(bytes.len()));
            self.send(piece, false).await?;
        }
        let sent = self.sent;
        self.written(|written| written.body >= sent).await
    }

    async fn end(&mut self) -> Result<(), Hangup> {
        self.send(Bytes::new(), true).await?;
        self.written(|written| written.end).await
    }

    async fn hung_up(&mut self) -> Hangup {
        poll_fn(|cx| {
            let reset = match &mut self.stream {
                Some(stream) => stream.poll_reset(cx),
                None => self.respond.poll_reset(cx),
            };
            reset.map(hangup)
        })
        .await
    }
}

impl Http2 {
    /// Waits until the client accepts at least one byte, and returns how many it accepts.
    async fn window(&mut self, wanted: usize) -> Result<usize, Hangup> {
        let Some(stream) = &mut self.stream else { return Err(self.hung_up().await) };
        stream.reserve_capacity(wanted);
        poll_fn(|cx| {
            if let Poll::Ready(reset) = stream.poll_reset(cx) {
                return Poll::Ready(Err(hangup(reset)));
            }
            // Polling reports only new capacity, not what is there already.
            match (stream.capacity(), stream.poll_capacity(cx)) {
                (0, Poll::Ready(Some(Ok(window)))) => Poll::Ready(Ok(window)),
                (0, Poll::Ready(_)) => Poll::Ready(Err(Hangup::Closed)),
                (0, Poll::Pending) => Poll::Pending,
                (window, _) => Poll::Ready(Ok(window)),
            }
        })
        .await
    }

    /// Gives a piece to the writer.
    async fn send(&mut self, bytes: Bytes, last: bool) -> Result<(), Hangup> {
        self.sent += bytes.len() as u64;
        let sent = self.stream.as_mut().map(|stream| stream.send_data(bytes, last));
        match sent {
            Some(Ok(())) => Ok(()),
            // It can only have failed because the stream is over.
            Some(Err(_)) | None => Err(self.hung_up().await),
        }
    }

    /// Waits until the writer has written enough (invariant 2).
    async fn written(&mut self, enough: impl Fn(Written) -> bool + Send) -> Result<(), Hangup> {
        let ledger = self.ledger.clone();
        tokio::select! {
            biased;
            () = ledger.when(self.id, enough) => Ok(()),
            hangup = self.hung_up() => Err(hangup),
        }
    }

    fn reset(&mut self, reason: Reason) {
        match &mut self.stream {
            Some(stream) => stream.send_reset(reason),
            None => self.respond.send_reset(reason),
        }
    }
}

/// What the end of a stream says about the client.
fn hangup(reset: Result<Reason, h2::Error>) -> Hangup {
    match reset {
        Ok(reason) => Hangup::StreamReset(reason.into()),
        Err(error) => match error.get_io().map(std::io::Error::kind) {
            Some(std::io::ErrorKind::ConnectionReset) => Hangup::Reset,
            _ => Hangup::Closed,
        },
    }
}
