//! The last model call of a session that the provider reported: what later calls are measured from after a restart.

use std::sync::Arc;

use andon_core::event::{Event, HookChange};
use andon_core::usage::Usage;

use crate::model::is_reported;

/// The last model call of a session of which the provider reported both what it read and what it wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastReported {
    /// What it used.
    pub usage: Usage,
    /// The model that was asked.
    pub model: Arc<str>,
    /// The exact model that answered, if the provider named it.
    pub answered_by: Option<Arc<str>>,
    /// How many answers came after its own, cut ones included.
    pub answers_since: usize,
}

impl LastReported {
    /// The last report of a session.
    pub fn new(usage: Usage, model: Arc<str>, answered_by: Option<Arc<str>>, answers_since: usize) -> Self {
        Self { usage, model, answered_by, answers_since }
    }
}

/// Looks for that call, from the latest event of a session back.
#[derive(Debug, Default)]
pub struct LookingBack {
    answers: usize,
    usage: Option<(Usage, Option<Arc<str>>)>,
    is_answered: bool,
    /// Whether a hook replaced or withdrew the answer of the call that is looked at.
    is_replaced: bool,
    /// How many events of the present run were looked at.
    events: usize,
}

impl LookingBack {
    /// How many runs are looked through: those that started last.
    pub const RUNS: usize = 8;

    /// How many events of each are looked at, of the kinds `model_started`, `message` and `usage`, and `hook_finished` if it changed
    /// the answer: those for which [`looks_at`](Self::looks_at) is true.
    pub const EVENTS: usize = 64;

    /// Whether it matters which event this is.
    pub fn looks_at(event: &Event) -> bool {
        match event {
            Event::ModelStarted { .. } | Event::Message { .. } | Event::Usage { .. } => true,
            Event::HookFinished { change, .. } => changes_answer(change.as_deref()),
            _ => false,
        }
    }

    /// Goes on to the run before. Returns whether all of the last one was looked at: if not, the answers in the rest of it are not
    /// counted, and the place of an earlier call would be wrong.
    pub fn next_run(&mut self) -> bool {
        std::mem::take(&mut self.events) < Self::EVENTS
    }

    /// An answer, if that is all there is to know about the event.
    pub fn answer(&mut self) {
        self.events += 1;
        self.take_answer();
    }

    fn take_answer(&mut self) {
        match self.usage {
            Some(_) if !self.is_answered => self.is_answered = true,
            _ => self.answers += 1,
        }
    }

    /// The event before those that were looked at. `Some` once the call is found.
    pub fn event(&mut self, event: &Event) -> Option<LastReported> {
        self.events += 1;
        match event {
            Event::Message { .. } => self.take_answer(),
            Event::Usage { used, answered_by, answer_changed, .. } => {
                self.is_answered = false;
                // What the provider counted is not what a layer made of it.
                let counts = is_reported(&used.delivered) && !answer_changed;
                self.usage = counts.then(|| (used.delivered, answered_by.clone()));
            }
            Event::HookFinished { change, .. } => self.is_replaced |= changes_answer(change.as_deref()),
            Event::ModelStarted { is_changed, .. } if std::mem::take(&mut self.is_replaced) || *is_changed => {
                // It was not sent, or has not answered, what the conversation says. Its answer is one of those since.
                self.answers += usize::from(self.usage.take().is_some() && self.is_answered);
            }
            Event::ModelStarted { model, .. } => {
                let (usage, answered_by) = self.usage.take().filter(|_| self.is_answered)?;
                return Some(LastReported {
                    usage,
                    model: Arc::clone(model),
                    answered_by,
                    answers_since: self.answers,
                });
            }
            _ => {}
        }
        None
    }
}

fn changes_answer(change: Option<&HookChange>) -> bool {
    matches!(change, Some(HookChange::Answer { .. }))
}
