//! Whether a run may start: one decision, in one place.
//!
//! # Invariants
//!
//! 1. A run is started under the same lock under which the line is held and cancels are remembered. So once a hold has
//!    returned, it lets nothing in, and whoever then looks at the runs in progress sees all that were let in before. A
//!    cancel for a run that has not arrived is either seen by the run as it starts, or sees the run.
//! 2. A cancel never waits for this lock longer than it takes to start one run, and is never refused because of it.

pub(crate) mod apps;
pub(crate) mod line;
pub(crate) mod order;
pub(crate) mod tombstones;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use andon_runtime::{Append, Cancel, JournalError, Run, RunId, Runtime, SessionKey, StartError};
use parking_lot::Mutex;
use tokio_util::task::TaskTracker;

use crate::access::principal::Principal;
use crate::admission::line::{Hold, HoldScope, Line};
use crate::admission::tombstones::{Tombstone, Tombstones};
use crate::http::problem::Problem;
use crate::options::Options;

/// Decides which runs may start.
pub(crate) struct Admission {
    runtime: Runtime,
    tasks: TaskTracker,
    state: Mutex<Inner>,
    /// How often a hold was made or removed.
    changes: AtomicU64,
    /// One message for each stored item that cannot be read.
    warnings: Vec<String>,
}

struct Inner {
    line: Line,
    tombstones: Tombstones,
    /// The server is shutting down.
    draining: bool,
}

/// A run that wants to start.
pub(crate) struct Applicant<'a> {
    pub(crate) session: &'a SessionKey,
    pub(crate) principal: &'a Principal,
    /// The id that the client has chosen.
    pub(crate) run_id: Option<&'a RunId>,
}

impl Admission {
    pub(crate) async fn read(runtime: &Runtime, tasks: &TaskTracker) -> Result<Self, JournalError> {
        let line = Line::read(runtime.shelf()).await?;
        let (tombstones, warnings) = Tombstones::read(runtime.shelf()).await?;
        let state = Mutex::new(Inner { line, tombstones, draining: false });
        Ok(Self { runtime: runtime.clone(), tasks: tasks.clone(), state, changes: AtomicU64::new(0), warnings })
    }

    /// One message for each stored item that cannot be read.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Starts a run, if it may start (invariant 1), and returns what `start` does. `start` receives the cancel that came
    /// before the run, if there was one. The caller must [forget](Self::forget_when_on_record) that cancel once the run
    /// is on record, and not before.
    pub(crate) fn admit(
        &self,
        options: &Options,
        applicant: &Applicant<'_>,
        start: impl FnOnce(Option<Cancel>) -> Result<Run, StartError>,
    ) -> Result<Result<Run, StartError>, Problem> {
        let Applicant { session, principal, run_id } = *applicant;
        let state = self.state.lock();
        if state.draining {
            let detail = "the server is shutting down: try again when it is back";
            return Err(Problem::unavailable("shutting-down", detail));
        }
        if let Some(hold) = state.line.holding(session) {
            return Err(held(hold));
        }
        let (all, of_user) = self.runtime.count(&session.tenant, &session.user);
        let Options { max_runs, max_runs_of_user, .. } = options;
        if all >= *max_runs {
            let detail = format!("{max_runs} runs are in progress, which is the maximum: try again later");
            return Err(Problem::unavailable("too-many-runs", detail));
        }
        if of_user >= *max_runs_of_user {
            let detail = format!(
                "this user has {max_runs_of_user} runs in progress, which is the maximum: wait for one to end, or \
                 cancel one"
            );
            return Err(Problem::too_many("too-many-runs-of-user", detail));
        }
        let now = self.runtime.now().wall;
        let cancel = run_id.and_then(|run| state.tombstones.look(principal, run, now));
        Ok(start(cancel))
    }

    /// Remembers a cancel for a run that has not arrived, unless it has by now. A run with that id that belongs to
    /// somebody else does not count as having arrived.
    pub(crate) fn remember(
        &self,
        options: &Options,
        principal: &Principal,
        stone: Tombstone,
    ) -> Result<Remembered, Problem> {
        let mut state = self.state.lock();
        let arrived = self.runtime.find_in_progress(&stone.run);
        if let Some(run) = arrived.filter(|run| principal.reaches(run.session())) {
            return Ok(Remembered::Arrived(run));
        }
        let now = self.runtime.now().wall;
        let append = state.tombstones.remember(stone, options.max_remembered, now, self.runtime.shelf())?;
        Ok(Remembered::Waiting(append))
    }

    /// Forgets the cancel that came before a run once the run is on record, whether or not the client waits for that.
    /// If the run never gets on record, the next attempt finds the cancel.
    pub(crate) fn forget_when_on_record(self: &Arc<Self>, principal: &Principal, id: &RunId) {
        let (admission, principal, id) = (Arc::clone(self), principal.clone(), id.clone());
        drop(self.tasks.spawn(async move {
            let Ok(Some(run)) = admission.runtime.find(&id).await else { return };
            if run.accepted().await.is_ok() {
                admission.state.lock().tombstones.forget(&principal, &id, admission.runtime.shelf());
            }
        }));
    }

    /// Holds the line. Once this returns, nothing that the hold covers is let in.
    pub(crate) fn hold(&self, hold: Hold) -> Result<Append, Problem> {
        let held = self.state.lock().line.hold(hold, self.runtime.shelf());
        self.changes.fetch_add(1, Ordering::Release);
        held
    }

    /// Removes one hold, if it exists.
    pub(crate) fn open(&self, scope: &HoldScope) -> Append {
        let opened = self.state.lock().line.open(scope, self.runtime.shelf());
        self.changes.fetch_add(1, Ordering::Release);
        opened
    }

    /// How often a hold was made or removed. A reader that sees a new number must read the holds again.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    pub(crate) fn holds(&self) -> Vec<Hold> {
        self.state.lock().line.holds()
    }

    /// Lets no run in from now on, until this process ends.
    pub(crate) fn drain(&self) {
        self.state.lock().draining = true;
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.state.lock().draining
    }
}

/// What became of a cancel for a run that was not found.
pub(crate) enum Remembered {
    /// The cancel waits for the run.
    Waiting(Append),
    /// The run has arrived.
    Arrived(Run),
}

/// The refusal of a run that this hold keeps out.
fn held(hold: &Hold) -> Problem {
    let why = hold.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let (on, by, since) = (hold.scope().words(), &hold.by, hold.since);
    let detail = format!("the line is held {on} by {by} since {since}{why}: try again when it is open");
    Problem::unavailable("line-held", detail)
}
