//! A flood of connections to a server that may open few files.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::child::*;
use crate::server::Served;
use crate::terminal::Terminal;

/// How long one request may be without an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Clients that connect, send the beginning of a request, and connect again as soon as they are disconnected.
struct Flood {
    is_over: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Flood {
    fn begin(address: SocketAddr, threads: usize, each: usize, says: &'static [u8]) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let flood = |_| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                let mut streams: Vec<TcpStream> = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    if streams.len() < each
                        && let Ok(mut stream) = TcpStream::connect(address)
                        && stream.write_all(says).and_then(|()| stream.set_nonblocking(true)).is_ok()
                    {
                        streams.push(stream);
                    }
                    streams.retain_mut(|stream| {
                        matches!(stream.read(&mut [0; 512]), Err(error) if error.kind() == ErrorKind::WouldBlock)
                    });
                }
            })
        };
        let threads = (0..threads).map(flood).collect();
        Self { is_over, threads }
    }

    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// Sends one request on its own connection; `None` if that is closed without an answer.
fn ask(address: SocketAddr, line: &str, body: &str) -> Option<(u16, Value)> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = "host: localhost\r\nconnection: close\r\ncontent-type: application/json";
    let request = format!("{line} HTTP/1.1\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_ne!(error.kind(), ErrorKind::WouldBlock, "{line} was kept waiting");
    }
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Some((status, serde_json::from_str(body).unwrap_or_default()))
}

/// Checks P1: the command line stops a run even on a server that accepts nothing else.
#[test]
fn the_command_line_stops_a_run_on_a_full_server() {
    let db = Database::new();
    let server = Served::start(&db, &["--max-connections", "2"]);
    let address: SocketAddr = server.url.strip_prefix("http://").unwrap().parse().unwrap();
    let body = r#"{"app": "practice", "run_id": "long", "input": "tell me a long story"}"#;
    assert!(matches!(ask(address, "POST /v1/runs", body), Some((201, _))));
    // Until the server is full: earlier connections may still be closing.
    let mut idle = Vec::new();
    while matches!(ask(address, "GET /v1/runs", ""), Some((200, _))) {
        idle.push(TcpStream::connect(address).unwrap());
    }
    let told = db.run(&["cancel", "long"]);
    assert!(told.stdout.contains("Run long "), "{}{}", told.stdout, told.stderr);
}

/// Checks P1: a flood of connections does not keep anyone from stopping a run.
#[test]
fn with_few_files_a_flood_of_connections_does_not_block_a_cancel() {
    let db = Database::new();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64; exec \"$0\" serve --bind 127.0.0.1:0", ANDON]);
    command.env("ANDON_DB", db.file("andon.db")).env("XDG_CONFIG_HOME", "/nonexistent").env("NO_COLOR", "1");
    let mut server = Terminal::of(command, 400);
    server.read_until(Some("Ctrl-C shuts the server down"));
    let url = server.seen.split_whitespace().find(|word| word.starts_with("http://")).unwrap().trim_end_matches(',');
    let address: SocketAddr = url.strip_prefix("http://").unwrap().parse().unwrap();

    let headless = b"GET /healthz HTTP/1.1\r\nhost: local".as_slice();
    let bodiless =
        b"POST /v1/cancel HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{"
            .as_slice();
    for (number, says) in [b"".as_slice(), headless, bodiless].into_iter().enumerate() {
        let run = format!("run-{number}");
        let body = format!(r#"{{"app": "practice", "run_id": "{run}", "input": "tell me a long story"}}"#);
        // Connections of the previous flood may still be closing.
        while !matches!(ask(address, "POST /v1/runs", &body), Some((201, _))) {}
        let flood = Flood::begin(address, 2, 60, says);
        // Wait until the server is full: then every other request is refused or closed at once.
        while matches!(ask(address, "GET /v1/runs", ""), Some((200, _))) {}
        let cancel = || ask(address, &format!("POST /v1/runs/{run}/cancel"), "{}");
        // A client that connects at the same time as many others may be closed with them, and retries.
        let (status, reply) = (0..50).find_map(|_| cancel()).expect("the cancel does not get through");
        assert!(matches!(status, 200 | 202), "{reply}");
        flood.end();
    }
}
