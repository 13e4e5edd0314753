//! Blocks a thread until a future is ready, where that delays nobody else.

use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::runtime::Handle;

thread_local! {
    /// Whether this thread runs a function that may block.
    static RUNS_BLOCKING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread may be blocked: it belongs to no tokio runtime, or it is one of those for functions that block.
pub(crate) fn may_block() -> bool {
    RUNS_BLOCKING.get() || Handle::try_current().is_err()
}

/// Calls a function that may block, on a thread for such functions.
pub(crate) fn blocking(function: impl FnOnce()) {
    /// The thread may be used for something else afterwards, also after a panic.
    struct Reset(bool);
    impl Drop for Reset {
        fn drop(&mut self) {
            RUNS_BLOCKING.set(self.0);
        }
    }
    let _reset = Reset(RUNS_BLOCKING.replace(true));
    function();
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks this thread until the future is ready.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            // A wake that came since the poll makes this return at once; one without a reason costs a poll.
            Poll::Pending => thread::park(),
        }
    }
}
