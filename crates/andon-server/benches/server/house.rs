//! The server: a process of its own, and what it is told.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use andon::{Agent, RunFilter, Runtime};
use andon_server::{Options, Server};
use andon_store::SqliteJournal;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Builder;

use crate::models;

/// The word that makes this program the server; the folder of its database follows.
pub(crate) const AS_SERVER: &str = "--as-server";

/// How many runs, feeds and connections the server allows.
const ROOM: usize = 40_000;

/// As many open files as the system lets us have.
pub(crate) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Serves until the one who started this process is gone.
pub(crate) fn serve(folder: &Path) {
    let threads = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    threads.block_on(async {
        let journal = SqliteJournal::open(database(folder)).expect("a database");
        let runtime = Runtime::builder().journal(Arc::new(journal)).build();
        let options = Options {
            max_runs: ROOM,
            max_runs_of_user: ROOM,
            max_feeds: ROOM,
            max_feeds_of_user: ROOM,
            max_connections: ROOM,
            ..Options::default()
        };
        let server = Server::new(&runtime, options).await.expect("a server");
        for (name, does) in models::APPS {
            let agent = Agent::builder().name(name).model(does).runtime(&runtime).build().expect("an agent");
            server.apps().put(agent, None);
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let serving = server.serve(listener).expect("a server that serves");
        println!("{}", serving.address());
        std::thread::spawn(|| {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(0);
        });
        std::future::pending::<()>().await;
    });
}

fn database(folder: &Path) -> PathBuf {
    folder.join("andon.db")
}

/// A folder on the disk that the project is built on: the system's own may be in memory.
pub(crate) fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// A server, until this is dropped.
pub(crate) struct House {
    process: Child,
    folder: TempDir,
    pub(crate) address: SocketAddr,
}

impl House {
    pub(crate) fn new() -> Self {
        let folder = folder();
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.arg(AS_SERVER).arg(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("a server");
        let mut said = String::new();
        let stdout = process.stdout.take().expect("what the server says");
        BufReader::new(stdout).read_line(&mut said).expect("an address");
        let address = said.trim().parse().expect("an address");
        Self { process, folder, address }
    }

    /// The server's resident memory, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.process.id())).expect("its memory");
        let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:")).expect("resident memory");
        let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse().expect("a number");
        kib * 1024
    }

    /// The CPU time that the server has used, in seconds.
    pub(crate) fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).expect("its time");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        // User and system time, in ticks of 10 ms.
        let ticks = |place: usize| fields.get(place).and_then(|field| field.parse::<f64>().ok()).expect("a number");
        (ticks(11) + ticks(12)) / 100.0
    }

    /// Kills the server where it stands, and counts the runs in its database that have settled.
    pub(crate) fn kill_and_count_settled(mut self) -> usize {
        self.process.kill().expect("a server to kill");
        self.process.wait().expect("its end");
        let journal = SqliteJournal::open(database(self.folder.path())).expect("the same database");
        let runtime = Runtime::builder().journal(Arc::new(journal)).build();
        let settled = RunFilter { settled: Some(true), ..RunFilter::default() };
        on_one_thread(runtime.list_runs(settled)).expect("the runs on record").len()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Where the clients are.
pub(crate) fn on_one_thread<T>(future: impl Future<Output = T>) -> T {
    let local = tokio::task::LocalSet::new();
    Builder::new_current_thread().enable_all().build().expect("a thread").block_on(local.run_until(future))
}
