//! A collector that takes spans, and does nothing with them.

use std::cell::Cell;
use std::rc::Rc;

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;

/// Takes what is sent, and counts how often.
pub(crate) async fn serve(listener: TcpListener, batches: Rc<Cell<u64>>) {
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        spawn_local(take(stream, Rc::clone(&batches)));
    }
}

/// One connection, until it is closed.
async fn take(mut stream: TcpStream, batches: Rc<Cell<u64>>) -> Option<()> {
    let mut came = Vec::new();
    loop {
        let head = loop {
            if let Some(at) = memmem::find(&came, b"\r\n\r\n") {
                break at + 4;
            }
            more(&mut stream, &mut came).await?;
        };
        let text = String::from_utf8_lossy(came.get(..head)?).to_ascii_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
        let end = head + length?.trim().parse::<usize>().ok()?;
        while came.len() < end {
            more(&mut stream, &mut came).await?;
        }
        came.drain(..end);
        batches.set(batches.get() + 1);
        let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer).await.ok()?;
    }
}

async fn more(stream: &mut TcpStream, came: &mut Vec<u8>) -> Option<()> {
    let read = stream.read_buf(came).await.ok()?;
    (read > 0).then_some(())
}
