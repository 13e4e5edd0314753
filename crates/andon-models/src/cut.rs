//! What is done about a call that was cut: close it and count, close it and look it up, or read the rest and show it to nobody.
//!
//! # Invariants
//!
//! 1. The run never waits for any of it.
//! 2. One future owns everything that is open: dropping it closes all of it.
//! 3. What it learns is better than what is known, or is unknown: a failure to learn gives no figure.

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
    /// Close the connection. If the provider has not reported the input and has an endpoint that counts it, ask there.
    Cut,
    /// Close the connection and ask the provider what it will charge. Where it cannot be asked, this is `Cut`.
    CutAndLookUp,
    /// Closing would not stop the bill: read the rest, show it to nobody, and get the exact figure.
    Drain(Drain),
}

/// The caps for draining an answer that was cut. When one is exceeded, the connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// Bytes after the cut.
    pub max_bytes: usize,
    /// Tokens of the whole answer, where the provider reports them as they come.
    pub max_tokens: Option<u64>,
    /// Time after the cut.
    pub max_time: Duration,
    /// Answers that are drained at the same time in this process. One more is closed at once.
    pub max_at_once: usize,
}

impl Default for Drain {
    fn default() -> Self {
        Self { max_bytes: 16 * 1024 * 1024, max_tokens: None, max_time: Duration::from_secs(300), max_at_once: 16 }
    }
}

/// What is needed to follow up a cut call.
#[derive(Clone)]
pub(crate) struct AfterCut {
    pub(crate) inner: Arc<Inner>,
    pub(crate) request: Arc<Request>,
}

impl AfterCut {
    /// What can be learned about an answer that is cut now. The connection is closed before this returns, unless the answer is
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
