//! Work that continues even if the request that started it is gone.

use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The one place where the server starts tasks, so that shutdown can wait for all of them. Cheap to clone; all clones
/// share the same tasks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasks(TaskTracker);

impl Tasks {
    /// Starts a task.
    pub(crate) fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.0.spawn(work)
    }

    /// A token for work that is started elsewhere. The work counts as a task until this is dropped.
    pub(crate) fn token(&self) -> TaskTrackerToken {
        self.0.token()
    }

    /// Waits until all tasks have ended. No task may be started after the first call.
    pub(crate) async fn ended(&self) {
        self.0.close();
        self.0.wait().await;
    }
}
