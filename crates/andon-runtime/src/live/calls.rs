//! A turn's calls before they start: those that wait for a person, and those that may start.

use andon_core::digest::Digest;
use andon_core::event::Approval;
use andon_core::id::CallId;

use super::{Inner, Live, News, Unstarted, WakeList};

/// Why a decision about a call was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum DecideError {
    /// The run was told to stop first, or it has settled: nothing of it waits for a decision any more.
    #[error("the run has settled or was told to stop: this decision changes nothing")]
    TooLate,
    /// No approval is open for this call.
    #[error("this call is not waiting for approval: it has already been decided, or the run never asked for it")]
    NotWaiting,
    /// The approval is for other arguments than the call has, or for a tool of another name.
    #[error("this is not the call that was approved: check its name and arguments, and decide again")]
    OtherArguments,
}

/// A person's decision about a call, ready to be accepted.
#[derive(Debug, Clone)]
pub(crate) struct Decided {
    pub(crate) call: CallId,
    pub(crate) answer: PersonsAnswer,
    pub(crate) by: Option<String>,
    pub(crate) note: Option<String>,
}

/// Yes or no.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PersonsAnswer {
    /// The call may be made with exactly these arguments, or with those that it has.
    Yes {
        to: Option<Digest>,
    },
    No,
}

impl Live {
    /// Sets a turn's calls: those that wait for a person, and those that may start.
    pub(crate) fn open_calls(&self, asked: Vec<(CallId, Digest)>, ready: Vec<CallId>) {
        let has_calls = !asked.is_empty() || !ready.is_empty();
        let unstarted = has_calls.then(|| Box::new(Unstarted { approvals: asked, ready: ready.into() }));
        self.inner.lock().unstarted = unstarted;
    }

    /// A person decides calls: all decisions are accepted, or none is. Refused once the run was told to stop.
    pub(crate) fn decide(&self, decisions: &[Decided]) -> Result<(), DecideError> {
        let mut inner = self.inner.lock();
        for (place, decided) in decisions.iter().enumerate() {
            inner.check(decided)?;
            // The first decision would close the question for the second.
            if decisions.iter().take(place).any(|earlier| earlier.call == decided.call) {
                return Err(DecideError::NotWaiting);
            }
        }
        let mut wake = Vec::new();
        for decided in decisions {
            let place = inner.awaited(&decided.call)?;
            wake.push(inner.resolve(place, decided));
        }
        drop(inner);
        wake.into_iter().for_each(WakeList::wake);
        Ok(())
    }

    /// Whether a person may decide this call now.
    pub(crate) fn is_undecided(&self, call: &CallId) -> bool {
        self.inner.lock().awaited(call).is_ok()
    }

    /// A call that may start needs a person's approval after all. Returns whether it still may start: nobody is asked once
    /// a pull has cut the turn.
    pub(crate) fn ask(&self, call: &CallId, arguments: Digest) -> bool {
        let mut inner = self.inner.lock();
        if !inner.stop.lets_the_turn_go_on() {
            return false;
        }
        let unstarted = inner.unstarted();
        let Some(place) = unstarted.ready.iter().position(|ready| ready == call) else { return false };
        unstarted.ready.remove(place);
        unstarted.approvals.push((call.clone(), arguments));
        true
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

    /// Checks that a call may still be decided, and that the decision is about the arguments that it has.
    fn check(&mut self, decided: &Decided) -> Result<(), DecideError> {
        let place = self.awaited(&decided.call)?;
        let asked = self.unstarted().approvals.get(place).map(|(_, arguments)| *arguments);
        match decided.answer {
            PersonsAnswer::Yes { to: Some(to) } if Some(to) != asked => Err(DecideError::OtherArguments),
            PersonsAnswer::Yes { .. } | PersonsAnswer::No => Ok(()),
        }
    }

    /// Closes the question at this index with a decision.
    fn resolve(&mut self, place: usize, decided: &Decided) -> WakeList {
        let (call, arguments) = self.unstarted().approvals.swap_remove(place);
        let (by, why) = (decided.by.clone(), decided.note.clone());
        let approval = match decided.answer {
            PersonsAnswer::Yes { .. } => Approval::Approved { by, arguments: Some(arguments), why },
            PersonsAnswer::No => Approval::Denied { by, why },
        };
        if matches!(approval, Approval::Approved { .. }) {
            self.unstarted().ready.push_back(call.clone());
        }
        self.post(News::Decided(call, approval))
    }
}
