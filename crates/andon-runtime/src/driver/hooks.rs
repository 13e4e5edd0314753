//! Calls hooks: beside the driver, one after another, and left at once when the cord is pulled.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use andon_core::event::{Event, HookEnd, HookPoint};

use super::Driver;
use super::watch::Woke;
use crate::agent::hook::{Hook, Moment, What};
use crate::driver::aside;
use crate::journal::JournalError;
use crate::live::cord::Cord;
use crate::live::{AsideEnd, Decision, News, Order, REAP, StopRules};
use crate::tool::DEFAULT_GRACE;

/// What the hooks at one point decided together.
pub(super) enum HookVerdict {
    Continue,
    Deny(String),
}

impl Driver {
    pub(super) fn has_hooks(&self, point: HookPoint) -> bool {
        self.agent.hooks.iter().any(|hook| hook.point == point)
    }

    /// Calls the hooks at one point, until one denies, or the run must stop.
    pub(super) async fn run_hooks(&mut self, what: What) -> Result<HookVerdict, JournalError> {
        Box::pin(self.run_hooks_in_turn(what)).await
    }

    async fn run_hooks_in_turn(&mut self, what: What) -> Result<HookVerdict, JournalError> {
        let point = what.point();
        let agent = Arc::clone(&self.agent);
        for hook in agent.hooks.iter().filter(|hook| hook.point == point) {
            self.hear();
            if self.is_cut() && point != HookPoint::AfterRun {
                break;
            }
            if let HookVerdict::Deny(why) = self.run_hook(hook, what.clone()).await? {
                return Ok(HookVerdict::Deny(why));
            }
        }
        Ok(HookVerdict::Continue)
    }

    async fn run_hook(&mut self, hook: &Hook, what: What) -> Result<HookVerdict, JournalError> {
        // Only the last hook of a stopped run has a grace; the others are left at once.
        let grace = if hook.point == HookPoint::AfterRun { DEFAULT_GRACE } else { Duration::ZERO };
        self.stage(Event::HookStarted { point: hook.point });
        self.commit().await?;
        let ticket = self.live.open_ticket(None, StopRules::of_hook(grace));
        let cord = Cord::new(Arc::clone(&self.live), None);
        let moment = Moment { run: self.live.id.clone(), session: self.live.session.clone(), cord, what };
        let call = Arc::clone(&hook.call);
        let live = Arc::clone(&self.live);
        self.live.services.door.spawn_aside(aside::run_hook(live, ticket, move || call(moment), News::HookEnded));
        let end = self.wait_for_hook(ticket).await?;
        self.live.close_ticket(ticket);
        Ok(self.close_hook(hook.point, end))
    }

    /// Waits for a hook; only briefly, if it was told to stop and does not yield to be dropped.
    async fn wait_for_hook(&mut self, ticket: u32) -> Result<Option<AsideEnd<Decision>>, JournalError> {
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

    fn close_hook(&mut self, point: HookPoint, end: Option<AsideEnd<Decision>>) -> HookVerdict {
        let (hook_end, verdict) = match end {
            None => (HookEnd::Leaked, HookVerdict::Continue),
            Some(AsideEnd::Dropped | AsideEnd::Abandoned | AsideEnd::NeverStarted) => {
                (HookEnd::Cut, HookVerdict::Continue)
            }
            Some(AsideEnd::Panicked(text)) => {
                (HookEnd::Panicked, HookVerdict::Deny(format!("The program's own check crashed: {text}")))
            }
            Some(AsideEnd::Returned(Decision::Continue)) => (HookEnd::Continued, HookVerdict::Continue),
            Some(AsideEnd::Returned(Decision::Deny(why))) => (HookEnd::Denied, HookVerdict::Deny(why)),
            Some(AsideEnd::Returned(Decision::Cancel(cancel))) => {
                self.live.pull(cancel.at(self.live.now()));
                (HookEnd::Cancelled, HookVerdict::Continue)
            }
        };
        self.stage(Event::HookFinished { point, end: hook_end });
        self.hear();
        verdict
    }
}
