//! What the tests have in common: scripts, how to find their processes again, and a stop button.

pub(crate) use std::time::Duration;

pub(crate) use andon_shim::proc::{self, Process};
pub(crate) use andon_tools::process::{Command, Finished, Remains, Status, Stop, Tree};

pub(crate) use crate::runner::tests;

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// How long anything may take before the test fails.
pub(crate) const LONG: Duration = Duration::from_secs(60);

#[expect(clippy::disallowed_methods, reason = "these tests are about real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Runs a test's future on real threads, with a timeout.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { timeout(Duration::from_secs(240), future).await.expect("the test takes forever") })
}

/// The same, with a token and a tree of its own.
pub(crate) fn with_tree(test: impl AsyncFnOnce(Token, Tree)) {
    block_on(test(Token::new(), Tree::new()));
}

/// A number in the arguments of every process of one test: whatever else they clear, this stays, and a `sleep` of this many
/// seconds lasts forever.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token(u64);

impl Token {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(7_000_000_000_000 + u64::from(std::process::id()) * 10_000 + number)
    }

    pub(crate) fn parse(text: &str) -> Self {
        Self(text.parse().unwrap())
    }

    /// All living processes with it in their arguments, found without the code under test.
    pub(crate) fn processes(self) -> Vec<Process> {
        let token = self.to_string();
        let has_it = |process: &Process| {
            let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
            String::from_utf8_lossy(&line).split('\0').any(|word| word == token)
        };
        let own = std::process::id() as i32;
        proc::all().into_iter().filter(|one| !one.is_dead() && one.pid != own && has_it(one)).collect()
    }

    /// Waits until this many of them live.
    pub(crate) async fn at_least(self, count: usize) -> Vec<Process> {
        until(|| Some(self.processes()).filter(|found| found.len() >= count)).await
    }

    /// Checks that no process with it lives, and none of these, by id and start time.
    #[track_caller]
    pub(crate) fn assert_none_lives(self, known: &[Process]) {
        let found = self.processes();
        assert!(found.is_empty(), "these live on: {found:?}");
        let alive: Vec<_> = known.iter().filter(|one| proc::lives(one.pid, one.start)).collect();
        assert!(alive.is_empty(), "these live on: {alive:?}");
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Waits for a state, with a timeout.
pub(crate) async fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let begun = now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < LONG, "it never came to that");
        sleep(Duration::from_millis(2)).await;
    }
}

/// A script for `sh`, in which `$0` is the token.
pub(crate) fn sh(script: &str, token: Token) -> Command {
    Command::new("sh").args(["-c", script, &token.to_string()])
}

/// A stop button.
pub(crate) struct Button {
    pressed: watch::Sender<Option<Instant>>,
    grace: Duration,
}

impl Button {
    pub(crate) fn new(grace: Duration) -> Self {
        Self { pressed: watch::Sender::new(None), grace }
    }

    pub(crate) fn press(&self) {
        self.pressed.send_replace(Some(now()));
    }
}

impl Stop for Button {
    async fn told(&self) {
        // The button is the sender, so it still exists.
        let _ = self.pressed.subscribe().wait_for(Option::is_some).await;
    }

    fn time_left(&self) -> Option<Duration> {
        self.pressed.borrow().map(|pressed| self.grace.saturating_sub(pressed.elapsed()))
    }
}

/// A button that nobody presses.
pub(crate) fn never() -> Button {
    Button::new(Duration::ZERO)
}

/// Runs a command to its end and cleans up after it.
pub(crate) async fn run(command: Command) -> (Finished, Remains) {
    let tree = Tree::new();
    let finished = command.run(&tree, &never(), |_| {}).await.unwrap();
    (finished, tree.end().await)
}

/// The living shims that this process has started.
pub(crate) fn shims() -> Vec<Process> {
    shims_of(std::process::id())
}

/// The living shims that a host has started, even if the host is dead.
pub(crate) fn shims_of(host: u32) -> Vec<Process> {
    let line = format!("{0}\0{0}\0{host}\0", andon_shim::SHIM);
    let is_shim =
        |one: &Process| std::fs::read(format!("/proc/{}/cmdline", one.pid)).is_ok_and(|it| it == line.as_bytes());
    proc::all().into_iter().filter(is_shim).collect()
}

/// Whether a cgroup can be created here, so that processes die that only a cgroup can find.
pub(crate) fn has_cgroup() -> bool {
    andon_shim::cgroup::Cgroup::make("andon-can-it").is_some_and(|cgroup| cgroup.remove())
}

/// Waits until all of these are in their own cgroup, if one can be created here.
pub(crate) async fn until_grouped(processes: &[Process]) -> bool {
    let is_grouped = |one: &Process| {
        std::fs::read_to_string(format!("/proc/{}/cgroup", one.pid)).is_ok_and(|group| group.contains("/andon-"))
    };
    if !has_cgroup() {
        println!("skipped in part: no cgroup can be made here");
        return false;
    }
    until(|| processes.iter().all(is_grouped).then_some(true)).await
}

/// The prefix that runs a command as a user without privileges; empty if this user has none. No other process here runs
/// as that user: a limit on processes counts all of a user's, whoever started them.
pub(crate) fn unprivileged() -> Vec<&'static str> {
    static OPTIONS: LazyLock<[String; 2]> = LazyLock::new(|| {
        let id = 61_200 + std::process::id() % 4_000;
        [format!("--reuid={id}"), format!("--regid={id}")]
    });
    match rustix::process::geteuid().is_root() {
        true => vec!["setpriv", &OPTIONS[0], &OPTIONS[1], "--clear-groups", "--"],
        false => Vec::new(),
    }
}

/// Measures how late this machine wakes a thread, until it is dropped.
pub(crate) struct Lateness(Arc<AtomicU64>);

impl Lateness {
    #[expect(clippy::disallowed_methods, reason = "the machine itself is measured")]
    pub(crate) fn measure() -> Self {
        let longest = Arc::new(AtomicU64::new(0));
        let weak = Arc::downgrade(&longest);
        std::thread::spawn(move || {
            let nap = Duration::from_millis(5);
            while let Some(longest) = weak.upgrade() {
                let began = now();
                std::thread::sleep(nap);
                let late = began.elapsed().saturating_sub(nap).as_micros() as u64;
                longest.fetch_max(late, Ordering::Relaxed);
            }
        });
        Self(longest)
    }

    pub(crate) fn longest(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}
