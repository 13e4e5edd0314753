//! The program as a server, whose agent asks the provider.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use andon_testkit::bench::now;
use tempfile::TempDir;

use crate::client::{Connection, get, with_body};
use crate::process::{Process, folder};
use crate::provider::{Provider, Reached};

/// The built-in agent.
const APP: &str = "practice";

/// A server with its database and its provider, until this is dropped.
pub(crate) struct Program {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    _provider: Provider,
    folder: TempDir,
}

impl Program {
    pub(crate) fn start() -> Self {
        let (provider, folder) = (Provider::start(Reached::Plain), folder());
        let mut command = Command::new(env!("CARGO_BIN_EXE_andon"));
        command.args(["serve", "--bind", "127.0.0.1:0", "--model", "openai/gpt-4o"]);
        for limit in ["max-runs", "max-runs-per-user", "max-feeds", "max-feeds-per-user", "max-connections"] {
            command.args([format!("--{limit}"), "100000".to_owned()]);
        }
        command.arg("--db").arg(folder.path().join("andon.db"));
        command.env("OPENAI_BASE_URL", provider.url()).env("OPENAI_API_KEY", "bench");
        command.env("XDG_CONFIG_HOME", folder.path()).env_remove("ANDON_CONFIG").stderr(Stdio::null());
        let (process, said) = Process::start(&mut command);
        let url = said.split_once("http://").map(|(_, rest)| rest).expect("an address");
        let end =
            url.find(|letter: char| !letter.is_ascii_digit() && letter != '.' && letter != ':').unwrap_or(url.len());
        let address = url.get(..end).and_then(|address| address.parse().ok()).expect("an address");
        Self { process, address, _provider: provider, folder }
    }

    /// The size of its database with all its files, in bytes.
    pub(crate) fn on_disk(&self) -> u64 {
        let files = std::fs::read_dir(self.folder.path()).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).filter(std::fs::Metadata::is_file).map(|file| file.len()).sum()
    }
}

/// A request that starts a run: its user, its session, and what the provider should do.
pub(crate) fn start(user: &str, session: Option<&str>, input: &str, accept: &str) -> Vec<u8> {
    let session = session.map(|session| format!(r#","session":"{session}""#)).unwrap_or_default();
    let body = format!(r#"{{"app":"{APP}","user":"{user}","input":"{input}"{session}}}"#);
    with_body("POST /v1/runs", accept, &body)
}

/// Starts a run and reads its feed to the end.
pub(crate) async fn run(connection: &mut Connection, user: &str, session: Option<&str>, input: &str) {
    connection.feed(&start(user, session, input, "text/event-stream")).await;
    let mut settled = false;
    while let Some(chunk) = connection.chunk().await {
        settled |= memchr::memmem::find(&chunk, br#""outcome":{"kind":"completed""#).is_some();
    }
    assert!(settled, "the run completes");
}

/// The median time of this many requests, in ms.
pub(crate) async fn asking(connection: &mut Connection, path: &str, times: usize) -> f64 {
    let mut took = Vec::with_capacity(times);
    for _ in 0..times {
        let began = now();
        let (status, _) = connection.whole(&get(path)).await;
        assert_eq!(status, 200, "{path} is answered");
        took.push(began.elapsed());
    }
    middle(&mut took)
}

/// The median, in ms.
pub(crate) fn middle(took: &mut [Duration]) -> f64 {
    andon_testkit::bench::quantile(took, 0.5).as_secs_f64() * 1e3
}

/// The id in a run's description.
pub(crate) fn id(run: &[u8]) -> Option<String> {
    let mark = br#""run_id":""#;
    let value = run.get(memchr::memmem::find(run, mark)? + mark.len()..)?;
    let end = memchr::memchr(b'"', value)?;
    Some(String::from_utf8_lossy(value.get(..end)?).into_owned())
}
