//! A gate at which a script waits until the test opens it.

use std::sync::Arc;

use tokio::sync::watch;

/// Held by the test and by a script. Once open it stays open.
#[derive(Debug, Clone)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Lets every script through that waits here, now or later.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Waits until it is open.
    pub(super) async fn opened(&self) {
        // The sender is alive as long as this gate is, so the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}
