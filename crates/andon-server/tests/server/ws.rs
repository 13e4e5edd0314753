//! WebSockets as a client sees them.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

pub(crate) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Nothing here takes this long unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) async fn connect(request: impl IntoClientRequest + Unpin) -> Result<Socket, Error> {
    let opened = timeout(PATIENCE, tokio_tungstenite::connect_async(request)).await.unwrap();
    opened.map(|(socket, _)| socket)
}

pub(crate) async fn say(socket: &mut Socket, what: Value) {
    socket.send(Message::text(what.to_string())).await.unwrap();
}

/// The next message with content, or the close frame's code and reason.
pub(crate) async fn next(socket: &mut Socket) -> Result<Value, (u16, String)> {
    loop {
        let message = timeout(PATIENCE, socket.next()).await.expect("the socket is silent");
        match message.expect("a socket says why it ends").unwrap() {
            Message::Text(text) => return Ok(serde_json::from_str(&text).unwrap()),
            Message::Close(frame) => {
                let frame = frame.unwrap();
                return Err((frame.code.into(), frame.reason.to_string()));
            }
            Message::Ping(_) | Message::Pong(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The remaining messages, and how the socket was closed.
pub(crate) async fn rest(socket: &mut Socket) -> (Vec<Value>, (u16, String)) {
    let mut all = Vec::new();
    loop {
        match next(socket).await {
            Ok(item) => all.push(item),
            Err(end) => return (all, end),
        }
    }
}
