//! Folding a receipt from events and addenda.

use std::sync::Arc;

use crate::answer::Answerer;
use crate::cancel::CancelRequest;
use crate::event::{Accepted, Addendum, AddendumKind, Event, HookChange, HookEnd, Record, Remains, ToolEnd};
use crate::id::{CallId, Epoch};
use crate::message::ResultStatus;
use crate::progress::RunProgress;
use crate::time::Stamp;
use crate::usage::{Awaited, Used};

use super::{CallAccount, Compensation, ModelAccount, Receipt, Verdict};

/// A time, and the owner whose clock measured it.
///
/// Another owner is another process, whose monotonic clock began anew: no time is measured from one to the other.
#[derive(Clone, Copy)]
pub(super) struct Instant {
    epoch: Epoch,
    at: Stamp,
}

impl Instant {
    pub(super) fn of(record: &Record) -> Self {
        Self { epoch: record.epoch, at: record.at }
    }

    /// The microseconds since `earlier`, if one clock measured both.
    fn since(self, earlier: Self) -> Option<u64> {
        (self.epoch == earlier.epoch).then(|| self.at.mono_us.saturating_sub(earlier.at.mono_us))
    }

    /// The microseconds since `earlier`, by wall time if two clocks measured them.
    fn roughly_since(self, earlier: Self) -> u64 {
        self.since(earlier).unwrap_or_else(|| self.at.wall.0.saturating_sub(earlier.at.wall.0))
    }
}

/// A tool call that was started.
struct Started {
    call: CallId,
    at: Instant,
    effect_id: Option<Arc<str>>,
}

pub(super) struct Fold {
    receipt: Receipt,
    /// Says what the run was doing when the stop came, and how hard it was stopped.
    progress: RunProgress,
    began: Instant,
    latest: Instant,
    requested: Option<Instant>,
    /// The tool calls that have started and not finished.
    tool_starts: Vec<Started>,
    /// The calls that hooks changed and that have no account yet.
    changed: Vec<CallId>,
    model_start: Option<(Arc<str>, Instant)>,
}

impl Fold {
    pub(super) fn new(accepted: &Arc<Accepted>, began: Instant) -> Self {
        let receipt = Receipt { accepted_at: began.at.wall, ..Receipt::unknown(&accepted.run, &accepted.session) };
        let progress = RunProgress::new(Arc::clone(accepted));
        Self {
            receipt,
            progress,
            began,
            latest: began,
            requested: None,
            tool_starts: Vec::new(),
            changed: Vec::new(),
            model_start: None,
        }
    }

    pub(super) fn add(&mut self, record: &Record) {
        let now = Instant::of(record);
        self.latest = now;
        match &record.event {
            Event::CancelRequested { request, delivered_at } => {
                // Whoever records a request also received it, so one clock measured all its times.
                self.cancel(request, Instant { at: *delivered_at, ..now });
            }
            Event::RunQuieted => {
                self.receipt.quiet_at = Some(now.at.wall);
                self.receipt.took.quiet_us = self.since_request(now);
            }
            Event::RunSettled { outcome } => {
                self.receipt.outcome = Some(Arc::clone(outcome));
                self.receipt.on_disk = true;
            }
            Event::ModelStarted { model, .. } => self.model_start = Some((Arc::clone(model), now)),
            Event::Usage { call, used, pending, answered_by, request_id, .. } => {
                let answerer = Answerer { model: answered_by.clone(), request_id: request_id.clone() };
                self.usage(*call, used, *pending, answerer);
            }
            Event::ModelFinished { call, first_piece_us, .. } => self.model_finished(*call, *first_piece_us, now),
            Event::ToolStarted { call, effect_id, .. } => {
                self.tool_starts.push(Started { call: call.clone(), at: now, effect_id: effect_id.clone() });
            }
            Event::ToolFinished { call, end, remains, .. } => self.tool_finished(call, *end, remains.as_deref(), now),
            Event::ToolRefused { call, why, .. } => {
                let account = self.account(call, Verdict::NeverStarted);
                self.tool_closed(CallAccount { refused: Some(*why), ..account }, None);
            }
            Event::HookFinished { point, end: HookEnd::Leaked, .. } => {
                self.receipt.leaked.push(format!("{} hook", point.as_str()));
            }
            Event::HookFinished { change: Some(change), .. } => self.hook_changed(change),
            Event::RunAccepted { .. }
            | Event::RunStarted
            | Event::HookStarted { .. }
            | Event::HookFinished { change: None, .. }
            | Event::Message { .. }
            | Event::BackoffStarted { .. }
            | Event::BackoffFinished
            | Event::ApprovalRequested { .. }
            | Event::ApprovalResolved { .. }
            | Event::CallCancelRequested { .. }
            | Event::GraceEnded { .. } => {}
        }
        // Ignored: the receipt says what it can, even if the journal does not fold.
        let _ = self.progress.apply(&record.event);
    }

    fn since_request(&self, now: Instant) -> Option<u64> {
        now.since(self.requested?)
    }

    fn cancel(&mut self, request: &Arc<CancelRequest>, delivered: Instant) {
        self.receipt.requests.push(Arc::clone(request));
        if self.requested.is_some() {
            return;
        }
        self.requested = Some(Instant { at: request.requested_at, ..delivered });
        self.receipt.requested_at = Some(request.requested_at.wall);
        self.receipt.delivered_at = Some(delivered.at.wall);
        self.receipt.took.delivered_us = self.since_request(delivered);
        self.receipt.reason = Some(request.reason);
        self.receipt.by.clone_from(&request.by);
        self.receipt.note.clone_from(&request.note);
        self.receipt.cut_in = Some(self.progress.phase());
    }

    fn usage(&mut self, call: u32, used: &Used, pending: Option<Awaited>, answerer: Answerer) {
        // Most runs have one call, and copying is much cheaper than adding.
        let is_first = self.receipt.model_calls.is_empty();
        self.receipt.usage = if is_first { *used } else { self.receipt.usage.plus(*used) };
        let model = self.model_start.as_ref().map_or_else(|| "?".into(), |(model, _)| Arc::clone(model));
        let account = ModelAccount {
            call,
            model,
            answered_by: answerer.model,
            request_id: answerer.request_id,
            usage: *used,
            first_piece_us: None,
            took_us: None,
            pending,
        };
        self.receipt.model_calls.push(account);
    }

    fn model_finished(&mut self, call: u32, first_piece_us: Option<u64>, now: Instant) {
        let started = self.model_start.take().map(|(_, started)| started);
        // It is the last one, unless the journal does not fold.
        if let Some(account) = self.receipt.model_calls.iter_mut().rev().find(|account| account.call == call) {
            account.first_piece_us = first_piece_us;
            account.took_us = started.and_then(|started| now.since(started));
        }
        self.receipt.first_piece_us = self.receipt.first_piece_us.or(first_piece_us);
    }

    fn tool_finished(&mut self, call: &CallId, end: ToolEnd, remains: Option<&Remains>, now: Instant) {
        let mut account = self.account(call, end.into());
        let started = self.tool_starts.iter().position(|started| started.call == *call);
        let started = started.map(|place| self.tool_starts.swap_remove(place));
        if let Some(started) = started.filter(|_| end != ToolEnd::NeverStarted) {
            account.took_us = now.since(started.at);
            account.effect_id = started.effect_id;
        }
        self.receipt.leaked.extend(take_remains(&mut account, remains));
        let why = remains.and_then(|remains| remains.unended.as_deref());
        self.tool_closed(account, why);
    }

    fn account(&self, call: &CallId, verdict: Verdict) -> CallAccount {
        let open = self.progress.call(call);
        let account = CallAccount::new(call.clone(), open.map_or("?", |open| open.call.name.as_str()), verdict);
        CallAccount { changed_by_hook: self.changed.contains(call), ..account }
    }

    fn hook_changed(&mut self, change: &HookChange) {
        match change {
            HookChange::Call { call } => self.changed.push(call.id.clone()),
            HookChange::Result { result } => {
                let account = self.receipt.calls.iter_mut().find(|account| account.call == result.call);
                account.into_iter().for_each(|account| account.changed_by_hook = true);
            }
            HookChange::Input { .. } | HookChange::Request { .. } | HookChange::Answer { .. } => {}
        }
    }

    fn tool_closed(&mut self, account: CallAccount, why_leaked: Option<&str>) {
        if account.verdict == Verdict::Leaked {
            let name = name_of(&account);
            self.receipt.leaked.push(why_leaked.map_or(name.clone(), |why| format!("{name}: {why}")));
        }
        self.receipt.calls.push(account);
    }

    /// The receipt, up to the latest event if the run has not settled. An event is stamped before its commit, so the stamp of
    /// the last one is not when the run settled.
    pub(super) fn finish(mut self, settled: Option<Stamp>) -> Receipt {
        if let Some(at) = settled.filter(|_| self.receipt.on_disk) {
            self.latest.at = at;
            self.receipt.settled_at = Some(at.wall);
            self.receipt.took.settled_us = self.since_request(self.latest);
        }
        self.receipt.force = self.progress.standing().force;
        self.receipt.run_us = self.latest.roughly_since(self.began);
        if self.receipt.outcome.is_none() && self.progress.open_model().is_some_and(|model| !model.accounted) {
            // What an open call has used is unknown, and not 0.
            self.receipt.usage = self.receipt.usage.plus(Used::UNKNOWN);
        }
        self.receipt
    }

    pub(super) fn addendum(&mut self, addendum: Addendum) {
        match &addendum.what {
            AddendumKind::LateResult { call, remains, .. } => {
                let account = self.receipt.calls.iter_mut().find(|account| account.call == *call);
                if let Some(account) = account {
                    if account.verdict == Verdict::Leaked {
                        account.verdict = Verdict::Late;
                        let name = name_of(account);
                        // What its cleanup could not stop is listed under a longer name, and stays.
                        self.receipt.leaked.retain(|leak| *leak != name);
                    }
                    self.receipt.leaked.extend(take_remains(account, remains.as_deref()));
                }
            }
            AddendumKind::CompensationStarted { call, .. } => self.compensation(call, Compensation::Started),
            AddendumKind::CompensationFinished { call, end, result } => {
                let came_to_its_end = matches!(end, ToolEnd::Finished | ToolEnd::Panicked);
                let compensation = match (came_to_its_end, result.status) {
                    (true, ResultStatus::Ok) => Compensation::Done,
                    (true, _) => Compensation::Failed,
                    (false, _) => Compensation::Unknown,
                };
                self.compensation(call, compensation);
            }
            // The addendum itself says everything.
            AddendumKind::Undelivered { .. } => {}
            AddendumKind::UsageCorrected { call, used } => {
                let account = self.receipt.model_calls.iter_mut().find(|account| account.call == *call);
                if let Some(account) = account {
                    account.usage = **used;
                    account.pending = None;
                }
                self.receipt.usage =
                    self.receipt.model_calls.iter().fold(Used::NONE, |sum, account| sum.plus(account.usage));
            }
        }
        self.receipt.revision += 1;
        self.receipt.addenda.push(addendum);
    }

    fn compensation(&mut self, call: &CallId, compensation: Compensation) {
        if let Some(account) = self.receipt.calls.iter_mut().find(|account| account.call == *call) {
            account.compensation = Some(compensation);
        }
    }
}

/// Adds the notes of a call's cleanup to its account, and returns the names of what leaked.
fn take_remains(account: &mut CallAccount, remains: Option<&Remains>) -> Vec<String> {
    let Some(remains) = remains else { return Vec::new() };
    account.notes.extend(remains.notes.iter().cloned());
    remains.leaked.iter().map(|leaked| format!("{}: {leaked}", name_of(account))).collect()
}

/// A call's name in the list of what leaked.
fn name_of(account: &CallAccount) -> String {
    format!("{} ({})", account.tool, account.call)
}
