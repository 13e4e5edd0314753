//! The server behind a real nginx with TLS, set up as the page on proxies says. `cargo xtask proxy` installs nginx and runs
//! these.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout};

use futures_util::{SinkExt, StreamExt};
use tempfile::TempDir;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::child::*;
use crate::server::Served;

/// The name on the certificate.
const NAME: &str = "andon.example";

/// A server, and nginx in front of it.
struct Behind {
    served: Served,
    nginx: Child,
    port: u16,
    folder: TempDir,
    _db: Database,
}

impl Behind {
    fn start() -> Self {
        let db = Database::new();
        let served = Served::start(&db, &["--host", NAME]);
        let folder = tempfile::tempdir().unwrap();
        certificate(folder.path());
        // Another program may take the port before nginx does: then try another one.
        let begun = (0..5).find_map(|_| begin_nginx(folder.path(), &served.url));
        let log = || std::fs::read_to_string(folder.path().join("error.log")).unwrap_or_default();
        let (nginx, port) = begun.unwrap_or_else(|| panic!("nginx does not begin: {}", log()));
        Self { served, nginx, port, folder, _db: db }
    }

    fn certificate(&self) -> PathBuf {
        self.folder.path().join("andon.pem")
    }

    /// A request with curl, to the name on the certificate.
    fn curl(&self, words: &[&str], path: &str, body: &Value) -> Command {
        let Self { port, .. } = self;
        let mut curl = Command::new("curl");
        curl.args([
            "-sN",
            "--noproxy",
            "*",
            "--max-time",
            "120",
            "--resolve",
            &format!("{NAME}:{port}:127.0.0.1"),
            "--cacert",
        ]);
        curl.arg(self.certificate()).args(words).arg(format!("https://{NAME}:{port}{path}"));
        if !body.is_null() {
            curl.args(["-H", "content-type: application/json", "-d", &body.to_string()]);
        }
        curl.stdin(Stdio::null()).stdout(Stdio::piped());
        curl
    }

    fn ask(&self, path: &str, body: &Value) -> String {
        let output = self.curl(&[], path, body).output().unwrap();
        assert!(output.status.success(), "{path}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// An open feed: curl, and what it prints.
    fn follow(&self, words: &[&str], path: &str, body: &Value) -> Following {
        let mut curl = self.curl(words, path, body).spawn().unwrap();
        let lines = BufReader::new(curl.stdout.take().unwrap());
        Following { curl, lines }
    }
}

/// Starts nginx on a free port, and waits until it accepts connections; `None` if it exited instead.
fn begin_nginx(folder: &Path, url: &str) -> Option<(Child, u16)> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = folder.join("nginx.conf");
    std::fs::write(&config, configuration(folder, port, url)).unwrap();
    let mut nginx = Command::new("nginx");
    nginx.arg("-p").arg(folder).arg("-c").arg(&config).args(["-e", "error.log"]);
    let mut nginx = nginx.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    loop {
        let answers = TcpStream::connect(("127.0.0.1", port)).is_ok();
        if nginx.try_wait().unwrap().is_some() {
            return None;
        }
        if answers {
            return Some((nginx, port));
        }
        std::thread::yield_now();
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        // When asked to end, it also ends its workers.
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.nginx.id()).unwrap()).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.nginx.wait();
    }
}

struct Following {
    curl: Child,
    lines: BufReader<ChildStdout>,
}

impl Following {
    /// Reads until this text has come.
    fn wait_for(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "{text:?} did not come");
        }
    }

    /// The rest of the feed.
    fn rest(mut self) -> String {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        self.curl.wait().unwrap();
        rest
    }

    /// Closes the connection, like a closed tab.
    fn close(mut self) {
        self.curl.kill().unwrap();
        self.curl.wait().unwrap();
    }
}

/// A self-signed certificate.
fn certificate(folder: &Path) {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]);
    openssl.args(["-subj", &format!("/CN={NAME}"), "-addext", &format!("subjectAltName=DNS:{NAME}")]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    openssl.arg("-keyout").arg(folder.join("andon.key")).arg("-out").arg(folder.join("andon.pem"));
    let output = openssl.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// The configuration on the page about proxies, with this test's paths and ports.
fn configuration(folder: &Path, port: u16, url: &str) -> String {
    let page = std::fs::read_to_string(format!("{}/../../docs/proxy.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let own = page.split("```nginx\n").nth(1).unwrap().split("```").next().unwrap();
    let replaced = [
        ("listen 443 ssl", format!("listen 127.0.0.1:{port} ssl")),
        ("/etc/ssl/andon.example.pem", folder.join("andon.pem").display().to_string()),
        ("/etc/ssl/andon.example.key", folder.join("andon.key").display().to_string()),
        ("http://127.0.0.1:8000", url.to_owned()),
    ];
    let own = replaced.iter().fold(own.to_owned(), |own, (from, to)| {
        assert!(own.contains(from), "{from} is not on the page");
        own.replace(from, to)
    });
    let temporary =
        ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|kind| format!("{kind}_temp_path {kind};"));
    // If the tests run as root, nginx must be able to use root's folder.
    let user = if rustix::process::getuid().is_root() { "user root;" } else { "" };
    format!(
        "{user} daemon off; worker_processes 1; pid nginx.pid; events {{}}\nhttp {{ access_log off; {}\n{own}}}\n",
        temporary.join(" ")
    )
}

/// Waits until a run has settled, and returns its outcome. It polls, because opening a feed would count as a reader.
fn outcome(served: &Served, run: &str) -> Value {
    loop {
        let (status, told) = served.get(&format!("/v1/runs/{run}"));
        assert_eq!(status, 200, "{told}");
        if told["state"] == "settled" {
            return told["outcome"].clone();
        }
    }
}

#[test]
#[ignore = "needs nginx: cargo xtask proxy"]
fn a_feed_streams_through_and_a_cancel_stops_it() {
    let behind = Behind::start();
    for (version, run) in [("--http1.1", "story-1"), ("--http2", "story-2")] {
        let story = json!({"app": "practice", "run_id": run, "input": "tell me a long story"});
        let mut feed = behind.follow(&[version, "-H", "accept: text/event-stream"], "/v1/runs", &story);
        // It arrived while the run goes on.
        feed.wait_for(r#""type":"delta""#);
        let (_, told) = behind.served.get(&format!("/v1/runs/{run}"));
        assert_eq!(told["state"], "running", "{told}");
        let told = behind.ask(&format!("/v1/runs/{run}/cancel"), &json!({"wait": true}));
        assert!(told.contains(r#""state":"settled""#), "{told}");
        let rest = feed.rest();
        assert!(rest.contains("run_settled") && rest.contains("cancelled"), "{rest}");
    }
}

#[test]
#[ignore = "needs nginx: cargo xtask proxy"]
fn a_little_text_before_a_silence_is_not_held_back() {
    let behind = Behind::start();
    let note = json!({"app": "practice", "run_id": "note", "input": "write a note: buy milk"});
    let mut feed = behind.follow(&["-H", "accept: text/event-stream"], "/v1/runs", &note);
    // Nothing follows until a person decides: a proxy that buffers would wait for more.
    feed.wait_for("approval_requested");
    behind.ask("/v1/runs/note/cancel", &json!({}));
    assert!(feed.rest().contains("run_settled"));
}

#[test]
#[ignore = "needs nginx: cargo xtask proxy"]
fn a_client_that_closes_its_connection_is_gone_for_the_server_too() {
    let behind = Behind::start();
    for (version, run) in [("--http1.1", "gone-1"), ("--http2", "gone-2")] {
        let story =
            json!({"app": "practice", "run_id": run, "input": "tell me a long story", "on_disconnect": "cancel"});
        let mut feed = behind.follow(&[version, "-H", "accept: text/event-stream"], "/v1/runs", &story);
        feed.wait_for(r#""type":"delta""#);
        feed.close();
        let outcome = outcome(&behind.served, run);
        assert_eq!(outcome["reason"], "client_disconnected", "{outcome}");
    }
}

#[test]
#[ignore = "needs nginx: cargo xtask proxy"]
fn in_adks_dialect_a_closed_connection_is_a_stop_through_the_proxy_too() {
    let behind = Behind::start();
    behind.ask("/apps/practice/users/ada/sessions", &json!({"sessionId": "monday"}));
    let message = json!({"role": "user", "parts": [{"text": "tell me a long story"}]});
    let story = json!({"appName": "practice", "userId": "ada", "sessionId": "monday", "streaming": true, "newMessage": message});
    let mut feed = behind.follow(&["--http2"], "/run_sse", &story);
    feed.wait_for(r#""partial":true"#);
    let (_, runs) = behind.served.get("/v1/runs?session=monday");
    let run = runs["runs"][0]["run_id"].as_str().unwrap().to_owned();
    feed.close();
    let outcome = outcome(&behind.served, &run);
    assert_eq!(outcome["reason"], "client_disconnected", "{outcome}");
}

#[test]
#[ignore = "needs nginx: cargo xtask proxy"]
fn a_websocket_works_through_the_proxy_and_can_stop_its_run() {
    let behind = Behind::start();
    let run = behind.served.run("tell me a long story");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let told = runtime.block_on(async {
        let mut socket = socket(&behind, &format!("/v1/runs/{run}/events")).await;
        let mut told = String::new();
        let mut asked = false;
        while let Some(Ok(message)) = socket.next().await {
            told.push_str(message.to_text().unwrap_or_default());
            if !asked && told.contains(r#""type":"delta""#) {
                asked = true;
                socket.send(Message::text(r#"{"type": "cancel", "note": "stop button"}"#)).await.unwrap();
            }
        }
        told
    });
    assert!(told.contains("run_settled") && told.contains("stop button"), "{told}");
}

/// A WebSocket through the proxy. The certificate is checked.
async fn socket(behind: &Behind, path: &str) -> WebSocketStream<reqwest::Upgraded> {
    let pem = std::fs::read(behind.certificate()).unwrap();
    let certificate = reqwest::Certificate::from_pem(&pem).unwrap();
    let at = ([127, 0, 0, 1], behind.port).into();
    let http = reqwest::Client::builder().no_proxy().resolve(NAME, at).tls_certs_only([certificate]).http1_only();
    let http = http.timeout(Duration::from_secs(120)).build().unwrap();
    let request = http.get(format!("https://{NAME}:{}{path}", behind.port));
    let request = request.header("connection", "Upgrade").header("upgrade", "websocket");
    let request = request.header("sec-websocket-version", "13");
    let request =
        request.header("sec-websocket-key", tokio_tungstenite::tungstenite::handshake::client::generate_key());
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 101);
    WebSocketStream::from_raw_socket(response.upgrade().await.unwrap(), Role::Client, None).await
}

#[test]
#[ignore = "needs nginx: cargo xtask proxy"]
fn a_page_of_the_published_name_may_call_and_another_may_not() {
    let behind = Behind::start();
    let own = format!("origin: https://{NAME}:{}", behind.port);
    let ask = |origin: &str| {
        let words = ["-H", origin, "-o", "/dev/null", "-w", "%{http_code} %{http_version}"];
        let output = behind.curl(&words, "/v1/apps", &Value::Null).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(ask(&own), "200 2");
    assert_eq!(ask("origin: https://evil.example"), "403 2");
    let ready = behind.ask("/readyz", &Value::Null);
    assert!(!ready.is_empty(), "it is ready");
    let metrics = behind.curl(&["-o", "/dev/null", "-w", "%{http_code}"], "/metrics", &Value::Null).output().unwrap();
    assert_eq!(metrics.stdout, b"403", "not for the world");
}
