//! How a stop is asked for: the same words for a run here and for one at a server.

use std::time::Duration;

use andon_runtime::{Cancel, Force, Reason};
use andon_server::CancelOrder;
use serde_json::{Map, Value};

/// How to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct How {
    pub(crate) force: Force,
    pub(crate) reason: Reason,
    /// Who asks, for a run of this program: a server knows its callers.
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
        let Self { force, reason, .. } = *self;
        let grace_ms = self.grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
        let order = CancelOrder { force, reason, note: self.note.as_deref().map(Into::into), grace_ms };
        order.cancel(&self.by.as_str().into())
    }

    /// For a server. The reason is left out: that this program shuts down or leaves is not a reason of the server.
    pub(crate) fn body(&self) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("force".to_owned(), self.force.as_str().into());
        if let Some(note) = &self.note {
            body.insert("note".to_owned(), note.as_str().into());
        }
        if let Some(grace) = self.grace {
            body.insert("grace_ms".to_owned(), u64::try_from(grace.as_millis()).unwrap_or(u64::MAX).into());
        }
        body
    }
}

/// The user name, if the system provides it.
pub(crate) fn who() -> String {
    std::env::var("USER").ok().filter(|user| !user.is_empty()).unwrap_or_else(|| "terminal".to_owned())
}
