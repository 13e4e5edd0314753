//! What is learned about a call after it was cut: its connection is closed and it is counted or looked up, or it is drained.

mod background;
mod count;
mod look_up;

use std::sync::Arc;

use andon_core::usage::Figure;
use andon_runtime::{Answer, Findings, FollowUp, ModelRequest, Pending, Provenance, Usage, Used};

use serde_json::Value;

use super::Inner;
use super::answer::HttpAnswer;
use crate::cut::{CutPolicy, drain};
use crate::decode::MOST;

/// What is needed to follow up a cut call.
#[derive(Clone)]
pub(crate) struct AfterCut {
    pub(crate) inner: Arc<Inner>,
    pub(crate) request: Arc<ModelRequest>,
}

impl AfterCut {
    /// What can be learned about an answer that is cut now. The connection is closed before this returns, unless the answer is
    /// drained.
    pub(crate) fn of(self, answer: Box<HttpAnswer>) -> Option<FollowUp> {
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

    fn closed(self, answer: HttpAnswer) -> Option<FollowUp> {
        let id = answer.id().map(str::to_owned);
        let (usage, is_reading) = (answer.usage_so_far(), answer.is_reading());
        drop(answer);
        if self.inner.is_background()
            && let Some(id) = id
        {
            let work = background::stop(self.inner, id);
            return Some(FollowUp::new(Pending::LookingUp, background::WITHIN, Box::pin(work)));
        }
        if self.inner.cut == CutPolicy::CutAndLookUp
            && self.inner.facts.look_up
            && self.inner.may_ask
            && let Some(id) = id
        {
            let work = look_up::look_up(self.inner, id);
            return Some(FollowUp::new(Pending::LookingUp, look_up::WITHIN, Box::pin(work)));
        }
        if usage.input != Figure::UNKNOWN || !self.inner.may_ask {
            return None;
        }
        let count = self.inner.facts.count?;
        let work = count::count(self.inner, self.request, count, is_reading);
        Some(FollowUp::new(Pending::Counting, count::WITHIN, Box::pin(work)))
    }
}

/// What the provider says that a call used, once it was looked up; `None` if it does not say what was read. `prompt` includes what came
/// from a cache. It does not say how much of the output was delivered.
fn looked_up(
    prompt: Option<u64>,
    cached: Option<u64>,
    output: Option<u64>,
    reasoning: Option<u64>,
) -> Option<Findings> {
    // No request has 0 tokens: it was not counted yet.
    let prompt = prompt.filter(|prompt| *prompt > 0)?;
    let cached = cached.filter(|cached| *cached <= prompt);
    let figure = |value: Option<u64>| value.map_or(Figure::UNKNOWN, |value| Figure::exact(value, Provenance::LookedUp));
    let delivered = Usage::new().input(figure(Some(prompt - cached.unwrap_or(0)))).cache_read(figure(cached));
    let billed = delivered.output(figure(output)).reasoning(figure(reasoning));
    Some(Findings::new(Used::new(delivered, billed)))
}

/// A number of tokens in a provider's record; `None` if it cannot be one.
fn tokens(record: &Value, path: &str) -> Option<u64> {
    record.pointer(path)?.as_u64().filter(|tokens| *tokens <= MOST)
}
