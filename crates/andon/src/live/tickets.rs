//! Tasks beside the driver, and what the cord tells each of them.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use andon_core::cancel::{CancelRequest, Force};
use andon_core::id::CallId;
use andon_core::time::Stamp;

use super::{Inner, Live, News, WakeList};
use crate::fault::{Fault, planted};
use crate::sync::Ordering;

/// What a task that runs beside the driver is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    GoOn,
    /// Stop by itself until then, or be stopped.
    StopBy(Stamp),
    StopNow,
}

/// A task beside the driver: a tool call or a hook.
pub(super) struct Ticket {
    pub(super) number: u32,
    pub(super) call: Option<CallId>,
    pub(super) grace: Duration,
    pub(super) since: Stamp,
    /// The call was cancelled alone.
    pub(super) cancelled: Option<Arc<CancelRequest>>,
    /// It has passed the gate.
    pub(super) started: bool,
    /// The tool has looked at its cord and seen it pulled.
    pub(super) saw_it: bool,
}

/// What was known of a task beside the driver when its ticket was closed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Closed {
    /// The tool had seen that it was to stop.
    pub(crate) saw_it: bool,
    /// The call was cancelled alone.
    pub(crate) alone: bool,
    /// It was to stop at once, without a grace.
    pub(crate) at_once: bool,
}

impl Live {
    /// Registers a tool call or hook that is about to run beside the driver.
    pub(crate) fn open_ticket(&self, call: Option<CallId>, grace: Duration) -> u32 {
        let since = self.now();
        let mut inner = self.inner.lock();
        inner.next_ticket += 1;
        let number = inner.next_ticket;
        inner.ready.retain(|ready| Some(ready) != call.as_ref());
        inner.tickets.push(Ticket { number, call, grace, since, cancelled: None, started: false, saw_it: false });
        number
    }

    /// Forgets a ticket: its task is over, or nobody waits for it any more. Says whether the tool saw the pull.
    pub(crate) fn close_ticket(&self, number: u32) -> Closed {
        let mut inner = self.inner.lock();
        let Some(place) = inner.tickets.iter().position(|ticket| ticket.number == number) else {
            return Closed::default();
        };
        let at_once = inner.order(number) == Order::StopNow;
        let ticket = inner.tickets.swap_remove(place);
        Closed { saw_it: ticket.saw_it, alone: ticket.cancelled.is_some(), at_once }
    }

    /// The call that a ticket belongs to. Closes the ticket.
    pub(crate) fn call_of(&self, number: u32) -> Option<(CallId, Closed)> {
        let call = {
            let inner = self.inner.lock();
            inner.tickets.iter().find(|ticket| ticket.number == number)?.call.clone()?
        };
        Some((call, self.close_ticket(number)))
    }

    /// The driver is gone: everything that runs beside it is to stop now.
    pub(crate) fn stop_asides(&self) {
        let mut inner = self.inner.lock();
        inner.orphaned = true;
        let watchers = WakeList::watchers(&mut inner);
        drop(inner);
        watchers.wake();
    }

    /// Waits until everything that runs beside the driver has reported, or does not yield.
    pub(crate) async fn asides_over(&self) {
        let all_reported = std::future::poll_fn(|cx| {
            let mut inner = self.inner.lock();
            let reported = inner.inbox.iter().filter(|news| matches!(news, News::ToolEnded(..) | News::HookEnded(..)));
            if reported.count() >= inner.tickets.len() {
                return Poll::Ready(());
            }
            inner.driver = Some(cx.waker().clone());
            Poll::Pending
        });
        // What does not yield within that time is given up; its ticket is closed with the run.
        let _ = tokio::time::timeout(crate::driver::REAP, all_reported).await;
    }

    /// What a task beside the driver is to do; it is woken when that changes.
    pub(crate) fn order(&self, number: u32, key: u64, waker: &Waker) -> Order {
        let mut inner = self.inner.lock();
        let order = inner.order(number);
        if order != Order::StopNow {
            inner.watch(key, waker);
        }
        order
    }

    /// Whether a tool was told to stop and has not begun: the gate is closed to it, so nobody has to wait for it.
    pub(crate) fn will_never_start(&self, number: u32) -> bool {
        let inner = self.inner.lock();
        let has_begun = inner.tickets.iter().any(|ticket| ticket.number == number && ticket.started);
        !has_begun && inner.order(number) != Order::GoOn
    }

    /// When a task beside the driver must be over at the latest, as things stand.
    pub(crate) fn order_now(&self, number: u32) -> Order {
        self.inner.lock().order(number)
    }

    /// A task beside the driver is over: tells the driver, unless that has given it up.
    pub(crate) fn report(&self, number: u32, news: News) -> Result<(), News> {
        let mut inner = self.inner.lock();
        if !inner.tickets.iter().any(|ticket| ticket.number == number) {
            return Err(news);
        }
        let wake = inner.post(news);
        drop(inner);
        wake.wake();
        Ok(())
    }

    /// Calls whose tools have not reported: given up when the driver is gone.
    pub(crate) fn unreported_calls(&self) -> Vec<CallId> {
        self.inner.lock().tickets.iter().filter_map(|ticket| ticket.call.clone()).collect()
    }

    /// Whether this task has been told to stop; remembers that it knows.
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
        let Some(ticket) = self.tickets.iter_mut().find(|ticket| ticket.number == number) else { return true };
        let told = run_is_cut || ticket.cancelled.is_some();
        ticket.saw_it |= told;
        told
    }

    fn order(&self, number: u32) -> Order {
        let Some(ticket) = self.tickets.iter().find(|ticket| ticket.number == number) else { return Order::StopNow };
        if self.orphaned {
            return Order::StopNow;
        }
        let requests = self.request.iter().chain(&ticket.cancelled);
        requests.map(|request| ticket.order(request)).fold(Order::GoOn, Order::sooner)
    }
}

impl Ticket {
    fn order(&self, request: &CancelRequest) -> Order {
        // A request's grace is for tools; a hook has its own.
        let asked = request.grace_ms.filter(|_| self.call.is_some());
        let grace = asked.map_or(self.grace, Duration::from_millis);
        match request.force {
            Force::AfterTurn => Order::GoOn,
            Force::Now if !planted(Fault::NowGivesGrace) => Order::StopNow,
            Force::Graceful if grace.is_zero() => Order::StopNow,
            Force::Graceful | Force::Now => {
                let from = self.since.mono_us.max(request.requested_at.mono_us);
                let grace_us = u64::try_from(grace.as_micros()).unwrap_or(u64::MAX);
                Order::StopBy(Stamp { mono_us: from.saturating_add(grace_us), ..request.requested_at })
            }
        }
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
