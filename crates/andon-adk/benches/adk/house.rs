//! The two servers.

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use andon_adk::Adk;
use andon_runtime::Runtime;
use andon_server::{Options, Server};
use andon_store::SqliteJournal;
use andon_telemetry::{Collector, Figures, Traces};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Builder;

use crate::apps::{self, NAP, NAPPERS, NAPS, PIECES};
use crate::process::{Process, folder};

/// The word that makes this program our server; the folder of its database follows.
pub(crate) const AS_SERVER: &str = "--as-server";
/// The word that makes it ask for keys.
pub(crate) const GUARDED: &str = "--guarded";
/// The word that makes it export spans; the collector's address follows.
pub(crate) const OBSERVED: &str = "--observed";
/// The variable with the address of the server that models ask.
const UPSTREAM: &str = "ANDON_BENCH_UPSTREAM";

/// What our server does besides serving.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ways<'a> {
    pub(crate) is_guarded: bool,
    pub(crate) collector: Option<&'a str>,
}

/// Whose server it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    Andon,
    Adk,
}

/// A server with its database, until this is dropped.
pub(crate) struct House {
    pub(crate) whose: Whose,
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    /// What a guarded server asks for.
    pub(crate) key: Option<String>,
    _folder: TempDir,
}

impl House {
    /// Both, with nothing behind their models.
    pub(crate) fn both() -> [Self; 2] {
        Self::both_before("http://127.0.0.1:9")
    }

    /// Both, with models that ask the server at this address.
    pub(crate) fn both_before(upstream: &str) -> [Self; 2] {
        [Self::new(Whose::Andon, &[], upstream), Self::new(Whose::Adk, &[], upstream)]
    }

    /// Ours alone.
    pub(crate) fn ours(words: &[&str]) -> Self {
        Self::new(Whose::Andon, words, "http://127.0.0.1:9")
    }

    fn new(whose: Whose, words: &[&str], upstream: &str) -> Self {
        let folder = folder();
        let mut command = match whose {
            Whose::Andon => {
                let mut command = Command::new(std::env::current_exe().expect("this program"));
                command.arg(AS_SERVER);
                command
            }
            Whose::Adk => {
                let python = std::env::var_os("ANDON_TEST_PYTHON");
                let mut command = Command::new(python.expect("a Python with google-adk in ANDON_TEST_PYTHON"));
                command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/adk/peer.py"));
                // It warns about each run that reports no tokens.
                command.stderr(std::process::Stdio::null());
                command
            }
        };
        command.arg(folder.path()).args(words).env(UPSTREAM, upstream);
        command.env("ANDON_BENCH_PIECES", PIECES.to_string()).env("ANDON_BENCH_NAPS", NAPS.to_string());
        command.env("ANDON_BENCH_NAP_SECONDS", NAP.as_secs().to_string());
        let (process, said) = Process::start(&mut command);
        let mut said = said.split_whitespace();
        let address = said.next().and_then(|address| address.parse().ok()).expect("an address");
        Self { whose, process, address, key: said.next().map(str::to_owned), _folder: folder }
    }
}

/// Serves until the process that started this one is gone.
pub(crate) fn serve(folder: &Path, ways: Ways<'_>) {
    let threads = Builder::new_multi_thread().worker_threads(2).max_blocking_threads(2 * NAPPERS).enable_all().build();
    threads.expect("threads").block_on(async {
        let journal = SqliteJournal::open(folder.join("andon.db")).expect("a database");
        let runtime = Runtime::builder().journal(Arc::new(journal)).blocking_tools(NAPPERS, NAPPERS);
        let runtime = match ways.collector {
            Some(collector) => {
                let figures = Figures::new();
                let traces = Traces::to(&Collector::at(collector), &figures).expect("a collector");
                runtime.observer(figures).observer(traces)
            }
            None => runtime,
        };
        let (runtime, options) = (runtime.build(), Options::new().auth(ways.is_guarded));
        let server = Server::with_dialects(&runtime, options, vec![Arc::new(Adk::default())]).await.expect("a server");
        let upstream = std::env::var(UPSTREAM).expect("the address that models ask");
        for agent in apps::agents(&runtime, &upstream) {
            server.apps().put(agent, None);
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let serving = server.serve(listener).expect("a server that serves");
        let key = server.owner_key().map(|key| key.show()).unwrap_or_default();
        println!("{} {key}", serving.address());
        std::thread::spawn(|| {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(0);
        });
        std::future::pending::<()>().await;
    });
}
