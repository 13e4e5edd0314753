//! Whether the client of a long-lived socket is still there: whether it reads, and whether it answers pings.

use std::time::Duration;

use tokio::time::Instant;

use crate::http::socket::Written;

/// Whether a write makes progress.
pub(crate) struct WriteProgress {
    written: Written,
    seen: u64,
}

impl WriteProgress {
    pub(crate) fn new(written: Written) -> Self {
        Self { seen: written.bytes(), written }
    }

    /// Whether any bytes were written since the last call.
    pub(crate) fn is_made(&mut self) -> bool {
        let bytes = self.written.bytes();
        std::mem::replace(&mut self.seen, bytes) != bytes
    }
}

/// Whether a client answers pings. The time is counted from when a ping was sent, because the client cannot see it
/// earlier.
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

    /// Everything written has been sent.
    pub(crate) fn taken(&mut self) {
        if matches!(self, Self::Written) {
            *self = Self::Sent(Instant::now());
        }
    }

    pub(crate) fn is_overdue(self, patience: Duration) -> bool {
        matches!(self, Self::Sent(at) if at.elapsed() >= patience)
    }
}
