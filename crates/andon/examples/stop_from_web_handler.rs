//! Stops a run from a web handler: `POST /runs/{id}/cancel` answers with what the cancel did.
//!
//! The server is a few lines on the standard library, so that the handlers are easy to see. They are plain async
//! functions: put them behind the router of any framework.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use andon::{Agent, Cancel, FeedItem, Practice, Run, RunId, Runtime};
use serde_json::{Value, json};
use tokio::runtime::Handle;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Practice::new().pace(Duration::from_millis(5));
    let agent = Agent::builder().model(model).build()?;
    let address = serve(&agent)?;
    println!("listening on http://{address}");

    // Somebody starts a run, and somebody else stops it, knowing only its id.
    let run = agent.start("Tell me a long story")?;
    wait_for_text(&run).await;
    let path = format!("/runs/{}/cancel", run.id());
    let (status, body) = post(address, &path).await?;
    println!("POST {path} → {status} {body}");
    assert_eq!((status, reply(&body)), (202, "accepted"));

    let outcome = run.outcome().await;
    println!("the run ended: {}, {} bytes are kept", outcome.stop_reason(), outcome.text_so_far().len());
    assert_eq!(outcome.receipt.by.as_deref(), Some("web"));
    assert!(outcome.is_cancelled() && !outcome.text_so_far().is_empty());

    // A cancel that comes late reaches nothing else, and says so.
    let (status, body) = post(address, &path).await?;
    println!("POST {path} → {status} {body}");
    assert_eq!((status, reply(&body)), (200, "too_late"));
    let (status, body) = post(address, "/runs/nobody/cancel").await?;
    println!("POST /runs/nobody/cancel → {status} {body}");
    assert_eq!((status, reply(&body)), (404, "not_found"));
    Ok(())
}

/// The handler: finds the run, pulls its cord, and waits until the request is durable.
async fn cancel(runtime: &Runtime, id: &str) -> (u16, Value) {
    let Ok(id) = RunId::new(id) else { return (404, json!({"reply": "not_found"})) };
    let reply = match runtime.cancel(&id, Cancel::graceful().by("web").note("stop button")).await {
        Ok(reply) => reply,
        Err(error) => return (500, json!({"error": error.to_string()})),
    };
    if let Err(error) = reply.recorded().await {
        // The run stops anyway; only its record is in doubt.
        return (503, json!({"error": error.to_string(), "pulled": true, "recorded": false}));
    }
    let status = match reply.kind().as_str() {
        "not_found" => 404,
        "too_late" => 200,
        _ => 202,
    };
    (status, json!(reply.kind()))
}

/// Serves on a free loopback port, one request after another.
fn serve(agent: &Agent) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let (runtime, tokio) = (agent.runtime().clone(), Handle::current());
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // A client that disconnects early affects nobody else.
            let _ = answer(client, &runtime, &tokio);
        }
    });
    Ok(address)
}

fn answer(mut client: TcpStream, runtime: &Runtime, tokio: &Handle) -> io::Result<()> {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match client.read(&mut buffer)? {
            0 => return Ok(()),
            length => request.extend(buffer.iter().take(length)),
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let path = request.split_whitespace().nth(1).unwrap_or_default();
    let id = path.strip_prefix("/runs/").and_then(|rest| rest.strip_suffix("/cancel"));
    let (status, body) = match id {
        Some(id) if request.starts_with("POST ") => tokio.block_on(cancel(runtime, id)),
        _ => (404, json!({"error": "try POST /runs/{id}/cancel"})),
    };
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} \r\ncontent-type: application/json\r\ncontent-length: {}\r\n", body.len());
    write!(client, "{head}connection: close\r\n\r\n{body}")
}

/// The other side: a request as any client would send it.
async fn post(address: SocketAddr, path: &str) -> Result<(u16, Value), Box<dyn std::error::Error>> {
    let request = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: 0\r\n\r\n");
    let sent = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(request.as_bytes())?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        io::Result::Ok(response)
    });
    let response = sent.await??;
    let (head, body) = response.split_once("\r\n\r\n").ok_or("no response")?;
    let status = head.split_whitespace().nth(1).ok_or("no status")?;
    Ok((status.parse()?, serde_json::from_str(body)?))
}

fn reply(body: &Value) -> &str {
    body.get("reply").and_then(Value::as_str).unwrap_or_default()
}

async fn wait_for_text(run: &Run) {
    let mut feed = run.feed();
    while let Some(item) = feed.next().await {
        if matches!(item, FeedItem::Delta(_)) {
            return;
        }
    }
}
