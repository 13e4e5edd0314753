//! What was reported, field by field: the latest figure that is not null.

use andon_core::usage::Usage;

use super::chunk::{Report, Timings};
use crate::decode::reported::{Reported, take, take_input};

/// How many more tokens must be written before a running figure is reported again: every report goes to disk.
const STEP: u64 = 32;

#[derive(Debug, Default)]
pub(super) struct Tally {
    prompt: Option<u64>,
    cached: Option<u64>,
    cache_write: Option<u64>,
    completion: Option<u64>,
    reasoning: Option<u64>,
    total: Option<u64>,
    /// From llama.cpp's timings: not found in the cache, found there, written.
    timed: (Option<u64>, Option<u64>, Option<u64>),
    told: Option<Usage>,
}

impl Tally {
    pub(super) fn report(&mut self, report: Option<&Report>) {
        let Some(report) = report else { return };
        let prompt = report.prompt_tokens_details.as_ref();
        let completion = report.completion_tokens_details.as_ref();
        let cached = prompt.and_then(|details| details.cached_tokens.0);
        take_input(&mut self.prompt, report.prompt_tokens.0);
        take(&mut self.cached, cached.or(report.prompt_cache_hit_tokens.0).or(report.cached_tokens.0));
        take(&mut self.cache_write, prompt.and_then(|details| details.cache_write_tokens.0));
        take(&mut self.completion, report.completion_tokens.0);
        take(&mut self.reasoning, completion.and_then(|it| it.reasoning_tokens.0).or(report.reasoning_tokens.0));
        take(&mut self.total, report.total_tokens.0);
    }

    pub(super) fn time(&mut self, timings: Option<&Timings>) {
        let Some(timings) = timings else { return };
        take(&mut self.timed.0, timings.prompt_n.0);
        take(&mut self.timed.1, timings.cache_n.0);
        take(&mut self.timed.2, timings.predicted_n.0);
    }

    pub(super) fn is_known(&self) -> bool {
        self.usage(true) != Usage::UNKNOWN
    }

    /// The figures. What a server does not mention is unknown.
    pub(super) fn usage(&self, is_over: bool) -> Usage {
        let (fresh, found, written) = self.timed;
        let reported = Reported {
            input: self.prompt,
            cache_read: self.cached.or(found),
            cache_write: self.cache_write,
            output: self.output().or(written),
            reasoning: self.reasoning,
        };
        let reported = match self.prompt {
            Some(_) => reported.caches_apart(),
            // Here the tokens in the cache are not part of the others.
            None => {
                let mut apart = reported;
                apart.take_uncached(fresh);
                apart
            }
        };
        reported.usage(is_over)
    }

    /// xAI counts the thinking beside the completion; the total shows it.
    fn output(&self) -> Option<u64> {
        let completion = self.completion?;
        let beside = |parts: &[u64]| parts.iter().fold(0_u64, |sum, part| sum.saturating_add(*part));
        let apart = match (self.prompt, self.reasoning, self.total) {
            (Some(prompt), Some(reasoning), Some(total)) if beside(&[prompt, completion, reasoning]) == total => {
                reasoning
            }
            _ => 0,
        };
        Some(completion.saturating_add(apart))
    }

    /// The usage, if it is worth reporting again.
    pub(super) fn news(&mut self, now: Usage) -> Option<Usage> {
        let written = |usage: &Usage| usage.output.value.unwrap_or(0);
        let is_news = match &self.told {
            None => now != Usage::UNKNOWN,
            Some(told) => {
                let same_but_for_output = now.output(told.output).reasoning(told.reasoning) == *told;
                !same_but_for_output || written(&now) >= written(told).saturating_add(STEP)
            }
        };
        if !is_news {
            return None;
        }
        self.told = Some(now);
        self.told
    }
}
