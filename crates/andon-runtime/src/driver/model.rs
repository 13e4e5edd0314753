//! The step `CallModel`: one request to the model, and its answer as far as it comes.

use std::future::Future;
use std::sync::Arc;

use andon_core::answer::{AnswerEnd, assemble, written};
use andon_core::closing::{Why, close_model, refuse, refuse_with};
use andon_core::event::{Event, HookPoint, ModelEnd, Refusal};
use andon_core::id::CallId;
use andon_core::message::{Message, Role, ToolCall};
use andon_core::outcome::{Failure, FailureKind, ModelStop};
use andon_core::usage::{Awaited, Figure, Usage, Used};
use tokio::time::sleep;

use super::Driver;
use super::budget::{Budget, spent};
use super::call_ids::LazyIds;
use super::reading::{Read, Reading};
use super::watch::Woke;
use crate::driver::metering::{CallEnd, Metered, Unreported, follow};
use crate::journal::JournalError;
use crate::live::Appended;
use crate::model::{ModelError, ModelRequest};
use crate::tool::validator::Validator;

/// How many characters of an error in a call's arguments the model is told.
const MAX_DETAIL: usize = 600;
/// How many bytes of arguments a tool may be called with.
const MAX_ARGUMENTS: usize = 1 << 20;

impl Driver {
    pub(super) async fn call_model(&mut self) -> Result<(), JournalError> {
        if let Some(cancel) = spent(&self.limits, self.progress()) {
            self.pull(cancel);
            return Ok(());
        }
        if !std::mem::replace(&mut self.ran_before_run, true) && self.has_hooks(HookPoint::BeforeRun) {
            return Box::pin(self.before_run()).await;
        }
        let number = self.progress().model_calls() + 1;
        let mut changed = None;
        if self.has_hooks(HookPoint::BeforeModel) {
            changed = Box::pin(self.before_model(number)).await?;
            if self.must_look_again() {
                return Ok(());
            }
        }
        let (model, is_changed) = (Arc::clone(&self.agent.model_name), changed.is_some());
        self.stage(Event::ModelStarted { call: number, model, is_changed });
        self.commit().await?;
        self.live.hit("driver: before model");
        if !self.live.may_call_model() {
            return self.close_uncalled(number);
        }
        self.ask_model(number, changed).await
    }

    /// Makes a call that is on record. Apart from [`call_model`](Self::call_model), so that a run that waits for the answer
    /// does not keep room for that record's commit.
    async fn ask_model(&mut self, number: u32, changed: Option<Box<ModelRequest>>) -> Result<(), JournalError> {
        let mut reading = self.begin_reading(number, changed);
        let read = self.read(&mut reading).await?;
        self.close_call(number, &mut reading, read).await
    }

    /// Calls the model. Not async, so that a run that waits for the answer does not keep the request in memory.
    fn begin_reading(&mut self, number: u32, changed: Option<Box<ModelRequest>>) -> Reading {
        let started = self.live.now();
        let names = |request: &ModelRequest| request.tools.iter().map(|tool| tool.name.clone()).collect();
        self.offered = changed.as_deref().map(names);
        let request = changed.map_or_else(|| self.request(number), |changed| *changed);
        let metered = Metered::of(&*self.agent.model, &request);
        if let Some(metered) = &metered {
            metered.spawn_restore_pages(&self.runtime, &self.agent.model_name);
        }
        let budget = self.limits.tokens.map(|limit| {
            let used_before = self.progress().used().billed.at_least();
            Budget::new(limit, used_before, &request)
        });
        let answer = self.agent.model.call(request);
        Reading::new(answer, metered, started, self.limits.silence, budget)
    }

    /// Whether the next step is now to settle, for example because a hook has cancelled the run.
    pub(super) fn must_look_again(&self) -> bool {
        let next = self.progress().next_step(self.agent.tools_at_once);
        matches!(next, Some(andon_core::progress::Step::Settle(_)) | None)
    }

    /// Closes a call that was recorded and not made, because a pull came between: nothing was used.
    fn close_uncalled(&mut self, number: u32) -> Result<(), JournalError> {
        self.stage(Event::usage(number, Used::NONE));
        self.stage(Event::ModelFinished { call: number, end: ModelEnd::Cut, first_piece_us: None });
        Ok(())
    }

    pub(super) fn request(&mut self, number: u32) -> ModelRequest {
        let own = self.progress.iter().flat_map(|progress| progress.messages());
        self.history.extend(own.skip(self.own_in_history).cloned());
        self.own_in_history = self.progress().messages().len();
        ModelRequest {
            instructions: self.agent.instructions.clone(),
            tools: Arc::clone(&self.agent.specs),
            anchor: self.session.anchor(&self.agent.asked()),
            ..ModelRequest::new(self.live.id.clone(), number, self.history.clone())
        }
    }

    /// Reads until the answer ends, fails or must be cut. The caller then closes the connection, before any wait for
    /// the disk.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: dropping it loses the end of the call. Pull the cord instead, and await it.
    async fn read(&mut self, reading: &mut Reading) -> Result<Read, JournalError> {
        loop {
            let (live, mut ids) = (&self.live, LazyIds { known: &mut self.call_ids, history: &self.history });
            let woke = self.watch.race(|cx| reading.poll(cx, live, &mut ids)).await;
            match woke {
                Woke::Work(Read::Refused) | Woke::News => {}
                Woke::Work(read) => return Ok(read),
            }
            self.hear();
            self.check_journal()?;
            if self.is_cut() {
                return Ok(Read::Refused);
            }
            Box::pin(self.commit_beside(reading)).await?;
        }
    }

    /// Journals what was heard while the answer streams. If the cord is pulled meanwhile, the connection is closed at
    /// once, not when the disk is ready.
    async fn commit_beside(&mut self, reading: &mut Reading) -> Result<(), JournalError> {
        let Some(Appended { mut append, fresh }) = self.begin_commit() else { return Ok(()) };
        let result = loop {
            let woke = self.watch.race(|cx| std::pin::Pin::new(&mut append).poll(cx)).await;
            match woke {
                Woke::Work(result) => break result,
                Woke::News => self.hear(),
            }
            if self.is_cut() {
                reading.close();
            }
        };
        self.finish_commit(fresh, result)
    }

    /// Closes the connection and stages the result of the call.
    async fn close_call(&mut self, number: u32, reading: &mut Reading, read: Read) -> Result<(), JournalError> {
        reading.close();
        self.live.hit("driver: stream closed");
        if reading.metered.is_some() {
            // The connection's own task closes the socket, and may be waiting for this thread: let it run before any
            // counting.
            tokio::task::yield_now().await;
        }
        match read {
            Read::End(stop) => self.take_answer(number, reading, stop).await,
            Read::Refused => {
                let why = Why::Cancelled(self.reason());
                self.stage_cut(number, reading, &why);
                Ok(())
            }
            Read::Failed(error) if reading.first_piece.is_some() => {
                let failure = Failure::new(FailureKind::StreamBroken, error.message);
                self.stage_cut(number, reading, &Why::Broken(Box::new(failure)));
                Ok(())
            }
            Read::Failed(error) => Box::pin(self.fail_or_retry(number, reading, &error)).await,
        }
    }

    /// The best figures so far for a call that did not complete, and what is still being learned about it.
    fn account(&self, number: u32, reading: &mut Reading) -> (Used, Option<Awaited>) {
        let usage = reading.usage();
        // The provider refused the request, or was never reached.
        let cost_nothing = reading.first_piece.is_none() && usage == Usage::NONE;
        let known = usage.running();
        let call = reading.metered.take().filter(|_| !cost_nothing).map(|metered| {
            let times = reading.times(self.live.now());
            let answer = self.live.with_log(|log| written(log.answer()));
            Unreported { metered, answer, end: CallEnd::Cut, times, known }
        });
        let used = match &call {
            _ if cost_nothing => Used::NONE,
            None => Used::cut(known),
            Some(call) => call.estimate(),
        };
        let (rough, afterwards) = (call.filter(Unreported::is_rough), reading.afterwards.take());
        (used, follow(&self.live, number, used, rough, afterwards.map(|afterwards| *afterwards)))
    }

    fn stage_cut(&mut self, number: u32, reading: &mut Reading, why: &Why) {
        let (used, pending) = self.account(number, reading);
        let (usage, first_piece_us) = (reading.accounted(number, used, pending), reading.first_piece_us());
        let close = |spans: Vec<&andon_core::answer::Span>| close_model(number, spans, usage, first_piece_us, why);
        let events = self.live.with_log(|log| close(log.answer().collect()));
        self.stage_all(events);
    }

    async fn take_answer(&mut self, number: u32, reading: &mut Reading, stop: ModelStop) -> Result<(), JournalError> {
        let message = self.stage_answer(number, reading, stop);
        if self.has_hooks(HookPoint::AfterModel) {
            // Each call may be cancelled alone already. Nobody is asked about one before it is certain that it is made.
            self.live.open_calls(Vec::new(), message.calls().map(|call| call.id.clone()).collect());
            Box::pin(self.after_model(number, stop)).await?;
            if self.is_cut() || self.progress().failure().is_some() {
                return Ok(());
            }
        }
        self.triage(&message, reading.duplicates());
        Ok(())
    }

    /// Stages a complete answer: its message, what it used, and its end.
    fn stage_answer(&mut self, number: u32, reading: &mut Reading, stop: ModelStop) -> Arc<Message> {
        let parts = self.live.with_log(|log| assemble(log.answer(), AnswerEnd::Whole(stop)));
        let message = Arc::new(Message::new(Role::Assistant, parts));
        self.failed_attempts = 0;
        self.stage(Event::Message { message: Arc::clone(&message) });
        let (used, pending) = self.account_whole(number, reading, &message);
        self.stage(reading.accounted(number, used, pending));
        let first_piece_us = reading.first_piece_us();
        self.stage(Event::ModelFinished { call: number, end: ModelEnd::Answered { stop }, first_piece_us });
        message
    }

    /// The figures of a call that completed; its meter learns from them.
    fn account_whole(&self, number: u32, reading: &mut Reading, message: &Arc<Message>) -> (Used, Option<Awaited>) {
        let known = reading.usage();
        let Some(metered) = reading.metered.take() else { return (Used::whole(known), None) };
        let times = reading.times(self.live.now());
        if self.progress().open_model().is_none_or(|open| open.change.is_none()) {
            // A request that a hook changed is not the conversation that later calls are measured by.
            metered.set_anchor(&self.session, &self.agent, known);
        }
        let is_unreported = known.input == Figure::UNKNOWN || known.output == Figure::UNKNOWN;
        let call = is_unreported.then(|| {
            let (metered, answer) = (metered.clone(), message.parts.clone());
            Unreported { metered, answer, end: CallEnd::Whole, times, known }
        });
        metered.learn(&self.runtime, &self.live, message, times, known);
        let used = call.as_ref().map_or_else(|| Used::whole(known), Unreported::estimate);
        (used, follow(&self.live, number, used, call.filter(Unreported::is_rough), None))
    }

    /// Decides for each call of an answer, before any starts, whether it can be made and whether a person must approve
    /// it.
    fn triage(&mut self, message: &Message, duplicates: &[CallId]) {
        let (mut asked, mut ready) = (Vec::new(), Vec::new());
        for call in message.calls() {
            if !self.is_ready(&call.id) {
                // It was cancelled alone, or withdrawn with its answer.
                continue;
            }
            match self.triage_refusal(call, duplicates) {
                Some(refused) => self.stage(refused),
                None if self.needs_approval(call) => {
                    let arguments = call.digest();
                    self.stage(Event::ApprovalRequested { call: call.id.clone(), arguments: Some(arguments) });
                    asked.push((call.id.clone(), arguments));
                }
                None => ready.push(call.id.clone()),
            }
        }
        self.live.open_calls(asked, ready);
    }

    /// As [`refusal`](Self::refusal), also for tools that a hook left out of the request.
    fn triage_refusal(&self, call: &ToolCall, duplicates: &[CallId]) -> Option<Event> {
        let is_offered = |names: &Arc<[String]>| names.contains(&call.name);
        if self.offered.as_ref().is_none_or(is_offered) || duplicates.contains(&call.id) {
            return self.refusal(call, duplicates);
        }
        Some(refuse_with(call.id.clone(), Refusal::UnknownTool, Some("It was not offered this time.")))
    }

    pub(super) fn refusal(&self, call: &ToolCall, duplicates: &[CallId]) -> Option<Event> {
        if duplicates.contains(&call.id) {
            return Some(refuse(call.id.clone(), Refusal::DuplicateId));
        }
        let Some(checked) = self.agent.tools.iter().find(|checked| checked.tool.spec().name == call.name) else {
            let known: Vec<&str> = self.agent.specs.iter().map(|spec| spec.name.as_str()).collect();
            let detail = match known.as_slice() {
                [] => "There are no tools.".to_owned(),
                names => format!("The tools are: {}.", names.join(", ")),
            };
            return Some(refuse_with(call.id.clone(), Refusal::UnknownTool, Some(&detail)));
        };
        let wrong = wrong_arguments(call, &checked.validator)?;
        // The error quotes the arguments, and they may be long.
        let wrong: String = wrong.chars().take(MAX_DETAIL).collect();
        Some(refuse_with(call.id.clone(), Refusal::BadArguments, Some(&wrong)))
    }

    pub(super) fn needs_approval(&self, call: &ToolCall) -> bool {
        self.agent.specs.iter().any(|spec| spec.name == call.name && spec.needs_approval)
    }

    /// Nothing was shown, so the call may be retried.
    async fn fail_or_retry(
        &mut self,
        number: u32,
        reading: &mut Reading,
        error: &ModelError,
    ) -> Result<(), JournalError> {
        self.failed_attempts += 1;
        let mut random = match self.live.services.seed {
            Some(seed) => fastrand::Rng::with_seed(seed ^ u64::from(number)),
            None => fastrand::Rng::new(),
        };
        let delay = self.agent.retry.delay(self.failed_attempts, error, &mut random);
        let message = match self.failed_attempts {
            1 => error.message.clone(),
            tries => format!("{} (tried {tries} times)", error.message),
        };
        let failure = Box::new(Failure::new(error.failure_kind(), message));
        let (used, pending) = self.account(number, reading);
        self.stage(reading.accounted(number, used, pending));
        self.stage(Event::ModelFinished { call: number, end: ModelEnd::Failed { failure }, first_piece_us: None });
        let Some(delay) = delay else { return Ok(()) };
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.stage(Event::BackoffStarted { delay_ms });
        self.commit().await?;
        self.live.hit("driver: before back-off");
        let mut pause = Box::pin(sleep(delay));
        while !self.is_stopping() {
            let woke = self.watch.race(|cx| pause.as_mut().poll(cx)).await;
            match woke {
                Woke::Work(()) => break,
                Woke::News => self.hear(),
            }
            self.check_journal()?;
        }
        self.stage(Event::BackoffFinished);
        Ok(())
    }
}

/// What is wrong with a call's arguments, in words for the model; `None` if nothing is.
fn wrong_arguments(call: &ToolCall, validator: &Validator) -> Option<String> {
    let length = call.arguments.len();
    if length > MAX_ARGUMENTS {
        // Not parsed, because that would take a while.
        return Some(format!("They are {length} bytes long, and at most {MAX_ARGUMENTS} are allowed."));
    }
    match call.input() {
        Ok(input) => validator.objection(&input),
        Err(error) => Some(match half_a_character(&call.arguments) {
            Some(half) => format!(
                "They contain half of a character, {half}, which is not valid text, so it is not clear what was meant: write \
                 the character as it is, or leave it out."
            ),
            None => format!("They are not valid JSON: {error}"),
        }),
    }
}

/// The first escape that is half of a surrogate pair without the other half.
fn half_a_character(json: &str) -> Option<&str> {
    const LENGTH: usize = "\\ud800".len();
    let escape = |at: usize| json.get(at..at + LENGTH).filter(|escape| escape.starts_with("\\u"));
    let code = |at| escape(at).and_then(|escape| u32::from_str_radix(escape.get(2..)?, 16).ok());
    let mut at = 0;
    loop {
        at += json.get(at..)?.find('\\')?;
        at += match (code(at), code(at + LENGTH)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 2 * LENGTH,
            (Some(0xd800..=0xdfff), _) => return escape(at),
            // Skips the escaped character, which begins no escape and may take several bytes.
            _ => 1 + json.get(at + 1..)?.chars().next()?.len_utf8(),
        };
    }
}
