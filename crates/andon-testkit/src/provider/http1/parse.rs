//! Reads an HTTP/1.1 request from the bytes that have arrived so far.

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};

use crate::provider::request::Request;

/// The client does not speak HTTP.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotHttp;

impl<E: std::error::Error> From<E> for NotHttp {
    fn from(_: E) -> Self {
        Self
    }
}

/// The request that the bytes begin with, and its length; `None` if it has not arrived whole.
pub(super) fn parse(unread: &[u8]) -> Result<Option<(Request, usize)>, NotHttp> {
    let mut headers = [httparse::EMPTY_HEADER; 100];
    let mut head = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = head.parse(unread)? else { return Ok(None) };
    let (Some(method), Some(target)) = (head.method, head.path) else { return Err(NotHttp) };
    let target: Uri = target.parse()?;
    let mut headers = HeaderMap::new();
    for header in &*head.headers {
        headers.append(header.name.parse::<HeaderName>()?, HeaderValue::from_bytes(header.value)?);
    }
    let Some((body, used)) = body(&headers, unread.split_at(length).1)? else { return Ok(None) };
    Ok(Some((Request::new(method, &target, headers, body), length + used)))
}

/// The body, and how many bytes it takes; `None` if it has not arrived whole.
fn body(headers: &HeaderMap, rest: &[u8]) -> Result<Option<(Bytes, usize)>, NotHttp> {
    if headers.contains_key(TRANSFER_ENCODING) {
        return chunks(rest);
    }
    let length = match headers.get(CONTENT_LENGTH) {
        Some(length) => length.to_str()?.parse()?,
        None => 0,
    };
    Ok(rest.get(..length).map(|body| (Bytes::copy_from_slice(body), length)))
}

/// A body in chunks, without trailers.
fn chunks(rest: &[u8]) -> Result<Option<(Bytes, usize)>, NotHttp> {
    let (mut body, mut place) = (BytesMut::new(), 0_usize);
    loop {
        let (_, unread) = rest.split_at(place);
        let Ok(size) = httparse::parse_chunk_size(unread) else { return Err(NotHttp) };
        let httparse::Status::Complete((start, length)) = size else { return Ok(None) };
        let length = usize::try_from(length)?;
        let Some(chunk) = unread.get(start..start.saturating_add(length)) else { return Ok(None) };
        // A line end follows every chunk, the last one included.
        place += start + length + 2;
        if place > rest.len() {
            return Ok(None);
        }
        if length == 0 {
            return Ok(Some((body.freeze(), place)));
        }
        body.extend_from_slice(chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_CHUNKS: &str =
        "POST /v1/x?a=b HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n";
    const COUNTED: &str = "POST /v1/x?a=b HTTP/1.1\r\nhost: h\r\ncontent-length: 7\r\n\r\n{\"a\":1}";

    #[test]
    fn a_request_is_whole_at_its_last_byte_and_no_earlier() {
        for text in [IN_CHUNKS, COUNTED] {
            for end in 0..text.len() {
                assert!(parse(&text.as_bytes()[..end]).unwrap().is_none(), "{}", &text[..end]);
            }
            let followed = format!("{text}GET /");
            let (request, length) = parse(followed.as_bytes()).unwrap().unwrap();
            assert_eq!(length, text.len());
            assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/x"));
            assert_eq!(request.query.as_deref(), Some("a=b"));
            assert_eq!(request.header("Host"), Some("h"));
            assert_eq!(request.json(), serde_json::json!({"a": 1}));
        }
    }

    #[test]
    fn what_is_not_http_is_refused() {
        for text in
            ["\u{1}\u{2}", "POST / HTTP/1.1\r\ncontent-length: many\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
        {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
