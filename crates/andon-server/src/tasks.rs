//! Work that goes on when the request that began it is gone.

use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The one place where the server begins tasks: shutting down waits for all of them. Cheap to clone; all clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasks(TaskTracker);

impl Tasks {
    /// Begins a task.
    pub(crate) fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.0.spawn(work)
    }

    /// For work that somebody else begins: it counts until this is dropped.
    pub(crate) fn token(&self) -> TaskTrackerToken {
        self.0.token()
    }

    /// Waits until all of them have ended. None may be begun after this was called first.
    pub(crate) async fn ended(&self) {
        self.0.close();
        self.0.wait().await;
    }
}
