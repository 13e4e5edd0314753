//! Whether a run may begin: one decision, in one place.
//!
//! # Invariants
//!
//! 1. A run is started under the lock under which the line is held and cancels are remembered. So a hold that has returned
//!    lets nothing in, and whoever then looks at the runs in progress sees all that were let in before. A cancel for a run
//!    that has not arrived is either seen by the run as it starts, or sees the run.
//! 2. Cancelling never waits for this lock longer than it takes to start one run, and is never refused by it.

use std::sync::Arc;

use andon::core::time::Wall;
use andon::{Append, Cancel, JournalError, Run, RunId, Runtime, SessionKey, StartError};
use parking_lot::Mutex;

use crate::line::{Hold, Line, Scope};
use crate::options::Options;
use crate::problem::Problem;
use crate::tombstones::{Full, Tombstone, Tombstones};

/// Who may begin.
pub(crate) struct Admission {
    state: Mutex<State>,
}

struct State {
    line: Line,
    tombstones: Tombstones,
    /// The server shuts down.
    draining: bool,
}

/// What wants to begin.
pub(crate) struct Applicant<'a> {
    pub(crate) session: &'a SessionKey,
    pub(crate) principal: &'a Arc<str>,
    /// The id that a client has chosen.
    pub(crate) run_id: Option<&'a RunId>,
}

/// Why a run may not begin.
#[derive(Debug)]
pub(crate) enum Refused {
    Held(Hold),
    Draining,
    TooManyRuns { max: usize },
    TooManyRunsOfUser { max: usize },
    Start(StartError),
}

impl Admission {
    pub(crate) async fn read(runtime: &Runtime) -> Result<Self, JournalError> {
        let line = Line::read(runtime.shelf()).await?;
        let tombstones = Tombstones::read(runtime.shelf()).await?;
        Ok(Self { state: Mutex::new(State { line, tombstones, draining: false }) })
    }

    /// Starts a run, if it may begin (invariant 1). `start` is given the cancel that came before the run.
    pub(crate) fn admit(
        &self,
        runtime: &Runtime,
        options: &Options,
        applicant: &Applicant<'_>,
        start: impl FnOnce(Option<Cancel>) -> Result<Run, StartError>,
    ) -> Result<Run, Refused> {
        let Applicant { session, principal, run_id } = *applicant;
        let mut state = self.state.lock();
        if state.draining {
            return Err(Refused::Draining);
        }
        if let Some(hold) = state.line.holding(session) {
            return Err(Refused::Held(hold.clone()));
        }
        let (all, of_user) = runtime.count(&session.tenant, &session.user);
        if all >= options.max_runs {
            return Err(Refused::TooManyRuns { max: options.max_runs });
        }
        if of_user >= options.max_runs_of_user {
            return Err(Refused::TooManyRunsOfUser { max: options.max_runs_of_user });
        }
        let now = runtime.now().wall;
        let cancel = run_id.and_then(|run| state.tombstones.take(principal, run, now, runtime.shelf()));
        start(cancel).map_err(Refused::Start)
    }

    /// Remembers a cancel for a run that has not arrived, unless it has by now.
    pub(crate) fn remember(
        &self,
        runtime: &Runtime,
        options: &Options,
        run: &RunId,
        stone: Tombstone,
    ) -> Result<Remembered, Full> {
        let mut state = self.state.lock();
        if let Some(run) = runtime.find_in_progress(run) {
            return Ok(Remembered::Arrived(run));
        }
        let now = runtime.now().wall;
        let append = state.tombstones.remember(stone, options.max_remembered, now, runtime.shelf())?;
        Ok(Remembered::Waiting(append))
    }

    /// Takes a remembered cancel back: its run was there after all.
    pub(crate) fn forget(&self, runtime: &Runtime, principal: &Arc<str>, run: &RunId) {
        drop(self.state.lock().tombstones.take(principal, run, Wall(0), runtime.shelf()));
    }

    /// Holds the line: when this returns, nothing that it is on is let in.
    pub(crate) fn hold(&self, runtime: &Runtime, hold: Hold) -> Append {
        self.state.lock().line.hold(hold, runtime.shelf())
    }

    /// Takes one hold away; nothing if there was none.
    pub(crate) fn open(&self, runtime: &Runtime, scope: &Scope) -> Option<Append> {
        self.state.lock().line.open(scope, runtime.shelf())
    }

    pub(crate) fn holds(&self) -> Vec<Hold> {
        self.state.lock().line.holds()
    }

    /// Lets nobody in any more, for as long as this process lives.
    pub(crate) fn drain(&self) {
        self.state.lock().draining = true;
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.state.lock().draining
    }
}

/// What became of a cancel for a run that was not there.
pub(crate) enum Remembered {
    /// It waits for the run.
    Waiting(Append),
    /// The run is there now.
    Arrived(Run),
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Held(hold) => {
                let why = hold.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
                let on = hold.scope().words();
                let detail = format!(
                    "the line is held {on} by {} since {}{why}: try again when it is open",
                    hold.by, hold.since
                );
                Self::unavailable("line-held", detail)
            }
            Refused::Draining => {
                Self::unavailable("shutting-down", "the server is shutting down: try again when it is back")
            }
            Refused::TooManyRuns { max } => {
                let detail = format!("{max} runs are in progress, and no more are taken: try again later");
                Self::unavailable("too-many-runs", detail)
            }
            Refused::TooManyRunsOfUser { max } => Self::too_many(
                "too-many-runs-of-user",
                format!(
                    "this user has {max} runs in progress, and no more are taken: wait for one to end, or cancel one"
                ),
            ),
            Refused::Start(error) => error.into(),
        }
    }
}
