//! HTTP for rmcp's streamable transport, with limits and without secrets in its errors.
//!
//! rmcp's own client reads JSON answers of any size, and its errors contain the whole address with its query, so we use ours.
//! rmcp's worker above it does what the protocol asks for: sessions, headers, resuming event streams, closing a stream to
//! cancel.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, try_unfold};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use reqwest::{RequestBuilder, Response};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::common::client_side_sse::SseRetryPolicy;
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Error as SseError, Sse, SseStream};

use super::lines::{MAX_MESSAGE, too_large};
use super::wire::Wire;

/// How much of an answer that is not JSON-RPC is quoted.
const QUOTE: usize = 200;
/// How long sending a cancel or a reply may take.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(5);

/// What went wrong, without the address and the headers.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub(super) struct HttpError {
    words: String,
    /// Whether the request did not reach anyone, so that nobody is working on it.
    unsent: bool,
}

impl From<reqwest::Error> for HttpError {
    fn from(error: reqwest::Error) -> Self {
        let unsent = error.is_connect();
        let error = error.without_url();
        let mut words = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            words = format!("{words}: {cause}");
            source = cause.source();
        }
        Self { words, unsent }
    }
}

/// Whether a server may be working on a request that failed like this: it was sent, and no server has answered it.
pub(super) fn may_be_at_work(error: &(dyn std::error::Error + 'static)) -> bool {
    match error.downcast_ref::<StreamableHttpError<HttpError>>() {
        Some(StreamableHttpError::Client(error)) => !error.unsent,
        Some(error) => matches!(
            error,
            StreamableHttpError::Sse(_)
                | StreamableHttpError::Io(_)
                | StreamableHttpError::UnexpectedEndOfStream
                | StreamableHttpError::TransportChannelClosed
                | StreamableHttpError::SessionRecoveryTimeout
        ),
        None => false,
    }
}

type HttpResult<T> = Result<T, StreamableHttpError<HttpError>>;

fn sent(result: reqwest::Result<Response>) -> HttpResult<Response> {
    result.map_err(|error| StreamableHttpError::Client(error.into()))
}

fn unexpected(words: impl Into<String>) -> StreamableHttpError<HttpError> {
    StreamableHttpError::UnexpectedServerResponse(words.into().into())
}

/// A broken event stream is resumed a few times, but not forever.
#[derive(Debug)]
struct FewTimes;

impl SseRetryPolicy for FewTimes {
    fn retry(&self, times: usize) -> Option<Duration> {
        (times < 5).then(|| Duration::from_millis(200) * 2_u32.saturating_pow(u32::try_from(times).unwrap_or(5)))
    }
}

/// The configuration of rmcp's worker.
pub(super) fn config(url: &str) -> StreamableHttpClientTransportConfig {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .control_request_timeout(CONTROL_TIMEOUT)
        .max_concurrent_requests(64);
    config.retry_config = Arc::new(FewTimes);
    config
}

/// The client. The user's headers go with every request, and nowhere else.
#[derive(Clone)]
pub(super) struct Http {
    client: reqwest::Client,
    headers: HeaderMap,
    wire: Arc<Wire>,
}

impl Http {
    pub(super) fn new(headers: HeaderMap, connect_timeout: Duration, wire: Arc<Wire>) -> Result<Self, HttpError> {
        // A redirect could carry the headers to somebody else.
        let redirects = reqwest::redirect::Policy::none();
        let client = reqwest::Client::builder().redirect(redirects).connect_timeout(connect_timeout).build()?;
        Ok(Self { client, headers, wire })
    }

    fn dressed(
        &self,
        request: RequestBuilder,
        session: Option<Arc<str>>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> RequestBuilder {
        let mut request = request.headers(self.headers.clone()).headers(headers.into_iter().collect());
        if let Some(session) = session {
            request = request.header(HEADER_SESSION_ID, session.as_ref());
        }
        request
    }

    /// The body as events of limited size. rmcp does not report a stream's error, so it is noted here.
    fn events(&self, response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
        let start = (response.bytes_stream(), EventSize::default(), Arc::clone(&self.wire));
        let bounded = try_unfold(start, |(mut pieces, mut size, wire)| async move {
            let error = match pieces.next().await {
                None => return Ok(None),
                Some(Ok(piece)) if size.after(&piece) <= MAX_MESSAGE => return Ok(Some((piece, (pieces, size, wire)))),
                Some(Ok(_)) => HttpError { words: too_large(), unsent: false },
                Some(Err(error)) => HttpError::from(error),
            };
            wire.note(error.to_string());
            Err(error)
        });
        SseStream::from_bytes_stream(bounded.boxed()).boxed()
    }
}

impl StreamableHttpClient for Http {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> HttpResult<StreamableHttpPostResponse> {
        let in_session = session.is_some();
        let accepted = format!("{JSON_MIME_TYPE}, {EVENT_STREAM_MIME_TYPE}");
        let request = self.client.post(uri.as_ref()).header(header::ACCEPT, accepted);
        let body = serde_json::to_vec(&message)?;
        let request = self.dressed(request, session, headers).header(header::CONTENT_TYPE, JSON_MIME_TYPE).body(body);
        let response = sent(request.send().await)?;
        let status = response.status();
        match status {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => return Ok(StreamableHttpPostResponse::Accepted),
            StatusCode::NOT_FOUND if in_session => return Err(StreamableHttpError::SessionExpired),
            _ => {}
        }
        if !status.is_success() {
            return refused(&message, in_session, status, response).await;
        }
        let session = response.headers().get(HEADER_SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        match content_type(&response).as_deref() {
            Some(kind) if kind.starts_with(EVENT_STREAM_MIME_TYPE) => {
                Ok(StreamableHttpPostResponse::Sse(self.events(response), session))
            }
            Some(kind) if kind.starts_with(JSON_MIME_TYPE) => {
                let body = whole(response).await?;
                match serde_json::from_slice(&body) {
                    Ok(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
                    Err(_) if !matches!(message, ClientJsonRpcMessage::Request(_)) => {
                        Ok(StreamableHttpPostResponse::Accepted)
                    }
                    Err(error) => Err(unexpected(format!(
                        "it sent something that is not an MCP message ({error}): `{}`",
                        quote(&body)
                    ))),
                }
            }
            _ if !matches!(message, ClientJsonRpcMessage::Request(_)) => Ok(StreamableHttpPostResponse::Accepted),
            kind => Err(StreamableHttpError::UnexpectedContentType(kind.map(str::to_owned))),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> HttpResult<()> {
        let request = self.dressed(self.client.delete(uri.as_ref()), Some(session), headers);
        let status = sent(request.send().await)?.status();
        match status {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportDeleteSession),
            _ if status.is_success() => Ok(()),
            _ => Err(unexpected(format!("HTTP {status}"))),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> HttpResult<BoxStream<'static, Result<Sse, SseError>>> {
        let request = self.client.get(uri.as_ref()).header(header::ACCEPT, EVENT_STREAM_MIME_TYPE);
        let mut request = self.dressed(request, session, headers);
        if let Some(id) = last_event_id {
            request = request.header(HEADER_LAST_EVENT_ID, id);
        }
        let response = sent(request.send().await)?;
        let status = response.status();
        if status == StatusCode::METHOD_NOT_ALLOWED {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if !status.is_success() {
            return Err(unexpected(format!("HTTP {status}")));
        }
        Ok(self.events(response))
    }
}

/// Handles a status that is not a success. A server of the older protocol refuses `server/discover` like this, which must look
/// like an answer, so that rmcp continues with `initialize`.
async fn refused(
    message: &ClientJsonRpcMessage,
    in_session: bool,
    status: StatusCode,
    response: Response,
) -> HttpResult<StreamableHttpPostResponse> {
    let unauthorized = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let body = whole(response).await?;
    let answer = serde_json::from_slice::<ServerJsonRpcMessage>(&body).ok();
    let error = match answer {
        Some(ServerJsonRpcMessage::Error(error)) => Some(error),
        _ => None,
    };
    if let ClientJsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && !in_session
        && !unauthorized
        && status.is_client_error()
    {
        let said = error.map(|error| error.error);
        let said = said.unwrap_or_else(|| ErrorData::invalid_request(format!("HTTP {status}"), None));
        let answer = ServerJsonRpcMessage::error(said, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(answer, None));
    }
    let words = || format!("HTTP {status}: `{}`", quote(&body));
    match error {
        Some(error) if !unauthorized => Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), None)),
        _ if may_be_a_gateways(status) => Err(StreamableHttpError::Client(HttpError { words: words(), unsent: false })),
        _ => Err(unexpected(words())),
    }
}

/// Whether a gateway that has lost the server, or has stopped waiting for it, may have sent this. Some send 503 for that, and
/// Cloudflare has its own codes.
fn may_be_a_gateways(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502..=504 | 520..=524)
}

fn content_type(response: &Response) -> Option<String> {
    Some(response.headers().get(header::CONTENT_TYPE)?.to_str().ok()?.to_ascii_lowercase())
}

/// The body, if it is not too large.
async fn whole(response: Response) -> HttpResult<Vec<u8>> {
    let mut body = Vec::new();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| StreamableHttpError::Client(error.into()))?;
        if body.len() + piece.len() > MAX_MESSAGE {
            return Err(unexpected(too_large()));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// The size of the current event: the bytes since the last empty line.
#[derive(Default)]
struct EventSize {
    bytes: usize,
    empty_line: bool,
}

impl EventSize {
    fn after(&mut self, piece: &[u8]) -> usize {
        let mut largest = 0;
        for byte in piece {
            self.bytes += 1;
            match byte {
                b'\n' if self.empty_line => self.bytes = 0,
                b'\n' => self.empty_line = true,
                b'\r' => {}
                _ => self.empty_line = false,
            }
            largest = largest.max(self.bytes);
        }
        largest
    }
}

fn quote(body: &[u8]) -> String {
    String::from_utf8_lossy(body.get(..QUOTE).unwrap_or(body)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_line_resets_the_size_of_an_event() {
        let mut size = EventSize::default();
        assert_eq!(size.after(b"data: 12345\n"), 12);
        assert_eq!(size.after(b"\r\ndata: 1\r\n\r\n"), 13);
        assert_eq!(size.after(b"x"), 1);
    }
}
