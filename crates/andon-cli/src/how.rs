//! How a stop is asked for: the same words for a run here and for one at a server.

use std::time::Duration;

use andon::{Cancel, Force, Reason};
use serde_json::{Value, json};

/// How to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct How {
    pub(crate) force: Force,
    pub(crate) reason: Reason,
    /// Who asks, if it is asked here: a server knows who asks it.
    pub(crate) by: String,
    pub(crate) note: Option<String>,
    /// The grace for running tools, in place of each tool's own.
    pub(crate) grace: Option<Duration>,
}

impl How {
    /// A stop that a person asks for.
    pub(crate) fn asked(force: Force, note: Option<String>) -> Self {
        Self { force, reason: Reason::Requested, by: who(), note, grace: None }
    }

    /// For a run of this program.
    pub(crate) fn cancel(&self) -> Cancel {
        let cancel = match self.force {
            Force::AfterTurn => Cancel::after_turn(),
            Force::Graceful => Cancel::graceful(),
            Force::Now => Cancel::now(),
        };
        let cancel = cancel.reason(self.reason).by(self.by.as_str());
        let cancel = match &self.note {
            Some(note) => cancel.note(note.as_str()),
            None => cancel,
        };
        match self.grace {
            Some(grace) => cancel.grace(grace),
            None => cancel,
        }
    }

    /// For a server, to which the run belongs: that this program goes away is no reason that is ours to give.
    pub(crate) fn body(&self) -> Value {
        let mut body = json!({ "force": self.force.as_str() });
        if let Some(note) = &self.note {
            body["note"] = json!(note);
        }
        if let Some(grace) = self.grace {
            body["grace_ms"] = json!(u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
        }
        body
    }
}

/// Who sits at the terminal, as far as the system says.
pub(crate) fn who() -> String {
    std::env::var("USER").ok().filter(|user| !user.is_empty()).unwrap_or_else(|| "terminal".to_owned())
}
