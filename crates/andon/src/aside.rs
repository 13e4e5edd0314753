//! Work that runs beside the driver: a tool call or a hook, on the tools' own threads.
//!
//! Such a task stops itself. It looks at the cord each time it is polled and is woken when that is pulled; when its grace
//! is over it drops the tool's future, on its own thread. So a slow disk or a busy driver delays no stop, and nobody
//! aborts anybody. Only a future that never yields cannot be dropped: the driver then gives it up by name.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use andon_core::time::Stamp;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::live::{Live, News, Order};
use crate::tool::BoxFuture;

/// How work beside the driver ended.
#[derive(Debug)]
pub(crate) enum AsideEnd<T> {
    Returned(T),
    Panicked(String),
    /// It was told to stop, had its grace, and was dropped.
    Dropped,
    /// The gate was closed before it began.
    NeverStarted,
}

/// Whether the gate stands before it: tools pass it, hooks do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    Tool,
    None,
}

/// Work that has begun, or has yet to.
enum Work<T> {
    Unstarted(Box<dyn FnOnce() -> BoxFuture<T> + Send>),
    Started(BoxFuture<T>),
    Over,
}

pub(crate) struct Aside<T> {
    live: Arc<Live>,
    ticket: u32,
    key: u64,
    gate: Gate,
    seam: &'static str,
    work: Work<T>,
    /// When the grace ends, and the timer for it.
    grace: Option<(Stamp, Pin<Box<Sleep>>)>,
    tell: fn(u32, AsideEnd<T>) -> News,
    /// What to do with an end that nobody waits for any more.
    late: Box<dyn FnOnce(News) + Send>,
}

impl<T: Send + 'static> Aside<T> {
    pub(crate) fn new(
        live: Arc<Live>,
        ticket: u32,
        gate: Gate,
        make: impl FnOnce() -> BoxFuture<T> + Send + 'static,
        tell: fn(u32, AsideEnd<T>) -> News,
        late: impl FnOnce(News) + Send + 'static,
    ) -> Self {
        let seam = match gate {
            Gate::Tool => "tool: poll",
            Gate::None => "hook: poll",
        };
        let key = live.next_watcher();
        let (work, late) = (Work::Unstarted(Box::new(make)), Box::new(late));
        Self { live, ticket, key, gate, seam, work, grace: None, tell, late }
    }

    /// Runs the work until it is over, and tells the driver.
    pub(crate) async fn run(mut self) {
        let end = std::future::poll_fn(|cx| self.poll_end(cx)).await;
        self.live.forget_watcher(self.key);
        if let Err(news) = self.live.report(self.ticket, (self.tell)(self.ticket, end)) {
            (self.late)(news);
        }
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<AsideEnd<T>> {
        if self.poll_stop(cx).is_ready() {
            return Poll::Ready(self.drop_work());
        }
        let (live, seam) = (&self.live, self.seam);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| live.hit(seam))) {
            self.drop_work();
            return Poll::Ready(AsideEnd::Panicked(panic_text(&*panic)));
        }
        if matches!(self.work, Work::Unstarted(_)) {
            if self.gate == Gate::Tool && !self.live.may_start_tool(self.ticket) {
                self.work = Work::Over;
                return Poll::Ready(AsideEnd::NeverStarted);
            }
            if let Err(panic) = self.start() {
                return Poll::Ready(AsideEnd::Panicked(panic));
            }
        }
        let Work::Started(work) = &mut self.work else { return Poll::Ready(AsideEnd::NeverStarted) };
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => {
                self.drop_work();
                Poll::Ready(AsideEnd::Returned(value))
            }
            Err(panic) => {
                self.drop_work();
                Poll::Ready(AsideEnd::Panicked(panic_text(&*panic)))
            }
        }
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

    fn start(&mut self) -> Result<(), String> {
        let Work::Unstarted(make) = std::mem::replace(&mut self.work, Work::Over) else { return Ok(()) };
        let made = catch_unwind(AssertUnwindSafe(make)).map_err(|panic| panic_text(&*panic))?;
        self.work = Work::Started(made);
        Ok(())
    }

    /// Drops the work; a panic in its `drop` is its own affair.
    fn drop_work(&mut self) -> AsideEnd<T> {
        let work = std::mem::replace(&mut self.work, Work::Over);
        let end = match work {
            Work::Unstarted(_) => AsideEnd::NeverStarted,
            Work::Started(_) | Work::Over => AsideEnd::Dropped,
        };
        // Nothing can be done about a destructor that panics, and the work is over all the same.
        let _ = catch_unwind(AssertUnwindSafe(move || drop(work)));
        end
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
