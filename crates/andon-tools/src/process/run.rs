//! Runs a command to its end: reads its output as it comes, and stops it in two steps.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use andon_runtime::{Cord, DEFAULT_GRACE};
use andon_shim::Status;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::time::{Instant, sleep_until};

use super::command::{Command, StartError};
use super::output::{Captured, Collector};
use super::text::Joiner;
use super::tree::{Running, Tree};

/// How much is read at once.
const CHUNK: usize = 64 * 1024;
/// How long to read the pipes when all processes are dead: a process that escaped may keep them open.
const DRAIN: Duration = Duration::from_millis(250);
/// How much of the grace is reserved for killing, at most; and never more than a quarter of it.
const KILLING: Duration = Duration::from_millis(250);
/// How often to check the grace, which a second request can shorten.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What tells a command to stop.
pub trait Stop: Sync {
    /// Waits until the command must stop.
    fn told(&self) -> impl Future<Output = ()> + Send;

    /// The grace that is left, once the command must stop; `None` if none is set.
    fn time_left(&self) -> Option<Duration>;
}

impl Stop for Cord {
    async fn told(&self) {
        self.pulled().await;
    }

    fn time_left(&self) -> Option<Duration> {
        Cord::time_left(self)
    }
}

/// A command that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finished {
    /// How its main process ended; `None` if that is unknown, because its shim was killed.
    pub status: Option<Status>,
    /// Its standard output, or both outputs if they are merged.
    pub stdout: Captured,
    /// Its standard error.
    pub stderr: Captured,
    /// Whether it was told to stop.
    pub stopped: bool,
    /// Whether its main process was killed by us or its shim, and not by anyone else.
    pub killed: bool,
}

impl Command {
    /// Runs it to its end. Its output is shown as it comes, both outputs in the order of their arrival.
    ///
    /// When it must stop, all its processes are asked to end; shortly before the grace is over, they are killed. The output
    /// until then is kept.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: the output is lost. The processes are in the tree, and end with it.
    pub async fn run(
        &self,
        tree: &Tree,
        stop: &impl Stop,
        show: impl FnMut(&str) + Send,
    ) -> Result<Finished, StartError> {
        let mut running = self.start(tree).await?;
        let mut pipes = Pipes::new(self, &mut running, show);
        let stopped = attend(&running, stop, &mut pipes).await;
        let (stdout, stderr) = pipes.finish();
        Ok(Finished { status: running.status(), stdout, stderr, stopped, killed: running.was_killed() })
    }
}

/// How far a command has come.
enum Phase {
    Running,
    /// Asked to end; it is killed when less than this of the grace is left.
    Asked(Duration),
    Killed,
    /// All its processes have ended; the pipes are read until this time.
    Over(Instant),
}

/// Reads until everything is over. Returns whether the command was told to stop.
async fn attend(running: &Running, stop: &impl Stop, pipes: &mut Pipes<'_, impl FnMut(&str) + Send>) -> bool {
    let mut told = pin!(stop.told());
    let mut over = pin!(running.over());
    let mut phase = Phase::Running;
    let mut stopped = false;
    loop {
        let (is_over, look_again) = match phase {
            Phase::Over(until) => (true, until),
            Phase::Running | Phase::Asked(_) | Phase::Killed => (false, Instant::now() + LOOK_AGAIN),
        };
        if is_over && (pipes.are_closed() || Instant::now() >= look_again) {
            return stopped;
        }
        let event = tokio::select! {
            biased;
            () = &mut told, if !stopped && !is_over => Event::Told,
            () = &mut over, if !is_over => Event::Over,
            ready = pipes.ready(), if !pipes.are_idle() => Event::Ready(ready),
            () = sleep_until(look_again), if !matches!(phase, Phase::Running) => Event::Time,
        };
        phase = match (event, phase) {
            (Event::Ready(ready), phase) => {
                pipes.turn(ready);
                hurry(running, stop, phase)
            }
            (Event::Told, _) => {
                stopped = true;
                running.ask_to_end();
                let grace = stop.time_left().unwrap_or(DEFAULT_GRACE);
                Phase::Asked(KILLING.min(grace / 4))
            }
            (Event::Over, _) => Phase::Over(Instant::now() + DRAIN),
            (Event::Time, phase) => hurry(running, stop, phase),
        };
    }
}

/// Kills the processes that were asked to end, when their time is up.
fn hurry(running: &Running, stop: &impl Stop, phase: Phase) -> Phase {
    match phase {
        Phase::Asked(reserve) if stop.time_left().is_none_or(|left| left <= reserve) => {
            running.kill();
            Phase::Killed
        }
        other => other,
    }
}

enum Event {
    Told,
    Over,
    Ready(Ready),
    Time,
}

/// A pipe that can be read or written.
#[derive(Debug, Clone, Copy)]
enum Ready {
    Stdin,
    Stdout,
    Stderr,
}

/// The host's ends of the pipes, and what has come through them.
struct Pipes<'a, F> {
    stdin: Option<(Sender, &'a [u8])>,
    stdout: Output,
    stderr: Output,
    buffer: Box<[u8]>,
    show: F,
}

struct Output {
    end: Option<Receiver>,
    collector: Collector,
    joiner: Joiner,
}

impl Output {
    fn new(end: Option<Receiver>, limit: usize) -> Self {
        Self { end, collector: Collector::new(limit), joiner: Joiner::default() }
    }

    async fn readable(&self) {
        match &self.end {
            // If waiting fails, reading returns the error.
            Some(end) => drop(end.readable().await),
            None => std::future::pending().await,
        }
    }

    /// Reads what has arrived, and shows it.
    fn read(&mut self, buffer: &mut [u8], show: &mut impl FnMut(&str)) {
        let Some(end) = &self.end else { return };
        match end.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => self.end = None,
            Ok(read) => {
                let bytes = buffer.get(..read).unwrap_or_default();
                self.collector.push(bytes);
                let text = self.joiner.push(bytes);
                if !text.is_empty() {
                    show(&text);
                }
            }
        }
    }

    fn finish(mut self, show: &mut impl FnMut(&str)) -> Captured {
        let rest = self.joiner.finish();
        if !rest.is_empty() {
            show(&rest);
        }
        self.collector.finish()
    }
}

impl<'a, F: FnMut(&str)> Pipes<'a, F> {
    fn new(command: &'a Command, running: &mut Running, show: F) -> Self {
        Self {
            stdin: running.stdin.take().map(|end| (end, command.text())),
            stdout: Output::new(running.stdout.take(), command.max_output),
            stderr: Output::new(running.stderr.take(), command.max_output),
            buffer: vec![0; CHUNK].into_boxed_slice(),
            show,
        }
    }

    /// Whether both outputs have ended.
    fn are_closed(&self) -> bool {
        self.stdout.end.is_none() && self.stderr.end.is_none()
    }

    /// Whether all pipes are closed. A process can close both outputs and still read.
    fn are_idle(&self) -> bool {
        self.are_closed() && self.stdin.is_none()
    }

    /// Waits until a pipe is ready.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is read or written before [`turn`](Self::turn).
    async fn ready(&self) -> Ready {
        let writable = async {
            match &self.stdin {
                Some((end, _)) => drop(end.writable().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.stdout.readable() => Ready::Stdout,
            () = self.stderr.readable() => Ready::Stderr,
            () = writable => Ready::Stdin,
        }
    }

    fn turn(&mut self, ready: Ready) {
        match ready {
            Ready::Stdin => self.write(),
            Ready::Stdout => self.stdout.read(&mut self.buffer, &mut self.show),
            Ready::Stderr => self.stderr.read(&mut self.buffer, &mut self.show),
        }
    }

    /// Writes as much as fits. When everything is written, or nobody reads it, the pipe is closed.
    fn write(&mut self) {
        let Some((end, text)) = &mut self.stdin else { return };
        match end.try_write(text) {
            Ok(written) => *text = text.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            // A process need not read to the end.
            Err(_) => *text = &[],
        }
        if text.is_empty() {
            self.stdin = None;
        }
    }

    fn finish(mut self) -> (Captured, Captured) {
        (self.stdout.finish(&mut self.show), self.stderr.finish(&mut self.show))
    }
}
