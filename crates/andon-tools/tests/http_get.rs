//! Fetches pages from real servers; closed addresses stay closed at every hop, and a stop closes the connection.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use andon_runtime::core::message::{ResultStatus, ToolResult};
use andon_runtime::{Agent, CallId, Cancel, Session, Tool};
use andon_testkit::{Act, ScriptedModel, until_shown};
use andon_tools::HttpGet;
use serde_json::json;

// ---- a server ----

/// A server on this machine, which records its requests and when connections end.
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
    closed: Receiver<String>,
}

impl Server {
    /// Answers each request with what a function writes, and waits for the client to close the connection.
    fn start(answer: impl Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (sender, closed) = channel();
        let (answer, log) = (Arc::new(answer), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, log, sender) = (Arc::clone(&answer), Arc::clone(&log), sender.clone());
                std::thread::spawn(move || serve(stream.unwrap(), &*answer, &log, &sender));
            }
        });
        Self { port, asked, closed }
    }

    /// Answers each request with this, whatever it asks for.
    fn with(answer: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self::start(move |_, stream| stream.write_all(answer.as_ref()))
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The requests, each with all its headers.
    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// Waits until a client has closed its connection, and returns its request.
    fn hung_up(&self) -> String {
        self.closed.recv_timeout(Duration::from_secs(60)).expect("the connection was left open")
    }
}

type Answer = dyn Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Sync;

fn serve(mut stream: TcpStream, answer: &Answer, log: &Mutex<Vec<String>>, closed: &Sender<String>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") {
        if reader.read_line(&mut request).unwrap_or(0) == 0 {
            return;
        }
    }
    let path = request.split(' ').nth(1).unwrap().to_owned();
    log.lock().unwrap().push(request);
    // A client may close the connection in the middle: some tests are about that.
    if answer(&path, &mut stream).is_ok() && !path.contains("server-goes") {
        let _ = reader.read(&mut [0]);
    }
    let _ = closed.send(path);
}

fn page(kind: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn redirect(to: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
}

// ---- one call ----

/// A tool that may fetch from this machine.
fn at_home() -> HttpGet {
    HttpGet::new().allow_private(true)
}

fn agent(tool: &HttpGet, url: &str) -> Session {
    let call = Act::call(0, "c", "http_get", &json!({ "url": url }).to_string());
    let asks = call.into_iter().chain([Act::usage(1, 1), Act::tool_use()]).collect();
    let ends = vec![Act::text("Well."), Act::usage(1, 1), Act::end()];
    Agent::builder()
        .model(ScriptedModel::new([asks, ends]))
        .tool(tool.clone())
        .build()
        .unwrap()
        .new_session("ada")
        .unwrap()
}

async fn result(session: &Session) -> ToolResult {
    let history = session.history().await.unwrap();
    let mut results = history.iter().flat_map(|message| message.results());
    results.next().expect("the call has a result").clone()
}

async fn fetched(tool: &HttpGet, url: &str) -> ToolResult {
    let session = agent(tool, url);
    assert_eq!(session.run("Fetch it.").await.unwrap().stop_reason(), "end_turn");
    result(&session).await
}

fn ok(text: &str) -> ToolResult {
    ToolResult::text(CallId::new("c").unwrap(), ResultStatus::Ok, text)
}

/// The error of a failed fetch.
async fn error(tool: &HttpGet, url: &str) -> String {
    let result = fetched(tool, url).await;
    assert_eq!(result.status, ResultStatus::Error, "{result:?}");
    result.to_text()
}

// ---- pages ----

#[tokio::test]
async fn a_page_comes_back_as_text() {
    let server = Server::with(page("text/html; charset=utf-8", "<p>Größe</p>"));
    assert_eq!(fetched(&at_home(), &server.url("/a?b=c#d")).await, ok("<p>Größe</p>"));
    let asked = server.asked();
    let request = asked[0].to_lowercase();
    assert!(request.starts_with("get /a?b=c http/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("user-agent: andon/{}\r\n", env!("CARGO_PKG_VERSION"))), "{request}");
    assert!(request.contains("accept-encoding: identity\r\n"), "{request}");
}

#[tokio::test]
async fn a_fetch_keeps_nothing_for_the_next_one() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nSet-Cookie: who=ada\r\nContent-Length: 2\r\n\r\nhi";
    let server = Server::with(answer);
    let tool = at_home();
    for _ in 0..2 {
        assert_eq!(fetched(&tool, &server.url("/")).await, ok("hi"));
        // The server would keep the connection open.
        server.hung_up();
    }
    assert!(server.asked().iter().all(|request| !request.to_lowercase().contains("cookie")), "{:?}", server.asked());
}

#[tokio::test]
async fn a_logged_tool_does_not_reveal_the_proxys_password() {
    let proxy = Server::with(page("text/plain", "by proxy"));
    let url = proxy.url("").replace("http://", "http://somebody:canary@");
    let tool = HttpGet::new().proxy(url.parse().unwrap());
    // Not even after it has made its client.
    assert_eq!(fetched(&tool, "http://example.test/a").await, ok("by proxy"));
    let shown = format!("{tool:?}");
    assert!(shown.contains(&format!("http://127.0.0.1:{}", proxy.port)), "{shown}");
    assert!(!shown.contains("canary") && !shown.contains("somebody"), "{shown}");
}

#[tokio::test]
async fn a_proxy_in_the_environment_is_not_used() {
    // The same fetch in a process whose environment names a proxy that does not exist.
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "a_page_comes_back_as_text"]);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"] {
        again.env(name, "http://127.0.0.1:9");
    }
    let output = again.env_remove("no_proxy").env_remove("NO_PROXY").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
async fn a_named_proxy_gets_every_request_and_closed_addresses_are_still_refused() {
    let proxy = Server::with(page("text/plain", "by proxy"));
    let tool = HttpGet::new().proxy(proxy.url("").parse().unwrap());
    assert_eq!(fetched(&tool, "http://example.test/a").await, ok("by proxy"));
    assert!(proxy.asked()[0].starts_with("GET http://example.test/a HTTP/1.1\r\n"), "{:?}", proxy.asked());
    let told = error(&tool, "http://169.254.169.254/latest/meta-data/").await;
    assert!(told.contains("the metadata service of a cloud"), "{told}");
    assert_eq!(proxy.asked().len(), 1);
}

#[tokio::test]
async fn the_charset_in_the_header_is_used() {
    let mut answer =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Length: 5\r\n\r\n".to_vec();
    answer.extend_from_slice(b"gr\xf6\xdfe");
    assert_eq!(fetched(&at_home(), &Server::with(answer).url("/")).await, ok("größe"));
}

#[tokio::test]
async fn only_text_is_read() {
    let mut answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\n".to_vec();
    answer.extend_from_slice(b"a\xf6\xdfb");
    let result = fetched(&at_home(), &Server::with(answer).url("/")).await;
    assert_eq!(result.status, ResultStatus::Ok);
    assert!(result.to_text().starts_with("a\\xf6\\xdfb\n["), "{}", result.to_text());

    let told = error(&at_home(), &Server::with(page("image/png", "PNG")).url("/")).await;
    assert!(told.ends_with("/ is image/png, which is not text, and only text can be read"), "{told}");
    let told = error(&at_home(), &Server::with(page("application/octet-stream", "\0\0\0")).url("/")).await;
    assert!(told.ends_with("/ is not text, and only text can be read"), "{told}");
    let octets = Server::with(page("application/octet-stream", "plain"));
    assert_eq!(fetched(&at_home(), &octets.url("/")).await, ok("plain"));
    let untyped = Server::with("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain");
    assert_eq!(fetched(&at_home(), &untyped.url("/")).await, ok("plain"));
    let empty = Server::with("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(fetched(&at_home(), &empty.url("/")).await, ok("[the page is empty]"));
}

#[tokio::test]
async fn a_compressed_page_is_not_read() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc";
    let told = error(&at_home(), &Server::with(answer).url("/")).await;
    assert!(told.ends_with("was sent with the encoding gzip, which is not supported"), "{told}");
}

#[tokio::test]
async fn an_error_page_is_an_error_with_the_beginning_of_its_text() {
    let body = "no such page ".repeat(1000);
    let answer =
        format!("HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let told = error(&at_home(), &Server::with(answer).url("/x")).await;
    assert!(told.contains("/x answered 404 Not Found:\nno such page no such page"), "{told}");
    assert!(told.ends_with("\n[there is more: only the first 2048 bytes were read]"), "{told}");
}

#[tokio::test]
async fn a_server_that_is_down_or_closes_the_connection_is_an_error() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let told = error(&at_home(), &format!("http://127.0.0.1:{free}/")).await;
    assert!(told.starts_with(&format!("http://127.0.0.1:{free}/ could not be fetched: Connection refused")), "{told}");
    let plain = Server::with(page("text/plain", "not encrypted"));
    let told = error(&at_home(), &plain.url("/").replace("http", "https")).await;
    assert!(told.contains("could not be fetched: tls handshake eof"), "{told}");
    assert_eq!(plain.asked(), Vec::<String>::new());
    let told = error(&at_home(), "http://no-such-name.invalid/").await;
    assert!(told.starts_with("http://no-such-name.invalid/ could not be fetched: "), "{told}");
    assert_eq!(error(&at_home(), "not a url").await, "\"not a url\" is not a URL: relative URL without a base");

    let broken = Server::with("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nhalf a page");
    let result = fetched(&at_home(), &broken.url("/server-goes")).await;
    assert_eq!(result.status, ResultStatus::Ok);
    assert!(result.to_text().starts_with("half a page\n[the page broke off after 11 bytes: "), "{}", result.to_text());
}

// ---- closed doors ----

#[tokio::test]
async fn this_machine_is_refused_however_it_is_written_and_never_connected_to() {
    let server = Server::with(page("text/plain", "secret"));
    let port = server.port;
    let hosts = "127.0.0.1 2130706433 0x7f.1 127.1 0.0.0.0 0 localhost LocalHost. a.localhost [::1] [::] [::ffff:127.0.0.1] \
        [::127.0.0.1] [64:ff9b::7f00:1] [2002:7f00:1::]";
    for host in hosts.split(' ') {
        let told = error(&HttpGet::new(), &format!("http://{host}:{port}/")).await;
        assert!(told.contains("only the open internet is allowed"), "{host}: {told}");
    }
    assert_eq!(server.asked(), Vec::<String>::new());
}

#[tokio::test]
async fn private_networks_and_metadata_services_are_refused_by_kind() {
    for (url, kind) in [
        ("http://10.0.0.1/", "10.0.0.1 is a private address"),
        ("http://192.168.1.1/", "192.168.1.1 is a private address"),
        ("http://172.20.0.1/", "172.20.0.1 is a private address"),
        ("http://100.64.0.1/", "100.64.0.1 is an address inside a provider's network"),
        ("http://169.254.1.1/", "169.254.1.1 is a link-local address"),
        ("http://224.0.0.1/", "224.0.0.1 is a multicast address"),
        ("http://[fe80::1]/", "fe80::1 is a link-local address"),
        ("http://[fd00::1]/", "fd00::1 is a private address"),
        ("http://169.254.169.254/latest/", "169.254.169.254 is the metadata service of a cloud"),
        ("http://[fd00:ec2::254]/latest/", "fd00:ec2::254 is the metadata service of a cloud"),
        ("http://metadata.google.internal/", "metadata.google.internal is the metadata service of a cloud"),
    ] {
        let told = error(&HttpGet::new(), url).await;
        assert_eq!(told, format!("{url} was not fetched: {kind}, and only the open internet is allowed."));
    }
    for url in ["file:///etc/passwd", "ftp://example.org/", "gopher://example.org/"] {
        let told = error(&at_home(), url).await;
        assert!(told.contains("only http and https are supported"), "{told}");
    }
    let told = error(&at_home(), "http://ada:secret@127.0.0.1/").await;
    assert!(told.contains("it contains a user name or a password"), "{told}");
}

#[tokio::test]
async fn a_name_is_refused_for_its_address() {
    let server = Server::with(page("text/plain", "secret"));
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let tool = HttpGet::new().resolve("harmless.test", [loopback, "10.0.0.1".parse().unwrap()]);
    let told = error(&tool, &format!("http://harmless.test:{}/", server.port)).await;
    assert!(told.contains("harmless.test resolves to 10.0.0.1, which is a private address"), "{told}");
    // Even with `allow_private`, a name may not lead to a metadata service.
    let tool = at_home().resolve("harmless.test", ["169.254.169.254".parse().unwrap()]);
    let told = error(&tool, "http://harmless.test/").await;
    assert!(told.contains("which is the metadata service of a cloud"), "{told}");
    assert_eq!(server.asked(), Vec::<String>::new());
    // The same name, trusted.
    let tool = HttpGet::new().resolve("harmless.test", [loopback]).allow_hosts(["Harmless.test."]);
    assert_eq!(fetched(&tool, &format!("http://harmless.test:{}/", server.port)).await, ok("secret"));
}

#[tokio::test]
async fn a_redirect_does_not_reach_a_closed_address() {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let server = Server::start(|path, stream| {
        let port = stream.local_addr()?.port();
        let answer = match path {
            "/literal" => redirect(&format!("http://127.0.0.1:{port}/secret")),
            "/name" => redirect(&format!("http://inside.test:{port}/secret")),
            "/metadata" => redirect("http://169.254.169.254/latest/meta-data/iam/security-credentials/"),
            "/file" => redirect("file:///etc/passwd"),
            "/credentials" => redirect(&format!("http://ada:secret@start.test:{port}/secret")),
            "/two-steps" => redirect("/literal"),
            _ => page("text/plain", "secret"),
        };
        stream.write_all(answer.as_bytes())
    });
    let tool = HttpGet::new().resolve("start.test", [loopback]).resolve("inside.test", [loopback]);
    let tool = tool.allow_hosts(["start.test"]);
    for (path, why) in [
        ("/literal", "127.0.0.1 is a loopback address"),
        ("/two-steps", "127.0.0.1 is a loopback address"),
        ("/name", "inside.test resolves to 127.0.0.1, which is a loopback address"),
        ("/metadata", "169.254.169.254 is the metadata service of a cloud"),
        ("/file", "its scheme is file, and only http and https are supported"),
        ("/credentials", "it contains a user name or a password"),
    ] {
        let told = error(&tool, &format!("http://start.test:{}{path}", server.port)).await;
        assert!(told.contains(why), "{path}: {told}");
    }
    assert!(server.asked().iter().all(|request| !request.contains("secret HTTP")), "{:?}", server.asked());
}

#[tokio::test]
async fn ten_redirects_are_followed_and_the_eleventh_is_not() {
    let server = Server::start(|path, stream| {
        let left: u32 = path.trim_start_matches('/').parse().unwrap();
        let answer = if left == 0 { page("text/plain", "there") } else { redirect(&format!("/{}", left - 1)) };
        stream.write_all(answer.as_bytes())
    });
    let expected = format!("[this is {}]\nthere", server.url("/0"));
    assert_eq!(fetched(&at_home(), &server.url("/10")).await, ok(&expected));
    let told = error(&at_home(), &server.url("/11")).await;
    assert_eq!(told, format!("{} was redirected more than 10 times, last to {}", server.url("/11"), server.url("/0")));
}

// ---- an end ----

const ENDLESS: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";

#[tokio::test]
async fn an_endless_page_is_read_up_to_its_limit_and_the_connection_closed() {
    let server = Server::start(|_, stream| {
        stream.write_all(ENDLESS.as_bytes())?;
        loop {
            stream.write_all(b"3\r\n\xe2\x82\xac\r\n")?;
        }
    });
    let result = fetched(&at_home().max_bytes(50_000), &server.url("/endless")).await;
    assert_eq!(server.hung_up(), "/endless");
    assert_eq!(result.status, ResultStatus::Ok);
    let text = result.to_text();
    // A character that the limit would cut in two is left out.
    let expected = format!("{}\n[there is more: only the first 49998 bytes were read]", "€".repeat(16_666));
    assert!(text == expected, "{} bytes, ending {:?}", text.len(), text.chars().rev().take(80).collect::<String>());
}

/// Sends the beginning of a page and then nothing.
fn dripping() -> Server {
    Server::start(|_, stream| {
        stream.write_all(ENDLESS.as_bytes())?;
        stream.write_all(b"b\r\nhello world\r\n")
    })
}

#[tokio::test]
async fn a_pull_in_the_middle_of_a_page_closes_the_connection_and_keeps_what_had_arrived() {
    let server = dripping();
    let session = agent(&at_home(), &server.url("/drip"));
    let run = session.start("Fetch it.").unwrap();
    until_shown(&run, "11 bytes").await;
    run.cancel(Cancel::graceful());
    assert_eq!(run.outcome().await.stop_reason(), "cancelled");
    assert_eq!(server.hung_up(), "/drip");
    let result = result(&session).await;
    assert_eq!(result.status, ResultStatus::Cut);
    let expected = format!("hello world\n[11 bytes of {} had arrived]", server.url("/drip"));
    assert!(result.to_text().ends_with(&expected), "{}", result.to_text());
}

#[tokio::test]
async fn force_now_closes_the_connection_too() {
    let server = dripping();
    let session = agent(&at_home(), &server.url("/drip"));
    let run = session.start("Fetch it.").unwrap();
    until_shown(&run, "11 bytes").await;
    run.cancel(Cancel::now());
    assert_eq!(run.outcome().await.stop_reason(), "cancelled");
    assert_eq!(server.hung_up(), "/drip");
    assert_eq!(result(&session).await.status, ResultStatus::Cut);
}

#[tokio::test]
async fn a_pull_before_a_silent_server_has_answered_closes_the_connection() {
    let (sender, asked) = channel();
    let server = Server::start(move |_, _| {
        sender.send(()).unwrap();
        Ok(())
    });
    let session = agent(&at_home(), &server.url("/silent"));
    let run = session.start("Fetch it.").unwrap();
    tokio::task::spawn_blocking(move || asked.recv_timeout(Duration::from_secs(60)).unwrap()).await.unwrap();
    run.cancel(Cancel::graceful());
    assert_eq!(run.outcome().await.stop_reason(), "cancelled");
    assert_eq!(server.hung_up(), "/silent");
    let told = result(&session).await.to_text();
    assert!(told.ends_with(&format!("No data had arrived from {}.", server.url("/silent"))), "{told}");
}

#[tokio::test]
async fn a_fetch_that_takes_too_long_is_stopped_and_the_model_gets_what_had_arrived() {
    let server = dripping();
    let result = fetched(&at_home().timeout(Duration::from_secs(3)), &server.url("/drip")).await;
    assert_eq!(server.hung_up(), "/drip");
    assert_ne!(result.status, ResultStatus::Ok);
    assert!(result.to_text().contains("hello world"), "{}", result.to_text());
}

#[test]
fn it_is_declared_read_only() {
    let tool = HttpGet::new();
    assert_eq!((tool.spec().name.as_str(), tool.spec().effect), ("http_get", andon_runtime::Effect::ReadOnly));
}
