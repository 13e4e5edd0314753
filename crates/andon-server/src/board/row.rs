//! One run as the board shows it, folded from its events.
//!
//! # Invariants
//!
//! 1. After every event, state, phase and force equal those of [`RunProgress`](andon_runtime::core::progress::RunProgress): both use
//!    [`StandingFold`].
//! 2. An event is folded once, whether it comes from the observer or from the run's own log.
//! 3. Of a run's messages, a row keeps only the title. Open calls are dropped when they are closed.

use std::sync::Arc;

use andon_runtime::core::cancel::CancelRequest;
use andon_runtime::core::event::{Accepted, Approval, HookChange, HookEnd, Remains, Seq, ToolEnd};
use andon_runtime::core::standing::StandingFold;
use andon_runtime::core::time::{Stamp, Wall};
use andon_runtime::{
    CallId, Digest, Ending, Event, Message, Reason, Record, RunId, RunStanding, SessionKey, ShownFact, ToolCall, Usage,
    title,
};

use super::later;
use super::tokens::Tokens;
use crate::options::cost::{Cost, Spent};
use crate::options::prices::Prices;

/// One run.
#[derive(Debug, Clone)]
pub(crate) struct BoardRow {
    /// Identifies the row on the board.
    pub(crate) n: u64,
    pub(crate) run: RunId,
    pub(crate) session: SessionKey,
    pub(crate) title: Arc<str>,
    pub(crate) accepted_at: Wall,
    /// The last event that was folded.
    pub(crate) seq: Seq,
    standing: StandingFold,
    settled: Option<Settled>,
    open_model: Option<RowModel>,
    /// The model that was called last.
    pub(crate) model: Option<Arc<str>>,
    /// The open calls of the current turn.
    calls: Vec<RowCall>,
    pub(crate) cancel: Option<FirstCancel>,
    /// Why the journal does not accept the run's end, if it does not.
    pub(crate) stalled: Option<Arc<str>>,
    /// How many pieces were accepted at the last count; `None` if that is not known.
    pub(crate) pieces: Option<u64>,
    /// The tokens used by finished model calls.
    pub(super) tokens: Tokens,
    /// What the model calls cost, if there are prices.
    pub(super) spent: Option<Box<Spent>>,
    pub(super) leaked: i64,
    /// Calls whose late result arrived before the event that they were given up.
    pub(super) early: Vec<CallId>,
}

#[derive(Debug, Clone)]
struct Settled {
    outcome: Arc<Ending>,
    at: Option<Wall>,
    took_us: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct RowModel {
    number: u32,
    accounted: bool,
}

/// An open call.
#[derive(Debug, Clone)]
pub(crate) struct RowCall {
    pub(crate) id: CallId,
    pub(crate) tool: Arc<str>,
    pub(crate) state: RowCallState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowCallState {
    Ready,
    /// It needs approval for arguments with this digest.
    Waiting(Option<Digest>),
    Denied,
    Running,
}

/// The first cancel request. How hard the run is being stopped by now is in its standing.
#[derive(Debug, Clone)]
pub(crate) struct FirstCancel {
    pub(crate) requested_at: Wall,
    pub(crate) by: Option<Arc<str>>,
    pub(crate) reason: Reason,
    /// When it was requested, on the clock of this epoch.
    mono_us: u64,
    epoch: u32,
}

impl BoardRow {
    /// The row of a run with these events, not yet numbered; `None` if they do not start with its acceptance.
    pub(crate) fn new(facts: &[Arc<Record>], prices: Option<&Prices>) -> Option<Self> {
        let (first, rest) = facts.split_first()?;
        let Event::RunAccepted { accepted } = &first.event else { return None };
        let mut row = Self::accepted(accepted, first);
        row.spent = prices.map(|prices| Box::new(Spent::nothing(prices)));
        rest.iter().for_each(|record| row.fold(record, None, prices));
        Some(row)
    }

    fn accepted(accepted: &Accepted, record: &Record) -> Self {
        Self {
            n: 0,
            run: accepted.run.clone(),
            session: accepted.session.clone(),
            title: title(&accepted.input).into(),
            accepted_at: record.at.wall,
            seq: record.seq,
            standing: StandingFold::default(),
            settled: None,
            open_model: None,
            model: None,
            calls: Vec::new(),
            cancel: None,
            stalled: None,
            pieces: None,
            tokens: Tokens::NONE,
            spent: None,
            leaked: 0,
            early: Vec::new(),
        }
    }

    /// Folds an event, and before it those that were missed.
    pub(crate) fn catch_up(&mut self, seen: &ShownFact<'_>, prices: Option<&Prices>) {
        let known = usize::try_from(self.seq).unwrap_or(usize::MAX);
        for missed in seen.past.get(known..).unwrap_or_default() {
            self.fold(missed, None, prices);
        }
        self.fold(seen.record, Some(seen.now), prices);
    }

    /// Folds an event. `durable` is when the event was on disk, if that was observed.
    fn fold(&mut self, record: &Record, durable: Option<Stamp>, prices: Option<&Prices>) {
        if record.seq <= self.seq {
            return; // Invariant 2.
        }
        self.seq = record.seq;
        self.stalled = None;
        self.standing.take(&record.event);
        match &record.event {
            Event::RunAccepted { .. }
            | Event::RunStarted
            | Event::HookStarted { .. }
            | Event::BackoffStarted { .. }
            | Event::BackoffFinished
            | Event::CallCancelRequested { .. }
            | Event::RunQuieted
            | Event::GraceEnded { .. } => {}
            Event::HookFinished { end, change, .. } => {
                self.leaked += i64::from(*end == HookEnd::Leaked);
                if let Some(HookChange::Call { call }) = change.as_deref() {
                    self.rename(call);
                }
            }
            Event::ModelStarted { call, model, .. } => {
                self.open_model = Some(RowModel { number: *call, accounted: false });
                self.model = Some(Arc::clone(model));
            }
            Event::Message { message } => self.answered(message),
            Event::Usage { call, used, answered_by, .. } => {
                self.used(*call, answered_by.as_deref(), &used.billed, prices);
            }
            Event::ModelFinished { .. } => self.open_model = None,
            Event::ApprovalRequested { call, arguments } => self.turn(call, RowCallState::Waiting(*arguments)),
            Event::ApprovalResolved { call, verdict } => self.turn(call, decided(verdict)),
            Event::ToolStarted { call, .. } => self.turn(call, RowCallState::Running),
            Event::ToolFinished { call, end, remains, .. } => self.finished(call, *end, remains.as_deref()),
            Event::ToolRefused { call, .. } => self.close(call),
            Event::CancelRequested { request, .. } => self.cancelled(request, record.epoch),
            Event::RunSettled { outcome } => self.settle(outcome, record.epoch, durable),
            #[cfg(not(andon_whole))]
            _ => {}
        }
    }

    fn answered(&mut self, message: &Message) {
        let ready = |call: &ToolCall| RowCall {
            id: call.id.clone(),
            tool: call.name.as_str().into(),
            state: RowCallState::Ready,
        };
        self.calls = message.calls().map(ready).collect();
    }

    fn used(&mut self, call: u32, answered: Option<&str>, billed: &Usage, prices: Option<&Prices>) {
        let model = self.model.clone();
        self.charge(model.as_deref().unwrap_or("?"), answered, billed, prices);
        if let Some(open) = self.open_model.as_mut().filter(|open| open.number == call) {
            open.accounted = true;
        }
    }

    pub(super) fn charge(&mut self, asked: &str, answered: Option<&str>, billed: &Usage, prices: Option<&Prices>) {
        self.tokens = self.tokens.plus(Tokens::of(billed));
        if let (Some(spent), Some(prices)) = (&mut self.spent, prices) {
            spent.add(prices, asked, answered, billed);
        }
    }

    /// A hook has changed a call, perhaps into one of another tool.
    fn rename(&mut self, changed: &ToolCall) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.id == changed.id) {
            call.tool = changed.name.as_str().into();
        }
    }

    fn turn(&mut self, id: &CallId, state: RowCallState) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.id == *id) {
            call.state = state;
        }
    }

    fn finished(&mut self, id: &CallId, end: ToolEnd, remains: Option<&Remains>) {
        self.close(id);
        self.leaked += later::left(remains);
        if end == ToolEnd::Leaked {
            // The call may have ended by now, and its result may have arrived first.
            match self.early.iter().position(|early| early == id) {
                Some(place) => drop(self.early.swap_remove(place)),
                None => self.leaked += 1,
            }
        }
    }

    fn close(&mut self, id: &CallId) {
        self.calls.retain(|call| call.id != *id);
    }

    /// The first request stays.
    fn cancelled(&mut self, request: &CancelRequest, epoch: u32) {
        self.cancel.get_or_insert_with(|| FirstCancel {
            requested_at: request.requested_at.wall,
            by: request.by.clone(),
            reason: request.reason,
            mono_us: request.requested_at.mono_us,
            epoch,
        });
    }

    fn settle(&mut self, outcome: &Arc<Ending>, epoch: u32, durable: Option<Stamp>) {
        let of_one_clock = self.cancel.as_ref().filter(|cancel| cancel.epoch == epoch);
        let took_us = of_one_clock.zip(durable).map(|(cancel, at)| at.mono_us.saturating_sub(cancel.mono_us));
        self.settled = Some(Settled { outcome: Arc::clone(outcome), at: durable.map(|at| at.wall), took_us });
        // Nothing is open any more (invariant 3). A run with an unreadable journal counts as settled, whatever its
        // events say.
        (self.open_model, self.calls, self.early) = (None, Vec::new(), Vec::new());
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.settled.is_some()
    }

    /// Where the run stands (invariant 1).
    pub(crate) fn standing(&self) -> RunStanding {
        self.standing.told()
    }

    /// How the run ended, and when that was on disk.
    pub(crate) fn end(&self) -> Option<(&Arc<Ending>, Option<Wall>)> {
        self.settled.as_ref().map(|settled| (&settled.outcome, settled.at))
    }

    /// The time from the cancel request until the run had settled in microseconds, if both were measured by the same
    /// clock.
    pub(crate) fn took_us(&self) -> Option<u64> {
        self.settled.as_ref()?.took_us
    }

    /// Whether there is an open model call whose tokens are not counted yet.
    pub(crate) fn is_counting(&self) -> bool {
        self.open_model.is_some_and(|open| !open.accounted)
    }

    /// The tokens used so far. An open call makes the figures uncertain, because it has used an unknown number.
    pub(crate) fn tokens(&self) -> Tokens {
        if self.is_counting() { self.tokens.plus(Tokens::UNKNOWN) } else { self.tokens }
    }

    /// What the tokens cost, if there are prices.
    pub(crate) fn cost(&self) -> Option<Cost> {
        let cost = self.spent.as_ref()?.total();
        Some(if self.is_counting() { cost.and_unknown() } else { cost })
    }

    pub(crate) fn calls(&self) -> &[RowCall] {
        &self.calls
    }

    /// How much work outlived the run and is still going on.
    pub(crate) fn leaked(&self) -> u64 {
        u64::try_from(self.leaked).unwrap_or(0)
    }
}

fn decided(verdict: &Approval) -> RowCallState {
    match verdict {
        Approval::Approved { .. } => RowCallState::Ready,
        Approval::Denied { .. } | Approval::Closed => RowCallState::Denied,
        #[cfg(not(andon_whole))]
        _ => RowCallState::Denied,
    }
}
