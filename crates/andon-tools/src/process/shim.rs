//! The host's side of a shim.
//!
//! # Invariants
//!
//! 1. When the socket is closed, in whatever way, the shim ends the tree. So there is no moment between a start and its cleanup
//!    at which a tree could be forgotten.
//! 2. Only the shim's own word is proof. If it dies first, the stop is reported as best effort.
//! 3. Nothing is spawned here. Whoever waits reads the socket, and notifies the others that wait.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use andon_runtime::Remains;
use andon_shim::{Config, Order, Refusal, SHIM, Status, Survivor, Word, send_stdin};
use parking_lot::Mutex;
use rustix::net::Shutdown;
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::time::timeout;

use super::PATIENCE;
use super::adopt;
use super::pipes::ToolEnds;
use super::scan::Traces;

/// How long a shim may take to start the process.
const START: Duration = Duration::from_secs(10);
/// How much longer than [`SILENCE`] to wait for a shim that has never answered. It may not be a shim at all; but on a busy machine a
/// shim that was just started may not have run yet, and only its own word is proof.
const FIRST_WORD: Duration = Duration::from_secs(3);
/// After this long without an answer, a tool may have stopped its shim, which is then continued.
const SILENCE: Duration = Duration::from_millis(500);
/// How much longer than a shim's own patience to wait for it.
const MARGIN: Duration = Duration::from_secs(1);
/// How long to look for processes that escaped a dead shim.
const LAST_LOOK: Duration = Duration::from_secs(1);

const SIGKILL: i32 = Signal::KILL.as_raw();

pub(crate) struct Shim {
    socket: UnixStream,
    child: tokio::sync::Mutex<Child>,
    /// The rest of the configuration that has not been sent yet.
    outbox: Mutex<Vec<u8>>,
    /// The beginning of a message whose end has not arrived yet.
    inbox: Mutex<Vec<u8>>,
    news: watch::Sender<ShimNews>,
    name: String,
    mark: String,
}

/// All that the shim has said.
#[derive(Debug, Default)]
struct ShimNews {
    started: Option<Traces>,
    refused: Option<Refusal>,
    exited: Option<Status>,
    /// Whether the shim killed the main process.
    killed: bool,
    over: Option<TreeEnd>,
}

/// How a tree ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TreeEnd {
    /// No process is left.
    Gone,
    /// These could not be ended.
    GaveUp(Vec<Survivor>),
    /// The shim died without a report.
    Lost,
}

impl Shim {
    /// Executes the shim and sends it what to start. There must be no `pre_exec` here: it would make the system copy the host's
    /// memory for each process.
    pub(crate) fn execute(helper: &Path, config: &Config, mark: String, ends: ToolEnds) -> io::Result<Self> {
        let (ours, theirs) = StdStream::pair()?;
        ours.set_nonblocking(true)?;
        send_stdin(&ours, ends.stdin.as_ref().map(AsFd::as_fd))?;
        let mut command = tokio::process::Command::new(helper);
        command.arg0(SHIM).arg(SHIM).arg(std::process::id().to_string()).env_clear();
        command
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(ends.stdout))
            .stderr(Stdio::from(ends.stderr));
        let socket = UnixStream::from_std(ours)?;
        let mut outbox = serde_json::to_vec(config)?;
        outbox.push(b'\n');
        let child = adopt::spawn(&mut command)?;
        Ok(Self {
            socket,
            child: tokio::sync::Mutex::new(child),
            outbox: Mutex::new(outbox),
            inbox: Mutex::default(),
            news: watch::Sender::default(),
            name: config.program.to_string_lossy().into_owned(),
            mark,
        })
    }

    /// Waits until the process runs or could not be started. Bounded, because the helper may be any program.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the process is in its tree, and ends with it.
    pub(crate) async fn started(&self) -> Result<(), Option<Refusal>> {
        timeout(START, self.answered()).await.unwrap_or(Err(None))
    }

    async fn answered(&self) -> Result<(), Option<Refusal>> {
        while !self.outbox.lock().is_empty() {
            if self.socket.writable().await.is_err() || self.send().is_err() {
                // The shim is gone, but it may have written something before.
                break;
            }
        }
        self.until(|news| match news {
            ShimNews { refused: Some(refusal), .. } => Some(Err(Some(refusal.clone()))),
            ShimNews { started: Some(_), .. } => Some(Ok(())),
            ShimNews { over: Some(_), .. } => Some(Err(None)),
            ShimNews { .. } => None,
        })
        .await
    }

    /// Waits for the end of the main process; `None` if the shim died first.
    pub(crate) async fn exited(&self) -> Option<Status> {
        self.until(|news| news.exited.map(Some).or(news.over.as_ref().map(|_| None))).await
    }

    /// How the main process ended, if it has.
    pub(crate) fn status(&self) -> Option<Status> {
        self.news.borrow().exited
    }

    /// Whether it was the shim that killed the main process.
    pub(crate) fn was_killed(&self) -> bool {
        self.news.borrow().killed
    }

    /// Waits until the whole tree has ended, or cannot be ended.
    pub(crate) async fn over(&self) -> TreeEnd {
        self.until(|news| news.over.clone()).await
    }

    /// Asks the whole tree to end.
    pub(crate) fn ask_to_end(&self) {
        let Ok(mut line) = serde_json::to_vec(&Order::Term) else { return };
        line.push(b'\n');
        if self.socket.try_write(&line).is_err() {
            // The shim is dead or does not read, so asking is useless.
            self.kill();
        }
    }

    /// Closes the shim's input, which makes it kill the whole tree.
    pub(crate) fn kill(&self) {
        // It fails only if the other end is already closed, and then the shim is dead.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }

    /// Kills the tree, waits for proof, and returns what remains. Bounded.
    pub(crate) async fn end(&self) -> Remains {
        self.kill();
        let mut over = timeout(SILENCE, self.over()).await.ok();
        if over.is_none() {
            self.signal(Signal::CONT).await;
            let has_spoken = self.news.borrow().started.is_some();
            let patience = if has_spoken { PATIENCE + MARGIN } else { FIRST_WORD };
            over = timeout(patience, self.over()).await.ok();
        }
        let remains = match over {
            Some(TreeEnd::Gone) => Remains::default(),
            Some(TreeEnd::GaveUp(survivors)) => {
                let (name, seconds) = (&self.name, PATIENCE.as_secs());
                self.leaked(&survivors, format!("some processes of `{name}` could not be killed within {seconds} s"))
            }
            Some(TreeEnd::Lost) => self.lost().await,
            None => self.silent().await,
        };
        // It has closed its socket and is about to exit, or was killed: reaping it takes only a moment.
        self.reap(MARGIN).await;
        remains
    }

    /// Waits for the end of the shim itself. Returns whether it has ended.
    async fn reap(&self, patience: Duration) -> bool {
        timeout(patience, async { self.child.lock().await.wait().await }).await.is_ok()
    }

    /// The shim was killed. The main process has died with it; others may still be running.
    async fn lost(&self) -> Remains {
        if !self.reap(SILENCE).await {
            // It closed its socket but lives, so it was not a shim.
            self.signal(Signal::KILL).await;
        }
        let survivors = self.end_orphans(self.traces()).await;
        let name = &self.name;
        let note = if adopt::has_begun() {
            format!("the shim of `{name}` was killed: this program adopted the remaining processes and ended them")
        } else {
            format!(
                "the shim of `{name}` was killed: its processes were stopped on a best-effort basis, by session, environment and \
                 cgroup; a process that left all of these may still be running"
            )
        };
        self.leaked(&survivors, note)
    }

    /// The shim lives but does not answer: its tree is ended from here, and the shim with it.
    async fn silent(&self) -> Remains {
        let under = self.child.lock().await.id().map(u32::cast_signed);
        let mut survivors = Traces { under, ..self.traces() }.end(LAST_LOOK).await;
        self.signal(Signal::KILL).await;
        if adopt::has_begun() {
            survivors = self.end_orphans(self.traces()).await;
        }
        let note =
            format!("the shim of `{}` did not answer: its processes were stopped on a best-effort basis", self.name);
        self.leaked(&survivors, note)
    }

    /// Ends the processes that a dead shim has left, by their traces. If this process adopts orphans, also those without traces.
    async fn end_orphans(&self, traces: Traces) -> Vec<Survivor> {
        // Its socket is closed a moment before its children get their new parent. When it can be reaped, they have it.
        self.reap(LAST_LOOK / 2).await;
        Traces { orphans: adopt::has_begun(), ..traces }.end(LAST_LOOK).await
    }

    fn leaked(&self, survivors: &[Survivor], note: String) -> Remains {
        let leaked = survivors.iter().map(|survivor| format!("{survivor} of `{}`", self.name)).collect();
        Remains::new().leaked(leaked).notes(vec![note])
    }

    fn traces(&self) -> Traces {
        let known = self.news.borrow().started.clone();
        Traces { mark: self.mark.clone(), ..known.unwrap_or_default() }
    }

    /// Signals the shim itself. Its pid stays valid until it is reaped, which needs the same lock.
    async fn signal(&self, signal: Signal) {
        let child = self.child.lock().await;
        if let Some(pid) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            // It fails only if the shim has just exited.
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until the news contain what is wanted.
    async fn until<T>(&self, wanted: impl Fn(&ShimNews) -> Option<T>) -> T {
        let mut seen = self.news.subscribe();
        loop {
            if let Some(found) = wanted(&seen.borrow_and_update()) {
                return found;
            }
            let readable = tokio::select! {
                _ = seen.changed() => None,
                readable = self.socket.readable() => Some(readable),
            };
            match readable {
                Some(Ok(())) => self.receive(),
                Some(Err(_)) => self.close(),
                // Another waiter has read something.
                None => {}
            }
        }
    }

    /// Sends as much of the configuration as fits.
    fn send(&self) -> io::Result<()> {
        let mut outbox = self.outbox.lock();
        match self.socket.try_write(&outbox) {
            Ok(sent) => drop(outbox.drain(..sent)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Reads what has arrived, and notifies all waiters.
    fn receive(&self) {
        let mut inbox = self.inbox.lock();
        let mut bytes = [0; 4096];
        loop {
            match self.socket.try_read(&mut bytes) {
                Ok(0) => return self.close(),
                Ok(read) => inbox.extend_from_slice(bytes.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.close(),
            }
            while let Some(end) = inbox.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = inbox.drain(..=end).collect();
                match serde_json::from_slice(&line) {
                    Ok(word) => self.hear(word),
                    // That is not our shim.
                    Err(_) => self.close(),
                }
            }
        }
    }

    fn hear(&self, word: Word) {
        self.news.send_modify(|news| match word {
            Word::Started { pid, start } => {
                news.started = Some(Traces { leader: Some((pid, start)), ..Traces::default() })
            }
            Word::Grouped(cgroup) => news.started.get_or_insert_default().cgroup = Some(cgroup),
            Word::Refused(refusal) => {
                news.refused = Some(refusal);
                news.over = Some(TreeEnd::Gone);
            }
            Word::Exited(status) => news.exited = Some(status),
            Word::Killed => {
                news.exited = Some(Status::Signal(SIGKILL));
                news.killed = true;
            }
            Word::Gone => news.over = Some(TreeEnd::Gone),
            Word::GaveUp(survivors) => news.over = Some(TreeEnd::GaveUp(survivors)),
        });
    }

    /// Notes that nothing more will come.
    fn close(&self) {
        self.news.send_modify(|news| {
            news.over.get_or_insert(TreeEnd::Lost);
        });
    }
}
