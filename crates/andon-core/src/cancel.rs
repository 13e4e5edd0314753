//! What a cancel request means for a run, decided without I/O.
//!
//! # Invariants
//!
//! 1. A sealed stop stays sealed: no request changes the outcome that was decided.
//! 2. A request only gets harder. `Now` may follow `Graceful`; `Graceful` never follows `Now`.
//! 3. Finish and pull are decided here, in one value under one lock: [`Stop::seal`] fails after a pull that
//!    cuts, and [`Stop::pull`] answers `TooLate` after the seal.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ending::Ending;
use crate::time::Stamp;

pub use crate::reason::Reason;

/// How hard the cord is pulled. It only rises.
///
/// ```
/// use andon_core::cancel::Force;
///
/// assert!(Force::AfterTurn < Force::Graceful && Force::Graceful < Force::Now);
/// assert!(Force::Graceful.cuts() && !Force::AfterTurn.cuts());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Force {
    /// The answer in progress and its tools finish; the next model call is not made.
    AfterTurn,
    /// The model stream is cut at once; running tools are told and get their grace.
    Graceful,
    /// As graceful, with no grace.
    Now,
}

impl Force {
    /// Whether work in progress is cut, and not only what would come next.
    pub fn cuts(self) -> bool {
        self >= Self::Graceful
    }
}

/// What somebody asks for: reason, who, force and note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CancelRequest {
    /// Why.
    pub reason: Reason,
    /// How hard.
    pub force: Force,
    /// Who asked, as named by whoever authenticated them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Arc<str>>,
    /// The grace for running tools in milliseconds, in place of each tool's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    /// When it arrived.
    pub requested_at: Stamp,
}

crate::with!(CancelRequest: by: text Arc<str>, note: text Arc<str>, grace_ms: into Option<u64>);

impl CancelRequest {
    /// A request without a sender or a note, with each tool's own grace.
    pub const fn new(reason: Reason, force: Force, requested_at: Stamp) -> Self {
        Self { reason, force, by: None, note: None, grace_ms: None, requested_at }
    }

    /// The same request as another process hears it, whose monotonic clock is another one.
    #[must_use]
    pub fn heard_at(self, now: Stamp) -> Self {
        let requested_at = Stamp { wall: self.requested_at.wall, ..now };
        Self { requested_at, ..self }
    }
}

/// The answer to one cancel request: what it did.
///
/// ```
/// # use andon_core::cancel::ReplyKind;
/// /// What a page says after its stop button was pressed: `told(reply.kind())`.
/// fn told(kind: ReplyKind) -> &'static str {
///     match kind {
///         ReplyKind::Accepted | ReplyKind::Hardened | ReplyKind::AlreadyCancelling => "It is stopping.",
///         ReplyKind::TooLate { .. } => "It had already ended.",
///         _ => "Nothing runs there.",
///     }
/// }
/// assert_eq!(told(ReplyKind::Accepted), "It is stopping.");
/// assert_eq!(ReplyKind::NotFound.as_str(), "not_found");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reply")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum ReplyKind {
    /// The run was in progress and is now stopping.
    Accepted,
    /// The run was stopping and is now stopping harder.
    Hardened,
    /// The run was stopping at least this hard already; nothing changed.
    AlreadyCancelling,
    /// The run had already ended; nothing changed.
    TooLate {
        /// How it ended.
        outcome: Arc<Ending>,
    },
    /// Nothing runs there.
    NotRunning,
    /// Nothing runs, and the next run of this agent will be cancelled before it starts.
    Armed,
    /// Nothing with that id is known.
    NotFound,
}

/// Whether a run must stop: the value that finish and pull compete for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// Nobody has pulled, and the outcome is not decided.
    Open,
    /// Pulled, this hard so far.
    Pulled(Force),
    /// The outcome is decided.
    Sealed(Arc<Ending>),
}

impl Stop {
    /// Pulls the cord: the only place where a request meets a state. The caller journals a request that changed something.
    pub fn pull(&mut self, force: Force) -> ReplyKind {
        match self {
            Self::Open => {
                *self = Self::Pulled(force);
                ReplyKind::Accepted
            }
            Self::Pulled(earlier) if force > *earlier => {
                *earlier = force;
                ReplyKind::Hardened
            }
            Self::Pulled(_) => ReplyKind::AlreadyCancelling,
            Self::Sealed(ending) => ReplyKind::TooLate { outcome: Arc::clone(ending) },
        }
    }

    /// Decides how the run ends. A run that was told to stop at once can no longer complete or fail: it ends cancelled.
    /// `after_turn` lets the turn finish, and that turn may be the last.
    pub fn seal(&mut self, ending: &Arc<Ending>) -> Result<(), Force> {
        match self {
            Self::Pulled(force) if force.cuts() && !ending.is_cancelled() => Err(*force),
            Self::Open | Self::Pulled(_) => {
                *self = Self::Sealed(Arc::clone(ending));
                Ok(())
            }
            Self::Sealed(_) => Ok(()),
        }
    }

    /// How hard it was pulled, if it was and the outcome is not decided.
    pub fn force(&self) -> Option<Force> {
        match self {
            Self::Pulled(force) => Some(*force),
            Self::Open | Self::Sealed(_) => None,
        }
    }

    /// Whether pieces may be accepted and tools started.
    pub fn lets_the_turn_go_on(&self) -> bool {
        match self {
            Self::Open => true,
            Self::Pulled(force) => !force.cuts(),
            Self::Sealed(_) => false,
        }
    }

    /// Whether the model may be called.
    pub fn lets_a_turn_begin(&self) -> bool {
        match self {
            Self::Open => true,
            Self::Pulled(_) | Self::Sealed(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ending::ModelStop;

    fn completed() -> Arc<Ending> {
        Arc::new(Ending::Completed { stop: ModelStop::EndTurn })
    }

    fn cancelled() -> Arc<Ending> {
        Arc::new(Ending::Cancelled { reason: Reason::Requested })
    }

    #[test]
    fn a_request_only_gets_harder() {
        let forces = [Force::AfterTurn, Force::Graceful, Force::Now];
        for first in forces {
            for second in forces {
                let mut stop = Stop::Open;
                assert_eq!(stop.pull(first), ReplyKind::Accepted);
                let expected = if second > first { ReplyKind::Hardened } else { ReplyKind::AlreadyCancelling };
                assert_eq!(stop.pull(second), expected);
                assert_eq!(stop, Stop::Pulled(first.max(second)));
            }
        }
    }

    #[test]
    fn a_pull_before_the_seal_makes_the_run_cancelled_and_one_after_it_is_too_late() {
        let mut stop = Stop::Open;
        stop.pull(Force::Graceful);
        assert_eq!(stop.seal(&completed()), Err(Force::Graceful));
        assert_eq!(stop.seal(&cancelled()), Ok(()));

        let mut stop = Stop::Open;
        assert_eq!(stop.seal(&completed()), Ok(()));
        assert_eq!(stop.pull(Force::Now), ReplyKind::TooLate { outcome: completed() });
        assert_eq!(stop, Stop::Sealed(completed()));
    }

    /// P1: for every state, how hard the cord was pulled, whether the turn goes on, and whether one may begin.
    #[test]
    fn what_a_pull_forbids_is_forbidden_in_every_state_that_follows_it() {
        let told = |stop: Stop| (stop.force(), stop.lets_the_turn_go_on(), stop.lets_a_turn_begin());
        assert_eq!(told(Stop::Open), (None, true, true));
        assert_eq!(told(Stop::Pulled(Force::AfterTurn)), (Some(Force::AfterTurn), true, false));
        assert_eq!(told(Stop::Pulled(Force::Graceful)), (Some(Force::Graceful), false, false));
        assert_eq!(told(Stop::Pulled(Force::Now)), (Some(Force::Now), false, false));
        assert_eq!(told(Stop::Sealed(completed())), (None, false, false));
    }

    /// P7: a reply has one word, in JSON and everywhere else.
    #[test]
    fn a_replys_word_is_the_one_in_json() {
        let too_late = ReplyKind::TooLate { outcome: completed() };
        let simple = [ReplyKind::Accepted, ReplyKind::Hardened, ReplyKind::AlreadyCancelling, ReplyKind::NotRunning];
        for reply in simple.into_iter().chain([ReplyKind::Armed, ReplyKind::NotFound, too_late]) {
            let json = serde_json::to_value(&reply).unwrap();
            assert_eq!(json.get("reply").and_then(|word| word.as_str()), Some(reply.as_str()));
        }
    }

    #[test]
    fn after_turn_may_be_accepted_and_end_completed() {
        let mut stop = Stop::Open;
        assert_eq!(stop.pull(Force::AfterTurn), ReplyKind::Accepted);
        assert!(stop.lets_the_turn_go_on() && !stop.lets_a_turn_begin());
        assert_eq!(stop.seal(&completed()), Ok(()));
    }
}
