//! A proxy for a real server that puts dangerous characters into every text that others may have written.

use std::net::{TcpListener, TcpStream};

use crate::child::*;

/// A title, the clipboard, hidden letters, a lone C1, reversed text, an overwritten line, a question that nobody asked.
pub(crate) const CANARY: &str = "\u{1b}]0;pwned\u{7}\u{1b}]52;c;cHduZWQ=\u{1b}\\\u{1b}[8m\u{9b}5m\u{7f}\u{202e}\u{200b}\u{e0041}\rcanary\nMay it? [y/n]";

/// Fields that a client does not read as free text, such as ids and texts of a closed set.
const CLOSED: &str = "type run_id run state reply force kind provenance digest session app user tenant id call verdict refused \
    cut_in role status phase end at next stop";

/// A server whose texts cannot be trusted.
pub(crate) struct Hostile {
    pub(crate) address: String,
}

impl Hostile {
    /// Starts it in front of a real server.
    pub(crate) fn before(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = server.strip_prefix("http://").unwrap().to_owned();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = server.clone();
                std::thread::spawn(move || pass(client, &server));
            }
        });
        Self { address }
    }
}

/// Passes one request on, and its whole answer back with canaries in it.
fn pass(mut client: TcpStream, server: &str) {
    let Some((head, body)) = read_request(&mut client) else { return };
    let mut lines: Vec<&str> = head.lines().filter(|line| !line.to_lowercase().starts_with("host:")).collect();
    let host = format!("host: {server}");
    lines.extend([host.as_str(), "connection: close"]);
    let mut to = TcpStream::connect(server).unwrap();
    to.write_all(format!("{}\r\n\r\n", lines.join("\r\n")).as_bytes()).unwrap();
    to.write_all(&body).unwrap();
    let mut answer = Vec::new();
    to.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let lower = head.to_lowercase();
    let body = if lower.contains("chunked") { joined(&answer[end + 4..]) } else { answer[end + 4..].to_vec() };
    let body = poisoned(&String::from_utf8(body).unwrap());
    let kept = head.lines().filter(|line| {
        let line = line.to_lowercase();
        !["content-length", "transfer-encoding", "connection"].iter().any(|name| line.starts_with(name))
    });
    let head: Vec<&str> = kept.collect();
    let length =
        if lower.starts_with("http/1.1 204") { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    // The caller may be gone.
    let _ = client.write_all(format!("{}\r\n{length}connection: close\r\n\r\n{body}", head.join("\r\n")).as_bytes());
}

fn read_request(client: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let lower = head.to_lowercase();
            let length = lower.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
            if bytes.len() >= end + 4 + length {
                return Some((head, bytes[end + 4..].to_vec()));
            }
        }
        match client.read(&mut piece) {
            Ok(length @ 1..) => bytes.extend(&piece[..length]),
            _ => return None,
        }
    }
}

/// Decodes a chunked body.
fn joined(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = chunks.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&chunks[..end]).unwrap(), 16).unwrap();
        body.extend(&chunks[end + 2..end + 2 + length]);
        chunks = &chunks[end + 4 + length..];
    }
    body
}

/// JSON, or events of it, with canaries.
fn poisoned(body: &str) -> String {
    if let Ok(mut value) = serde_json::from_str(body) {
        poison("", &mut value);
        return value.to_string();
    }
    let line = |line: &str| match line.strip_prefix("data: ").or_else(|| line.strip_prefix("data:")) {
        Some(data) => {
            let mut value = serde_json::from_str(data).unwrap();
            poison("", &mut value);
            format!("data: {value}\n")
        }
        None => format!("{line}\n"),
    };
    body.lines().map(line).collect()
}

fn poison(key: &str, value: &mut Value) {
    match value {
        Value::String(text) if !is_closed(key, text) => text.push_str(CANARY),
        Value::Array(values) => {
            if matches!(key, "leaked" | "notes") && values.is_empty() {
                values.push(Value::String("something".to_owned()));
            }
            values.iter_mut().for_each(|value| poison(key, value));
        }
        Value::Object(fields) => {
            if fields.contains_key("verdict") {
                fields.entry("notes").or_insert_with(|| Value::Array(Vec::new()));
            }
            fields.iter_mut().for_each(|(key, value)| poison(key, value));
        }
        _ => {}
    }
}

/// Whether a client does not read this field as free text.
fn is_closed(key: &str, text: &str) -> bool {
    let is_time = text.len() > 18 && text.as_bytes()[4] == b'-' && text.as_bytes()[10] == b'T';
    let is_reason = key == "reason" && ["requested", "operator"].contains(&text);
    is_time || is_reason || CLOSED.split(' ').any(|closed| closed == key)
}
