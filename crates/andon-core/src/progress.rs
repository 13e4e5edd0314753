//! How far a run has come: a value folded from its events, which says what to do next.
//!
//! A live run and a recovered run are the same fold, so they are the same code.
//!
//! # Invariants
//!
//! 1. [`Progress::apply`] refuses an event that cannot follow what was: a journal that folds is a journal that makes sense.
//! 2. Nothing follows `run_settled`.
//! 3. Every call of an answer is closed exactly once; when the last one is, the tool message joins the conversation, with
//!    the results in the model's order.
//! 4. [`Progress::messages`] is exactly what the run adds to its session's history.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::answer::{Lump, LumpGap, Span};
use crate::cancel::{Force, Reason};
use crate::event::{Accepted, Approval, Effect, Entry, Event, HookPoint, ModelEnd, Record, Seq};
use crate::id::CallId;
use crate::message::{Message, Part, Role, ToolCall, ToolResult};
use crate::outcome::{Ending, Failure, ModelStop};
use crate::usage::Used;

/// A run's state, in the words of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It waits for its session.
    Queued,
    /// It is being worked on.
    Running,
    /// It waits for a person's approval, and nothing else goes on.
    Waiting,
    /// It was told to stop and is coming to rest.
    Cancelling,
    /// It is at rest for ever.
    Settled,
}

/// What a run is doing, for [`Receipt::cut_in`](crate::receipt::Receipt::cut_in).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Waiting for its session.
    Queued,
    /// Waiting in a hook.
    Hook,
    /// Calling the model or reading its answer.
    Model,
    /// Waiting to try a failed model call again.
    Backoff,
    /// Running tools.
    Tools,
    /// Waiting for a person.
    Waiting,
    /// Between two of these.
    Between,
}

/// What the driver must do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Ask the model.
    CallModel,
    /// Bring the turn's tools forward: start these, then wait for one of those that run.
    CallTools {
        /// The calls that may start now, in the model's order.
        start: Vec<CallId>,
    },
    /// Wait for a person; nothing else goes on.
    AwaitApproval,
    /// Bring the run to rest.
    Settle(Arc<Ending>),
}

/// One tool call of the current turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What the model asked for.
    pub call: ToolCall,
    /// How far it has come.
    pub state: CallState,
}

/// How far a tool call has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallState {
    /// It may start.
    Ready,
    /// It waits for a person's yes.
    AwaitingApproval,
    /// It was started.
    Running(Effect),
    /// It has its result.
    Closed(Arc<ToolResult>),
}

/// A model call that has begun and not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenModel {
    /// Its number in the run.
    pub number: u32,
    /// What was journaled of its answer. Empty in a live run, whose log holds the answer.
    pub spans: Vec<Span>,
    /// Whether its answer is in the conversation already.
    pub answered: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Life {
    Queued,
    Running,
    Settled(Arc<Ending>),
}

/// How far a run has come.
#[derive(Debug, Clone)]
pub struct Progress {
    accepted: Arc<Accepted>,
    life: Life,
    seq: Seq,
    messages: Vec<Arc<Message>>,
    calls: Vec<Call>,
    model: Option<OpenModel>,
    last_stop: Option<ModelStop>,
    failure: Option<Failure>,
    hook: Option<HookPoint>,
    in_backoff: bool,
    cancel: Option<(Reason, Force)>,
    model_calls: u32,
    turns: u32,
    used: Option<Box<Used>>,
}

/// An event that cannot follow what was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// The journal does not begin with `run_accepted`.
    #[error("a run's journal begins with run_accepted")]
    NoBeginning,
    /// A seq is missing or repeated.
    #[error("event {found} stands where {expected} belongs")]
    Gap {
        /// The seq that belongs there.
        expected: Seq,
        /// The seq that stands there.
        found: Seq,
    },
    /// The event makes no sense here.
    #[error("event {seq} cannot happen here: {why}")]
    OutOfPlace {
        /// The event's seq.
        seq: Seq,
        /// Why not.
        why: &'static str,
    },
    /// Streamed text is missing.
    #[error(transparent)]
    Lump(#[from] LumpGap),
}

impl Progress {
    /// A run that was just accepted.
    pub fn new(accepted: Arc<Accepted>) -> Self {
        Self {
            accepted,
            life: Life::Queued,
            seq: 1,
            messages: Vec::new(),
            calls: Vec::new(),
            model: None,
            last_stop: None,
            failure: None,
            hook: None,
            in_backoff: false,
            cancel: None,
            model_calls: 0,
            turns: 0,
            used: None,
        }
    }

    /// Folds a run from its journal.
    pub fn fold<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Result<Self, FoldError> {
        let mut entries = entries.into_iter();
        let mut progress = match entries.next() {
            Some(Entry::Fact(record)) => match &record.event {
                Event::RunAccepted { accepted } => Self::new(Arc::clone(accepted)),
                _ => return Err(FoldError::NoBeginning),
            },
            Some(Entry::Lump(_)) | None => return Err(FoldError::NoBeginning),
        };
        for entry in entries {
            match entry {
                Entry::Fact(record) => progress.apply_record(record)?,
                Entry::Lump(lump) => progress.apply_lump(lump)?,
            }
        }
        Ok(progress)
    }

    /// Takes the next record in.
    pub fn apply_record(&mut self, record: &Record) -> Result<(), FoldError> {
        let expected = self.seq + 1;
        if record.seq != expected {
            return Err(FoldError::Gap { expected, found: record.seq });
        }
        self.apply(&record.event)
    }

    fn apply_lump(&mut self, lump: &Lump) -> Result<(), FoldError> {
        let Some(model) = self.model.as_mut() else {
            return Err(FoldError::OutOfPlace { seq: self.seq, why: "text streams only while the model is called" });
        };
        match model.spans.last_mut() {
            Some(span) if span.after == lump.span.after => span.join(lump)?,
            _ => {
                let mut span = Span::new(lump.span.after);
                span.join(lump)?;
                model.spans.push(span);
            }
        }
        Ok(())
    }

    /// Takes the next event in.
    pub fn apply(&mut self, event: &Event) -> Result<(), FoldError> {
        self.seq += 1;
        if let Life::Settled(_) = self.life {
            return self.refuse("the run has settled");
        }
        match event {
            Event::RunAccepted { .. } => self.refuse("a run is accepted once"),
            Event::RunStarted => match self.life {
                Life::Queued => {
                    self.life = Life::Running;
                    self.messages.push(Arc::clone(&self.accepted.input));
                    Ok(())
                }
                Life::Running | Life::Settled(_) => self.refuse("a run starts once"),
            },
            Event::HookStarted { point } => match self.hook.replace(*point) {
                None => Ok(()),
                Some(_) => self.refuse("a hook is open"),
            },
            Event::HookFinished { point, .. } if self.hook == Some(*point) => {
                self.hook = None;
                Ok(())
            }
            Event::HookFinished { .. } => self.refuse("no such hook is open"),
            Event::ModelStarted { call, .. } => self.start_model(*call),
            Event::Message { message } => self.take_answer(message),
            Event::Usage { used, .. } => {
                let so_far = self.used.as_deref().copied().unwrap_or(Used::NONE);
                self.used = Some(Box::new(so_far.plus(**used)));
                Ok(())
            }
            Event::ModelFinished { call, end, .. } => self.finish_model(*call, end),
            Event::BackoffStarted { .. } => {
                self.failure = None;
                self.in_backoff = true;
                Ok(())
            }
            Event::BackoffFinished if self.in_backoff => {
                self.in_backoff = false;
                Ok(())
            }
            Event::BackoffFinished => self.refuse("no back-off is open"),
            Event::ApprovalRequested { call } => self.turn_call(call, |state| match state {
                CallState::Ready => Ok(CallState::AwaitingApproval),
                _ => Err("approval is asked before the call starts"),
            }),
            Event::ApprovalResolved { call, verdict } => self.turn_call(call, |state| match (state, &**verdict) {
                (CallState::AwaitingApproval, Approval::Approved { .. }) => Ok(CallState::Ready),
                // The refusal that follows closes it.
                (CallState::AwaitingApproval, Approval::Denied { .. } | Approval::Closed) => {
                    Ok(CallState::AwaitingApproval)
                }
                _ => Err("no approval is open for this call"),
            }),
            Event::ToolStarted { call, effect } => self.turn_call(call, |state| match state {
                CallState::Ready => Ok(CallState::Running(*effect)),
                _ => Err("a call starts once, and only when it may"),
            }),
            Event::ToolFinished { call, result, .. } => self.turn_call(call, |state| match state {
                CallState::Running(_) => Ok(CallState::Closed(Arc::clone(result))),
                _ => Err("only a call that runs can finish"),
            }),
            Event::ToolRefused { call, result, .. } => self.turn_call(call, |state| match state {
                CallState::Ready | CallState::AwaitingApproval => Ok(CallState::Closed(Arc::clone(result))),
                _ => Err("a call that has started cannot be refused"),
            }),
            Event::CallCancelRequested { .. } | Event::RunQuieted | Event::GraceEnded { .. } => Ok(()),
            Event::CancelRequested { request, .. } => {
                let reason = self.cancel.map_or(request.reason, |(first, _)| first);
                self.cancel = Some((reason, request.force));
                Ok(())
            }
            Event::RunSettled { outcome } => self.settle(outcome),
        }
    }

    fn refuse(&self, why: &'static str) -> Result<(), FoldError> {
        Err(FoldError::OutOfPlace { seq: self.seq, why })
    }

    fn start_model(&mut self, number: u32) -> Result<(), FoldError> {
        if self.model.is_some() || !self.calls.is_empty() {
            return self.refuse("a model is called when nothing else is open");
        }
        self.model_calls = number;
        self.model = Some(OpenModel { number, spans: Vec::new(), answered: false });
        Ok(())
    }

    fn take_answer(&mut self, message: &Arc<Message>) -> Result<(), FoldError> {
        let Some(model) = self.model.as_mut().filter(|model| !model.answered) else {
            return self.refuse("an answer comes from an open model call, once");
        };
        model.answered = true;
        self.turns += 1;
        self.messages.push(Arc::clone(message));
        self.calls = message.calls().map(|call| Call { call: call.clone(), state: CallState::Ready }).collect();
        Ok(())
    }

    fn finish_model(&mut self, number: u32, end: &ModelEnd) -> Result<(), FoldError> {
        match self.model.take() {
            Some(model) if model.number == number => {}
            _ => return self.refuse("no such model call is open"),
        }
        match end {
            ModelEnd::Answered { stop } => self.last_stop = Some(*stop),
            ModelEnd::Failed { failure } => self.failure = Some((**failure).clone()),
            ModelEnd::Cut | ModelEnd::Lost => {}
        }
        Ok(())
    }

    fn turn_call(
        &mut self,
        id: &CallId,
        change: impl FnOnce(&CallState) -> Result<CallState, &'static str>,
    ) -> Result<(), FoldError> {
        let Some(call) = self.calls.iter_mut().find(|call| call.call.id == *id) else {
            return self.refuse("the model did not ask for this call in this turn");
        };
        match change(&call.state) {
            Ok(state) => call.state = state,
            Err(why) => return self.refuse(why),
        }
        self.close_turn();
        Ok(())
    }

    /// Moves the results into the conversation once every call has one (invariant 3).
    fn close_turn(&mut self) {
        let results: Option<Vec<Part>> = self
            .calls
            .iter()
            .map(|call| match &call.state {
                CallState::Closed(result) => Some(Part::ToolResult((**result).clone())),
                CallState::Ready | CallState::AwaitingApproval | CallState::Running(_) => None,
            })
            .collect();
        if let Some(parts) = results {
            self.messages.push(Arc::new(Message { role: Role::Tool, parts, cut: None }));
            self.calls.clear();
        }
    }

    fn settle(&mut self, outcome: &Arc<Ending>) -> Result<(), FoldError> {
        let open = self.model.is_some() || !self.calls.is_empty() || self.hook.is_some() || self.in_backoff;
        if open {
            return self.refuse("something is still open");
        }
        self.life = Life::Settled(Arc::clone(outcome));
        Ok(())
    }

    /// What to do next, with at most `at_once` tools running together; nothing for a run that waits for its session or
    /// has settled.
    pub fn next_step(&self, at_once: usize) -> Option<Step> {
        match self.life {
            Life::Queued | Life::Settled(_) => return None,
            Life::Running => {}
        }
        if let Some((reason, force)) = self.cancel
            && (force.cuts() || self.a_turn_would_begin())
        {
            return Some(Step::Settle(Arc::new(Ending::Cancelled { reason })));
        }
        if let Some(failure) = &self.failure {
            return Some(Step::Settle(Arc::new(Ending::Failed(failure.clone()))));
        }
        if self.calls.is_empty() {
            return Some(match (self.messages.last().map(|message| message.role), self.last_stop) {
                (Some(Role::Assistant), Some(stop)) => Step::Settle(Arc::new(Ending::Completed { stop })),
                _ => Step::CallModel,
            });
        }
        let running = self.count(|state| matches!(state, CallState::Running(_)));
        let ready = self.calls.iter().filter(|call| call.state == CallState::Ready);
        let start: Vec<CallId> = ready.take(at_once.saturating_sub(running)).map(|call| call.call.id.clone()).collect();
        if start.is_empty() && running == 0 {
            return Some(Step::AwaitApproval);
        }
        Some(Step::CallTools { start })
    }

    /// Whether nothing is open and the conversation waits for the model's next answer.
    fn a_turn_would_begin(&self) -> bool {
        let answered = self.messages.last().is_some_and(|message| message.role == Role::Assistant);
        self.calls.is_empty()
            && self.model.is_none()
            && !(answered && self.last_stop.is_some())
            && self.failure.is_none()
    }

    fn count(&self, which: impl Fn(&CallState) -> bool) -> usize {
        self.calls.iter().filter(|call| which(&call.state)).count()
    }

    /// The run's state, in the words of the API.
    pub fn state(&self) -> State {
        match (&self.life, self.cancel) {
            (Life::Settled(_), _) => State::Settled,
            (_, Some(_)) => State::Cancelling,
            (Life::Queued, None) => State::Queued,
            (Life::Running, None) if self.phase() == Phase::Waiting => State::Waiting,
            (Life::Running, None) => State::Running,
        }
    }

    /// What the run is doing.
    pub fn phase(&self) -> Phase {
        if self.life == Life::Queued {
            Phase::Queued
        } else if self.hook.is_some() {
            Phase::Hook
        } else if self.in_backoff {
            Phase::Backoff
        } else if self.model.is_some() {
            Phase::Model
        } else if self.count(|state| matches!(state, CallState::Running(_) | CallState::Ready)) > 0 {
            Phase::Tools
        } else if self.calls.is_empty() {
            Phase::Between
        } else {
            Phase::Waiting
        }
    }

    /// What the run is: who, where, and what was asked.
    pub fn accepted(&self) -> &Arc<Accepted> {
        &self.accepted
    }

    /// What the run has added to its session's history. A run that never started has added nothing.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// The calls of the current turn; none if no call is open.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// The model call that is open, if one is.
    pub fn open_model(&self) -> Option<&OpenModel> {
        self.model.as_ref()
    }

    /// The hook that is open, if one is.
    pub fn open_hook(&self) -> Option<HookPoint> {
        self.hook
    }

    /// Whether a back-off is open.
    pub fn in_backoff(&self) -> bool {
        self.in_backoff
    }

    /// The seq of the last event.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// How many model calls were made, attempts included.
    pub fn model_calls(&self) -> u32 {
        self.model_calls
    }

    /// How many answers were taken.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// The tokens of all model calls that have ended.
    pub fn used(&self) -> Used {
        self.used.as_deref().copied().unwrap_or(Used::NONE)
    }

    /// Why the run was told to stop, first, and how hard, last.
    pub fn cancel(&self) -> Option<(Reason, Force)> {
        self.cancel
    }

    /// How the run ended, if it has.
    pub fn ending(&self) -> Option<&Arc<Ending>> {
        match &self.life {
            Life::Settled(ending) => Some(ending),
            Life::Queued | Life::Running => None,
        }
    }

    /// The last answer, as far as it came.
    pub fn last_answer(&self) -> Option<&Arc<Message>> {
        self.messages.iter().rev().find(|message| message.role == Role::Assistant)
    }
}
