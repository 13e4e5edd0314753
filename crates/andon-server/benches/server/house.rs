//! The server, a separate process, and its arguments.

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use andon_runtime::{Agent, RunFilter, Runtime};
use andon_server::{Options, Server};
use andon_store::SqliteJournal;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::apps::{APPS, PROVIDED};
use crate::process::{Process, folder, on_one_thread};
use crate::provider::{self, Provider};

/// The argument that makes this program the server; the folder of its database follows.
pub(crate) const AS_SERVER: &str = "--as-server";

/// The environment variable with the provider's address.
const PROVIDER: &str = "ANDON_BENCH_PROVIDER";

/// How many runs, feeds and connections the server allows.
const ROOM: usize = 40_000;

/// Serves until SIGTERM, or until the parent process is gone.
pub(crate) fn serve(folder: &Path) {
    let threads = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    threads.block_on(async {
        let journal = SqliteJournal::open(database(folder)).expect("a database");
        let runtime = Runtime::builder().journal(Arc::new(journal)).build();
        let options = Options::new()
            .max_runs(ROOM)
            .max_runs_of_user(ROOM)
            .max_feeds(ROOM)
            .max_feeds_of_user(ROOM)
            .max_connections(ROOM);
        let server = Server::new(&runtime, options).await.expect("a server");
        for (name, does) in APPS {
            let agent = Agent::builder().name(name).model(does).runtime(&runtime).build().expect("an agent");
            server.apps().put(agent, None);
        }
        if let Ok(url) = std::env::var(PROVIDER) {
            let model = provider::model(&url);
            for (name, _) in PROVIDED {
                let agent = Agent::builder().name(name).model(model.clone()).runtime(&runtime).build();
                server.apps().put(agent.expect("an agent"), None);
            }
        }
        let mut told_to_end = signal(SignalKind::terminate()).expect("signals");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let serving = server.serve(listener).expect("a server that serves");
        println!("{}", serving.address());
        std::thread::spawn(|| {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(0);
        });
        told_to_end.recv().await;
        serving.shut_down().await;
    });
}

fn database(folder: &Path) -> PathBuf {
    folder.join("andon.db")
}

/// A server with its database; dropping it ends the server.
pub(crate) struct House {
    pub(crate) process: Process,
    folder: TempDir,
    pub(crate) address: SocketAddr,
}

impl House {
    pub(crate) fn new() -> Self {
        Self::start(None)
    }

    /// A server whose models call a provider.
    pub(crate) fn asking(provider: &Provider) -> Self {
        Self::start(Some(provider))
    }

    fn start(provider: Option<&Provider>) -> Self {
        let folder = folder();
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.arg(AS_SERVER).arg(folder.path());
        if let Some(provider) = provider {
            command.env(PROVIDER, provider.url());
            // Instead of the system's certificates.
            command.envs(provider.certificate().map(|certificate| ("SSL_CERT_FILE", certificate)));
        }
        let (process, said) = Process::start(&mut command);
        Self { process, folder, address: said.parse().expect("an address") }
    }

    /// Kills the server with SIGKILL, and counts the runs in its database that have settled.
    pub(crate) fn kill_and_count_settled(self) -> usize {
        let Self { process, folder, .. } = self;
        drop(process);
        let journal = SqliteJournal::open(database(folder.path())).expect("the same database");
        let runtime = Runtime::builder().journal(Arc::new(journal)).build();
        let settled = RunFilter::new().settled(true);
        on_one_thread(runtime.list_runs(settled)).expect("the runs on record").len()
    }
}
