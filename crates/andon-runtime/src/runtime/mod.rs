//! What runs share: the journal, the clock, the registry, the threads.

pub(crate) mod agent;
mod builder;
pub(crate) mod compensate;
mod hooks;
mod lease;
pub(crate) mod prompt;
pub(crate) mod session;
pub(crate) mod sessions;

use std::fmt;
use std::process;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use andon_core::cancel::{Reason, ReplyKind};
use andon_core::id::RunId;
use andon_core::time::Stamp;
use tokio::time::timeout;

use crate::driver::metering::patience_at_shutdown;
use crate::driver::{RuntimeCore, stored};
use crate::journal::shelf::Shelf;
use crate::journal::{JournalError, RequestFate};
use crate::live::Live;
use crate::live::cord::{Cancel, Cord, Reply};
use crate::live::feed::{Cursor, Feed};
use crate::live::log::Log;
use crate::live::observe::Observer;
use crate::live::run::Run;
use crate::recovery::{self, Recovered};
use crate::session::registry::RunCounts;
pub use builder::RuntimeBuilder;

/// What runs share. Cheap to clone.
///
/// Most programs never mention it: by default, agents share one with a journal in memory.
///
/// The threads of its drivers and tools are its own. They start when they are first needed, and end when its last handle is
/// gone and nothing runs on them. A process that is forked has none of them: build a new runtime there, and agents with it.
/// One that was built before the fork and had not started any threads can be used on both sides.
///
/// ```
/// # use andon_practice::Practice;
/// # use andon_runtime::{Agent, Cancel};
/// # use std::time::Duration;
/// use andon_runtime::Runtime;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = Runtime::builder().build();
/// let agent = Agent::builder().model(Practice::new()).runtime(&runtime).build()?;
/// let run = agent.start("Tell me a long story")?;
/// assert!(runtime.cancel(run.id(), Cancel::graceful().by("ada")).await?.is_stopping());
/// assert_eq!(runtime.shutdown(Duration::from_secs(10)).await, Ok(()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Runtime {
    pub(crate) core: Arc<RuntimeCore>,
}

/// The runtime that the agents of a process share, unless they name another.
struct SharedRuntime {
    process: u32,
    runtime: Runtime,
    /// That of a process that was forked from this one.
    of_children: OnceLock<Box<SharedRuntime>>,
}

static SHARED: OnceLock<Box<SharedRuntime>> = OnceLock::new();

impl Runtime {
    /// The default runtime of agents: a journal in memory, the system's clock. A forked child has one of its own.
    pub fn shared() -> Self {
        // Each process has its own place, and none waits for a lock: one that another thread held during a fork would stay
        // locked in the child. Only the very first call of a process takes one, when the runtime is built.
        let process = process::id();
        let mut place = &SHARED;
        loop {
            match place.get() {
                Some(shared) if shared.process == process => return shared.runtime.clone(),
                // An ancestor's is left as it is: its agents may have been copied, too.
                Some(ancestors) => place = &ancestors.of_children,
                None => {
                    let runtime = Self::builder().build();
                    // If another thread was faster, its runtime is the one.
                    drop(place.set(Box::new(SharedRuntime { process, runtime, of_children: OnceLock::new() })));
                }
            }
        }
    }

    /// Builds a separate runtime.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    /// Takes up every run that a dead process left open in the journal. A run that was waiting for its session or for a
    /// person goes on with the agent of its name. Every other run is settled: open calls are closed as unknown and not
    /// run again, and the run ends as `lost`, or as `cancelled` if a request was on record. A waiting run that must not
    /// go on without its readers (`on_disconnect`) is also cancelled if it had any: they were lost with the process.
    ///
    /// Build the agents first, and call this before anything runs. It may be called again after more agents were built.
    ///
    /// If several processes share the journal, only runs of those that are dead are taken up, and once this was called it goes on by
    /// itself: whenever another process dies, one of those that live takes up its runs.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, what was recovered by then stays recovered. Call it again for the rest.
    pub async fn recover(&self) -> Result<Vec<Recovered>, JournalError> {
        let recovered = recovery::recover_all(&self.core).await;
        self.core.has_recovered.store(true, Ordering::Release);
        recovered
    }

    /// The runs in progress, in the order in which they came.
    pub fn runs(&self) -> Vec<RunId> {
        self.core.registry.all().iter().map(|live| live.id.clone()).collect()
    }

    /// Handles on the runs in progress, in the order in which they came. They are a snapshot: it contains every run
    /// that was started before this call and has not settled.
    pub fn in_progress(&self) -> Vec<Run> {
        self.core.registry.all().into_iter().map(Run::new).collect()
    }

    /// A run in progress by its id. Does not read the journal.
    pub fn find_in_progress(&self, run: &RunId) -> Option<Run> {
        self.core.registry.find(run).map(Run::new)
    }

    /// How many runs are in progress in all, and how many of them are this user's.
    pub fn count(&self, tenant: &Arc<str>, user: &Arc<str>) -> (usize, usize) {
        self.core.registry.count(tenant, user)
    }

    /// How many runs in progress there are in each state.
    pub fn tally(&self) -> RunCounts {
        self.core.registry.tally()
    }

    /// Runs that a dead process left waiting, and that cannot go on until an agent of the right name is built.
    pub fn parked(&self) -> Vec<RunId> {
        self.core.parked.lock().iter().cloned().collect()
    }

    /// Whether a run cannot go on until an agent of the right name is built.
    pub fn is_parked(&self, run: &RunId) -> bool {
        self.core.is_parked(run)
    }

    /// Why the journal does not accept writes, if that is so: as the journal itself says, or as the first run that has
    /// [stalled](Run::stalled) says.
    pub fn journal_trouble(&self) -> Option<JournalError> {
        let stalled = || self.core.registry.first_stalled().and_then(|live| live.stalled());
        self.core.services.journal.trouble().or_else(stalled)
    }

    /// Values that belong to no session.
    pub fn shelf(&self) -> &dyn Shelf {
        self.core.services.journal.shelf()
    }

    /// The current time, by the clock that runs are stamped with.
    pub fn now(&self) -> Stamp {
        self.core.services.clock.now()
    }

    /// Cancels one run by its id. The reply is `too_late` for a run that has settled, `not_running` for one that no
    /// driver of this process runs, and `not_found` for an unknown id. A [parked](crate::Fate::Parked) run is settled
    /// as cancelled, and the reply comes when that is durable. If several processes share the journal, a run of another one
    /// is `accepted` once the request is on record: that process hears of it within a second, or, if it is dead, whoever takes
    /// up the run does.
    ///
    /// # Cancel safety
    ///
    /// A run that this process drives is told at the first poll. A request to one that nobody drives may be on record or not when this
    /// future is dropped: ask again, which changes nothing if it is.
    pub async fn cancel(&self, run: &RunId, cancel: Cancel) -> Result<Reply, JournalError> {
        if let Some(live) = self.core.registry.find(run) {
            return Ok(Cord::new(live, None).pull(cancel));
        }
        // If others share the journal, one of them may drive it, or may have died with it.
        if self.core.is_parked(run) || self.core.services.lease.is_some() {
            self.cancel_undriven(run, cancel).await
        } else {
            self.cancel_found(run, cancel).await
        }
    }

    /// Cancels several runs, and returns the replies in the same order. Runs that wait for a session are told before the one
    /// that they wait for, so that none of them begins because that one has ended. Synchronous, from any thread, and cannot
    /// fail.
    pub fn cancel_together(&self, runs: &[Run], cancel: &Cancel) -> Vec<Reply> {
        let lives: Vec<_> = runs.iter().map(|run| Arc::clone(run.live())).collect();
        self.core.sessions.pull_together(&lives, cancel)
    }

    /// Cancels a run that has no driver here: the request is on record first, so that it survives a crash before it is
    /// carried out.
    async fn cancel_undriven(&self, run: &RunId, cancel: Cancel) -> Result<Reply, JournalError> {
        let request = cancel.clone().at(self.core.services.clock.now());
        match self.core.services.journal.request_cancel(run, request).await? {
            RequestFate::Unknown => Ok(not_found(run)),
            RequestFate::TooLate => self.cancel_found(run, cancel).await,
            RequestFate::Recorded => self.settle_cancelled(run, cancel).await,
        }
    }

    /// Cancels a run as it is found: its reply says that it has settled, or that no driver of this process runs it.
    async fn cancel_found(&self, run: &RunId, cancel: Cancel) -> Result<Reply, JournalError> {
        let known = self.find(run).await?;
        Ok(known.map_or_else(|| not_found(run), |known| known.cancel(cancel)))
    }

    /// Carries out a request that is on record for a run without a driver.
    async fn settle_cancelled(&self, run: &RunId, cancel: Cancel) -> Result<Reply, JournalError> {
        let brought_back = || self.core.registry.find_taken(run);
        if let Some(live) = brought_back() {
            return Ok(Cord::new(live, None).pull(cancel));
        }
        let settled = recovery::settle_undriven(&self.core, run).await;
        match (settled, brought_back()) {
            (Ok(Some(_)), _) => {
                self.core.unpark(run);
                Ok(Reply::undriven(run.clone(), ReplyKind::Accepted))
            }
            // It was revived meanwhile.
            (Ok(None), Some(live)) => Ok(Cord::new(live, None).pull(cancel)),
            (Err(error), Some(live)) if error.is_anothers() => Ok(Cord::new(live, None).pull(cancel)),
            // Its owner hears of the request.
            (Err(JournalError::Owned { .. }), None) => Ok(Reply::undriven(run.clone(), ReplyKind::Accepted)),
            // Another recovery was faster.
            (Ok(None) | Err(JournalError::Fenced { .. }), None) => self.cancel_found(run, cancel).await,
            (Err(error), _) => Err(error),
        }
    }

    /// A run by its id: live, or read from the journal. An unsettled run that this process does not drive has no
    /// outcome until [`recover`](Self::recover) has settled it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn find(&self, run: &RunId) -> Result<Option<Run>, JournalError> {
        if let Some(live) = self.find_in_progress(run) {
            return Ok(Some(live));
        }
        let Some(stored) = self.core.services.journal.read(run).await? else { return Ok(None) };
        let summary = stored::summarize(&stored).map_err(stored::unreadable)?;
        let log = Log::from_entries(&stored.entries);
        let live = Live::from_journal(
            run.clone(),
            Arc::new(summary.session),
            Arc::clone(&self.core.services),
            log,
            summary.outcome,
            stored.addenda,
        );
        Ok(Some(Run::new(Arc::new(live))))
    }

    /// A run's feed from this place on; `None` if the run is unknown.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    pub async fn feed(&self, run: &RunId, from: Cursor) -> Result<Option<Feed>, JournalError> {
        Ok(self.find(run).await?.map(|run| run.feed_from(from)))
    }

    /// Cancels all runs and waits until they have settled. Gives up after `within`, and returns how many tasks are
    /// left. Learning about calls that were cut stops a little earlier.
    ///
    /// # Cancel safety
    ///
    /// Every run is told at the first poll. Dropping this future only ends the wait; call it again to go on waiting.
    pub async fn shutdown(&self, within: Duration) -> Result<(), usize> {
        let cancel = Cancel::graceful().reason(Reason::Shutdown).by("runtime");
        self.core.sessions.pull_together(&self.core.registry.all(), &cancel);
        self.core.learner.finish();
        let all_over = async {
            if timeout(patience_at_shutdown(within), self.core.services.door.all_over()).await.is_err() {
                std::mem::take(&mut *self.core.services.give_up.lock()).give();
            }
            self.core.services.door.all_over().await;
            self.core.services.journal.keep_all().await;
        };
        timeout(within, all_over).await.map_err(|_| self.core.services.door.tasks())
    }

    /// Waits until all tasks have ended, without stopping anything.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only waits.
    pub async fn idle(&self) {
        self.core.services.door.all_over().await;
    }

    /// The observer of this type that the runtime was built with.
    pub fn observer<T: Observer>(&self) -> Option<Arc<T>> {
        self.core.services.observers.find()
    }

    /// How often an observer has panicked.
    pub fn observer_panics(&self) -> u64 {
        self.core.services.observers.panics()
    }

    /// How many tasks of this runtime are alive: drivers, tools, hooks and the flusher.
    pub fn tasks(&self) -> usize {
        self.core.services.door.tasks()
    }
}

fn not_found(run: &RunId) -> Reply {
    Reply::undriven(run.clone(), ReplyKind::NotFound)
}

impl Default for Runtime {
    fn default() -> Self {
        Self::shared()
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("tasks", &self.tasks()).finish_non_exhaustive()
    }
}
