//! The answers that hyper gives by itself, to what it cannot read as a request: a status and no word more. Here they get one.

use axum::http::StatusCode;

use crate::http::problem::Problem;

/// What every answer of this server carries, and none of hyper's own.
const OWN: &[u8] = b"x-content-type-options:";

/// The answer that is to be sent in the place of one that hyper gives by itself; nothing if it is none of those.
pub(crate) fn in_place_of(answer: &[u8]) -> Option<Vec<u8>> {
    let status = answer.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    let is_empty = find(answer, b"\r\ncontent-length: 0\r\n") && answer.ends_with(b"\r\n\r\n");
    if !is_empty || find(answer, OWN) {
        return None;
    }
    let (kind, detail) = match status {
        b"400" => ("not-http", "this cannot be read as a request of HTTP/1.1: the connection is closed"),
        b"414" => ("address-too-long", "the address of the request is too long: send a shorter one"),
        b"431" => ("head-too-large", "the head of the request is too large: send fewer and shorter headers"),
        _ => return None,
    };
    let status = StatusCode::from_bytes(status).ok()?;
    let body = Problem::new(status, kind, detail).to_json().to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\nx-content-type-options: nosniff\r\n\
         cache-control: no-store\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    Some([head.into_bytes(), body.into_bytes()].concat())
}

fn find(text: &[u8], what: &[u8]) -> bool {
    text.windows(what.len()).any(|window| window.eq_ignore_ascii_case(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_answer_that_is_not_our_own_is_replaced() {
        let bare = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n\r\n";
        let told = String::from_utf8(in_place_of(bare).unwrap()).unwrap();
        assert!(told.starts_with("HTTP/1.1 431 ") && told.contains("urn:andon:head-too-large"), "{told}");
        for other in [
            &b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"[..],
            b"HTTP/1.1 400 Bad Request\r\nx-content-type-options: nosniff\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\nno",
            b"HTTP/1.1 4",
            b"",
        ] {
            assert_eq!(in_place_of(other), None);
        }
    }
}
