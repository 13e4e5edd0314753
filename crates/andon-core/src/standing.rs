//! Where a run stands: its state, what it is doing and how hard it is being stopped, folded from its events.
//!
//! Only this file decides that: [`RunProgress`](crate::progress::RunProgress), the feed and the board all ask it.
//!
//! # Invariants
//!
//! 1. Applying an event takes the same time however long the run is. Only calls that a person was asked about are kept,
//!    until they are closed.
//! 2. It checks nothing, and does what it can with events that make no sense. Refusing those is up to `RunProgress`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cancel::Force;
use crate::event::{Approval, Event, HookPoint};
use crate::id::CallId;

/// A run's state, in the words of the API.
///
/// ```
/// # use andon_core::standing::RunState;
/// /// The stop button of a run: `button(run.state())`.
/// fn button(state: RunState) -> Option<&'static str> {
///     match state {
///         RunState::Settled => None,
///         RunState::Cancelling => Some("Stop now"),
///         _ => Some("Stop"),
///     }
/// }
/// assert_eq!(button(RunState::Waiting), Some("Stop"));
/// assert_eq!(button(RunState::Settled), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum RunState {
    /// It waits for its session.
    Queued,
    /// It is being worked on.
    Running,
    /// It waits for a person's approval, and nothing else goes on.
    Waiting,
    /// It was told to stop and is coming to rest.
    Cancelling,
    /// It is at rest forever.
    Settled,
}

/// What a run is doing, for [`Receipt::cut_in`](crate::receipt::Receipt::cut_in).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
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

/// Where a run stands after one of its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunStanding {
    /// Its state.
    pub state: RunState,
    /// What it is doing, or `None` once it has settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// How hard it was told to stop, if it was. It only rises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<Force>,
}

crate::with!(RunStanding: state: RunState, phase: into Option<Phase>, force: into Option<Force>);

impl RunStanding {
    /// A run in this state.
    pub const fn new(state: RunState, phase: Option<Phase>, force: Option<Force>) -> Self {
        Self { state, phase, force }
    }
}

// A feed keeps one for each event.
const _: () = assert!(std::mem::size_of::<RunStanding>() <= 3);

/// Whether a run has its session, and whether it is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    #[default]
    Queued,
    Running,
    Settled,
}

/// A call that a person was asked about and has not approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Waiting,
    Denied,
}

/// Folds events into where the run stands. The default is a run that was just accepted.
#[derive(Debug, Clone, Default)]
pub struct StandingFold {
    lifecycle: Lifecycle,
    force: Option<Force>,
    hook: Option<HookPoint>,
    is_in_backoff: bool,
    is_in_model: bool,
    /// How many calls may start or run.
    going: u32,
    /// How many calls wait for a person.
    waiting: u32,
    /// The open calls that wait for a person or were denied; `None` in most runs, where even dropping an empty map
    /// would count.
    asked: Option<BTreeMap<CallId, Asked>>,
}

impl StandingFold {
    /// Applies the next event.
    pub fn take(&mut self, event: &Event) {
        match event {
            Event::RunAccepted { .. }
            | Event::Usage { .. }
            | Event::ToolStarted { .. }
            | Event::CallCancelRequested { .. }
            | Event::RunQuieted
            | Event::GraceEnded { .. } => {}
            Event::RunStarted => self.lifecycle = Lifecycle::Running,
            Event::HookStarted { point } => self.hook = Some(*point),
            Event::HookFinished { .. } => self.hook = None,
            Event::ModelStarted { .. } => self.is_in_model = true,
            Event::ModelFinished { .. } => self.is_in_model = false,
            Event::Message { message } => {
                (self.waiting, self.asked) = (0, None);
                self.going = u32::try_from(message.calls().count()).unwrap_or(u32::MAX);
            }
            Event::BackoffStarted { .. } => self.is_in_backoff = true,
            Event::BackoffFinished => self.is_in_backoff = false,
            Event::ApprovalRequested { call, .. } => self.ask(call),
            Event::ApprovalResolved { call, verdict } => self.decide(call, verdict),
            Event::ToolFinished { call, .. } | Event::ToolRefused { call, .. } => self.close(call),
            Event::CancelRequested { request, .. } => self.force = self.force.max(Some(request.force)),
            // Nothing is open any more, whatever the events before it say.
            Event::RunSettled { .. } => {
                *self = Self { lifecycle: Lifecycle::Settled, force: self.force, ..Self::default() }
            }
        }
    }

    fn ask(&mut self, call: &CallId) {
        let before = self.asked.get_or_insert_default().insert(call.clone(), Asked::Waiting);
        self.going = self.going.saturating_sub(u32::from(before.is_none()));
        self.waiting += u32::from(before != Some(Asked::Waiting));
    }

    fn decide(&mut self, call: &CallId, verdict: &Approval) {
        match verdict {
            Approval::Approved { .. } => self.going = self.going.saturating_add(u32::from(self.forget(call))),
            Approval::Denied { .. } | Approval::Closed => {
                let asked = self.asked.as_mut().and_then(|asked| asked.get_mut(call));
                if asked.is_some_and(|asked| std::mem::replace(asked, Asked::Denied) == Asked::Waiting) {
                    self.waiting -= 1;
                }
            }
        }
    }

    fn close(&mut self, call: &CallId) {
        if !self.forget(call) {
            self.going = self.going.saturating_sub(1);
        }
    }

    /// Forgets that a person was asked about a call, and returns whether one was.
    fn forget(&mut self, call: &CallId) -> bool {
        let was = self.asked.as_mut().and_then(|asked| asked.remove(call));
        self.waiting -= u32::from(was == Some(Asked::Waiting));
        was.is_some()
    }

    /// The run's state, in the words of the API.
    pub fn state(&self) -> RunState {
        match (self.lifecycle, self.force) {
            (Lifecycle::Settled, _) => RunState::Settled,
            (_, Some(_)) => RunState::Cancelling,
            (Lifecycle::Queued, None) => RunState::Queued,
            (Lifecycle::Running, None) if self.phase() == Phase::Waiting => RunState::Waiting,
            (Lifecycle::Running, None) => RunState::Running,
        }
    }

    /// What the run is doing. A settled run is between things forever.
    pub fn phase(&self) -> Phase {
        if self.lifecycle == Lifecycle::Queued {
            Phase::Queued
        } else if self.hook.is_some() {
            Phase::Hook
        } else if self.is_in_backoff {
            Phase::Backoff
        } else if self.is_in_model {
            Phase::Model
        } else if self.going > 0 {
            Phase::Tools
        } else if self.waiting > 0 {
            Phase::Waiting
        } else {
            Phase::Between
        }
    }

    /// How hard the run was told to stop, if it was.
    pub fn force(&self) -> Option<Force> {
        self.force
    }

    /// How many calls wait for a person.
    pub fn open_approvals(&self) -> u32 {
        self.waiting
    }

    pub(crate) fn lifecycle(&self) -> Lifecycle {
        self.lifecycle
    }

    pub(crate) fn open_hook(&self) -> Option<HookPoint> {
        self.hook
    }

    pub(crate) fn is_in_backoff(&self) -> bool {
        self.is_in_backoff
    }

    /// State, phase and force together.
    pub fn told(&self) -> RunStanding {
        let state = self.state();
        let phase = (state != RunState::Settled).then(|| self.phase());
        RunStanding { state, phase, force: self.force }
    }
}
