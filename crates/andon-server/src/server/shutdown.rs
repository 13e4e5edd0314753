//! The end of a server.
//!
//! # Invariants
//!
//! 1. It is bounded: `drain` and `settle` and a little, whatever runs, hangs or does not read. [`Server::harden`] makes it
//!    shorter at every point.
//! 2. While it lasts nothing is let in, and everything else is served: above all cancels, and the feeds of what still runs.
//! 3. Every run that could settle has: graceful at first, and without grace when half of `settle` is gone, so that a long
//!    grace does not cost a run its end on record.
//! 4. Feeds end behind the last event of their run where that came, and before the connections are closed.

use std::net::SocketAddr;
use std::time::Duration;

use andon_runtime::{Cancel, Ending, Reason, Run};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::server::Server;
use crate::time::after;

/// How long connections, and whatever else the server began, may take at the very end.
const LAST: Duration = Duration::from_secs(2);

/// How much of a hurry there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Hurry {
    /// Runs may finish, for a while.
    #[default]
    None,
    /// They may not.
    Hard,
    /// Nothing is waited for any more.
    GiveUp,
}

/// A server that serves, until it is told to end: dropping this does not.
#[derive(Debug)]
pub struct Serving {
    server: Server,
    address: SocketAddr,
}

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutDown {
    /// Runs that were in progress and came to an end of their own, or were stopped by somebody else.
    pub finished: usize,
    /// Runs that were stopped because their time was over, and have settled.
    pub cancelled: usize,
    /// Runs that had not settled when it was over. Their journal says so, and the next server tells their end.
    pub unsettled: usize,
    /// Tasks of the runtime that had not ended when it was over.
    pub left: usize,
    /// It was told to hurry.
    pub hardened: bool,
}

impl Serving {
    pub(crate) fn new(server: Server, address: SocketAddr) -> Self {
        Self { server, address }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// [Shuts down](Server::shut_down) the server.
    pub async fn shut_down(&self) -> ShutDown {
        self.server.shut_down().await
    }

    /// [Hurries](Server::harden).
    pub fn harden(&self) {
        self.server.harden();
    }
}

impl Server {
    /// Lets nothing in, lets runs finish for a while, cancels the rest with reason `shutdown`, and waits until all is
    /// settled and told. Bounded in all. It ends the server at every address at which it serves; where it is
    /// [mounted](Server::router), its feeds end and the rest is the router's.
    pub async fn shut_down(&self) -> ShutDown {
        self.core.admission.drain();
        let runs = self.open();
        self.drained().await;
        for run in self.open() {
            run.cancel(Cancel::graceful().reason(Reason::Shutdown).by("server"));
        }
        let left = self.settled().await;
        self.end().await;
        let unsettled = runs.iter().filter(|run| run.try_outcome().is_none() || run.stalled().is_some()).count();
        let cancelled = runs.iter().filter(|run| was_cancelled(run)).count();
        let finished = runs.len().saturating_sub(cancelled + unsettled);
        ShutDown { finished, cancelled, unsettled, left, hardened: *self.hurry.borrow() >= Hurry::Hard }
    }

    /// Stops all runs now, without waiting for the drain or any grace; a shutdown in progress goes on with that at once.
    /// The second time nothing is waited for any more.
    pub fn harden(&self) {
        self.core.admission.drain();
        self.hurry.send_modify(|hurry| {
            *hurry = if *hurry == Hurry::None { Hurry::Hard } else { Hurry::GiveUp };
        });
        self.stop_now("told again to shut down");
    }
}

/// Whether the end of the server was the end of a run.
fn was_cancelled(run: &Run) -> bool {
    run.try_outcome().is_some_and(|outcome| *outcome.ending == Ending::Cancelled { reason: Reason::Shutdown })
}

impl Server {
    /// Runs that have not settled.
    fn open(&self) -> Vec<Run> {
        self.core.runtime.in_progress().into_iter().filter(|run| run.try_outcome().is_none()).collect()
    }

    fn stop_now(&self, note: &str) {
        for run in self.open() {
            run.cancel(Cancel::now().reason(Reason::Shutdown).by("server").note(note));
        }
    }

    /// Waits until all runs have settled. What they left behind (tools that were let go, say) is not waited for.
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
        // The sender is in here: it does not go away.
        let _ = hurry.wait_for(|hurry| *hurry >= at_least).await;
    }

    /// Waits until runs have finished, or their time is over.
    async fn drained(&self) {
        tokio::select! {
            biased;
            () = self.hurried(Hurry::Hard) => {}
            _ = timeout(self.core.options.drain, self.all_settled()) => {}
        }
    }

    /// Waits until what was cancelled has settled (invariant 3), and tells how many tasks are left.
    async fn settled(&self) -> usize {
        let settle = self.core.options.settle;
        let end = after(Instant::now(), settle);
        let over = async {
            tokio::select! {
                biased;
                () = self.all_settled() => {}
                () = self.hurried(Hurry::Hard) => {}
                () = sleep(settle / 2) => self.stop_now("it took too long to stop gracefully"),
            }
            self.core.runtime.shutdown(end.saturating_duration_since(Instant::now())).await
        };
        tokio::select! {
            biased;
            () = self.hurried(Hurry::GiveUp) => self.core.runtime.tasks(),
            left = over => left.err().unwrap_or(0),
        }
    }

    /// Ends feeds, then connections, then whatever else was begun.
    async fn end(&self) {
        self.core.closing.cancel();
        self.stopping.cancel();
        let _ = timeout(LAST, self.core.tasks.ended()).await;
    }
}
