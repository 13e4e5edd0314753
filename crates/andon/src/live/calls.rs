//! A turn's calls before they start: those that wait for a person, and those whose turn has not come.

use andon_core::event::Approval;
use andon_core::id::CallId;

use super::{Live, News};
use crate::fault::{Fault, planted};

/// Why an approval was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// The run was told to stop first: the call is closed.
    #[error("the run was stopped before this decision: the call will not be made")]
    TooLate,
    /// No approval is open for this call.
    #[error("this call does not wait for an approval: it was decided already, or the run never asked for it")]
    NotWaiting,
}

impl Live {
    /// A turn's calls: those that wait for a person, and those that may start.
    pub(crate) fn open_calls(&self, asked: Vec<CallId>, ready: Vec<CallId>) {
        let mut inner = self.inner.lock();
        inner.approvals = asked;
        inner.ready = ready;
    }

    /// A person's decision. Refused once the run was told to stop.
    pub(crate) fn decide(&self, call: &CallId, approval: Approval) -> Result<(), DecideError> {
        let mut inner = self.inner.lock();
        if !inner.stop.lets_the_turn_go_on() && !planted(Fault::ApprovalAfterPull) {
            return Err(DecideError::TooLate);
        }
        let Some(place) = inner.approvals.iter().position(|open| open == call) else {
            return Err(DecideError::NotWaiting);
        };
        let call = inner.approvals.swap_remove(place);
        if matches!(approval, Approval::Approved { .. }) {
            inner.ready.push(call.clone());
        }
        let wake = inner.post(News::Decided(call, approval));
        drop(inner);
        wake.wake();
        Ok(())
    }

    /// A call was refused: it can no longer be approved, nor cancelled alone.
    pub(crate) fn forget_call(&self, call: &CallId) {
        let mut inner = self.inner.lock();
        inner.ready.retain(|ready| ready != call);
        inner.approvals.retain(|asked| asked != call);
    }

    /// An id for a call that has none and for which none could be made.
    pub(crate) fn id_for_call(&self) -> CallId {
        loop {
            if let Ok(id) = CallId::new(self.runtime.next_id("call")) {
                return id;
            }
        }
    }
}
