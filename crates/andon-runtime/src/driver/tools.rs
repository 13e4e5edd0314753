//! The step `CallTools`: start what may start, then wait for one of those that run.

use std::future::Future;
use std::sync::Arc;

use andon_core::cancel::Reason;
use andon_core::closing::{stopped_result, tool_finished};
use andon_core::event::{AddendumKind, Effect, Event, HookPoint, Remains, ToolEnd};
use andon_core::id::{CallId, SessionKey};
use andon_core::message::{Content, ResultStatus, ToolCall, ToolResult};
use andon_core::progress::CallState;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::Driver;
use super::watch::Woke;
use crate::agent::{EffectId, Invocation, Progress, SessionState, Tool};
use crate::driver::aside::{ToolAside, clean_up, out_of_time};
use crate::journal::JournalError;
use crate::live::cord::Cord;
use crate::live::{AsideEnd, ClosedTicket, Live, Order, REAP, StopRules, ToolDone};
use crate::tool::{Returned, ToolSpec};

/// A tool that was started and has not ended.
pub(super) struct RunningTool {
    ticket: u32,
    call: CallId,
    effect: Effect,
    spec: Arc<ToolSpec>,
    /// When its time limit is reached, once it has begun. The call's own task normally enforces that, but cannot if it
    /// does not yield.
    limit: Option<Instant>,
    /// Until when to wait for it after it was told to stop.
    patience: Option<Instant>,
}

/// A call that has ended, for the hooks that come after it.
pub(super) struct FinishedTool {
    pub(super) call: ToolCall,
    pub(super) result: Arc<ToolResult>,
    pub(super) end: ToolEnd,
    /// How many bytes a result may have.
    pub(super) max_output: usize,
}

impl Driver {
    pub(super) async fn call_tools(&mut self, start: Vec<CallId>) -> Result<(), JournalError> {
        let mut asides = Vec::with_capacity(start.len());
        for id in start {
            asides.extend(self.prepare(&id).await?);
            if self.has_hooks(HookPoint::BeforeTool) {
                // A tool does not wait for the hooks of later calls.
                self.begin_tools(&mut asides).await?;
            }
            if self.must_look_again() || self.progress().failure().is_some() {
                break;
            }
        }
        self.begin_tools(&mut asides).await?;
        self.wait_for_tools().await?;
        self.run_after_tool_hooks().await?;
        self.commit().await
    }

    /// Intent before effect: every call is on record before its tool can do anything.
    async fn begin_tools(&mut self, asides: &mut Vec<ToolAside>) -> Result<(), JournalError> {
        self.commit().await?;
        self.live.hit("driver: before tools");
        for aside in asides.drain(..) {
            self.live.services.door.spawn_aside(aside.run());
        }
        let fresh = |running: &&mut RunningTool| running.limit.is_none() && running.patience.is_none();
        for running in self.running.iter_mut().filter(fresh) {
            running.limit = running.spec.timeout.map(|timeout| Instant::now() + timeout + REAP);
        }
        Ok(())
    }

    /// Puts one call on record as started, or refuses it.
    async fn prepare(&mut self, id: &CallId) -> Result<Option<ToolAside>, JournalError> {
        let Some(call) = self.open_call(id) else { return Ok(None) };
        let call = match self.has_hooks(HookPoint::BeforeTool) {
            true => Box::pin(self.before_tool(call)).await?,
            false => Some(call),
        };
        // The call may have been cancelled alone during the hook.
        let Some(call) = call.filter(|call| self.is_ready(&call.id)) else { return Ok(None) };
        self.live.hit("driver: before tool intent");
        if !self.live.lets_the_turn_go_on() {
            return Ok(None);
        }
        let Some(tool) = self.tool(&call.name) else {
            // Triage has already refused calls of tools that do not exist.
            return Ok(None);
        };
        let effect = tool.spec().effect;
        let input = call.input().unwrap_or(Value::Null);
        let ticket = self.live.open_ticket(Some(call.id.clone()), StopRules::of_tool(tool.spec()));
        let spec = Arc::clone(tool.spec());
        let aside = self.aside(ticket, &call, input, tool);
        self.running.push(RunningTool { ticket, call: call.id.clone(), effect, spec, limit: None, patience: None });
        let effect_id = (effect != Effect::ReadOnly).then(|| EffectId::new(&self.live.id, &call.id).shared());
        let intent = Event::ToolStarted { call: call.id, effect, effect_id };
        self.stage(intent);
        Ok(Some(aside))
    }

    pub(super) fn is_ready(&self, id: &CallId) -> bool {
        self.progress().call(id).is_some_and(|open| open.state == CallState::Ready)
    }

    fn open_call(&self, id: &CallId) -> Option<ToolCall> {
        self.progress().call(id).map(|open| open.call.clone())
    }

    pub(super) fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let checked = self.agent.tools.iter().find(|checked| checked.tool.spec().name == name);
        checked.map(|checked| Arc::clone(&checked.tool))
    }

    fn aside(&self, ticket: u32, call: &ToolCall, input: Value, tool: Arc<dyn Tool>) -> ToolAside {
        let live = Arc::clone(&self.live);
        let invocation = Invocation {
            call: call.id.clone(),
            run: live.id.clone(),
            session: SessionKey::clone(&live.session),
            input,
            cord: Cord::new(Arc::clone(&live), Some(ticket)),
            progress: Progress::new(Arc::clone(&live), ticket, call.id.clone()),
            state: SessionState::new(Arc::clone(&live), ticket),
        };
        let late = late_result(Arc::clone(&live), call.id.clone());
        let spec = Arc::clone(tool.spec());
        ToolAside::new(live, ticket, call.id.clone(), spec, move || tool.call(invocation), late)
    }

    /// Waits for news of the running tools. One that was told to stop, has had its grace and does not yield to be
    /// dropped is given up by name.
    pub(super) async fn wait_for_tools(&mut self) -> Result<(), JournalError> {
        self.hear();
        self.close_never_started();
        self.let_detached_go();
        // What was heard goes on record before the wait, so that a quick tool does not wait for a slow one.
        if self.running.is_empty() || !self.finished.is_empty() || !self.staged.is_empty() {
            return Ok(());
        }
        let mut timer = self.look_at_patience().map(|until| Box::pin(sleep_until(until)));
        let woke = self
            .watch
            .race(|cx| match &mut timer {
                Some(timer) => timer.as_mut().poll(cx),
                None => std::task::Poll::Pending,
            })
            .await;
        match woke {
            Woke::News => self.hear(),
            Woke::Work(()) => {
                self.stop_those_out_of_time();
                self.give_up_overdue();
            }
        }
        self.check_journal()
    }

    /// Closes tools that were told to stop before they began.
    fn close_never_started(&mut self) {
        let (never, running) = std::mem::take(&mut self.running)
            .into_iter()
            .partition::<Vec<_>, _>(|running| self.live.will_never_start(running.ticket));
        self.running = running;
        for RunningTool { ticket, call, .. } in never {
            self.live.close_ticket(ticket);
            self.close_as(call, ToolEnd::NeverStarted);
        }
    }

    /// Lets go of tools that are declared to outlive a stopped run.
    fn let_detached_go(&mut self) {
        let (gone, running) = std::mem::take(&mut self.running)
            .into_iter()
            .partition::<Vec<_>, _>(|running| self.live.let_go(running.ticket));
        self.running = running;
        for RunningTool { call, .. } in gone {
            self.close_as(call, ToolEnd::Detached);
        }
    }

    /// Closes a call that will not report in this run.
    fn close_as(&mut self, call: CallId, end: ToolEnd) {
        self.stage(tool_finished(end, stopped_result(call, end, Vec::new())));
    }

    /// Updates until when to wait for each tool, now that it may have been told to stop. Returns the first of these
    /// instants. They never move later: news of another tool is not a reason to wait longer.
    fn look_at_patience(&mut self) -> Option<Instant> {
        let live = &self.live;
        for running in &mut self.running {
            let until = patience(live, running.ticket);
            running.patience = running.patience.into_iter().chain(until).min();
        }
        self.running.iter().filter_map(|running| running.patience.or(running.limit)).min()
    }

    /// Stops calls that have not stopped themselves at their time limit.
    fn stop_those_out_of_time(&mut self) {
        let now = Instant::now();
        for running in &mut self.running {
            if running.limit.take_if(|limit| *limit <= now).is_some() {
                self.live.pull_call(&running.call, out_of_time(&running.spec).at(self.live.now()));
            }
        }
        self.hear();
    }

    fn give_up_overdue(&mut self) {
        let now = Instant::now();
        for running in &mut self.running {
            // A cleanup that has begun meanwhile has its own time limit.
            if running.patience.is_some_and(|until| until <= now) && self.live.is_cleaning(running.ticket) {
                running.patience = patience(&self.live, running.ticket).filter(|until| *until > now);
            }
        }
        let (overdue, running) = std::mem::take(&mut self.running)
            .into_iter()
            .partition::<Vec<_>, _>(|running| running.patience.is_some_and(|until| until <= now));
        self.running = running;
        for RunningTool { ticket, call, spec, .. } in overdue {
            let closed = self.live.close_ticket(ticket);
            if let Some(cleanup) = closed.cleanup.clone() {
                // The call's own task has no thread to run on, but what it has started must still be ended.
                let budget = spec.cleanup;
                self.live.services.door.spawn_keeper(async move { drop(clean_up(cleanup, budget).await) });
            }
            let why = too_long(&closed).map(|text| Content::Text { text });
            let result = stopped_result(call.clone(), ToolEnd::Leaked, why.into_iter().collect());
            let (end, result) = (ToolEnd::Leaked, Arc::new(result));
            self.stage(Event::ToolFinished { call, end, result, remains: None, state: closed.state });
        }
    }

    pub(super) fn hear_tool_ended(&mut self, ticket: u32, done: ToolDone) {
        let Some(place) = self.running.iter().position(|running| running.ticket == ticket) else { return };
        let RunningTool { call, effect, spec, .. } = self.running.swap_remove(place);
        let closed = self.live.close_ticket(ticket);
        let alone = closed.alone.as_ref().is_some_and(|request| request.force.cuts());
        let was_told = alone || self.live.force().is_some_and(|force| force.cuts());
        let had_to_be_stopped = matches!(done.end, AsideEnd::Dropped | AsideEnd::Abandoned);
        if was_told && had_to_be_stopped && !closed.at_once {
            self.stage(Event::GraceEnded { calls: [call.clone()].into() });
        }
        let ToolDone { end, mut remains } = done;
        let (end, result) = judge(&call, effect, end, &mut remains, &closed, was_told);
        let result = Arc::new(result);
        let remains = box_remains(remains);
        if self.has_hooks(HookPoint::AfterTool) {
            let asked = self.open_call(&call);
            let finished = |call| FinishedTool { call, result: Arc::clone(&result), end, max_output: spec.max_output };
            self.finished.extend(asked.map(finished));
        }
        self.stage(Event::ToolFinished { call, end, result, remains, state: closed.state });
    }

    async fn run_after_tool_hooks(&mut self) -> Result<(), JournalError> {
        while !self.finished.is_empty() {
            let finished = self.finished.remove(0);
            self.commit().await?;
            Box::pin(self.after_tool(finished)).await?;
        }
        Ok(())
    }
}

/// Until when to wait for a tool that was told to stop, given the requests so far.
fn patience(live: &Live, ticket: u32) -> Option<Instant> {
    let after_grace = live.after_grace(ticket);
    match live.order_now(ticket) {
        Order::GoOn => None,
        Order::StopNow => Some(Instant::now() + after_grace),
        Order::StopBy(end) => Some(Instant::now() + end.since(live.now()) + after_grace),
    }
}

/// What a tool's end means, for the record and for the model.
pub(crate) fn judge(
    call: &CallId,
    effect: Effect,
    end: AsideEnd<Returned>,
    remains: &mut Remains,
    closed: &ClosedTicket,
    was_told: bool,
) -> (ToolEnd, ToolResult) {
    let kept = std::mem::take(&mut remains.output);
    // A call whose work elsewhere was told to stop and not seen to end is leaked, however soon it was dropped here.
    let cut = if remains.unended.is_some() { ToolEnd::Leaked } else { cut(effect) };
    let judged = judge_end(call, cut, end, kept, closed, was_told);
    if judged.0 != ToolEnd::Leaked {
        // The call itself has ended here and is not leaked; what it left elsewhere is.
        remains.leaked.extend(remains.unended.take());
    }
    judged
}

fn judge_end(
    call: &CallId,
    cut: ToolEnd,
    end: AsideEnd<Returned>,
    kept: Vec<Content>,
    closed: &ClosedTicket,
    was_told: bool,
) -> (ToolEnd, ToolResult) {
    // A tool that did not check its cord and returned within its grace has simply finished.
    let stopped_itself = was_told && closed.saw_it;
    let stopped = |end, returned: Vec<Content>| {
        let why = too_long(closed).map(|text| Content::Text { text });
        (end, stopped_result(call.clone(), end, why.into_iter().chain(returned).collect()))
    };
    match end {
        AsideEnd::Returned(Ok(output)) if stopped_itself => stopped(cut, output.0),
        AsideEnd::Returned(Err(error)) if stopped_itself => stopped(cut, vec![Content::Text { text: error.0 }]),
        AsideEnd::Returned(Ok(output)) => {
            let result = ToolResult::new(call.clone(), ResultStatus::Ok, output.0);
            (ToolEnd::Finished, result)
        }
        AsideEnd::Returned(Err(error)) => {
            (ToolEnd::Finished, ToolResult::text(call.clone(), ResultStatus::Error, error.0))
        }
        AsideEnd::Panicked(text) => {
            stopped(ToolEnd::Panicked, vec![Content::Text { text: format!("It said: {text}") }])
        }
        AsideEnd::NeverStarted => stopped(ToolEnd::NeverStarted, Vec::new()),
        AsideEnd::Abandoned => stopped(ToolEnd::Leaked, kept),
        AsideEnd::Dropped => stopped(cut, kept),
    }
}

/// What a stopped call counts as: one that changes the world may have done so, even if it stopped by itself.
fn cut(effect: Effect) -> ToolEnd {
    match effect {
        Effect::ReadOnly | Effect::Idempotent => ToolEnd::Cut,
        Effect::Effect => ToolEnd::Unknown,
        #[cfg(not(andon_whole))]
        _ => ToolEnd::Unknown,
    }
}

/// What the model is told about a call that took too long, besides that it was stopped.
fn too_long(closed: &ClosedTicket) -> Option<String> {
    let request = closed.alone.as_ref().filter(|request| request.reason == Reason::Deadline)?;
    Some(format!("It took too long: {}.", request.note.as_deref().unwrap_or("its time limit was reached")))
}

pub(crate) fn box_remains(remains: Remains) -> Option<Box<Remains>> {
    (!remains.is_none()).then(|| Box::new(remains))
}

/// Records the end of a tool that was given up, as an addendum: the model never gets its result.
fn late_result(live: Arc<Live>, call: CallId) -> impl FnOnce(ToolDone) + Send + 'static {
    move |ToolDone { end, mut remains }| {
        if let AsideEnd::NeverStarted = end {
            // It was closed as never started, and there is nothing to add.
            return;
        }
        // It has ended here. Nobody saw the remote work end.
        remains.leaked.extend(remains.unended.take());
        let result = match end {
            AsideEnd::Returned(Ok(output)) => ToolResult::new(call.clone(), ResultStatus::Ok, output.0),
            AsideEnd::Returned(Err(error)) => ToolResult::text(call.clone(), ResultStatus::Error, error.0),
            AsideEnd::Panicked(text) => ToolResult::text(call.clone(), ResultStatus::Error, text),
            AsideEnd::Dropped | AsideEnd::Abandoned | AsideEnd::NeverStarted => {
                stopped_result(call.clone(), ToolEnd::Cut, std::mem::take(&mut remains.output))
            }
        };
        // Nobody waits for the disk here.
        drop(live.learn(AddendumKind::LateResult { call, result: Arc::new(result), remains: box_remains(remains) }));
    }
}
