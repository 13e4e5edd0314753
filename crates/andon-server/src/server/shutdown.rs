//! The shutdown of a server.
//!
//! # Invariants
//!
//! 1. It takes a bounded time: `drain` plus `settle` plus a little, whatever runs, hangs or does not read.
//!    [`Server::harden`] makes it shorter at any point.
//! 2. During shutdown no new runs are let in, but everything else is served: above all cancels, and the feeds of the
//!    remaining runs.
//! 3. Every run that can settle does: the cancel is graceful at first, and without grace once half of `settle` has
//!    passed, so that a long grace does not prevent a run's end from being recorded.
//! 4. Feeds end before the connections are closed, and after the last event of their run if there was time for it.

use std::net::SocketAddr;
use std::time::Duration;

use andon_runtime::{Cancel, Ending, Reason, Run};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::server::Server;
use crate::time::after;

/// How long connections and other tasks of the server may take at the very end.
const LAST: Duration = Duration::from_secs(2);

/// How urgent the shutdown is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Hurry {
    /// Runs may finish, for a while.
    #[default]
    None,
    /// Runs are cancelled now.
    Hard,
    /// The shutdown waits for nothing any more.
    GiveUp,
}

/// A running server. It serves until it is shut down: dropping this does not stop it.
#[derive(Debug)]
pub struct Serving {
    server: Server,
    address: SocketAddr,
}

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutDown {
    /// Runs that were in progress and ended by themselves, or were cancelled by somebody else.
    pub finished: usize,
    /// Runs that the shutdown cancelled, and that have settled.
    pub cancelled: usize,
    /// Runs that had not settled in time. Their journal shows that, and the next server reports how they ended.
    pub unsettled: usize,
    /// Tasks of the runtime that had not ended in time.
    pub left: usize,
    /// Whether the shutdown was hardened.
    pub hardened: bool,
}

impl Serving {
    pub(crate) fn new(server: Server, address: SocketAddr) -> Self {
        Self { server, address }
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// [Shuts down](Server::shut_down) the server.
    ///
    /// # Cancel safety
    ///
    /// As for [`Server::shut_down`].
    pub async fn shut_down(&self) -> ShutDown {
        self.server.shut_down().await
    }

    /// [Hardens](Server::harden) the shutdown.
    pub fn harden(&self) {
        self.server.harden();
    }
}

impl Server {
    /// Lets no new runs in, lets runs finish for a while, cancels the rest with reason `shutdown`, and waits until all
    /// have settled and their feeds have ended. The time for this is bounded. It stops the server on every address it
    /// serves; where it is [mounted](Server::mount), it ends the feeds and leaves the rest to the outer router.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: if it is dropped, the server lets no more runs in, and those in progress go on. Call it again to finish.
    pub async fn shut_down(&self) -> ShutDown {
        self.core.admission.drain();
        let runs = self.open();
        self.drained().await;
        self.stop(&Cancel::graceful());
        let left = self.settled().await;
        self.end().await;
        let unsettled = runs.iter().filter(|run| run.try_outcome().is_none() || run.stalled().is_some()).count();
        let cancelled = runs.iter().filter(|run| was_cancelled(run)).count();
        let finished = runs.len().saturating_sub(cancelled + unsettled);
        ShutDown { finished, cancelled, unsettled, left, hardened: *self.hurry.borrow() >= Hurry::Hard }
    }

    /// Cancels all runs now, without waiting for the drain or any grace; a shutdown in progress continues with that at
    /// once. The second call ends all waiting.
    pub fn harden(&self) {
        self.core.admission.drain();
        self.hurry.send_modify(|hurry| {
            *hurry = if *hurry == Hurry::None { Hurry::Hard } else { Hurry::GiveUp };
        });
        self.stop_now("the server was told again to shut down");
    }
}

/// Whether the shutdown cancelled a run.
fn was_cancelled(run: &Run) -> bool {
    run.try_outcome().is_some_and(|outcome| *outcome.ending == Ending::Cancelled { reason: Reason::Shutdown })
}

impl Server {
    /// The runs that have not settled.
    fn open(&self) -> Vec<Run> {
        self.core.runtime.in_progress().into_iter().filter(|run| run.try_outcome().is_none()).collect()
    }

    fn stop_now(&self, note: &str) {
        self.stop(&Cancel::now().note(note));
    }

    fn stop(&self, cancel: &Cancel) {
        let cancel = cancel.clone().reason(Reason::Shutdown).by("server");
        self.core.runtime.cancel_together(&self.open(), &cancel);
    }

    /// Waits until all runs have settled, but not for work that outlived them, such as leaked tools.
    async fn all_settled(&self) {
        loop {
            let open = self.open();
            if open.is_empty() {
                return;
            }
            for run in open {
                run.outcome().await;
            }
        }
    }

    async fn hurried(&self, at_least: Hurry) {
        let mut hurry: watch::Receiver<Hurry> = self.hurry.subscribe();
        // `self` owns the sender, so this does not fail.
        let _ = hurry.wait_for(|hurry| *hurry >= at_least).await;
    }

    /// Waits until all runs have finished, or their time is up.
    async fn drained(&self) {
        tokio::select! {
            biased;
            () = self.hurried(Hurry::Hard) => {}
            _ = timeout(self.core.options.drain, self.all_settled()) => {}
        }
    }

    /// Waits until the cancelled runs have settled (invariant 3), and returns how many tasks are left.
    async fn settled(&self) -> usize {
        let settle = self.core.options.settle;
        let end = after(Instant::now(), settle);
        let over = async {
            tokio::select! {
                biased;
                () = self.all_settled() => {}
                () = self.hurried(Hurry::Hard) => {}
                () = sleep(settle / 2) => self.stop_now("the run took too long to stop gracefully"),
            }
            self.core.runtime.shutdown(end.saturating_duration_since(Instant::now())).await
        };
        tokio::select! {
            biased;
            () = self.hurried(Hurry::GiveUp) => self.core.runtime.tasks(),
            left = over => left.err().unwrap_or(0),
        }
    }

    /// Ends the feeds, then the connections, then all other tasks.
    async fn end(&self) {
        self.core.closing.cancel();
        self.stopping.cancel();
        self.core.tasks.close();
        let _ = timeout(LAST, self.core.tasks.wait()).await;
    }
}
