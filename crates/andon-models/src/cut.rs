//! What is done about a call that was cut: close it and count, close it and look it up, or read the rest for nobody.
//!
//! # Invariants
//!
//! 1. The run never waits for any of it.
//! 2. Whatever it has open is owned by one future: dropping it closes all.
//! 3. What it learns is worth more than what is known, or it is unknown: a failure to learn is no figure.

mod background;
mod count;
pub(crate) mod drain;
mod look_up;

pub(crate) use count::Count;

use std::sync::Arc;
use std::time::Duration;

use andon_core::usage::Figure;
use andon_runtime::{Afterwards, Answer, Pending, Request};

use crate::http::answer::HttpAnswer;
use crate::provider::Inner;

/// What is done about a call that was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutPolicy {
    /// The connection is closed. If the provider has not said what it read, and has an endpoint that counts, it is asked.
    Cut,
    /// The connection is closed, and the provider is asked what it will charge. Where that cannot be asked: as `Cut`.
    CutAndLookUp,
    /// Closing would not stop the bill: the rest is read, shown to nobody, and gives the exact figure.
    Drain(Drain),
}

/// How far an answer that was cut is drained. Over any of these the connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// Bytes behind the cut.
    pub max_bytes: usize,
    /// Tokens of the whole answer, where the provider reports them as they come.
    pub max_tokens: Option<u64>,
    /// Time behind the cut.
    pub max_time: Duration,
    /// Answers that are drained at the same time in this process. One more is closed at once.
    pub max_at_once: usize,
}

impl Default for Drain {
    fn default() -> Self {
        Self { max_bytes: 16 * 1024 * 1024, max_tokens: None, max_time: Duration::from_secs(300), max_at_once: 16 }
    }
}

/// What is needed to do it.
#[derive(Clone)]
pub(crate) struct After {
    pub(crate) inner: Arc<Inner>,
    pub(crate) request: Arc<Request>,
}

impl After {
    /// What can be learnt about an answer that is cut now. The connection is closed before this returns, unless it is
    /// drained.
    pub(crate) fn of(self, answer: Box<HttpAnswer>) -> Option<Afterwards> {
        match self.inner.cut {
            // A request that may not have left must not be sent after the pull.
            CutPolicy::Drain(_) if !answer.is_reading() => self.closed(*answer),
            CutPolicy::Drain(caps) => match drain::begin(answer, caps) {
                Ok(draining) => Some(draining),
                Err(answer) => self.closed(*answer),
            },
            CutPolicy::Cut | CutPolicy::CutAndLookUp => self.closed(*answer),
        }
    }

    fn closed(self, answer: HttpAnswer) -> Option<Afterwards> {
        let id = answer.id().map(str::to_owned);
        let (usage, is_reading) = (answer.usage_so_far(), answer.is_reading());
        drop(answer);
        if self.inner.is_background()
            && let Some(id) = id
        {
            let work = background::stop(self.inner, id);
            return Some(Afterwards { what: Pending::LookingUp, within: background::WITHIN, work: Box::pin(work) });
        }
        if self.inner.cut == CutPolicy::CutAndLookUp
            && self.inner.facts.look_up
            && self.inner.may_ask
            && let Some(id) = id
        {
            let work = look_up::look_up(self.inner, id);
            return Some(Afterwards { what: Pending::LookingUp, within: look_up::WITHIN, work: Box::pin(work) });
        }
        if usage.input != Figure::UNKNOWN || !self.inner.may_ask {
            return None;
        }
        let count = self.inner.facts.count?;
        let work = count::count(self.inner, self.request, count, is_reading);
        Some(Afterwards { what: Pending::Counting, within: count::WITHIN, work: Box::pin(work) })
    }
}
