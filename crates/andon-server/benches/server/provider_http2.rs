//! The provider's answers over HTTP/2.

use std::future::poll_fn;
use std::rc::Rc;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{Request, Response};
use tokio::net::TcpStream;
use tokio::task::spawn_local;
use tokio::time::sleep;
use tokio_rustls::server::TlsStream;

use crate::provider::{Asked, Texts};

/// The most answers that a connection may have open: no more than the large providers allow.
const STREAMS: u32 = 128;

/// Answers all requests on a connection, until the client disconnects.
pub(crate) async fn serve(stream: TlsStream<TcpStream>, texts: Rc<Texts>) {
    let mut builder = h2::server::Builder::new();
    let Ok(mut connection) = builder.max_concurrent_streams(STREAMS).handshake::<_, Bytes>(stream).await else {
        return;
    };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let texts = Rc::clone(&texts);
        spawn_local(async move { drop(answer(request, respond, &texts).await) });
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    texts: &Texts,
) -> Result<(), h2::Error> {
    let asked = Asked::of(&body(request.into_body()).await?);
    let mut head = Response::new(());
    head.headers_mut().insert("content-type", http::HeaderValue::from_static("text/event-stream"));
    let mut stream = respond.send_response(head, false)?;
    match asked.pause {
        None => stream.send_data(texts.whole(asked), !asked.is_held)?,
        Some(pause) => {
            for frame in Texts::frames(asked) {
                sleep(pause).await;
                stream.send_data(frame, false)?;
            }
        }
    }
    match asked {
        Asked { is_held: true, .. } => reset(&mut stream).await,
        Asked { pause: Some(_), .. } => stream.send_data(Bytes::new(), true),
        Asked { pause: None, .. } => Ok(()),
    }
}

async fn body(mut body: RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut bytes = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// Waits until the client resets the stream.
async fn reset(stream: &mut SendStream<Bytes>) -> Result<(), h2::Error> {
    poll_fn(|context| stream.poll_reset(context)).await.map(drop)
}
