//! The event that closes a run which did not complete, in ADK's words.

use std::sync::Arc;

use andon_runtime::core::cancel::CancelRequest;
use andon_runtime::{Ending, Failure, FailureKind, Force, Reason, RunId, Used};
use serde_json::{Map, Value, json};

use super::event::{AdkEvent, NodeInfo};

/// ADK's code for a run that was stopped.
pub(crate) const ABORTED: &str = "INVOCATION_ABORTED";

/// Our code for a run whose process died.
pub(crate) const INTERRUPTED: &str = "INVOCATION_INTERRUPTED";

/// What is known about a run's end before it comes.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    /// The first request to stop it.
    request: Option<Arc<CancelRequest>>,
    /// The usage of model calls that returned nothing.
    used: Option<Used>,
}

impl Closing {
    /// Somebody pulled the cord. The first to pull is named.
    pub(crate) fn stopped(&mut self, request: &Arc<CancelRequest>) {
        self.request.get_or_insert_with(|| Arc::clone(request));
    }

    /// A model call used this and returned nothing.
    pub(crate) fn used_for_nothing(&mut self, used: Option<Used>) {
        let used = used.unwrap_or(Used::UNKNOWN);
        self.used = Some(self.used.map_or(used, |before| before.plus(used)));
    }

    /// The event that closes a run that was stopped this hard; `None` if it completed.
    pub(crate) fn event(
        &self,
        ending: &Ending,
        run: &RunId,
        force: Option<Force>,
        blank: AdkEvent,
    ) -> Option<AdkEvent> {
        let nowhere = NodeInfo { path: "".into() };
        let mut event = match ending {
            Ending::Completed { .. } => return None,
            Ending::Cancelled { reason } => AdkEvent {
                error_code: Some(ABORTED),
                error_message: Some(aborted(*reason)),
                node_info: nowhere,
                ..blank
            },
            Ending::Failed(Failure { error, message, .. }) => {
                AdkEvent { error_code: Some(code(*error)), error_message: Some(message.clone()), ..blank }
            }
            Ending::Lost => AdkEvent {
                error_code: Some(INTERRUPTED),
                error_message: Some("Invocation was interrupted: the program that ran it ended.".to_owned()),
                interrupted: Some(true),
                node_info: nowhere,
                ..blank
            },
            #[cfg(not(andon_whole))]
            _ => blank,
        };
        let mut told = Map::new();
        if let Ending::Cancelled { reason } = ending {
            told.insert("reason".to_owned(), reason.as_str().into());
            let by = self.request.as_ref().and_then(|request| request.by.as_deref());
            told.extend(by.map(|by| ("by".to_owned(), Value::from(by))));
            told.extend(force.map(|force| ("force".to_owned(), force.as_str().into())));
            told.insert("runId".to_owned(), run.as_str().into());
        }
        if let Some(used) = self.used.filter(|used| *used != Used::NONE) {
            told.insert("usage".to_owned(), json!(used));
        }
        event.custom_metadata = (!told.is_empty()).then(|| json!({"andon": told}));
        Some(event)
    }
}

/// ADK's sentence for a stop by the client, and a similar one for any other reason.
pub(crate) fn aborted(reason: Reason) -> String {
    match reason {
        Reason::Requested | Reason::ClientDisconnected => "Invocation was aborted by client.".to_owned(),
        other => format!("Invocation was aborted: {}.", other.as_str().replace('_', " ")),
    }
}

/// The code of a failure.
pub(crate) fn code(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Model => "MODEL_ERROR",
        FailureKind::ContextOverflow => "CONTEXT_OVERFLOW",
        FailureKind::StreamBroken => "STREAM_BROKEN",
        FailureKind::Journal => "JOURNAL_ERROR",
        FailureKind::Hook => "HOOK_ERROR",
        FailureKind::Internal => "INTERNAL_ERROR",
        #[cfg(not(andon_whole))]
        _ => "INTERNAL_ERROR",
    }
}

/// Whether a failure is the provider's answer. ADK reports that only as an event; anything else is a server error to it.
pub(crate) fn is_providers_answer(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::Model | FailureKind::ContextOverflow)
}
