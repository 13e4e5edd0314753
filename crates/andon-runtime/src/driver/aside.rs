//! Work that runs beside the driver: a tool call or a hook, on the tools' threads.
//!
//! Such a task stops itself. It checks the cord each time it is polled, and is woken when the cord is pulled; when its
//! grace is over it drops the tool's future, on its own thread. So a slow disk or a busy driver delays no stop, and
//! nothing is aborted. What cannot be dropped is given up by name: a thread by the task itself, a future that never
//! yields by the driver.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use andon_core::cancel::{Reason, ReplyKind};
use andon_core::event::Remains;
use andon_core::id::CallId;
use andon_core::time::Stamp;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};

use crate::lanes::BoxFuture;
use crate::lanes::blocking::{Doer, Waiter};
use crate::lanes::caught::caught;
use crate::live::cord::Cancel;
use crate::live::{AsideEnd, Live, News, Order, REAP, ToolDone};
use crate::tool::{Cleanup, Doing, OnCancel, Returned, ToolError, ToolSpec, Work, bounded, bounded_remains};

/// Tells a task beside the driver when to stop.
struct CordWatch {
    live: Arc<Live>,
    ticket: u32,
    key: u64,
    /// When the grace ends, and the timer for it.
    grace: Option<(Stamp, Pin<Box<Sleep>>)>,
}

impl CordWatch {
    fn new(live: Arc<Live>, ticket: u32) -> Self {
        let key = live.next_watcher();
        Self { live, ticket, key, grace: None }
    }

    /// Ready when the work must stop now.
    fn poll_stop(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.live.order(self.ticket, self.key, cx.waker()) {
            Order::GoOn => Poll::Pending,
            Order::StopNow => Poll::Ready(()),
            Order::StopBy(end) => {
                let at = Instant::now() + end.since(self.live.now());
                let (until, timer) = self.grace.get_or_insert_with(|| (end, Box::pin(sleep_until(at))));
                // A second request may end the grace sooner.
                if *until != end {
                    *until = end;
                    timer.as_mut().reset(at);
                }
                timer.as_mut().poll(cx)
            }
        }
    }

    /// A seam for tests. The probe may panic on purpose.
    fn hit(&self, seam: &'static str) -> Result<(), String> {
        caught(|| self.live.hit(seam))
    }
}

impl Drop for CordWatch {
    fn drop(&mut self) {
        self.live.forget_watcher(self.key);
    }
}

/// Runs a hook to its end, and tells the driver. The end of a hook that was given up is not reported.
pub(crate) async fn run_hook<T: Send + 'static>(
    live: Arc<Live>,
    ticket: u32,
    make: impl FnOnce() -> BoxFuture<T> + Send,
    tell: fn(u32, AsideEnd<T>) -> News,
) {
    let mut watch = CordWatch::new(live, ticket);
    let mut make = Some(make);
    let mut hook = None;
    let end = poll_fn(|cx| {
        if watch.poll_stop(cx).is_ready() {
            return Poll::Ready(AsideEnd::Dropped);
        }
        if let Err(panic) = watch.hit("hook: poll") {
            return Poll::Ready(AsideEnd::Panicked(panic));
        }
        if let Some(make) = make.take() {
            match caught(make) {
                Ok(made) => hook = Some(made),
                Err(panic) => return Poll::Ready(AsideEnd::Panicked(panic)),
            }
        }
        let Some(hook) = &mut hook else { return Poll::Ready(AsideEnd::Dropped) };
        poll_caught(hook, cx)
    })
    .await;
    drop_caught(hook);
    let _ = watch.live.report(ticket, tell(ticket, end));
}

/// A tool call beside the driver.
pub(crate) struct ToolAside {
    watch: CordWatch,
    call: CallId,
    spec: Arc<ToolSpec>,
    stage: Stage,
    timeout: Option<Pin<Box<Sleep>>>,
    cleanup: Option<Cleanup>,
    /// Called with the call's end if the driver has given it up.
    late: Option<Late>,
}

type Late = Box<dyn FnOnce(ToolDone) + Send>;
type SlotFuture = Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>;

/// How far a tool call has come.
enum Stage {
    Unstarted(Box<dyn FnOnce() -> Work + Send>),
    Task(BoxFuture<Returned>),
    /// Waits for a slot in the pool of blocking tools.
    Queued(Doing, SlotFuture),
    Thread(Waiter<AsideEnd<Returned>>),
    /// A thread whose grace is over: it has a last moment ([`REAP`]), because it cannot be dropped.
    Overdue(Waiter<AsideEnd<Returned>>, Pin<Box<Sleep>>),
    Over,
}

impl ToolAside {
    pub(crate) fn new(
        live: Arc<Live>,
        ticket: u32,
        call: CallId,
        spec: Arc<ToolSpec>,
        make: impl FnOnce() -> Work + Send + 'static,
        late: impl FnOnce(ToolDone) + Send + 'static,
    ) -> Self {
        let watch = CordWatch::new(live, ticket);
        let stage = Stage::Unstarted(Box::new(make));
        Self { watch, call, spec, stage, timeout: None, cleanup: None, late: Some(Box::new(late)) }
    }

    /// Runs the work to its end and cleans up, then tells the driver.
    pub(crate) async fn run(mut self) {
        let end = poll_fn(|cx| self.poll_end(cx)).await;
        let remains = self.clean_up().await;
        let live = &self.watch.live;
        if let Err(News::ToolEnded(_, done)) =
            live.report(self.watch.ticket, News::ToolEnded(self.watch.ticket, Box::new(ToolDone { end, remains })))
            && let Some(late) = self.late.take()
        {
            late(*done);
        }
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<AsideEnd<Returned>> {
        if !matches!(self.stage, Stage::Overdue(..)) {
            if self.must_stop(cx) {
                if let Some(end) = self.stop() {
                    return Poll::Ready(end);
                }
            } else if let Err(panic) = self.watch.hit(self.seam()) {
                self.drop_stage();
                return Poll::Ready(AsideEnd::Panicked(panic));
            } else if self.poll_timeout(cx).is_ready()
                && let Some(end) = self.stop()
            {
                return Poll::Ready(end);
            }
        }
        loop {
            match &mut self.stage {
                Stage::Unstarted(_) => match self.start() {
                    // The time limit is polled from the beginning, because the work might not be polled again before it
                    // is reached.
                    Ok(()) if self.poll_timeout(cx).is_ready() => {
                        return Poll::Ready(self.stop().unwrap_or(AsideEnd::Dropped));
                    }
                    Ok(()) => {}
                    Err(end) => return Poll::Ready(end),
                },
                Stage::Task(task) => {
                    let end = ready!(poll_caught(task, cx));
                    self.drop_stage();
                    return Poll::Ready(self.bounded(end));
                }
                Stage::Queued(_, slot) => {
                    let slot = ready!(slot.as_mut().poll(cx));
                    if let Err(end) = self.start_thread(slot) {
                        return Poll::Ready(end);
                    }
                }
                Stage::Thread(thread) => {
                    let end = ready!(thread.poll(cx));
                    return Poll::Ready(end);
                }
                Stage::Overdue(thread, moment) => {
                    if let Poll::Ready(end) = thread.poll(cx) {
                        return Poll::Ready(end);
                    }
                    ready!(moment.as_mut().poll(cx));
                    return Poll::Ready(self.abandon());
                }
                Stage::Over => return Poll::Ready(AsideEnd::Dropped),
            }
        }
    }

    /// Whether the work must stop now. If it is still waiting for a slot, it has no grace.
    fn must_stop(&mut self, cx: &mut Context<'_>) -> bool {
        let is_over = self.watch.poll_stop(cx).is_ready();
        let is_queued = matches!(self.stage, Stage::Queued(..));
        is_over || (is_queued && self.watch.live.is_told(Some(self.watch.ticket)))
    }

    fn seam(&self) -> &'static str {
        match self.stage {
            Stage::Unstarted(_) | Stage::Task(_) | Stage::Over => "tool: poll",
            Stage::Queued(..) | Stage::Thread(_) | Stage::Overdue(..) => "thread: poll",
        }
    }

    /// Passes the gate and begins.
    fn start(&mut self) -> Result<(), AsideEnd<Returned>> {
        let Stage::Unstarted(make) = mem::replace(&mut self.stage, Stage::Over) else { return Ok(()) };
        if !self.watch.live.may_start_tool(self.watch.ticket) {
            return Err(AsideEnd::NeverStarted);
        }
        let Work { doing, cleanup } = caught(make).map_err(AsideEnd::Panicked)?;
        self.watch.live.set_cleanup(self.watch.ticket, cleanup.clone());
        self.cleanup = cleanup;
        self.timeout = self.spec.timeout.map(|timeout| Box::pin(sleep(timeout)));
        self.stage = match doing {
            Doing::Task(task) => Stage::Task(task),
            // A function, or what stands in for one in tests.
            thread => {
                let pool = &self.watch.live.services.blocking;
                if let Some(why) = pool.refusal() {
                    return Err(AsideEnd::Returned(Err(ToolError::new(why))));
                }
                self.watch.live.waits_for_slot(self.watch.ticket);
                Stage::Queued(thread, Box::pin(pool.slot()))
            }
        };
        Ok(())
    }

    /// A slot is free: the thread begins, and passes the gate again.
    fn start_thread(&mut self, slot: Option<OwnedSemaphorePermit>) -> Result<(), AsideEnd<Returned>> {
        let Stage::Queued(doing, _) = mem::replace(&mut self.stage, Stage::Over) else { return Ok(()) };
        let Some(slot) = slot else { return Err(AsideEnd::NeverStarted) };
        let live = &self.watch.live;
        // The slot may be free because another thread was abandoned meanwhile.
        if let Some(why) = live.services.blocking.refusal() {
            return Err(AsideEnd::Returned(Err(ToolError::new(why))));
        }
        let (doer, waiter) = live.services.blocking.job(slot);
        let thread = ToolThread { live: Arc::clone(live), ticket: self.watch.ticket, doer, max: self.spec.max_output };
        match doing {
            Doing::Blocking(function) => live.services.door.spawn_thread(move || thread.run(function)),
            #[cfg(feature = "testing")]
            Doing::Thread(future) => live.services.door.spawn_aside(thread.simulate(future)),
            Doing::Task(_) => {}
        }
        self.stage = Stage::Thread(waiter);
        Ok(())
    }

    /// Stops the work. Returns `None` for a thread, which has one more moment.
    fn stop(&mut self) -> Option<AsideEnd<Returned>> {
        match mem::replace(&mut self.stage, Stage::Over) {
            Stage::Unstarted(_) | Stage::Queued(..) => Some(AsideEnd::NeverStarted),
            Stage::Thread(thread) => {
                self.stage = Stage::Overdue(thread, Box::pin(sleep(REAP)));
                None
            }
            Stage::Overdue(..) | Stage::Over => Some(AsideEnd::Dropped),
            Stage::Task(task) => {
                drop_caught(Some(task));
                Some(AsideEnd::Dropped)
            }
        }
    }

    /// Gives up a thread: what it returns later is an addendum.
    fn abandon(&mut self) -> AsideEnd<Returned> {
        let Stage::Overdue(thread, _) = mem::replace(&mut self.stage, Stage::Over) else { return AsideEnd::Dropped };
        let late = self.late.take().unwrap_or_else(|| Box::new(drop));
        // Its cleanup runs now, and what that finds is reported with the call's end.
        let late = Box::new(|end| late(ToolDone { end, remains: Remains::NONE }));
        thread.abandon(late).unwrap_or(AsideEnd::Abandoned)
    }

    fn drop_stage(&mut self) {
        drop_caught(Some(mem::replace(&mut self.stage, Stage::Over)));
    }

    fn bounded(&self, end: AsideEnd<Returned>) -> AsideEnd<Returned> {
        bounded_end(end, self.spec.max_output)
    }

    /// Cancels this call alone when its time limit is reached; ready if the run can no longer cancel it.
    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(timeout) = &mut self.timeout else { return Poll::Pending };
        ready!(timeout.as_mut().poll(cx));
        self.timeout = None;
        let live = &self.watch.live;
        match live.pull_call(&self.call, out_of_time(&self.spec).at(live.now())).0 {
            ReplyKind::TooLate { .. } | ReplyKind::NotRunning => Poll::Ready(()),
            // The pull has woken this task, which then stops.
            _ => Poll::Pending,
        }
    }

    async fn clean_up(&mut self) -> Remains {
        match self.cleanup.take() {
            Some(cleanup) => bounded_remains(clean_up(cleanup, self.spec.cleanup).await, self.spec.max_output),
            None => Remains::NONE,
        }
    }
}

/// Ends whatever a call has started, unless its cleanup has begun elsewhere.
pub(crate) async fn clean_up(cleanup: Cleanup, budget: Duration) -> Remains {
    let Some(function) = cleanup.take() else { return Remains::NONE };
    let cleaned = match caught(function) {
        Ok(mut cleaning) => {
            let cleaned = timeout(budget, poll_fn(|cx| poll_caught(&mut cleaning, cx))).await.ok();
            drop_caught(Some(cleaning));
            cleaned
        }
        Err(panic) => Some(AsideEnd::Panicked(panic)),
    };
    match cleaned {
        Some(AsideEnd::Returned(remains)) => remains,
        Some(AsideEnd::Panicked(text)) => leaked(format!("its cleanup panicked: {text}")),
        _ => leaked(format!("its cleanup did not end within {budget:?}")),
    }
}

/// The cancel of a call that takes too long.
pub(crate) fn out_of_time(spec: &ToolSpec) -> Cancel {
    // A tool that may finish after a pull has no further time after its limit.
    let cancel = match spec.on_cancel {
        OnCancel::Finish { .. } => Cancel::now(),
        OnCancel::Cooperate | OnCancel::Drop | OnCancel::Detach => Cancel::graceful(),
    };
    let limit = spec.timeout.unwrap_or_default();
    cancel.reason(Reason::Deadline).by("limit").note(format!("its limit of {limit:?} was reached"))
}

fn leaked(what: String) -> Remains {
    Remains::new().leaked(vec![what])
}

fn bounded_end(end: AsideEnd<Returned>, max: usize) -> AsideEnd<Returned> {
    match end {
        AsideEnd::Returned(returned) => AsideEnd::Returned(bounded(returned, max)),
        other => other,
    }
}

/// A blocking tool's thread.
struct ToolThread {
    live: Arc<Live>,
    ticket: u32,
    doer: Doer<AsideEnd<Returned>>,
    max: usize,
}

impl ToolThread {
    fn run(self, function: Box<dyn FnOnce() -> Returned + Send>) {
        if !self.live.may_start_thread(self.ticket) {
            return self.doer.finish(AsideEnd::NeverStarted);
        }
        let end = caught(function).map_or_else(AsideEnd::Panicked, AsideEnd::Returned);
        self.doer.finish(bounded_end(end, self.max));
    }

    #[cfg(feature = "testing")]
    async fn simulate(self, mut future: BoxFuture<Returned>) {
        if !self.live.may_start_thread(self.ticket) {
            return self.doer.finish(AsideEnd::NeverStarted);
        }
        let end = poll_fn(|cx| poll_caught(&mut future, cx)).await;
        drop_caught(Some(future));
        self.doer.finish(bounded_end(end, self.max));
    }
}

/// Polls foreign code and catches its panic.
pub(crate) fn poll_caught<T>(future: &mut BoxFuture<T>, cx: &mut Context<'_>) -> Poll<AsideEnd<T>> {
    match caught(|| future.as_mut().poll(cx)) {
        Ok(poll) => poll.map(AsideEnd::Returned),
        Err(panic) => Poll::Ready(AsideEnd::Panicked(panic)),
    }
}

/// Drops the work and ignores a panic in its `drop`.
pub(crate) fn drop_caught<T>(work: Option<T>) {
    // Nothing can be done about a destructor that panics, and the work has ended.
    let _ = caught(move || drop(work));
}
