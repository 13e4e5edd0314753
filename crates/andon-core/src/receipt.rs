//! The account of a run's end, folded from its events.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::cancel::{CancelRequest, Force, Reason};
use crate::event::{Accepted, Addendum, Entry, Event, Learnt, Record, Refusal, ToolEnd};
use crate::id::{CallId, RunId, SessionKey};
use crate::outcome::Ending;
use crate::progress::{Phase, Progress};
use crate::time::{Stamp, Wall};
use crate::usage::Used;

/// What became of one tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It returned.
    Finished,
    /// It was not run.
    NeverStarted,
    /// It was stopped.
    Cut,
    /// It was stopped and may have had its effect.
    Unknown,
    /// It went on after the run, and then ended; see the addenda.
    Late,
    /// It went on after the run.
    Leaked,
}

/// One tool call in a receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallAccount {
    /// The call's id.
    pub call: CallId,
    /// The tool's name.
    pub tool: String,
    /// What became of it.
    pub verdict: Verdict,
    /// Why it was not run, if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refusal>,
    /// How long it ran, in microseconds, if it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_us: Option<u64>,
}

/// One model call in a receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelAccount {
    /// Its number in the run.
    pub call: u32,
    /// The model's name.
    pub model: Arc<str>,
    /// What it used.
    pub usage: Used,
    /// Microseconds to its first piece, if one came.
    pub first_piece_us: Option<u64>,
    /// How long it took, in microseconds.
    pub took_us: u64,
}

/// How long a stop took from the request to each instant, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Took {
    /// Until the driver saw it.
    pub delivered_us: Option<u64>,
    /// Until nothing was accepted or started any more.
    pub quiet_us: Option<u64>,
    /// Until all was at rest.
    pub settled_us: Option<u64>,
}

/// The account of a run's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The version of this form.
    pub v: u16,
    /// The run.
    pub run: RunId,
    /// Its session.
    pub session: SessionKey,
    /// How it ended; nothing while it has not.
    pub outcome: Option<Arc<Ending>>,
    /// When it began.
    pub accepted_at: Wall,
    /// When the stop was asked for.
    pub requested_at: Option<Wall>,
    /// When the driver saw it.
    pub delivered_at: Option<Wall>,
    /// When nothing was accepted or started any more.
    pub quiet_at: Option<Wall>,
    /// When all was at rest.
    pub settled_at: Option<Wall>,
    /// How long the stop took.
    pub took: Took,
    /// How long the run took in all, in microseconds.
    pub run_us: u64,
    /// Why it was stopped.
    pub reason: Option<Reason>,
    /// Who asked.
    pub by: Option<Arc<str>>,
    /// Their note.
    pub note: Option<Arc<str>>,
    /// How hard, in the end.
    pub force: Option<Force>,
    /// Every request that changed something, in order.
    pub requests: Vec<Arc<CancelRequest>>,
    /// What the run was doing when the stop reached it.
    pub cut_in: Option<Phase>,
    /// What became of each tool call.
    pub calls: Vec<CallAccount>,
    /// What each model call used.
    pub model_calls: Vec<ModelAccount>,
    /// The tokens of all model calls.
    pub usage: Used,
    /// Microseconds from the first model call to its first piece.
    pub first_piece_us: Option<u64>,
    /// Tools that went on after the run, by name and call.
    pub leaked: Vec<String>,
    /// How many addenda are folded in.
    pub revision: u32,
    /// What was learnt after the end.
    pub addenda: Vec<Addendum>,
}

impl Receipt {
    /// Folds a run's receipt from its journal.
    ///
    /// Returns nothing if the journal does not begin with `run_accepted`.
    pub fn fold<'a>(
        records: impl IntoIterator<Item = &'a Arc<Record>>,
        addenda: impl IntoIterator<Item = Addendum>,
    ) -> Option<Self> {
        let mut records = records.into_iter();
        let first = records.next()?;
        let Event::RunAccepted { accepted } = &first.event else { return None };
        let mut fold = Fold::new(accepted, first.at);
        for record in records {
            fold.add(record);
        }
        for addendum in addenda {
            fold.addendum(addendum);
        }
        Some(fold.receipt)
    }

    /// Folds a run's receipt from journal entries.
    pub fn fold_entries<'a>(
        entries: impl IntoIterator<Item = &'a Entry>,
        addenda: impl IntoIterator<Item = Addendum>,
    ) -> Option<Self> {
        let records = entries.into_iter().filter_map(|entry| match entry {
            Entry::Fact(record) => Some(record),
            Entry::Lump(_) => None,
        });
        Self::fold(records, addenda)
    }
}

struct Fold {
    receipt: Receipt,
    /// Says what the run was doing when the stop came.
    progress: Progress,
    began: Stamp,
    requested: Option<Stamp>,
    tool_starts: Vec<(CallId, Stamp)>,
    model_start: Option<(Arc<str>, Stamp)>,
}

impl Fold {
    fn new(accepted: &Arc<Accepted>, at: Stamp) -> Self {
        let receipt = Receipt {
            v: crate::FORMAT_VERSION,
            run: accepted.run.clone(),
            session: accepted.session.clone(),
            outcome: None,
            accepted_at: at.wall,
            requested_at: None,
            delivered_at: None,
            quiet_at: None,
            settled_at: None,
            took: Took::default(),
            run_us: 0,
            reason: None,
            by: None,
            note: None,
            force: None,
            requests: Vec::new(),
            cut_in: None,
            calls: Vec::new(),
            model_calls: Vec::new(),
            usage: Used::NONE,
            first_piece_us: None,
            leaked: Vec::new(),
            revision: 0,
            addenda: Vec::new(),
        };
        let progress = Progress::new(Arc::clone(accepted));
        Self { receipt, progress, began: at, requested: None, tool_starts: Vec::new(), model_start: None }
    }

    fn add(&mut self, record: &Record) {
        let at = record.at;
        match &record.event {
            Event::CancelRequested { request, delivered_at } => self.cancel(request, *delivered_at),
            Event::RunQuieted => {
                self.receipt.quiet_at = Some(at.wall);
                self.receipt.took.quiet_us = self.since_request(at);
            }
            Event::RunSettled { outcome } => {
                self.receipt.outcome = Some(Arc::clone(outcome));
                self.receipt.settled_at = Some(at.wall);
                self.receipt.took.settled_us = self.since_request(at);
                self.receipt.run_us = micros(at, self.began);
            }
            Event::ModelStarted { model, .. } => self.model_start = Some((Arc::clone(model), at)),
            Event::Usage { call, used } => self.usage(*call, used, at),
            Event::ModelFinished { first_piece_us, .. } => self.model_finished(*first_piece_us, at),
            Event::ToolStarted { call, .. } => self.tool_starts.push((call.clone(), at)),
            Event::ToolFinished { call, end, .. } => self.tool_finished(call, *end, at),
            Event::ToolRefused { call, why, .. } => self.tool_closed(call, Verdict::NeverStarted, Some(*why), None),
            Event::RunAccepted { .. }
            | Event::RunStarted
            | Event::HookStarted { .. }
            | Event::HookFinished { .. }
            | Event::Message { .. }
            | Event::BackoffStarted { .. }
            | Event::BackoffFinished
            | Event::ApprovalRequested { .. }
            | Event::ApprovalResolved { .. }
            | Event::CallCancelRequested { .. }
            | Event::GraceEnded { .. } => {}
        }
        // A journal that does not fold is the journal's fault; the receipt says what it can all the same.
        let _ = self.progress.apply(&record.event);
    }

    fn since_request(&self, at: Stamp) -> Option<u64> {
        self.requested.map(|requested| micros(at, requested))
    }

    fn cancel(&mut self, request: &Arc<CancelRequest>, delivered_at: Stamp) {
        self.receipt.requests.push(Arc::clone(request));
        self.receipt.force = Some(request.force);
        if self.requested.is_some() {
            return;
        }
        self.requested = Some(request.requested_at);
        self.receipt.requested_at = Some(request.requested_at.wall);
        self.receipt.delivered_at = Some(delivered_at.wall);
        self.receipt.took.delivered_us = self.since_request(delivered_at);
        self.receipt.reason = Some(request.reason);
        self.receipt.by.clone_from(&request.by);
        self.receipt.note.clone_from(&request.note);
        self.receipt.cut_in = Some(self.progress.phase());
    }

    fn usage(&mut self, call: u32, used: &Used, at: Stamp) {
        self.receipt.usage = self.receipt.usage.plus(*used);
        let (model, started) = self.model_start.take().unwrap_or_else(|| ("?".into(), at));
        let took_us = micros(at, started);
        self.receipt.model_calls.push(ModelAccount { call, model, usage: *used, first_piece_us: None, took_us });
    }

    fn model_finished(&mut self, first_piece_us: Option<u64>, _at: Stamp) {
        if let Some(account) = self.receipt.model_calls.last_mut() {
            account.first_piece_us = first_piece_us;
        }
        self.receipt.first_piece_us = self.receipt.first_piece_us.or(first_piece_us);
    }

    fn tool_finished(&mut self, call: &CallId, end: ToolEnd, at: Stamp) {
        let started = self.tool_starts.iter().find(|(id, _)| id == call).map(|(_, started)| *started);
        let verdict = match end {
            ToolEnd::Finished | ToolEnd::Panicked => Verdict::Finished,
            ToolEnd::Cut => Verdict::Cut,
            ToolEnd::Unknown => Verdict::Unknown,
            ToolEnd::NeverStarted => Verdict::NeverStarted,
            ToolEnd::Leaked => Verdict::Leaked,
        };
        let took = started.filter(|_| end != ToolEnd::NeverStarted).map(|started| micros(at, started));
        self.tool_closed(call, verdict, None, took);
    }

    fn tool_closed(&mut self, call: &CallId, verdict: Verdict, refused: Option<Refusal>, took_us: Option<u64>) {
        let open = self.progress.calls().iter().find(|open| open.call.id == *call);
        let tool = open.map_or_else(|| "?".to_owned(), |open| open.call.name.clone());
        if verdict == Verdict::Leaked {
            self.receipt.leaked.push(format!("{tool} ({call})"));
        }
        self.receipt.calls.push(CallAccount { call: call.clone(), tool, verdict, refused, took_us });
    }

    fn addendum(&mut self, addendum: Addendum) {
        match &addendum.what {
            Learnt::LateResult { call, .. } => {
                let account = self.receipt.calls.iter_mut().find(|account| account.call == *call);
                if let Some(account) = account {
                    account.verdict = Verdict::Late;
                }
                self.receipt.leaked.retain(|leak| !leak.ends_with(&format!("({call})")));
            }
            Learnt::UsageCorrected { call, used } => {
                let account = self.receipt.model_calls.iter_mut().find(|account| account.call == *call);
                if let Some(account) = account {
                    account.usage = **used;
                }
                self.receipt.usage =
                    self.receipt.model_calls.iter().fold(Used::NONE, |sum, account| sum.plus(account.usage));
            }
        }
        self.receipt.revision += 1;
        self.receipt.addenda.push(addendum);
    }
}

fn micros(later: Stamp, earlier: Stamp) -> u64 {
    later.mono_us.saturating_sub(earlier.mono_us)
}
