//! Figures for Prometheus.
//!
//! # Invariants
//! 1. What is not known is counted as unknown, never as 0.
//! 2. A label has a bounded number of values: what a client or a model can choose freely is not a label, and names are only those
//!    of things that an agent really has, up to a limit; beyond it they are `other`. No label names a user, a session or a run.
//! 3. Everything comes from facts, and nothing is kept about a run. The runtime is asked what is running when somebody scrapes.

mod describe;
mod labels;
mod recorder;
mod server;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use andon_runtime::core::event::{AddendumKind, Event, HookEnd, Record, Refusal, Remains, ToolEnd};
use andon_runtime::core::id::{CallId, RunId, SessionKey};
use andon_runtime::core::receipt::Verdict;
use andon_runtime::core::standing::StandingFold;
use andon_runtime::core::usage::{Figure, Usage, Used};
use andon_runtime::{JournalError, Observer, RunCounts, Runtime, ShownAddendum, ShownFact};
use metrics::{Counter, Gauge, Histogram};
use parking_lot::Mutex;

use crate::past;
use labels::Names;
use recorder::Recorder;
pub use server::Now;

/// Figures of runs, and of the server that runs them. Set it as an observer of the runtime.
pub struct Figures {
    recorder: Recorder,
    apps: Names,
    models: Names,
    tools: Names,
    journal: Histogram,
    feed_lag: Histogram,
    leaked_now: Gauge,
    broken_off: Counter,
    /// Calls whose late end was reported before the fact that they had been given up.
    early: Mutex<HashSet<(RunId, CallId)>>,
}

impl Figures {
    /// Figures that have counted nothing.
    pub fn new() -> Arc<Self> {
        let recorder = Recorder::new();
        describe::all(&recorder);
        let figures = Self {
            journal: recorder.histogram("andon_journal_seconds", &[]),
            feed_lag: recorder.histogram("andon_feed_lag_seconds", &[]),
            leaked_now: recorder.gauge("andon_leaked_work", &[]),
            broken_off: recorder.counter("andon_runs_broken_off_total", &[]),
            recorder,
            apps: Names::default(),
            models: Names::default(),
            tools: Names::default(),
            early: Mutex::default(),
        };
        // These exist before anything goes wrong.
        figures.leaked_now.set(0.0);
        figures.broken_off.increment(0);
        for counter in ["andon_spans_sent_total", "andon_spans_dropped_total"] {
            figures.recorder.counter(counter, &[]).increment(0);
        }
        Arc::new(figures)
    }

    /// All figures, in Prometheus' format.
    pub fn render(&self, runtime: &Runtime) -> String {
        let RunCounts { queued, running, waiting, cancelling, stalled, .. } = runtime.tally();
        let states = [("queued", queued), ("running", running), ("waiting", waiting), ("cancelling", cancelling)];
        for (word, count) in states {
            self.recorder.gauge("andon_runs", &[("state", word)]).set(count as f64);
        }
        let all = queued + running + waiting + cancelling;
        self.recorder.gauge("andon_runs_in_progress", &[]).set(all as f64);
        self.recorder.gauge("andon_runs_stalled", &[]).set(stalled as f64);
        let is_failing = runtime.journal_trouble().is_some();
        self.recorder.gauge("andon_journal_failing", &[]).set(f64::from(u8::from(is_failing)));
        self.recorder.counter("andon_observer_panics_total", &[]).absolute(runtime.observer_panics());
        self.recorder.render()
    }

    fn settled(&self, seen: &ShownFact<'_>, outcome: &'static str) {
        let app = self.apps.bounded(&seen.session.app);
        self.recorder.counter("andon_runs_settled_total", &[("app", &app), ("outcome", outcome)]).increment(1);
        let Some(receipt) = seen.receipt() else { return };
        self.recorder.histogram("andon_run_seconds", &[("outcome", outcome)]).record(seconds(receipt.run_us));
        let Some(phase) = receipt.cut_in.map(|phase| phase.as_str()) else { return };
        let took = receipt.took;
        for (instant, us) in [("delivered", took.delivered_us), ("quiet", took.quiet_us), ("settled", took.settled_us)]
        {
            if let Some(us) = us {
                self.cancel_seconds(phase, instant, seconds(us));
            }
        }
    }

    fn cancel_seconds(&self, phase: &'static str, instant: &'static str, seconds: f64) {
        self.recorder.histogram("andon_cancel_seconds", &[("phase", phase), ("instant", instant)]).record(seconds);
    }

    /// How long the first request took to be on record. A request that an earlier process accepted cannot be measured.
    fn recorded(&self, seen: &ShownFact<'_>, requested_us: u64) {
        let is_first = !seen.past.iter().any(|record| matches!(record.event, Event::CancelRequested { .. }));
        let is_own = seen.past.last().is_some_and(|last| last.epoch == seen.record.epoch);
        if let Some(phase) = phase(seen.past).filter(|_| is_first && is_own) {
            self.cancel_seconds(phase, "recorded", seconds(seen.now.mono_us.saturating_sub(requested_us)));
        }
    }

    fn usage(&self, past: &[Arc<Record>], call: u32, used: &Used) {
        let model = self.model(past, call);
        for (account, usage) in [("delivered", &used.delivered), ("billed", &used.billed)] {
            for (kind, figure) in kinds(usage) {
                self.tokens(kind, account, &model, figure);
            }
        }
    }

    fn tokens(&self, kind: &str, account: &str, model: &str, figure: Figure) {
        let labels = [("kind", kind), ("account", account), ("model", model)];
        match figure.value {
            Some(tokens) => {
                let [kind, account, model] = labels;
                let provenance = ("provenance", figure.provenance.as_str());
                self.recorder.counter("andon_tokens_total", &[kind, account, provenance, model]).increment(tokens);
            }
            None => self.recorder.counter("andon_usage_unknown_total", &labels).increment(1),
        }
    }

    /// A counter cannot fall, and a correction may go either way, so more and less are counted apart. What was not known before
    /// is counted like the first figures.
    fn corrected(&self, later: &ShownAddendum<'_>, call: u32, used: &Used) {
        let earlier = later.earlier.iter().rev().find_map(|addendum| match &addendum.what {
            AddendumKind::UsageCorrected { call: of, used } if *of == call => Some(&**used),
            _ => None,
        });
        let Some(before) = earlier.or_else(|| past::usage_of(later.facts, call)) else { return };
        let model = self.model(later.facts, call);
        let accounts = [("delivered", &before.delivered, &used.delivered), ("billed", &before.billed, &used.billed)];
        for (account, before, after) in accounts {
            for ((kind, before), (_, after)) in kinds(before).into_iter().zip(kinds(after)) {
                match (before.value, after.value) {
                    (Some(before), Some(after)) => {
                        let (way, by) =
                            if after >= before { ("more", after - before) } else { ("less", before - after) };
                        let labels = [("kind", kind), ("account", account), ("model", &*model), ("way", way)];
                        self.recorder.counter("andon_tokens_corrected_total", &labels).increment(by);
                    }
                    (None, Some(_)) => self.tokens(kind, account, &model, after),
                    (_, None) => {}
                }
            }
        }
    }

    fn model(&self, past: &[Arc<Record>], call: u32) -> Arc<str> {
        past::model_of(past, call).map_or_else(|| "?".into(), |model| self.models.bounded(model))
    }

    fn tool_finished(&self, seen: &ShownFact<'_>, call: &CallId, end: ToolEnd, remains: Option<&Remains>) {
        let tool = self.tools.bounded(past::tool_of(seen.past, call).unwrap_or("?"));
        self.tool_call(&tool, end.into());
        let left = usize::from(end == ToolEnd::Leaked) + remains.map_or(0, |remains| remains.leaked.len());
        self.leaked(seen.session, left);
        let key = (seen.run.clone(), call.clone());
        // Nobody learns when a call elsewhere ends that was only told to stop.
        let may_be_known = remains.is_none_or(|remains| remains.unended.is_none());
        if end == ToolEnd::Leaked && !self.early.lock().remove(&key) && may_be_known {
            self.leaked_now.increment(1.0);
        }
    }

    fn tool_refused(&self, seen: &ShownFact<'_>, call: &CallId, why: Refusal) {
        let asked = past::tool_of(seen.past, call).unwrap_or("?");
        // The agent has a tool of that name: otherwise the call would have been refused as unknown.
        let is_real = matches!(
            why,
            Refusal::BadArguments | Refusal::DeniedByHook | Refusal::AnsweredByHook | Refusal::DeniedByPerson
        );
        let tool = if is_real { self.tools.bounded(asked) } else { self.tools.if_known(asked) };
        self.tool_call(&tool, Verdict::NeverStarted);
    }

    fn tool_call(&self, tool: &str, verdict: Verdict) {
        let labels = [("tool", tool), ("verdict", verdict.as_str())];
        self.recorder.counter("andon_tool_calls_total", &labels).increment(1);
    }

    /// Counts everything that was leaked. Nobody learns when processes, hooks and calls elsewhere end, so they are in no gauge.
    fn leaked(&self, session: &SessionKey, number: usize) {
        if number > 0 {
            let app = self.apps.bounded(&session.app);
            let number = u64::try_from(number).unwrap_or(u64::MAX);
            self.recorder.counter("andon_leaked_work_total", &[("app", &app)]).increment(number);
        }
    }

    /// Counts that a tool which was given up has ended after all.
    fn late(&self, later: &ShownAddendum<'_>, call: &CallId, remains: Option<&Remains>) {
        let end = later.facts.iter().rev().find_map(|record| match &record.event {
            Event::ToolFinished { call: of, end, .. } if of == call => Some(*end),
            _ => None,
        });
        match end {
            Some(ToolEnd::Leaked) => self.leaked_now.decrement(1.0),
            Some(_) => {}
            None => drop(self.early.lock().insert((later.run.clone(), call.clone()))),
        }
        self.leaked(later.session, remains.map_or(0, |remains| remains.leaked.len()));
    }
}

impl Observer for Figures {
    fn fact(&self, seen: &ShownFact<'_>) {
        self.journal.record(seen.now.since(seen.record.at).as_secs_f64());
        match &seen.record.event {
            Event::RunAccepted { .. } => {
                let app = self.apps.bounded(&seen.session.app);
                self.recorder.counter("andon_runs_started_total", &[("app", &app)]).increment(1);
            }
            Event::Usage { call, used, .. } => self.usage(seen.past, *call, used),
            Event::ModelFinished { call, end, first_piece_us } => {
                let model = self.model(seen.past, *call);
                let labels = [("model", &*model), ("end", end.as_str())];
                self.recorder.counter("andon_model_calls_total", &labels).increment(1);
                if let Some(us) = first_piece_us {
                    let first = self.recorder.histogram("andon_model_first_piece_seconds", &[("model", &model)]);
                    first.record(seconds(*us));
                }
            }
            Event::ToolFinished { call, end, remains, .. } => self.tool_finished(seen, call, *end, remains.as_deref()),
            Event::ToolRefused { call, why, .. } => self.tool_refused(seen, call, *why),
            Event::HookFinished { end: HookEnd::Leaked, .. } => self.leaked(seen.session, 1),
            Event::CancelRequested { request, .. } => {
                let labels = [("reason", request.reason.as_str()), ("force", request.force.as_str())];
                self.recorder.counter("andon_cancels_total", &labels).increment(1);
                self.recorded(seen, request.requested_at.mono_us);
            }
            Event::RunSettled { outcome } => {
                self.early.lock().retain(|(run, _)| run != seen.run);
                self.settled(seen, outcome.as_str());
            }
            _ => {}
        }
        self.recorder.tidy();
    }

    fn addendum(&self, later: &ShownAddendum<'_>) {
        match &later.addendum.what {
            AddendumKind::UsageCorrected { call, used } => self.corrected(later, *call, used),
            AddendumKind::LateResult { call, remains, .. } => self.late(later, call, remains.as_deref()),
            _ => {}
        }
    }

    fn broken_off(&self, _: &RunId, _: &SessionKey, _: &JournalError) {
        self.broken_off.increment(1);
    }
}

impl std::fmt::Debug for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Figures").finish_non_exhaustive()
    }
}

/// What a run was doing after these facts.
fn phase(past: &[Arc<Record>]) -> Option<&'static str> {
    let Event::RunAccepted { .. } = past.first()?.event else { return None };
    let mut standing = StandingFold::default();
    for record in past {
        standing.take(&record.event);
    }
    Some(standing.phase().as_str())
}

fn kinds(usage: &Usage) -> [(&'static str, Figure); 6] {
    [
        ("input", usage.input),
        ("unsplit", usage.unsplit()),
        ("cache_read", usage.cache_read),
        ("cache_write", usage.cache_write),
        ("output", usage.output),
        ("reasoning", usage.reasoning),
    ]
}

fn seconds(us: u64) -> f64 {
    Duration::from_micros(us).as_secs_f64()
}
