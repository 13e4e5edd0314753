//! Folding a run from its events: what may follow what.
//!
//! An event that cannot follow is refused and changes nothing.

use std::collections::HashSet;
use std::sync::Arc;

use crate::answer::{Kind, Lump, LumpGap, Mark, MarkKind, Span};
use crate::cancel::CancelRequest;
use crate::ending::{Ending, Failure, FailureKind};
use crate::event::{Entry, Event, HookChange, HookEnd, HookPoint, ModelEnd, Record};
use crate::id::{CallId, Seq};
use crate::message::{Message, Part, Role};
use crate::standing::Lifecycle;
use crate::usage::Used;

use super::turn::{NO_SUCH_CALL, Turn};
use super::{Call, CallState, OpenModel, RunProgress};

/// Why an event cannot follow the earlier ones.
pub(super) type Misfit = &'static str;

/// A journal that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum FoldError {
    /// The journal does not begin with `run_accepted`.
    #[error("a run's journal begins with run_accepted")]
    NoBeginning,
    /// A seq is missing or repeated.
    #[error("event {found} is where event {expected} belongs")]
    Gap {
        /// The seq that belongs there.
        expected: Seq,
        /// The seq that was found there.
        found: Seq,
    },
    /// The event makes no sense here.
    #[error("event {seq} cannot happen here: {why}")]
    OutOfPlace {
        /// The event's seq.
        seq: Seq,
        /// Why not.
        why: &'static str,
    },
    /// Streamed text is missing.
    #[error(transparent)]
    Lump(#[from] LumpGap),
}

impl RunProgress {
    /// Folds a run from its journal.
    pub fn fold<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Result<Self, FoldError> {
        let mut entries = entries.into_iter();
        let Some(Entry::Fact(first)) = entries.next() else { return Err(FoldError::NoBeginning) };
        let Event::RunAccepted { accepted } = &first.event else { return Err(FoldError::NoBeginning) };
        check_seq(1, first.seq)?;
        let mut progress = Self::new(Arc::clone(accepted));
        for entry in entries {
            match entry {
                Entry::Fact(record) => progress.apply_record(record)?,
                // Before such a lump, text was lost. The session is worth more than that text.
                Entry::Lump(lump) => match progress.apply_lump(lump) {
                    Err(FoldError::Lump(_)) => {}
                    applied => applied?,
                },
            }
        }
        Ok(progress)
    }

    /// How far a run with these events has come, as far as they follow each other; `None` if they do not begin with
    /// `run_accepted`.
    pub fn of_records(records: &[Arc<Record>]) -> Option<Self> {
        let (first, rest) = records.split_first()?;
        let Event::RunAccepted { accepted } = &first.event else { return None };
        let mut progress = Self::new(Arc::clone(accepted));
        for record in rest {
            // The facts of a run that is shown fit, because its driver has folded them.
            let _ = progress.apply_record(record);
        }
        Some(progress)
    }

    /// What tools show of their work is not part of the conversation: it only has to come while one runs.
    fn check_output(&self, lump: &Lump) -> Result<(), FoldError> {
        let is_output = |mark: &Mark| matches!(mark.what, MarkKind::Begins(Kind::ToolOutput(_)));
        let runs = self.turn.as_ref().is_some_and(|turn| turn.count().running > 0);
        if runs && lump.span.marks.iter().all(is_output) {
            return Ok(());
        }
        let why = "text streams only while the model is called or a tool runs";
        Err(FoldError::OutOfPlace { seq: self.seq, why })
    }

    /// Applies the next record.
    pub fn apply_record(&mut self, record: &Record) -> Result<(), FoldError> {
        check_seq(self.seq + 1, record.seq)?;
        self.apply(&record.event)
    }

    /// Applies the next event.
    pub fn apply(&mut self, event: &Event) -> Result<(), FoldError> {
        let seq = self.seq + 1;
        self.take(event).map_err(|why| FoldError::OutOfPlace { seq, why })?;
        self.standing.take(event);
        self.seq = seq;
        Ok(())
    }

    fn apply_lump(&mut self, lump: &Lump) -> Result<(), FoldError> {
        let Some(model) = self.model.as_mut().filter(|model| !model.answered) else {
            return self.check_output(lump);
        };
        match model.spans.last_mut() {
            Some(span) if span.after == lump.span.after => span.join(lump)?,
            _ => {
                let mut span = Span::new(lump.span.after);
                span.join(lump)?;
                model.spans.push(span);
            }
        }
        Ok(())
    }

    /// Checks an event, and applies what `standing` does not keep of it.
    fn take(&mut self, event: &Event) -> Result<(), Misfit> {
        self.check_life(event)?;
        match event {
            Event::RunAccepted { .. } => Err("a run is accepted once"),
            Event::RunStarted => self.start(),
            Event::HookStarted { .. } => self.start_hook(),
            Event::HookFinished { point, end, change, why } => {
                self.finish_hook(*point, *end, change.as_deref(), why.as_deref())
            }
            Event::ModelStarted { call, model, .. } => self.start_model(*call, model),
            Event::Message { message } => self.take_answer(message),
            Event::Usage { call, used, .. } => self.account(*call, used),
            Event::ModelFinished { call, end, .. } => self.finish_model(*call, end),
            Event::BackoffStarted { .. } => self.start_backoff(),
            Event::BackoffFinished => self.finish_backoff(),
            Event::ApprovalRequested { call, arguments } => self.turn_call(call, |open| open.ask(*arguments)),
            Event::ApprovalResolved { call, verdict } => self.turn_call(call, |open| open.decide(verdict)),
            Event::ToolStarted { call, effect, .. } => self.turn_call(call, |open| open.start(*effect)),
            Event::ToolFinished { call, result, .. } => self.turn_call(call, |open| open.finish(result)),
            Event::ToolRefused { call, result, .. } => self.turn_call(call, |open| open.refuse(result)),
            Event::CallCancelRequested { .. } | Event::RunQuieted | Event::GraceEnded { .. } => Ok(()),
            Event::CancelRequested { request, .. } => self.take_request(request),
            Event::RunSettled { outcome } => self.settle(outcome),
        }
    }

    /// A run that waits for its session can only start or be stopped, and a settled one is at rest forever.
    fn check_life(&self, event: &Event) -> Result<(), Misfit> {
        match (self.standing.lifecycle(), event) {
            (Lifecycle::Running, _) => Ok(()),
            (Lifecycle::Queued, Event::RunAccepted { .. } | Event::RunStarted) => Ok(()),
            (Lifecycle::Queued, Event::CancelRequested { .. } | Event::RunQuieted | Event::RunSettled { .. }) => Ok(()),
            (Lifecycle::Queued, _) => Err("the run has not started"),
            (Lifecycle::Settled, _) => Err("the run has settled"),
        }
    }

    fn start(&mut self) -> Result<(), Misfit> {
        if self.standing.lifecycle() != Lifecycle::Queued {
            return Err("a run starts once");
        }
        self.messages.extend(self.accepted.history.iter().chain([&self.accepted.input]).cloned());
        Ok(())
    }

    fn start_hook(&self) -> Result<(), Misfit> {
        if self.open_hook().is_some() {
            return Err("a hook is open");
        }
        Ok(())
    }

    fn finish_hook(
        &mut self,
        point: HookPoint,
        end: HookEnd,
        change: Option<&HookChange>,
        why: Option<&str>,
    ) -> Result<(), Misfit> {
        if self.open_hook() != Some(point) {
            return Err("no such hook is open");
        }
        change.map_or(Ok(()), |change| self.take_change(point, change))?;
        self.failure = self.failure.take().or(hook_failure(point, end, why));
        Ok(())
    }

    fn start_model(&mut self, number: u32, model: &Arc<str>) -> Result<(), Misfit> {
        if self.something_is_open() {
            return Err("a model is called when nothing else is open");
        }
        self.model_calls = number;
        self.last_stop = None;
        let (model, change) = (Arc::clone(model), self.change.take());
        self.model = Some(OpenModel { number, model, spans: Vec::new(), answered: false, accounted: false, change });
        Ok(())
    }

    fn take_answer(&mut self, message: &Arc<Message>) -> Result<(), Misfit> {
        let Some(model) = self.model.as_mut().filter(|model| !model.answered) else {
            return Err("an answer needs an open model call, and each call has only one");
        };
        if message.role != Role::Assistant {
            return Err("an answer must have the role assistant");
        }
        let mut ids = HashSet::new();
        if !message.calls().all(|call| ids.insert(&call.id)) {
            // Only one of them could ever be closed.
            return Err("two calls of one answer have the same id");
        }
        model.answered = true;
        self.turns += 1;
        self.messages.push(Arc::clone(message));
        self.turn = message.calls().next().map(|_| Box::new(Turn::new(message)));
        Ok(())
    }

    fn account(&mut self, number: u32, used: &Used) -> Result<(), Misfit> {
        let Some(model) = self.model.as_mut().filter(|model| model.number == number && !model.accounted) else {
            return Err("usage must belong to an open model call, and comes once");
        };
        model.accounted = true;
        match &mut self.used {
            Some(sum) => **sum = sum.plus(*used),
            // Most runs have one call, and copying is much cheaper than adding.
            none => *none = Some(Box::new(*used)),
        }
        Ok(())
    }

    fn finish_model(&mut self, number: u32, end: &ModelEnd) -> Result<(), Misfit> {
        let Some(model) = self.model.take_if(|model| model.number == number) else {
            return Err("no such model call is open");
        };
        match end {
            // An answer that asks for tools is not the last one, even if they are closed already.
            ModelEnd::Answered { stop } => self.last_stop = (!self.asks_for_tools(&model)).then_some(*stop),
            ModelEnd::Failed { failure } => self.failure = Some((**failure).clone()),
            ModelEnd::Cut | ModelEnd::Lost => {}
        }
        Ok(())
    }

    fn asks_for_tools(&self, model: &OpenModel) -> bool {
        model.answered && self.last_answer().is_some_and(|answer| answer.calls().next().is_some())
    }

    fn start_backoff(&mut self) -> Result<(), Misfit> {
        if self.in_backoff() || self.model.is_some() {
            return Err("a back-off is only allowed between two model calls");
        }
        self.failure = None;
        Ok(())
    }

    fn finish_backoff(&self) -> Result<(), Misfit> {
        if !self.in_backoff() {
            return Err("no back-off is open");
        }
        Ok(())
    }

    pub(super) fn turn_call(
        &mut self,
        id: &CallId,
        change: impl FnOnce(&mut Call) -> Result<(), Misfit>,
    ) -> Result<(), Misfit> {
        self.turn.as_mut().ok_or(NO_SUCH_CALL)?.change(id, change)?;
        if let Some(turn) = self.turn.take_if(|turn| turn.is_over()) {
            self.close_turn(&turn);
        }
        Ok(())
    }

    /// Moves the results into the conversation, now that every call has one (invariant 3).
    fn close_turn(&mut self, turn: &Turn) {
        let result = |call: &Call| match &call.state {
            CallState::Closed(result) => Some(Part::ToolResult((**result).clone())),
            CallState::Ready | CallState::AwaitingApproval | CallState::Denied(_) | CallState::Running(_) => None,
        };
        let parts = turn.calls().iter().filter_map(result).collect();
        self.messages.push(Arc::new(Message { role: Role::Tool, parts, cut: None }));
    }

    /// The first reason is kept.
    fn take_request(&mut self, request: &CancelRequest) -> Result<(), Misfit> {
        self.reason.get_or_insert(request.reason);
        Ok(())
    }

    fn settle(&mut self, outcome: &Arc<Ending>) -> Result<(), Misfit> {
        if self.something_is_open() {
            return Err("something is still open");
        }
        self.ending = Some(Arc::clone(outcome));
        Ok(())
    }

    fn something_is_open(&self) -> bool {
        self.model.is_some() || self.turn.is_some() || self.open_hook().is_some() || self.in_backoff()
    }
}

fn check_seq(expected: Seq, found: Seq) -> Result<(), FoldError> {
    if found == expected { Ok(()) } else { Err(FoldError::Gap { expected, found }) }
}

/// A panic in a tool hook ends that tool call; a panic in any other hook ends the run. A hook that fails the run says why.
fn hook_failure(point: HookPoint, end: HookEnd, why: Option<&str>) -> Option<Failure> {
    let is_of_tool = match point {
        HookPoint::BeforeTool | HookPoint::AfterTool => true,
        HookPoint::BeforeRun | HookPoint::AfterRun | HookPoint::BeforeModel | HookPoint::AfterModel => false,
    };
    let message = match (end, why) {
        (HookEnd::Panicked, _) if !is_of_tool => format!("the {} hook panicked", point.as_str()),
        (HookEnd::Failed, Some(why)) => why.to_owned(),
        (HookEnd::Failed, None) => format!("the {} hook failed the run", point.as_str()),
        _ => return None,
    };
    Some(Failure { error: FailureKind::Hook, message })
}
