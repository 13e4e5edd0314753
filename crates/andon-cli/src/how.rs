//! How to stop a run, in this process or on a server.

use std::sync::Arc;

use andon_runtime::{Cancel, Force, Reason};
use andon_server::CancelOrder;
use serde::Serialize;

/// How to stop, in the words of the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct How {
    pub(crate) force: Force,
    /// Not sent: only a run in this process can have these reasons (`shutdown`, `client_disconnected`).
    #[serde(skip)]
    pub(crate) reason: Reason,
    /// Who asks, for a run of this program: a server knows its callers.
    #[serde(skip)]
    pub(crate) by: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<Arc<str>>,
    /// The grace for running tools, in place of each tool's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) grace_ms: Option<u64>,
}

impl How {
    /// A stop that a person asks for.
    pub(crate) fn asked(force: Force, note: Option<&str>) -> Self {
        Self { force, reason: Reason::Requested, by: who().into(), note: note.map(Into::into), grace_ms: None }
    }

    /// For a run of this program.
    pub(crate) fn cancel(self) -> Cancel {
        let Self { force, reason, by, note, grace_ms } = self;
        CancelOrder::new(force, reason).note(note).grace_ms(grace_ms).cancel(&by)
    }
}

/// The user name, if the system provides it.
pub(crate) fn who() -> String {
    std::env::var("USER").ok().filter(|user| !user.is_empty()).unwrap_or_else(|| "terminal".to_owned())
}
