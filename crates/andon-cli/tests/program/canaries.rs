//! No secret anywhere: puts canaries into keys, headers, queries and the environment, and searches everything that the program leaves.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use andon_testkit::provider::{BadProvider, Dialect, Protocol, Reply, Script, Tokens};

use crate::child::*;
use crate::server::Served;

const OPENAI: &str = "sk-canary-openai-7c1f";
const ANTHROPIC: &str = "sk-canary-anthropic-91ab";
const COLLECTOR: &str = "canary-collector-55d0";
const BEARER: &str = "canary-bearer-3e77";
const HEADER: &str = "canary-header-20cc";
const QUERY: &str = "canary-query-b8e4";
const SECRETS: [&str; 6] = [OPENAI, ANTHROPIC, COLLECTOR, BEARER, HEADER, QUERY];

/// A collector that keeps what it is sent: heads and bodies apart.
#[derive(Clone, Default)]
struct Collector {
    heads: Arc<Mutex<Vec<u8>>>,
    bodies: Arc<Mutex<Vec<u8>>>,
}

impl Collector {
    fn open() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let collector = Self::default();
        let own = collector.clone();
        std::thread::spawn(move || listener.incoming().for_each(|stream| own.serve(stream.unwrap())));
        (collector, url)
    }

    fn serve(&self, mut stream: TcpStream) {
        let (mut bytes, mut piece) = (Vec::new(), [0; 8192]);
        loop {
            while let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                let whole = end + 4 + length.trim().parse::<usize>().unwrap();
                if bytes.len() < whole {
                    break;
                }
                self.heads.lock().unwrap().extend(&bytes[..end]);
                self.bodies.lock().unwrap().extend(&bytes[end + 4..whole]);
                bytes.drain(..whole);
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
            }
            match stream.read(&mut piece) {
                Ok(length @ 1..) => bytes.extend(&piece[..length]),
                _ => return,
            }
        }
    }
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// The database and the files beside it.
fn all_files(folder: &Path) -> Vec<u8> {
    let files = std::fs::read_dir(folder).unwrap();
    files.flat_map(|file| std::fs::read(file.unwrap().path()).unwrap_or_default()).collect()
}

#[test]
#[expect(clippy::too_many_lines, reason = "one journey through everything that could leak a secret")]
fn no_secret_is_in_logs_database_feeds_receipts_traces_or_figures() {
    let provider = BadProvider::start_on_thread(Protocol::Http1);
    let story = Reply::text(["Once ", "upon."]).model("small").usage(Tokens::new(31, 7));
    provider.answer(Script::reply(Dialect::OpenAiChat, &story));
    let (collector, collector_url) = Collector::open();
    let folder = tempfile::tempdir().unwrap();
    let base = provider.base_url();
    let headers = format!("x-collector-key={COLLECTOR}");
    let variables = [
        ("OPENAI_API_KEY", OPENAI),
        ("OPENAI_BASE_URL", base.as_str()),
        ("ANTHROPIC_API_KEY", ANTHROPIC),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector_url.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", headers.as_str()),
        // Nobody listens there: addresses on this machine bypass it.
        ("HTTP_PROXY", "http://127.0.0.1:9"),
    ];
    let flags = ["serve", "--bind", "127.0.0.1:0", "--model", "openai/small", "--log", "debug", "--log-format", "json"];
    let served = Served::of(Program::start_in(folder.path().join("andon.db"), &variables, &flags));

    let secret = format!("/v1/runs/nobody?token={QUERY}");
    let secrets = [("authorization", format!("Bearer {BEARER}")), ("x-unknown", HEADER.to_owned())];
    let (_, refused) = served.get_with(&secret, &secrets);
    let run = served.run("Go.");
    served.wait_for(&run, "run_settled");
    // A provider's error about a wrong key may contain the key.
    let said =
        json!({"error": {"message": format!("Incorrect API key provided: {OPENAI}"), "code": "invalid_api_key"}});
    provider.answer(Script::json(401, &said));
    let failed = served.run("Go.");
    served.wait_for(&failed, "run_settled");

    let feeds: String = [&run, &failed].map(|run| served.text(&format!("/v1/runs/{run}/events"))).concat();
    let receipt = served.text(&format!("/v1/runs/{failed}/receipt"));
    let figures = served.text("/metrics");
    let ended = served.terminate();
    let files = all_files(folder.path());
    let traces = collector.bodies.lock().unwrap().clone();
    let refused = refused.to_string();
    let places: [(&str, &[u8]); 8] = [
        ("the log", ended.stderr.as_bytes()),
        ("standard output", ended.stdout.as_bytes()),
        ("the database", &files),
        ("the traces", &traces),
        ("the feeds", feeds.as_bytes()),
        ("the receipt", receipt.as_bytes()),
        ("the figures", figures.as_bytes()),
        ("the refusal", refused.as_bytes()),
    ];
    for (place, bytes) in places {
        for secret in SECRETS {
            assert!(!holds(bytes, secret), "{secret} is in {place}:\n{}", String::from_utf8_lossy(bytes));
        }
    }
    // The search works: it finds the run everywhere, and the collector's key where it was sent.
    for (place, bytes) in &places[..1] {
        assert!(holds(bytes, &run) && holds(bytes, "request_id"), "{place} does not know {run}");
    }
    // The log connects a request to the run that it started.
    let led: Vec<&str> =
        ended.stderr.lines().filter(|line| line.contains(&run) && line.contains("request_id")).collect();
    for told in ["run requested", "/v1/runs"] {
        assert!(led.iter().any(|line| line.contains(told)), "{told} is not in {led:#?}");
    }
    assert!(holds(&files, &run) && holds(&traces, &run) && holds(feeds.as_bytes(), "Once "));
    assert!(holds(figures.as_bytes(), "andon_runs_started_total"));
    assert!(holds(&collector.heads.lock().unwrap(), COLLECTOR));
    let lines = ended.stderr.lines().map(serde_json::from_str::<serde_json::Value>);
    assert!(lines.into_iter().all(|line| line.is_ok()), "a line of the log is not JSON:\n{}", ended.stderr);
}

#[test]
fn no_key_that_the_server_created_is_in_what_it_leaves() {
    let db = Database::new();
    let flags = ["--auth", "--log", "debug", "--log-format", "json"];
    let served = Served::start(&db, &flags);
    let made = db.run(&["keys", "create", "ada", "--scope", "run:read", "--scope", "metrics"]);
    let key = made.stdout.trim().to_owned();
    // The secret itself may contain such a character.
    let secret = key.splitn(3, '_').nth(2).unwrap().to_owned();
    assert!(key.starts_with("andon_") && secret.len() > 20, "{key}");
    let shown = [("authorization", format!("Bearer {key}")), ("x-request-id", "canary-1".to_owned())];
    let (status, runs) = served.get_with("/v1/runs", &shown);
    assert_eq!(status, 200, "{runs}");
    let (_, refused) = served.get_with("/v1/line", &[("authorization", format!("Bearer {key}x"))]);
    let figures = served.text_with("/metrics", &shown);
    let ended = served.terminate();
    let files = all_files(Path::new(&db.file("")));
    let told = format!("{runs}{refused}{figures}");
    for (place, bytes) in [
        ("the log", ended.stderr.as_bytes()),
        ("standard output", ended.stdout.as_bytes()),
        ("the database", &files),
        ("the answers", told.as_bytes()),
    ] {
        assert!(!holds(bytes, &secret), "the key is in {place}:\n{}", String::from_utf8_lossy(bytes));
    }
    assert!(holds(ended.stderr.as_bytes(), "canary-1") && holds(&files, "ada") && holds(told.as_bytes(), "andon_runs"));
}
