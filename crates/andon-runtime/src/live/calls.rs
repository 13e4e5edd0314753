//! A turn's calls before they start: those that wait for a person, and those that may start.

use andon_core::digest::Digest;
use andon_core::event::Approval;
use andon_core::id::CallId;

use super::{Inner, Live, News, Unstarted, WakeList};

/// Why a decision about a call was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum DecideError {
    /// The run was told to stop first: the call is closed.
    #[error("the run was stopped before this decision: the call will not be made")]
    TooLate,
    /// No approval is open for this call.
    #[error("this call is not waiting for approval: it has already been decided, or the run never asked for it")]
    NotWaiting,
    /// The approval is for other arguments than the call has.
    #[error("the call's arguments are not the ones that were approved: look at the call again, and decide again")]
    OtherArguments,
}

impl Live {
    /// Sets a turn's calls: those that wait for a person, and those that may start.
    pub(crate) fn open_calls(&self, asked: Vec<(CallId, Digest)>, ready: Vec<CallId>) {
        let unstarted = Unstarted { approvals: asked, ready: ready.into() };
        self.inner.lock().unstarted = Some(Box::new(unstarted));
    }

    /// A person approves a call with exactly these arguments, or with whatever arguments it has. Refused once the run
    /// was told to stop.
    pub(crate) fn approve(&self, call: &CallId, to: Option<Digest>, by: Option<&str>) -> Result<(), DecideError> {
        let by = by.map(str::to_owned);
        self.decide(call, to, |arguments| Approval::Approved { by, arguments: Some(arguments) })
    }

    /// A person denies a call. Refused once the run was told to stop.
    pub(crate) fn deny(&self, call: &CallId, by: Option<&str>, why: Option<&str>) -> Result<(), DecideError> {
        let (by, why) = (by.map(str::to_owned), why.map(str::to_owned));
        self.decide(call, None, |_| Approval::Denied { by, why })
    }

    /// A person decides several calls at once: all decisions are accepted, or none is.
    pub(crate) fn decide_all(&self, answers: &[(CallId, bool)], by: Option<&str>) -> Result<(), DecideError> {
        let mut inner = self.inner.lock();
        for (place, (call, _)) in answers.iter().enumerate() {
            inner.awaited(call)?;
            // The first answer would close the question for the second.
            if answers.iter().take(place).any(|(earlier, _)| earlier == call) {
                return Err(DecideError::NotWaiting);
            }
        }
        let mut wake = Vec::new();
        for (call, is_yes) in answers {
            let place = inner.awaited(call)?;
            let by = by.map(str::to_owned);
            wake.push(inner.resolve(place, |arguments| match is_yes {
                true => Approval::Approved { by, arguments: Some(arguments) },
                false => Approval::Denied { by, why: None },
            }));
        }
        drop(inner);
        wake.into_iter().for_each(WakeList::wake);
        Ok(())
    }

    fn decide(
        &self,
        call: &CallId,
        to: Option<Digest>,
        approval: impl FnOnce(Digest) -> Approval,
    ) -> Result<(), DecideError> {
        let mut inner = self.inner.lock();
        let place = inner.awaited(call)?;
        let asked = inner.unstarted().approvals.get(place).map(|(_, arguments)| *arguments);
        if to.is_some_and(|to| Some(to) != asked) {
            return Err(DecideError::OtherArguments);
        }
        let wake = inner.resolve(place, approval);
        drop(inner);
        wake.wake();
        Ok(())
    }

    /// A call was refused: it can no longer be approved, nor cancelled alone.
    pub(crate) fn forget_call(&self, call: &CallId) {
        let mut inner = self.inner.lock();
        inner.unstarted().forget(call);
    }

    /// An id for a call that has none, if none could be made from what the model wrote.
    pub(crate) fn id_for_call(&self) -> CallId {
        loop {
            if let Ok(id) = CallId::new(self.services.ids.next("call")) {
                return id;
            }
        }
    }
}

impl Unstarted {
    pub(super) fn has(&self, call: &CallId) -> bool {
        self.approvals.iter().any(|(open, _)| open == call) || self.ready.contains(call)
    }

    /// A call has started, or never will.
    pub(super) fn forget(&mut self, call: &CallId) {
        // Calls start in order, so it is usually the first.
        if let Some(place) = self.ready.iter().position(|ready| ready == call) {
            self.ready.remove(place);
        }
        self.approvals.retain(|(asked, _)| asked != call);
    }
}

impl Inner {
    pub(super) fn unstarted(&mut self) -> &mut Unstarted {
        self.unstarted.get_or_insert_default()
    }

    /// The index of the open question about a call, if it may still be answered.
    fn awaited(&mut self, call: &CallId) -> Result<usize, DecideError> {
        if self.life.has_lost_its_driver() || !self.stop.lets_the_turn_go_on() {
            return Err(DecideError::TooLate);
        }
        let place = self.unstarted().approvals.iter().position(|(open, _)| open == call);
        place.ok_or(DecideError::NotWaiting)
    }

    /// Closes the question at this index with an answer.
    fn resolve(&mut self, place: usize, approval: impl FnOnce(Digest) -> Approval) -> WakeList {
        let (call, arguments) = self.unstarted().approvals.swap_remove(place);
        let approval = approval(arguments);
        if matches!(approval, Approval::Approved { .. }) {
            self.unstarted().ready.push_back(call.clone());
        }
        self.post(News::Decided(call, approval))
    }
}
