//! Whether a client of a long-lived socket is still there: what it takes, and what it answers.

use std::time::Duration;

use tokio::time::Instant;

use crate::http::socket::Written;

/// Whether what is written gets on.
pub(crate) struct Progress {
    written: Written,
    seen: u64,
}

impl Progress {
    pub(crate) fn new(written: Written) -> Self {
        Self { seen: written.bytes(), written }
    }

    /// Whether something was taken since this was asked last.
    pub(crate) fn is_made(&mut self) -> bool {
        let bytes = self.written.bytes();
        std::mem::replace(&mut self.seen, bytes) != bytes
    }
}

/// Whether a client answers signs of life. How long it takes is counted from when one is on its way: before that the client
/// could not see it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sign {
    Answered,
    Written,
    Sent(Instant),
}

impl Sign {
    pub(crate) fn write(&mut self) {
        if matches!(self, Self::Answered) {
            *self = Self::Written;
        }
    }

    /// All that was written is taken.
    pub(crate) fn taken(&mut self) {
        if matches!(self, Self::Written) {
            *self = Self::Sent(Instant::now());
        }
    }

    pub(crate) fn is_overdue(self, patience: Duration) -> bool {
        matches!(self, Self::Sent(at) if at.elapsed() >= patience)
    }
}
