//! What a running tool shows of its work.

use std::fmt;
use std::sync::Arc;

use andon_core::id::CallId;

use crate::live::Live;

/// Shows in the run's feed what a call is doing. Cheap to clone, usable from any thread; it never blocks and cannot fail.
///
/// It is for people who watch. The model sees only what the call returns.
#[derive(Clone)]
pub struct Progress {
    live: Arc<Live>,
    ticket: u32,
    call: CallId,
}

impl Progress {
    pub(crate) fn new(live: Arc<Live>, ticket: u32, call: CallId) -> Self {
        Self { live, ticket, call }
    }

    /// Shows text. A call may show 256 KiB; what comes after that is not shown, and a notice says so. Once the call is
    /// closed, nothing more of it is shown.
    pub fn show(&self, text: &str) {
        self.live.show_output(self.ticket, &self.call, text);
    }

    /// Shows how far the call has come, as a line such as `3/10 pages read`.
    pub fn step(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        let total = total.map(|total| format!("/{total}")).unwrap_or_default();
        let message = message.map(|message| format!(" {message}")).unwrap_or_default();
        self.show(&format!("{done}{total}{message}\n"));
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("call", &self.call).finish_non_exhaustive()
    }
}
