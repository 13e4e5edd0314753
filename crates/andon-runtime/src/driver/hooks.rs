//! Calls hooks: beside the driver, one after another, and left at once when the cord is pulled.
//!
//! # Invariants
//!
//! 1. A hook's decision and its end are one event, staged in the same stretch in which the driver hears of it: whoever dies
//!    later leaves both on record or neither.
//! 2. A change is checked before it is recorded. One that cannot be used fails the run, or is an error result for the model.

use std::sync::Arc;
use std::time::Duration;

use andon_core::closing::{Why, close_unstarted, refuse_with};
use andon_core::event::{Event, HookChange, HookEnd, HookPoint, Refusal};
use andon_core::id::SessionKey;
use andon_core::message::{Message, ToolResult};
use andon_core::outcome::{Ending, ModelStop};
use andon_core::progress::Step;

use super::Driver;
use super::tools::FinishedTool;
use super::watch::Woke;
use crate::agent::hook::{AfterModel, AfterRun, AfterTool, BeforeModel, BeforeRun, Hook};
use crate::driver::{aside, changes};
use crate::journal::JournalError;
use crate::live::cord::Cord;
use crate::live::{AsideEnd, Changed, HookVerdict, News, Order, REAP, StopRules};
use crate::model::ModelRequest;
use crate::tool::{DEFAULT_GRACE, ToolOutput, bounded};

/// What follows from a hook.
pub(super) enum HookReturn {
    /// Nothing of its own: it let the run go on, or the run is being stopped.
    GoOn,
    Panicked(String),
    /// Something that only its moment knows. Its end is not staged yet: [`finish_hook`](Driver::finish_hook) comes next, with no
    /// wait before it.
    Decided(HookVerdict),
}

impl Driver {
    pub(super) fn has_hooks(&self, point: HookPoint) -> bool {
        self.agent.hooks.has(point)
    }

    /// Whether the next hook at this point is to be called. The last hook of a run always is.
    pub(super) fn may_call_hook(&mut self, point: HookPoint) -> bool {
        self.hear();
        point == HookPoint::AfterRun || !(self.is_cut() || self.progress().failure().is_some())
    }

    pub(super) async fn before_run(&mut self) -> Result<(), JournalError> {
        let (point, agent) = (HookPoint::BeforeRun, Arc::clone(&self.agent));
        for hook in &agent.hooks.before_run {
            // It stands after what the prompt brought along.
            let brought_along = self.progress().accepted().history.len();
            let Some(input) = self.progress().messages().get(brought_along).cloned() else { break };
            if !self.may_call_hook(point) {
                break;
            }
            let moment = |cord, session| BeforeRun::new(cord, session, input);
            if let HookReturn::Decided(HookVerdict::Change(Changed::Input(input))) =
                self.call_hook(point, hook, moment).await?
            {
                self.finish_changed(point, changes::input(input));
            }
        }
        Ok(())
    }

    pub(super) async fn after_run(&mut self, ending: &Arc<Ending>) -> Result<(), JournalError> {
        let (point, agent) = (HookPoint::AfterRun, Arc::clone(&self.agent));
        for hook in &agent.hooks.after_run {
            self.hear();
            let ending = self.ending_so_far(ending);
            let (answer, used) = (self.progress().last_answer().cloned(), self.progress().used());
            let moment = |cord, session| AfterRun::new(cord, session, ending, answer, used);
            if let HookReturn::Decided(_) = self.call_hook(point, hook, moment).await? {
                self.finish_hook(point, HookEnd::Continued);
            }
        }
        Ok(())
    }

    /// How the run will end, given what hooks before this one did at its end: a run that was stopped stays stopped.
    fn ending_so_far(&self, ending: &Arc<Ending>) -> Arc<Ending> {
        match self.progress().next_step(self.agent.tools_at_once) {
            Some(Step::Settle(now)) if !ending.is_cancelled() => now,
            _ => Arc::clone(ending),
        }
    }

    /// Asks the hooks about a request; `Some` if they changed it.
    pub(super) async fn before_model(&mut self, number: u32) -> Result<Option<Box<ModelRequest>>, JournalError> {
        let (point, agent) = (HookPoint::BeforeModel, Arc::clone(&self.agent));
        let own = self.request(number);
        let (mut request, mut change) = (own.clone(), changes::between(&own, &own));
        let mut is_changed = false;
        for hook in &agent.hooks.before_model {
            if !self.may_call_hook(point) {
                break;
            }
            let moment = |cord, session| BeforeModel::new(cord, session, request.clone());
            let HookReturn::Decided(HookVerdict::Change(Changed::Request(wanted))) =
                self.call_hook(point, hook, moment).await?
            else {
                continue;
            };
            let wanted = changes::between(&own, &wanted).checked(&own, *wanted);
            match wanted {
                Err(why) => self.fail_hook(point, why),
                Ok((_, same)) if same == change => self.finish_hook(point, HookEnd::Continued),
                Ok((wanted, new)) => {
                    let told = HookChange::Request { request: new.0.clone() };
                    (request, change, is_changed) = (wanted, new, true);
                    self.finish_changed(point, Ok(Some(told)));
                }
            }
        }
        Ok(is_changed.then(|| Box::new(request)))
    }

    pub(super) async fn after_model(&mut self, number: u32, stop: ModelStop) -> Result<(), JournalError> {
        let (point, agent) = (HookPoint::AfterModel, Arc::clone(&self.agent));
        for hook in &agent.hooks.after_model {
            let Some(answer) = self.progress().last_answer().cloned() else { break };
            if !self.may_call_hook(point) {
                break;
            }
            let moment = |cord, session| AfterModel::new(cord, session, number, Arc::clone(&answer), stop);
            if let HookReturn::Decided(HookVerdict::Change(changed)) = self.call_hook(point, hook, moment).await? {
                if matches!(changed, Changed::Withdrawn(_)) {
                    self.refuse_withdrawn(&answer);
                }
                self.finish_changed(point, Ok(changes::answer(&answer, changed)));
                // The figures of the old answer do not say how long the new one is.
                self.session.forget_anchor(&self.agent.asked());
            }
        }
        Ok(())
    }

    /// Closes the calls of an answer that is about to be withdrawn.
    fn refuse_withdrawn(&mut self, answer: &Message) {
        for call in answer.calls().filter(|call| self.is_ready(&call.id)).cloned().collect::<Vec<_>>() {
            self.live.forget_call(&call.id);
            let why = Some("The answer that asks for it was withdrawn.");
            self.stage(refuse_with(call.id, Refusal::DeniedByHook, why));
        }
    }

    /// Asks the hooks about the result of a tool.
    pub(super) async fn after_tool(&mut self, finished: FinishedTool) -> Result<(), JournalError> {
        let (point, agent) = (HookPoint::AfterTool, Arc::clone(&self.agent));
        let FinishedTool { call, mut result, end, max_output } = finished;
        for hook in &agent.hooks.after_tool {
            if !self.may_call_hook(point) {
                break;
            }
            let moment = |cord, session| AfterTool::new(cord, session, call.clone(), Arc::clone(&result), end);
            if let HookReturn::Decided(HookVerdict::Change(Changed::Result(output))) =
                self.call_hook(point, hook, moment).await?
            {
                let content = bounded(Ok(output), max_output).unwrap_or_else(|error| ToolOutput::from(error.0)).0;
                let new = Arc::new(ToolResult::new(result.call.clone(), result.status, content));
                let change = (new != result).then(|| HookChange::Result { result: Arc::clone(&new) });
                result = new;
                self.finish_changed(point, Ok(change));
            }
        }
        Ok(())
    }

    /// Calls one hook and waits for its end.
    pub(super) async fn call_hook<M: Send + 'static>(
        &mut self,
        point: HookPoint,
        hook: &Hook<M>,
        moment: impl FnOnce(Cord, SessionKey) -> M,
    ) -> Result<HookReturn, JournalError> {
        // Only the last hook of a stopped run has a grace; the others are left at once.
        let grace = if point == HookPoint::AfterRun { DEFAULT_GRACE } else { Duration::ZERO };
        self.stage(Event::HookStarted { point });
        self.commit().await?;
        let ticket = self.live.open_ticket(None, StopRules::of_hook(grace));
        let moment = moment(Cord::new(Arc::clone(&self.live), None), SessionKey::clone(&self.live.session));
        let (hook, live) = (Arc::clone(hook), Arc::clone(&self.live));
        self.live.services.door.spawn_aside(aside::run_hook(live, ticket, move || hook(moment), News::HookEnded));
        let end = Box::pin(self.wait_for_hook(ticket)).await?;
        self.live.close_ticket(ticket);
        self.live.hit("driver: hook ended");
        Ok(self.take_verdict(point, end))
    }

    /// Waits for a hook; only briefly, if it was told to stop and does not yield to be dropped.
    async fn wait_for_hook(&mut self, ticket: u32) -> Result<Option<AsideEnd<HookVerdict>>, JournalError> {
        loop {
            if let Some((_, end)) = self.hook_end.take().map(|end| *end).filter(|(number, _)| *number == ticket) {
                return Ok(Some(end));
            }
            // What was heard is on record before the wait goes on.
            self.commit().await?;
            self.check_journal()?;
            let mut patience = match self.live.order_now(ticket) {
                Order::GoOn => None,
                Order::StopNow => Some(REAP),
                Order::StopBy(end) => Some(end.since(self.live.now()) + REAP),
            }
            .map(|patience| Box::pin(tokio::time::sleep(patience)));
            let woke = self
                .watch
                .race(|cx| match &mut patience {
                    Some(patience) => patience.as_mut().poll(cx),
                    None => std::task::Poll::Pending,
                })
                .await;
            match woke {
                Woke::News => self.hear(),
                Woke::Work(()) => return Ok(None),
            }
        }
    }

    /// Stages how a hook ended, unless only its moment can say what follows from it.
    fn take_verdict(&mut self, point: HookPoint, end: Option<AsideEnd<HookVerdict>>) -> HookReturn {
        let end = match end {
            None => HookEnd::Leaked,
            Some(AsideEnd::Dropped | AsideEnd::Abandoned | AsideEnd::NeverStarted) => HookEnd::Cut,
            Some(AsideEnd::Panicked(text)) => {
                self.finish_hook(point, HookEnd::Panicked);
                return HookReturn::Panicked(text);
            }
            // Only the last hook decides what becomes of a call.
            Some(AsideEnd::Returned(HookVerdict::GoOn))
                if point != HookPoint::BeforeTool || self.is_told_to_stop(point) =>
            {
                HookEnd::Continued
            }
            Some(AsideEnd::Returned(HookVerdict::Cancel(cancel))) => {
                self.live.pull(cancel.at(self.live.now()));
                HookEnd::Cancelled
            }
            Some(AsideEnd::Returned(HookVerdict::Fail(why))) => {
                self.fail_hook(point, why);
                return HookReturn::GoOn;
            }
            // It had decided, but the pull came before the run heard of it: the decision has no effect.
            Some(AsideEnd::Returned(_)) if self.is_told_to_stop(point) => HookEnd::Cut,
            Some(AsideEnd::Returned(verdict)) => return HookReturn::Decided(verdict),
        };
        self.finish_hook(point, end);
        HookReturn::GoOn
    }

    fn is_told_to_stop(&self, point: HookPoint) -> bool {
        point != HookPoint::AfterRun && self.live.force().is_some_and(|force| force.cuts())
    }

    pub(super) fn finish_hook(&mut self, point: HookPoint, end: HookEnd) {
        self.stage(Event::hook_finished(point, end));
        self.hear_after_hook();
    }

    /// Stages a change, if there is one; a change that cannot be used fails the run.
    pub(super) fn finish_changed(&mut self, point: HookPoint, change: Result<Option<HookChange>, String>) {
        match change {
            Ok(None) => self.finish_hook(point, HookEnd::Continued),
            Ok(Some(change)) => {
                let change = Some(Box::new(change));
                self.stage(Event::HookFinished { point, end: HookEnd::Changed, change, why: None });
                self.live.hit("driver: hook changed");
                self.hear();
            }
            Err(why) => self.fail_hook(point, why),
        }
    }

    pub(super) fn fail_hook(&mut self, point: HookPoint, why: String) {
        let why = Some(format!("the {} hook failed the run: {why}", point.as_str()).into());
        self.stage(Event::HookFinished { point, end: HookEnd::Failed, change: None, why });
        self.hear_after_hook();
    }

    /// Hears what has come during a hook. If the hook has failed the run, nothing can start any more: open questions
    /// about calls are withdrawn. A decision that was accepted before is on record.
    fn hear_after_hook(&mut self) {
        let Some(failure) = self.progress().failure().cloned() else { return self.hear() };
        self.live.open_calls(Vec::new(), Vec::new());
        self.hear();
        let closed = close_unstarted(self.progress().calls(), &Why::Broken(Box::new(failure)));
        self.stage_all(closed);
    }
}
