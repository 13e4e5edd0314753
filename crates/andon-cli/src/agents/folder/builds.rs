//! Agents that are being built, each at its own pace.
//!
//! # Invariants
//!
//! 1. There is at most one build per app. A newer one replaces the older, whose connections are closed.
//! 2. A build advances only while somebody polls this. Nothing is lost when they stop.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use andon_runtime::BoxFuture;
use tokio::sync::Semaphore;

use super::build::Built;
use super::read::FileError;

/// How many agents may wait for their MCP servers at the same time.
const AT_ONCE: usize = 16;

/// The result of a build.
type Done = Result<Built, FileError>;

/// Agents that are being built.
pub(super) struct Builds {
    builds: BTreeMap<String, BoxFuture<Done>>,
    slots: Arc<Semaphore>,
}

impl Builds {
    pub(super) fn new() -> Self {
        Self { builds: BTreeMap::new(), slots: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// The slots of agents that wait for MCP servers.
    pub(super) fn slots(&self) -> Arc<Semaphore> {
        Arc::clone(&self.slots)
    }

    /// Starts to build an app (invariant 1).
    pub(super) fn begin(&mut self, app: String, build: impl Future<Output = Done> + Send + 'static) {
        self.builds.insert(app, Box::pin(build));
    }

    pub(super) fn drop(&mut self, app: &str) {
        self.builds.remove(app);
    }

    pub(super) fn has(&self, app: &str) -> bool {
        self.builds.contains_key(app)
    }

    /// The apps that are being built.
    pub(super) fn apps(&self) -> impl Iterator<Item = &String> {
        self.builds.keys()
    }

    /// The next finished build; `None` if nothing is being built.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a build is taken only when it is returned.
    pub(super) async fn next(&mut self) -> Option<(String, Done)> {
        poll_fn(|context| match self.poll(context) {
            Poll::Pending if self.builds.is_empty() => Poll::Ready(None),
            polled => polled.map(Some),
        })
        .await
    }

    /// A finished build, without waiting.
    pub(super) fn ready(&mut self) -> Option<(String, Done)> {
        match self.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<(String, Done)> {
        let mut polled = self.builds.iter_mut().map(|(app, build)| (app, build.as_mut().poll(context)));
        let done = polled.find_map(|(app, polled)| match polled {
            Poll::Ready(done) => Some((app.clone(), done)),
            Poll::Pending => None,
        });
        match done {
            Some((app, done)) => {
                self.builds.remove(&app);
                Poll::Ready((app, done))
            }
            None => Poll::Pending,
        }
    }
}
