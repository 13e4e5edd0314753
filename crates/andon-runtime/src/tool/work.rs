//! What a call of a tool does.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use andon_core::event::Remains;

use super::Returned;
use crate::lanes::BoxFuture;
use crate::lanes::sync::Mutex;

/// What a call of a tool does, and the cleanup that ends whatever it starts.
pub struct Work {
    pub(crate) doing: Doing,
    pub(crate) cleanup: Option<Cleanup>,
}

type CleanupFn = Box<dyn FnOnce() -> BoxFuture<Remains> + Send>;

/// A cleanup, run by whoever comes first: usually the call's own task, otherwise the driver, when it has given that
/// task up.
#[derive(Clone)]
pub(crate) struct Cleanup {
    function: Arc<Mutex<Option<CleanupFn>>>,
}

impl Cleanup {
    /// The cleanup, unless it has begun elsewhere.
    pub(crate) fn take(&self) -> Option<CleanupFn> {
        self.function.lock().take()
    }

    /// Whether it has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.function.lock().is_none()
    }
}

impl fmt::Debug for Cleanup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cleanup")
    }
}

/// How the work is done.
pub(crate) enum Doing {
    /// A future, polled on the tools' threads. It ends when it is dropped.
    Task(BoxFuture<Returned>),
    /// A function, on a separate thread. Nothing can end it.
    Blocking(Box<dyn FnOnce() -> Returned + Send>),
    /// A future that stands in for such a thread in tests with a paused clock.
    #[cfg(feature = "testing")]
    Thread(BoxFuture<Returned>),
}

impl Work {
    /// A future. When the cord is pulled it has its grace, and is then dropped.
    pub fn task(future: impl Future<Output = Returned> + Send + 'static) -> Self {
        Self::new(Doing::Task(Box::pin(future)))
    }

    /// A function that may block. It runs on a separate thread, from a bounded pool. A thread cannot be killed: one
    /// that goes on after its grace is abandoned by name, and what it returns after that is not used.
    pub fn blocking(function: impl FnOnce() -> Returned + Send + 'static) -> Self {
        Self::new(Doing::Blocking(Box::new(function)))
    }

    /// A future that behaves like a blocking function: it cannot be dropped. For tests with a paused clock.
    #[cfg(feature = "testing")]
    pub fn simulated_thread(future: impl Future<Output = Returned> + Send + 'static) -> Self {
        Self::new(Doing::Thread(Box::pin(future)))
    }

    fn new(doing: Doing) -> Self {
        Self { doing, cleanup: None }
    }

    /// The same work, with its future inside another one. A blocking function stays as it is. For test kits.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn inside(mut self, outer: impl FnOnce(BoxFuture<Returned>) -> BoxFuture<Returned>) -> Self {
        self.doing = match self.doing {
            Doing::Task(future) => Doing::Task(outer(future)),
            Doing::Thread(future) => Doing::Thread(outer(future)),
            blocking @ Doing::Blocking(_) => blocking,
        };
        self
    }

    /// Ends whatever the work started: processes, remote calls.
    ///
    /// It is called once, when the work has ended in any way: it returned, it panicked, or its future was dropped
    /// because its grace was over or the force was `now`. The call is closed when it is done, so a run that has settled
    /// has left nothing behind. It may take as long as [`ToolSpec::cleanup`](super::ToolSpec::cleanup) says; after that
    /// the call is reported as leaked.
    #[must_use]
    pub fn cleanup<F, R>(mut self, cleanup: F) -> Self
    where
        F: FnOnce() -> R + Send + 'static,
        R: Future<Output = Remains> + Send + 'static,
    {
        let function: CleanupFn = Box::new(move || Box::pin(cleanup()));
        self.cleanup = Some(Cleanup { function: Arc::new(Mutex::new(Some(function))) });
        self
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.doing {
            Doing::Task(_) => "task",
            Doing::Blocking(_) => "blocking",
            #[cfg(feature = "testing")]
            Doing::Thread(_) => "simulated thread",
        };
        f.debug_tuple("Work").field(&kind).finish()
    }
}
