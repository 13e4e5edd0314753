//! How a client asks for a cancel.

use std::sync::Arc;
use std::time::Duration;

use andon_runtime::{Cancel, Force, Reason};
use serde::{Deserialize, Serialize};

/// How to cancel something, as a client asks for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CancelOrder {
    /// How hard to stop.
    pub force: Force,
    /// Why it is cancelled.
    pub reason: Reason,
    /// Free text for the receipt.
    pub note: Option<Arc<str>>,
    /// The grace for running tools in milliseconds, instead of each tool's own.
    pub grace_ms: Option<u64>,
}

andon_runtime::core::with!(CancelOrder: note: text Arc<str>, grace_ms: into Option<u64>);

impl CancelOrder {
    /// An order without a note, with each tool's own grace.
    pub fn new(force: Force, reason: Reason) -> Self {
        Self { force, reason, note: None, grace_ms: None }
    }
}

impl CancelOrder {
    /// The cancel, in the name of whoever asks.
    pub fn cancel(&self, by: &Arc<str>) -> Cancel {
        let cancel = match self.force {
            Force::AfterTurn => Cancel::after_turn(),
            Force::Graceful => Cancel::graceful(),
            Force::Now => Cancel::now(),
        };
        let mut cancel = cancel.reason(self.reason).by(Arc::clone(by));
        if let Some(note) = &self.note {
            cancel = cancel.note(Arc::clone(note));
        }
        if let Some(grace) = self.grace_ms {
            cancel = cancel.grace(Duration::from_millis(grace));
        }
        cancel
    }
}
