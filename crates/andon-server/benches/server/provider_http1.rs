//! The provider's answers over HTTP/1.1.

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::provider::{Asked, Texts};

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Answers one request after another, until the client disconnects.
pub(crate) async fn serve(mut stream: TcpStream, texts: &Texts) -> io::Result<()> {
    let mut unread = BytesMut::new();
    loop {
        let length = request(&mut stream, &mut unread).await?;
        let asked = Asked::of(unread.get(..length).unwrap_or_default());
        unread.advance(length);
        match asked.pause {
            None => stream.write_all(&answer(&texts.whole(asked), asked)).await?,
            Some(_) => paced(&mut stream, asked).await?,
        }
        if asked.is_held {
            // The client sends no further request here, so whatever comes is the end of the connection.
            stream.read_u8().await?;
        }
    }
}

/// Reads a whole request; returns its length.
async fn request(stream: &mut TcpStream, unread: &mut BytesMut) -> io::Result<usize> {
    loop {
        if let Some(length) = length(unread).filter(|length| *length <= unread.len()) {
            return Ok(length);
        }
        if stream.read_buf(unread).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The length of the request with its body, if its head has arrived.
fn length(unread: &[u8]) -> Option<usize> {
    let end = memmem::find(unread, b"\r\n\r\n")? + 4;
    let head = unread.get(..end)?.to_ascii_lowercase();
    let name = b"\r\ncontent-length: ";
    let value = head.get(memmem::find(&head, name)? + name.len()..)?;
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit());
    Some(end + digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0')))
}

/// Head and body in one write.
fn answer(body: &Bytes, asked: Asked) -> BytesMut {
    let mut answer = BytesMut::from(HEAD);
    answer.extend_from_slice(&chunk(body));
    if !asked.is_held {
        answer.extend_from_slice(LAST_CHUNK);
    }
    answer
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

/// One frame at a time.
async fn paced(stream: &mut TcpStream, asked: Asked) -> io::Result<()> {
    stream.write_all(HEAD).await?;
    for frame in Texts::frames(asked) {
        tokio::select! {
            biased;
            // The client sends nothing meanwhile, so whatever comes is the end of the connection.
            end = stream.read_u8() => return end.map(drop),
            () = sleep(asked.pause.unwrap_or_default()) => {}
        }
        stream.write_all(&chunk(&frame)).await?;
    }
    if asked.is_held { Ok(()) } else { stream.write_all(LAST_CHUNK).await }
}
