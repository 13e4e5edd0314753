//! What a benchmark needs from its machine, and what it measures about a server in a separate process.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use andon_testkit::bench::now;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use tempfile::TempDir;
use tokio::runtime::Builder;

/// Raises the limit on open files as far as the system allows.
pub(crate) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// The limit on open files.
pub(crate) fn open_files() -> usize {
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX))
}

/// A folder on the disk that the project is built on: the system's temporary folder may be in memory.
pub(crate) fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// Runs all clients on one thread.
pub(crate) fn on_one_thread<T>(future: impl Future<Output = T>) -> T {
    let local = tokio::task::LocalSet::new();
    Builder::new_current_thread().enable_all().build().expect("a thread").block_on(local.run_until(future))
}

/// A process of this benchmark, which ends when this is dropped or when its standard input closes.
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts a process, which prints one line when it serves.
    pub(crate) fn start(command: &mut Command) -> (Self, String) {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a server");
        let mut said = String::new();
        let stdout = child.stdout.take().expect("what the server says");
        BufReader::new(stdout).read_line(&mut said).expect("an address");
        (Self { child }, said.trim().to_owned())
    }

    /// Its resident memory, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.child.id())).expect("its memory");
        let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:")).expect("resident memory");
        let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse().expect("a number");
        kib * 1024
    }

    /// The CPU time that it has used, in seconds.
    pub(crate) fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("its time");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        // User and system time, in ticks of 10 ms.
        let ticks = |place: usize| fields.get(place).and_then(|field| field.parse::<f64>().ok()).expect("a number");
        (ticks(11) + ticks(12)) / 100.0
    }
}

impl Process {
    /// The number of its threads.
    pub(crate) fn threads(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("its threads");
        let line = status.lines().find_map(|line| line.strip_prefix("Threads:")).expect("its threads");
        line.trim().parse().expect("a number")
    }

    /// The number of its open files, connections included.
    pub(crate) fn descriptors(&self) -> u64 {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("its open files").count() as u64
    }

    /// Sends SIGTERM, waits for the end, and returns how long that took.
    pub(crate) fn terminate(mut self) -> Duration {
        let began = now();
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("a process that lives");
        self.child.wait().expect("a process that ends");
        began.elapsed()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
