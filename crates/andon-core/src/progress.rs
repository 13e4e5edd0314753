//! How far a run has come: a value folded from its events, which says what to do next.
//!
//! A live run and a recovered run are the same fold, so they are the same code.
//!
//! # Invariants
//!
//! 1. [`RunProgress::apply`] refuses an event that cannot follow the earlier ones, and then changes nothing: a journal that
//!    folds makes sense.
//! 2. Nothing follows `run_settled`.
//! 3. Every call of an answer is closed exactly once; when the last one is, the tool message joins the conversation, with
//!    the results in the model's order.
//! 4. [`RunProgress::messages`] is exactly what the run adds to its session's history.

mod call;
mod changes;
mod fold;
mod turn;

use std::sync::Arc;

use crate::answer::{Answerer, Span};
use crate::cancel::Force;
use crate::ending::{Ending, Failure, FailureKind, ModelStop};
use crate::event::{Accepted, HookPoint};
use crate::id::{CallId, Seq};
use crate::message::{Message, Role};
use crate::reason::Reason;
use crate::request::RequestChange;
use crate::standing::{Lifecycle, RunStanding, StandingFold};
use crate::usage::{Usage, Used};

pub use crate::standing::{Phase, RunState};
pub use call::{Call, CallState};
pub use fold::FoldError;
use turn::Turn;

/// What the driver must do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Ask the model.
    CallModel,
    /// Continue with the turn's tools: start these, then wait until one that runs has ended.
    CallTools {
        /// The calls that may start now, in the model's order.
        start: Vec<CallId>,
    },
    /// Wait for a person; nothing else goes on.
    AwaitApproval,
    /// Bring the run to rest.
    Settle(Arc<Ending>),
}

/// A model call that has begun and not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenModel {
    /// Its number in the run.
    pub number: u32,
    /// The model that was asked.
    pub model: Arc<str>,
    /// What was journaled of its answer. Empty in a live run, whose log holds the answer.
    pub spans: Vec<Span>,
    /// Whether its answer is in the conversation already.
    pub answered: bool,
    /// Whether its usage is on record already.
    pub accounted: bool,
    /// How its request differs from the agent's own, if a hook changed it.
    pub change: Option<Box<RequestChange>>,
}

impl OpenModel {
    /// What the provider has reported about it so far, as far as that was journaled.
    pub fn reported(&self) -> Usage {
        let reports = self.spans.iter().filter_map(Span::reported);
        let reported = reports.reduce(Usage::corrected_by).map_or(Usage::UNKNOWN, Usage::running);
        let has_begun = self.answered || self.spans.iter().any(|span| !span.text.is_empty());
        if has_begun { reported.once_begun() } else { reported }
    }

    /// Who answers it, if that was journaled.
    pub fn answerer(&self) -> Option<&Answerer> {
        self.spans.iter().rev().find_map(Span::answerer)
    }
}

/// How far a run has come.
#[derive(Debug, Clone)]
pub struct RunProgress {
    accepted: Arc<Accepted>,
    ending: Option<Arc<Ending>>,
    seq: Seq,
    messages: Vec<Arc<Message>>,
    /// Boxed, because a run that waits for its model has none.
    turn: Option<Box<Turn>>,
    model: Option<OpenModel>,
    /// How the next model call's request differs from the agent's own.
    change: Option<Box<RequestChange>>,
    /// Why the model stopped writing in the latest call, if it finished and asked for no tool: then the run is done.
    last_stop: Option<ModelStop>,
    failure: Option<Failure>,
    /// The reason of the first cancel request. The force is in `standing`.
    reason: Option<Reason>,
    /// Whether the run has started, and the hook or back-off that is open.
    standing: StandingFold,
    model_calls: u32,
    turns: u32,
    used: Option<Box<Used>>,
}

impl RunProgress {
    /// A run that was just accepted.
    pub fn new(accepted: Arc<Accepted>) -> Self {
        Self {
            accepted,
            ending: None,
            seq: 1,
            messages: Vec::new(),
            turn: None,
            model: None,
            change: None,
            last_stop: None,
            failure: None,
            reason: None,
            standing: StandingFold::default(),
            model_calls: 0,
            turns: 0,
            used: None,
        }
    }

    /// What to do next, with at most `at_once` tools running together, or `None` if the run waits for its session or has
    /// settled.
    pub fn next_step(&self, at_once: usize) -> Option<Step> {
        match self.standing.lifecycle() {
            Lifecycle::Queued | Lifecycle::Settled => return None,
            Lifecycle::Running => {}
        }
        if let Some((reason, force)) = self.cancel()
            && (force.cuts() || self.a_turn_would_begin())
        {
            return Some(Step::Settle(Arc::new(Ending::Cancelled { reason })));
        }
        if let Some(failure) = &self.failure {
            if self.turn.as_ref().is_some_and(|turn| turn.count().running > 0) {
                // A hook failed the run while tools run: they come to their end, and nothing starts.
                return Some(Step::CallTools { start: Vec::new() });
            }
            return Some(Step::Settle(Arc::new(Ending::Failed(failure.clone()))));
        }
        if let Some(turn) = &self.turn {
            return Some(next_of_turn(turn, at_once, self.standing.open_approvals()));
        }
        Some(match self.last_stop {
            Some(stop) => Step::Settle(Arc::new(Ending::Completed { stop })),
            None => Step::CallModel,
        })
    }

    /// Whether nothing is open and the conversation waits for the model's next answer.
    fn a_turn_would_begin(&self) -> bool {
        self.turn.is_none() && self.model.is_none() && self.last_stop.is_none() && self.failure.is_none()
    }

    /// Whether the run got its session, so that its input is part of the conversation.
    pub fn has_started(&self) -> bool {
        !self.messages.is_empty()
    }

    /// The run's state, in the words of the API.
    pub fn state(&self) -> RunState {
        self.standing.state()
    }

    /// What the run is doing.
    pub fn phase(&self) -> Phase {
        self.standing.phase()
    }

    /// Where the run stands, as its feed shows it.
    pub fn standing(&self) -> RunStanding {
        self.standing.told()
    }

    /// What the run is: who, where, and what was asked.
    pub fn accepted(&self) -> &Arc<Accepted> {
        &self.accepted
    }

    /// What the run has added to its session's history. A run that never started has added nothing.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// The calls of the current turn; empty if no call is open.
    pub fn calls(&self) -> &[Call] {
        self.turn.as_ref().map_or(&[], |turn| turn.calls())
    }

    /// A call of the current turn.
    pub fn call(&self, id: &CallId) -> Option<&Call> {
        self.turn.as_ref()?.call(id)
    }

    /// The model call that is open, if one is.
    pub fn open_model(&self) -> Option<&OpenModel> {
        self.model.as_ref()
    }

    /// Why the run fails, once that is certain and if it is not cancelled first.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// The hook that is open, if one is.
    pub fn open_hook(&self) -> Option<HookPoint> {
        self.standing.open_hook()
    }

    /// Whether a back-off is open.
    pub fn in_backoff(&self) -> bool {
        self.standing.is_in_backoff()
    }

    /// The seq of the last event.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// How many model calls were made, failed ones included.
    pub fn model_calls(&self) -> u32 {
        self.model_calls
    }

    /// How many answers there were.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// The tokens of all model calls that have ended.
    pub fn used(&self) -> Used {
        self.used.as_deref().copied().unwrap_or(Used::NONE)
    }

    /// The reason of the first cancel request and the highest force so far, if there was a request.
    pub fn cancel(&self) -> Option<(Reason, Force)> {
        self.reason.zip(self.standing.force())
    }

    /// How the run ended, if it has.
    pub fn ending(&self) -> Option<&Arc<Ending>> {
        self.ending.as_ref()
    }

    /// The last answer, whole or cut. An answer in the history that the prompt brought along does not count.
    pub fn last_answer(&self) -> Option<&Arc<Message>> {
        let own = self.messages.iter().skip(self.accepted.history.len());
        own.rev().find(|message| message.role == Role::Assistant)
    }
}

fn next_of_turn(turn: &Turn, at_once: usize, open_approvals: u32) -> Step {
    let running = turn.count().running;
    // At least one tool, or the turn would never end.
    let start = turn.ready(at_once.max(1).saturating_sub(running));
    if running > 0 || !start.is_empty() {
        Step::CallTools { start }
    } else if open_approvals > 0 {
        Step::AwaitApproval
    } else {
        // A denial and its refusal are recorded together. If they were not, nothing would ever end the wait.
        let message = "a call that was denied was not closed; this is a defect in Andon".to_owned();
        Step::Settle(Arc::new(Ending::Failed(Failure { error: FailureKind::Internal, message })))
    }
}
