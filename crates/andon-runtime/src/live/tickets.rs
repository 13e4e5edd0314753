//! Tasks beside the driver, and what the cord tells each of them.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use andon_core::cancel::{CancelRequest, Force};
use andon_core::event::{Changes, ToolEnd};
use andon_core::id::CallId;
use andon_core::time::Stamp;

use super::{Inner, Live, News, WakeList};
use crate::lanes::sync::Ordering;
use crate::tool::{Cleanup, OnCancel, ToolSpec};

/// How long to wait for a task to drop its work once its grace is over. A task that takes longer does not yield.
pub(crate) const REAP: Duration = Duration::from_millis(100);

/// How long the driver waits for a cleanup to begin before it runs the cleanup itself.
const NOT_BEGUN: Duration = Duration::from_secs(1);

/// What a task beside the driver must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    GoOn,
    /// Stop by itself until then, or it is stopped.
    StopBy(Stamp),
    StopNow,
}

/// A task beside the driver: a tool call or a hook.
pub(super) struct WorkTicket {
    pub(super) number: u32,
    pub(super) call: Option<CallId>,
    pub(super) rules: StopRules,
    pub(super) since: Stamp,
    /// The call was cancelled alone.
    pub(super) cancelled: Option<Arc<CancelRequest>>,
    /// It has passed the gate.
    pub(super) started: bool,
    /// The tool has looked at its cord and seen it pulled.
    pub(super) saw_it: bool,
    /// It has passed the gate, and waits for a thread.
    pub(super) waits_for_slot: bool,
    /// It runs on a separate thread, which cannot be dropped.
    pub(super) on_thread: bool,
    /// How many bytes it has shown of its work.
    pub(super) shown: usize,
    /// Ends whatever it has started.
    pub(super) cleanup: Option<Cleanup>,
    /// What it has changed in its session's state.
    pub(super) state: Option<Box<Changes>>,
}

/// How a task beside the driver is stopped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StopRules {
    pub(crate) grace: Duration,
    pub(crate) on_cancel: OnCancel,
    pub(crate) cleanup: Duration,
}

impl StopRules {
    pub(crate) fn of_hook(grace: Duration) -> Self {
        Self { grace, on_cancel: OnCancel::Cooperate, cleanup: Duration::ZERO }
    }

    pub(crate) fn of_tool(spec: &ToolSpec) -> Self {
        Self { grace: spec.grace, on_cancel: spec.on_cancel, cleanup: spec.cleanup }
    }
}

/// What was known about a task beside the driver when its ticket was closed.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClosedTicket {
    /// The tool had seen that it must stop, so what it returned is only what it had by then.
    pub(crate) saw_it: bool,
    /// The call was cancelled alone.
    pub(crate) alone: Option<Arc<CancelRequest>>,
    /// It had to stop at once, without a grace.
    pub(crate) at_once: bool,
    /// Ends whatever it has started.
    pub(crate) cleanup: Option<Cleanup>,
    /// What it has changed in its session's state.
    pub(crate) state: Option<Box<Changes>>,
}

impl Live {
    /// Registers a tool call or hook that is about to run beside the driver.
    pub(crate) fn open_ticket(&self, call: Option<CallId>, rules: StopRules) -> u32 {
        let since = self.now();
        let mut inner = self.inner.lock();
        inner.next_ticket += 1;
        let number = inner.next_ticket;
        if let Some(call) = &call {
            inner.unstarted().forget(call);
        }
        inner.tickets.push(WorkTicket {
            number,
            call,
            rules,
            since,
            cancelled: None,
            started: false,
            saw_it: false,
            waits_for_slot: false,
            on_thread: false,
            shown: 0,
            cleanup: None,
            state: None,
        });
        number
    }

    /// Removes a ticket: its task has ended, or nobody waits for it any more. Returns what was known about it.
    pub(crate) fn close_ticket(&self, number: u32) -> ClosedTicket {
        let mut inner = self.inner.lock();
        let Some(place) = inner.tickets.iter().position(|ticket| ticket.number == number) else {
            return ClosedTicket::default();
        };
        let at_once = inner.is_at_once(number);
        let ticket = inner.tickets.swap_remove(place);
        let may_finish = matches!(ticket.rules.on_cancel, OnCancel::Finish { .. });
        let saw_it = ticket.saw_it && !may_finish;
        ClosedTicket { saw_it, alone: ticket.cancelled, at_once, cleanup: ticket.cleanup, state: ticket.state }
    }

    /// Lets go of a tool that is declared to outlive the run, if it has begun and the run is cut: nobody waits for it
    /// any more. Returns whether it did.
    pub(crate) fn let_go(&self, number: u32) -> bool {
        let mut inner = self.inner.lock();
        !inner.stop.lets_the_turn_go_on() && inner.let_go(number)
    }

    /// A tool's work has begun, with or without a cleanup.
    pub(crate) fn set_cleanup(&self, number: u32, cleanup: Option<Cleanup>) {
        if let Some(ticket) = self.inner.lock().tickets.iter_mut().find(|ticket| ticket.number == number) {
            if cleanup.is_none() {
                ticket.rules.cleanup = Duration::ZERO;
            }
            ticket.cleanup = cleanup;
        }
    }

    /// A tool has changed its session's state; the changes go on record with its end.
    pub(crate) fn note_changes(&self, number: u32, changes: Changes) {
        let mut inner = self.inner.lock();
        let ticket = inner.tickets.iter_mut().find(|ticket| ticket.number == number);
        if let Some(ticket) = ticket.filter(|_| !changes.is_empty()) {
            ticket.state.get_or_insert_default().extend(changes);
        }
    }

    /// Whether a call's cleanup has begun.
    pub(crate) fn is_cleaning(&self, number: u32) -> bool {
        let inner = self.inner.lock();
        let ticket = inner.tickets.iter().find(|ticket| ticket.number == number);
        ticket.and_then(|ticket| ticket.cleanup.as_ref()).is_some_and(Cleanup::has_begun)
    }

    /// The cleanups of tools that have not reported, when the driver is gone.
    pub(crate) fn unreported_cleanups(&self) -> Vec<Cleanup> {
        let inner = self.inner.lock();
        let unreported = inner.tickets.iter().filter(|ticket| !inner.has_reported(ticket.number));
        unreported.filter_map(|ticket| ticket.cleanup.clone()).collect()
    }

    /// A tool that has passed the gate must wait for a thread.
    pub(crate) fn waits_for_slot(&self, number: u32) {
        if let Some(ticket) = self.inner.lock().tickets.iter_mut().find(|ticket| ticket.number == number) {
            ticket.waits_for_slot = true;
        }
    }

    /// Whether the call of this ticket has not been closed.
    pub(crate) fn is_open(&self, number: u32) -> bool {
        let inner = self.inner.lock();
        inner.tickets.iter().chain(&inner.detached).any(|ticket| ticket.number == number)
    }

    /// Closes a ticket, and returns the call that it belongs to.
    pub(crate) fn call_of(&self, number: u32) -> Option<(CallId, ClosedTicket)> {
        let call = {
            let inner = self.inner.lock();
            inner.tickets.iter().find(|ticket| ticket.number == number)?.call.clone()?
        };
        Some((call, self.close_ticket(number)))
    }

    /// The driver is gone: everything that runs beside it must stop now.
    pub(crate) fn stop_asides(&self) {
        let mut inner = self.inner.lock();
        inner.life.orphan();
        inner.log.drop_held();
        inner.let_all_go();
        let watchers = WakeList::watchers(&mut inner);
        drop(inner);
        watchers.wake();
    }

    /// Waits until everything that runs beside the driver has reported, or does not yield.
    pub(crate) async fn asides_over(&self) {
        let all_reported = std::future::poll_fn(|cx| {
            let mut inner = self.inner.lock();
            // The gate is closed to a tool that has not begun.
            let at_work = |ticket: &&WorkTicket| ticket.started || ticket.call.is_none();
            if inner.tickets.iter().filter(at_work).all(|ticket| inner.has_reported(ticket.number)) {
                return Poll::Ready(());
            }
            inner.driver = Some(cx.waker().clone());
            Poll::Pending
        });
        let patience = self.inner.lock().tickets.iter().map(WorkTicket::after_grace).max().unwrap_or_default();
        // A task that does not yield within that time is given up; its ticket is closed with the run.
        let _ = tokio::time::timeout(patience, all_reported).await;
    }

    /// What a task beside the driver must do; the waker is woken when that changes.
    pub(crate) fn order(&self, number: u32, key: u64, waker: &Waker) -> Order {
        let mut inner = self.inner.lock();
        let order = inner.order(number);
        if order != Order::StopNow {
            inner.watch(key, waker);
        }
        order
    }

    /// Whether a tool was told to stop and has not begun: the gate is closed to it, so nobody need wait for it.
    pub(crate) fn will_never_start(&self, number: u32) -> bool {
        let inner = self.inner.lock();
        let has_begun = inner.tickets.iter().any(|ticket| ticket.number == number && ticket.started);
        !has_begun && inner.order(number) != Order::GoOn
    }

    /// What a task beside the driver must do now.
    pub(crate) fn order_now(&self, number: u32) -> Order {
        self.inner.lock().order(number)
    }

    /// How long after the end of its grace a task is given up by name.
    pub(crate) fn after_grace(&self, number: u32) -> Duration {
        let inner = self.inner.lock();
        let ticket = inner.tickets.iter().find(|ticket| ticket.number == number);
        ticket.map_or(REAP, WorkTicket::after_grace)
    }

    /// A task beside the driver has ended: tells the driver, unless the driver has given it up.
    pub(crate) fn report(&self, number: u32, news: News) -> Result<(), News> {
        let mut inner = self.inner.lock();
        inner.detached.retain(|ticket| ticket.number != number);
        if !inner.tickets.iter().any(|ticket| ticket.number == number) {
            return Err(news);
        }
        let wake = inner.post(news);
        drop(inner);
        wake.wake();
        Ok(())
    }

    /// Calls whose tools have not reported when the driver is gone, and how each counts as ended: a tool that outlives
    /// the run goes on, one that had not begun never will, any other is given up.
    pub(crate) fn unreported_calls(&self) -> Vec<(CallId, ToolEnd)> {
        let inner = self.inner.lock();
        let detached = inner.detached.iter().map(|ticket| (ticket, ToolEnd::Detached));
        let given_up = |ticket: &WorkTicket| if ticket.started { ToolEnd::Leaked } else { ToolEnd::NeverStarted };
        let others = inner.tickets.iter().map(|ticket| (ticket, given_up(ticket)));
        detached.chain(others).filter_map(|(ticket, end)| Some((ticket.call.clone()?, end))).collect()
    }

    /// The request that told this task to stop: the one in force for the run, or for this call alone.
    pub(crate) fn told_by(&self, ticket: Option<u32>) -> Option<Arc<CancelRequest>> {
        let mut inner = self.inner.lock();
        if !inner.is_told(ticket) {
            return None;
        }
        let own = inner.tickets.iter().find(|open| Some(open.number) == ticket);
        own.and_then(|own| own.cancelled.clone()).or_else(|| inner.request.clone())
    }

    /// Whether this task was told to stop; remembers that the task has seen it.
    pub(crate) fn is_told(&self, ticket: Option<u32>) -> bool {
        let mut inner = self.inner.lock();
        inner.is_told(ticket)
    }

    pub(crate) fn poll_told(&self, ticket: Option<u32>, key: u64, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.inner.lock();
        if inner.is_told(ticket) {
            return Poll::Ready(());
        }
        inner.watch(key, cx.waker());
        Poll::Pending
    }

    pub(crate) fn next_watcher(&self) -> u64 {
        self.keys.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn forget_watcher(&self, key: u64) {
        self.inner.lock().watchers.retain(|(watcher, _)| *watcher != key);
    }
}

impl Inner {
    fn is_told(&mut self, ticket: Option<u32>) -> bool {
        let run_is_cut = !self.stop.lets_the_turn_go_on();
        let Some(number) = ticket else { return run_is_cut };
        let mut open = self.tickets.iter_mut().chain(&mut self.detached);
        let Some(ticket) = open.find(|ticket| ticket.number == number) else { return true };
        let alone = ticket.cancelled.as_ref().is_some_and(|request| request.force.cuts());
        let told = (run_is_cut && !ticket.outlives_the_run()) || alone;
        ticket.saw_it |= told;
        told
    }

    fn order(&self, number: u32) -> Order {
        if self.detached.iter().any(|ticket| ticket.number == number) {
            return Order::GoOn;
        }
        let Some(ticket) = self.tickets.iter().find(|ticket| ticket.number == number) else { return Order::StopNow };
        if self.life.has_lost_its_driver() {
            return Order::StopNow;
        }
        let of_the_run = self.request.iter().filter(|_| !ticket.outlives_the_run());
        let requests = of_the_run.chain(&ticket.cancelled);
        requests.map(|request| ticket.order(request)).fold(Order::GoOn, Order::sooner)
    }

    /// Whether a task has no grace because of the force, and not because it is declared without one.
    fn is_at_once(&self, number: u32) -> bool {
        let own =
            self.tickets.iter().find(|ticket| ticket.number == number).and_then(|ticket| ticket.cancelled.as_ref());
        self.life.has_lost_its_driver() || self.request.iter().chain(own).any(|request| request.force == Force::Now)
    }

    fn let_go(&mut self, number: u32) -> bool {
        let goes = |ticket: &WorkTicket| ticket.number == number && ticket.outlives_the_run();
        let Some(place) = self.tickets.iter().position(goes).filter(|_| !self.has_reported(number)) else {
            return false;
        };
        let ticket = self.tickets.swap_remove(place);
        self.detached.push(ticket);
        true
    }

    /// Whether a task has ended and the driver has not heard it yet.
    fn has_reported(&self, number: u32) -> bool {
        self.inbox.iter().any(|news| match news {
            News::ToolEnded(ended, _) | News::HookEnded(ended, _) => *ended == number,
            _ => false,
        })
    }

    /// The run ends: tasks that are declared to outlive it go on, and nobody waits for them.
    pub(super) fn let_all_go(&mut self) {
        let numbers: Vec<u32> = self.tickets.iter().map(|ticket| ticket.number).collect();
        for number in numbers {
            self.let_go(number);
        }
    }
}

impl WorkTicket {
    fn order(&self, request: &CancelRequest) -> Order {
        // A request's grace applies to tools; a hook has its own.
        let asked = request.grace_ms.filter(|_| self.call.is_some()).map(Duration::from_millis);
        let grace = match self.rules.on_cancel {
            OnCancel::Cooperate | OnCancel::Detach => asked.unwrap_or(self.rules.grace),
            OnCancel::Drop => Duration::ZERO,
            OnCancel::Finish { within } => within,
        };
        match request.force {
            Force::AfterTurn => Order::GoOn,
            Force::Now => Order::StopNow,
            Force::Graceful if grace.is_zero() => Order::StopNow,
            Force::Graceful => {
                let from = self.since.mono_us.max(request.requested_at.mono_us);
                let grace_us = u64::try_from(grace.as_micros()).unwrap_or(u64::MAX);
                Order::StopBy(Stamp { mono_us: from.saturating_add(grace_us), ..request.requested_at })
            }
        }
    }
}

impl WorkTicket {
    /// Whether it goes on when the run is stopped. The gate keeps a task that has not begun from starting, however it
    /// is declared, and one that was cancelled alone is stopping.
    fn outlives_the_run(&self) -> bool {
        let has_begun = self.started && !self.waits_for_slot;
        self.rules.on_cancel == OnCancel::Detach && has_begun && self.cancelled.is_none()
    }

    /// How long after the end of its grace it is given up by name: the task has to notice, a thread has one more
    /// moment, and a cleanup that has begun has its own time limit.
    fn after_grace(&self) -> Duration {
        let last_moment = if self.on_thread { REAP } else { Duration::ZERO };
        let cleanup = match &self.cleanup {
            Some(cleanup) if cleanup.has_begun() => self.rules.cleanup,
            // All threads may be busy: then the driver cleans up, but not at once.
            Some(_) => self.rules.cleanup.min(NOT_BEGUN),
            None => self.rules.cleanup,
        };
        REAP + last_moment + cleanup
    }
}

impl Order {
    fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::StopNow, _) | (_, Self::StopNow) => Self::StopNow,
            (Self::GoOn, other) => other,
            (this, Self::GoOn) => this,
            (Self::StopBy(a), Self::StopBy(b)) => Self::StopBy(if a.mono_us <= b.mono_us { a } else { b }),
        }
    }
}
