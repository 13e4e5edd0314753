//! Reads one answer: pieces come from the model and pass the gate into the log.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use andon_core::answer::{Answerer, CallHead, Kind, MarkKind, Piece, written};
use andon_core::cancel::Reason;
use andon_core::event::Event;
use andon_core::id::CallId;
use andon_core::message::Part;
use andon_core::outcome::ModelStop;
use andon_core::time::Stamp;
use andon_core::usage::{Awaited, Figure, Usage, Used, fewest_tokens};
use tokio::time::{Instant, Sleep, sleep};

use super::budget::Budget;
use super::call_ids::{CallIds, LazyIds};
use crate::driver::metering::{CallEnd, Metered, Times};
use crate::lanes::sync::HashSet;
use crate::live::cord::Cancel;
use crate::live::{Live, Offer};
use crate::model::{Answer, FollowUp, ModelError};

/// What ended the reading.
pub(super) enum Read {
    /// The answer is complete.
    End(ModelStop),
    /// The call failed or broke off.
    Failed(ModelError),
    /// The gate is closed.
    Refused,
}

/// An answer that is being read.
pub(super) struct Reading {
    /// `None` once the connection is closed.
    answer: Option<Box<dyn Answer>>,
    /// A piece that must wait for the disk.
    held: Option<Piece>,
    /// The calls of the answer; `None` until there is one.
    calls: Option<Box<Calls>>,
    /// The usage that the provider has reported; `None` until it reports any.
    usage: Option<Box<Usage>>,
    /// Who answers, as far as the provider has said it.
    answerer: Option<Box<Answerer>>,
    /// Whether a layer has changed the answer. Known once it is closed.
    answer_changed: bool,
    /// The call's meter, if the model has one.
    pub(super) metered: Option<Box<Metered>>,
    /// What can still be learned about a call that was cut.
    pub(super) afterwards: Option<Box<FollowUp>>,
    is_whole: bool,
    started: Stamp,
    pub(super) first_piece: Option<Stamp>,
    silence: Option<Box<Silence>>,
    budget: Option<Box<Budget>>,
}

/// The calls of an answer so far.
#[derive(Default)]
struct Calls {
    heads: Vec<Arc<CallHead>>,
    /// Their ids, and the ids that the model gave them: a call whose id was taken got another.
    ids: HashSet<CallId>,
    written: HashSet<CallId>,
    /// Those whose id the model had already used in this answer.
    duplicates: Vec<CallId>,
    /// A call that has begun and waits for the disk.
    waits: Option<Arc<CallHead>>,
}

/// Watches for a model that sends nothing.
struct Silence {
    limit: Duration,
    last_piece: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Silence {
    fn new(limit: Duration) -> Self {
        Self { limit, last_piece: Instant::now(), timer: Box::pin(sleep(limit)) }
    }

    /// Ready when nothing has come for too long. The timer is reset only when it fires, not with every piece.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.timer.as_mut().poll(cx));
            let due = self.last_piece + self.limit;
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(due);
        }
    }
}

impl Reading {
    pub(super) fn new(
        answer: Box<dyn Answer>,
        metered: Option<Box<Metered>>,
        started: Stamp,
        silence: Option<Duration>,
        budget: Option<Budget>,
    ) -> Self {
        Self {
            answer: Some(answer),
            held: None,
            calls: None,
            usage: None,
            answerer: None,
            answer_changed: false,
            metered,
            afterwards: None,
            is_whole: false,
            started,
            first_piece: None,
            silence: silence.map(|limit| Box::new(Silence::new(limit))),
            budget: budget.map(Box::new),
        }
    }

    /// Closes the connection, at once.
    pub(super) fn close(&mut self) {
        if let Some(answer) = self.answer.take() {
            self.report(answer.usage_so_far());
            self.answerer = who_answers(&*answer);
            self.answer_changed = answer.is_changed();
            if let Some(metered) = &mut self.metered {
                metered.look_at(&*answer);
            }
            if !self.is_whole {
                self.afterwards = answer.cut().map(Box::new);
            }
        }
    }

    pub(super) fn times(&self, ended: Stamp) -> Times {
        Times { started: self.started, first_piece: self.first_piece, ended }
    }

    /// What is known about the usage.
    pub(super) fn usage(&self) -> Usage {
        let usage = self.usage.as_deref().copied().unwrap_or(Usage::UNKNOWN);
        if self.first_piece.is_some() { usage.once_begun() } else { usage }
    }

    /// The event that says what the call used, and who answered it.
    pub(super) fn accounted(&self, call: u32, used: Used, pending: Option<Awaited>) -> Event {
        let Answerer { model, request_id } = self.answerer.as_deref().cloned().unwrap_or_default();
        let answer_changed = self.answer_changed;
        Event::Usage { call, used: Box::new(used), pending, answered_by: model, request_id, answer_changed }
    }

    fn report(&mut self, later: Usage) {
        if later != Usage::UNKNOWN {
            self.usage = Some(Box::new(self.usage().corrected_by(later)));
        }
    }

    pub(super) fn first_piece_us(&self) -> Option<u64> {
        self.first_piece.map(|first| first.mono_us.saturating_sub(self.started.mono_us))
    }

    /// Takes pieces as long as they are ready, each through the gate.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, live: &Arc<Live>, ids: &mut LazyIds<'_>) -> Poll<Read> {
        loop {
            let piece = match self.held.take() {
                Some(piece) => piece,
                None => match ready!(self.poll_piece(cx, live)) {
                    Ok(piece) => piece,
                    Err(read) => return Poll::Ready(read),
                },
            };
            live.hit("driver: piece");
            match self.take(piece, live, ids) {
                Taken::GoOn => {}
                Taken::Held => return Poll::Pending,
                Taken::Over(read) => return Poll::Ready(read),
            }
        }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>, live: &Arc<Live>) -> Poll<Result<Piece, Read>> {
        // A model that always has a piece ready must not starve the others on this thread.
        let budget = ready!(tokio::task::coop::poll_proceed(cx));
        let Some(answer) = &mut self.answer else { return Poll::Ready(Err(Read::Refused)) };
        let Poll::Ready(piece) = answer.poll_piece(cx) else { return self.poll_silence(cx, live).map(Err) };
        budget.made_progress();
        Poll::Ready(match piece {
            Some(Ok(piece)) => Ok(piece),
            Some(Err(error)) => Err(Read::Failed(error)),
            None => {
                let message = "the model's answer broke off: the stream ended before the model said it was done";
                Err(Read::Failed(ModelError::retryable(message)))
            }
        })
    }

    fn poll_silence(&mut self, cx: &mut Context<'_>, live: &Arc<Live>) -> Poll<Read> {
        let Some(silence) = &mut self.silence else { return Poll::Pending };
        ready!(silence.poll(cx));
        let note = format!("the model sent nothing for {:?}", silence.limit);
        let cancel = Cancel::graceful().reason(Reason::Deadline).by("limit").note(note);
        live.pull(cancel.at(live.now()));
        Poll::Ready(Read::Refused)
    }

    fn take(&mut self, piece: Piece, live: &Arc<Live>, ids: &mut LazyIds<'_>) -> Taken {
        if let Some(cancel) = self.budget.as_ref().and_then(|budget| budget.due(&piece)) {
            live.pull(cancel.at(live.now()));
            return Taken::Over(Read::Refused);
        }
        let is_empty = matches!(&piece, Piece::Text(text) | Piece::Thinking(text) | Piece::CallInput { json: text, .. } if text.is_empty());
        if is_empty {
            // Providers often begin with an empty piece: there is nothing to show or keep.
            return Taken::GoOn;
        }
        let offer = match &piece {
            Piece::Text(text) => live.offer(&Kind::Text, text),
            Piece::Thinking(text) => live.offer(&Kind::Thinking, text),
            Piece::ThinkingEnd { signature } => {
                live.offer_mark(MarkKind::ThinkingEnded { signature: signature.clone() })
            }
            Piece::Call { id, name } => {
                let calls = self.calls.get_or_insert_default();
                let head = calls.waits.take().unwrap_or_else(|| calls.begin(id, name, live, ids.get()));
                let offer = live.offer_mark(MarkKind::Begins(Kind::ToolInput(Arc::clone(&head))));
                match offer {
                    Offer::Later => calls.waits = Some(head),
                    Offer::Accepted { .. } | Offer::Refused => calls.heads.push(head),
                }
                offer
            }
            Piece::CallInput { index, json } => match self.head(*index) {
                Some(head) => live.offer(&Kind::ToolInput(Arc::clone(head)), json),
                None => return Taken::unknown_call(*index),
            },
            Piece::CallEnd { index } if self.head(*index).is_some() => {
                live.offer_mark(MarkKind::CallEnded { index: *index })
            }
            Piece::CallEnd { index } => return Taken::unknown_call(*index),
            Piece::Usage(usage) => {
                self.report(**usage);
                live.offer_mark(MarkKind::Used(usage.clone()))
            }
            Piece::End(stop) => {
                self.is_whole = true;
                return Taken::Over(Read::End(*stop));
            }
            #[cfg(not(andon_whole))]
            // There is nothing that it could be shown as.
            _ => return Taken::GoOn,
        };
        self.offered(offer, piece, live)
    }

    fn offered(&mut self, offer: Offer, piece: Piece, live: &Arc<Live>) -> Taken {
        match offer {
            Offer::Refused => return Taken::Over(Read::Refused),
            Offer::Later => {
                self.held = Some(piece);
                return Taken::Held;
            }
            Offer::Accepted { first_unjournaled: true } => live.services.flusher.add(live),
            Offer::Accepted { first_unjournaled: false } => {}
        }
        // Counted from when the piece was accepted: while a piece waits for the disk, the model is not silent.
        if let Some(silence) = &mut self.silence {
            silence.last_piece = Instant::now();
        }
        if self.first_piece.is_none() && !matches!(piece, Piece::Usage(_)) {
            self.first_piece = Some(live.now());
            self.say_who(live);
        } else if self.answerer.is_none() && matches!(piece, Piece::Usage(_)) {
            // Some providers begin with it, and then think for a while.
            self.say_who(live);
        }
        self.watch_budget(&piece, live);
        live.hit("driver: piece accepted");
        Taken::GoOn
    }

    /// Puts on record who answers, as far as it is known: after a crash, nobody else knows.
    fn say_who(&mut self, live: &Arc<Live>) {
        let answerer = self.answer.as_deref().and_then(who_answers);
        if answerer.is_none() || answerer == self.answerer {
            return;
        }
        self.answerer.clone_from(&answerer);
        let mark = answerer.map(|answerer| live.offer_mark(MarkKind::Answered(answerer)));
        if let Some(Offer::Accepted { first_unjournaled: true }) = mark {
            live.services.flusher.add(live);
        }
    }

    /// A piece was accepted: looks whether the run has used up its tokens.
    fn watch_budget(&mut self, piece: &Piece, live: &Live) {
        let Some(budget) = &mut self.budget else { return };
        let is_due = budget.accepted(piece);
        if matches!(piece, Piece::Usage(_)) {
            let used = self.usage().at_least();
            self.budget.iter_mut().for_each(|budget| budget.reported(used));
        } else if is_due {
            let used = self.at_least(live);
            self.budget.iter_mut().for_each(|budget| budget.estimated(used));
        }
    }

    /// How many tokens this call has certainly used by now: as reported, or as its meter estimates it, or as many as so much text
    /// must have. Many providers report only at the end.
    fn at_least(&mut self, live: &Live) -> u64 {
        let answer = live.with_log(|log| written(log.answer()));
        let reported = self.usage();
        let written = reported.output.at_least().max(fewest_tokens(&answer));
        let known = reported.read().at_least().saturating_add(written);
        known.max(self.estimated(&answer, reported, live.now()).unwrap_or(0))
    }

    /// How many tokens the call's meter counts by now. `None` if there is no meter.
    fn estimated(&mut self, answer: &[Part], reported: Usage, now: Stamp) -> Option<u64> {
        let times = self.times(now);
        let (metered, budget) = (self.metered.as_mut()?, self.budget.as_mut()?);
        if let Some(answer) = self.answer.as_deref() {
            metered.look_at(answer);
        }
        let is_reported = reported.input != Figure::UNKNOWN;
        // An estimate of the input stays the same while the answer grows.
        let known = if is_reported { reported } else { reported.input(budget.input) };
        let billed = metered.estimate(answer, CallEnd::Cut, times, known.running()).billed;
        budget.input = billed.input;
        // What a provider adds to a request or leaves out of it is not seen, so half of an estimate counts. Its lower bound would let
        // everything through at a server that may drop the beginning of a conversation.
        let read = match (is_reported, billed.read()) {
            (false, Figure { value: Some(value), .. }) => value / 2,
            (_, read) => read.at_least(),
        };
        Some(read.saturating_add(billed.output.at_least()))
    }

    fn head(&self, index: usize) -> Option<&Arc<CallHead>> {
        self.calls.as_ref()?.heads.get(index)
    }

    /// Calls whose id the model had already used in this answer.
    pub(super) fn duplicates(&self) -> &[CallId] {
        self.calls.as_ref().map_or(&[], |calls| &calls.duplicates)
    }
}

/// Who answers, if the provider has said it.
fn who_answers(answer: &dyn Answer) -> Option<Box<Answerer>> {
    let answerer = Answerer::new(answer.model(), answer.request_id());
    (answerer != Answerer::default()).then(|| Box::new(answerer))
}

impl Calls {
    /// The beginning of a call, with an id that no other call of the session has.
    fn begin(&mut self, id: &str, name: &str, live: &Arc<Live>, earlier: &mut CallIds) -> Arc<CallHead> {
        let wanted = CallId::new(id).ok();
        let is_duplicate = wanted.as_ref().is_some_and(|id| !self.written.insert(id.clone()));
        let is_free = |id: &CallId| !self.ids.contains(id) && !earlier.is_taken(id);
        let id = wanted.clone().filter(is_free).unwrap_or_else(|| {
            let base = wanted.as_ref().map_or("call", CallId::as_str);
            earlier.free(base, |id| self.ids.contains(id)).unwrap_or_else(|| live.id_for_call())
        });
        if is_duplicate {
            self.duplicates.push(id.clone());
        }
        self.ids.insert(id.clone());
        Arc::new(CallHead { index: self.heads.len(), id, name: name.to_owned() })
    }
}

/// What became of a piece.
enum Taken {
    /// It was accepted, or is empty.
    GoOn,
    /// It must wait for the disk.
    Held,
    /// The reading has ended.
    Over(Read),
}

impl Taken {
    fn unknown_call(index: usize) -> Self {
        let message = format!("the model sent a piece of tool call {index}, which it had not begun");
        Self::Over(Read::Failed(ModelError::fatal(message)))
    }
}
