//! The calls of a turn. There may be thousands, and every event asks about them, so they are counted as they change and found
//! without a search.

use std::collections::HashMap;

use crate::id::CallId;
use crate::message::Message;

use super::call::{Call, CallState};
use super::fold::Misfit;

/// Why an event of a call that is not in the turn is refused.
pub(super) const NO_SUCH_CALL: Misfit = "the model did not ask for this call in this turn";

/// Up to this many calls, a linear search is quicker than the map.
const FEW: usize = 16;

/// The calls of a turn.
#[derive(Debug, Clone, Default)]
pub(super) struct Turn {
    calls: Vec<Call>,
    /// The index of each call, if there are more than [`FEW`].
    indexes: HashMap<CallId, usize>,
    count: Count,
    /// No call before this index is ready.
    ready_from: usize,
}

/// How many calls are ready, running and closed. `StandingFold` counts those that wait for a person.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Count {
    pub(super) ready: usize,
    pub(super) running: usize,
    pub(super) closed: usize,
}

impl Count {
    fn of(&mut self, state: &CallState) -> Option<&mut usize> {
        match state {
            CallState::Ready => Some(&mut self.ready),
            CallState::AwaitingApproval | CallState::Denied(_) => None,
            CallState::Running(_) => Some(&mut self.running),
            CallState::Closed(_) => Some(&mut self.closed),
        }
    }
}

impl Turn {
    /// The calls of an answer, each with an id of its own.
    pub(super) fn new(answer: &Message) -> Self {
        let calls: Vec<Call> = answer.calls().map(Call::new).collect();
        let entry = |(index, call): (usize, &Call)| (call.call.id.clone(), index);
        let indexes = if calls.len() > FEW { calls.iter().enumerate().map(entry).collect() } else { HashMap::new() };
        let count = Count { ready: calls.len(), ..Count::default() };
        Self { calls, indexes, count, ready_from: 0 }
    }

    pub(super) fn calls(&self) -> &[Call] {
        &self.calls
    }

    pub(super) fn count(&self) -> Count {
        self.count
    }

    /// Whether every call has its result.
    pub(super) fn is_over(&self) -> bool {
        self.count.closed == self.calls.len()
    }

    pub(super) fn call(&self, id: &CallId) -> Option<&Call> {
        self.calls.get(self.index(id)?)
    }

    fn index(&self, id: &CallId) -> Option<usize> {
        match self.calls.len() {
            0..=FEW => self.calls.iter().position(|call| call.call.id == *id),
            _ => self.indexes.get(id).copied(),
        }
    }

    /// The first calls that may start, in the model's order.
    pub(super) fn ready(&self, most: usize) -> Vec<CallId> {
        let later = self.calls.get(self.ready_from..).unwrap_or_default();
        let ready = later.iter().filter(|call| call.state == CallState::Ready);
        ready.take(most.min(self.count.ready)).map(|call| call.call.id.clone()).collect()
    }

    /// Changes a call. A change that does not fit leaves it as it was.
    pub(super) fn change(
        &mut self,
        id: &CallId,
        change: impl FnOnce(&mut Call) -> Result<(), Misfit>,
    ) -> Result<(), Misfit> {
        let index = self.index(id).ok_or(NO_SUCH_CALL)?;
        let call = self.calls.get_mut(index).ok_or(NO_SUCH_CALL)?;
        let before = call.state.clone();
        change(call)?;
        if let Some(count) = self.count.of(&before) {
            *count -= 1;
        }
        if let Some(count) = self.count.of(&call.state) {
            *count += 1;
        }
        self.look_for_ready(index);
        Ok(())
    }

    /// Keeps the promise of `ready_from` after the call at the index `changed` has changed.
    fn look_for_ready(&mut self, changed: usize) {
        let is_ready = |call: &Call| call.state == CallState::Ready;
        if self.calls.get(changed).is_some_and(is_ready) {
            self.ready_from = self.ready_from.min(changed);
        }
        while self.calls.get(self.ready_from).is_some_and(|call| !is_ready(call)) {
            self.ready_from += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event::{Approval, Effect};
    use crate::message::{Part, ResultStatus, Role, ToolCall, ToolResult};

    fn turn(calls: usize) -> Turn {
        let call = |number: usize| ToolCall {
            id: CallId::new(format!("c{number}")).unwrap(),
            name: "tool".to_owned(),
            arguments: "{}".to_owned(),
        };
        let parts = (0..calls).map(|number| Part::ToolCall(call(number))).collect();
        Turn::new(&Message { role: Role::Assistant, parts, cut: None })
    }

    /// The counts and the first ready calls, found by looking at each call.
    fn look_at_all(turn: &Turn) -> ([usize; 3], Vec<CallId>) {
        let count = |is: fn(&CallState) -> bool| turn.calls.iter().filter(|call| is(&call.state)).count();
        let ready = turn.calls.iter().filter(|call| call.state == CallState::Ready);
        let counts = [
            count(|state| *state == CallState::Ready),
            count(|state| matches!(state, CallState::Running(_))),
            count(|state| matches!(state, CallState::Closed(_))),
        ];
        (counts, ready.take(3).map(|call| call.call.id.clone()).collect())
    }

    #[test]
    fn the_counts_are_what_looking_at_each_call_finds_whatever_happens_to_them() {
        for calls in [1, FEW, FEW + 1, 60] {
            let (mut turn, mut random) = (turn(calls), fastrand::Rng::with_seed(calls as u64));
            while !turn.is_over() {
                let id = CallId::new(format!("c{}", random.usize(..calls + 1))).unwrap();
                let result = ToolResult { call: id.clone(), status: ResultStatus::Ok, content: Vec::new() };
                // Many of these do not fit, and then nothing changes.
                let _ = turn.change(&id, |call| match random.u8(..5) {
                    0 => call.ask(None),
                    1 => call.decide(&Approval::Approved { by: None, arguments: None, why: None }),
                    2 => call.start(Effect::ReadOnly),
                    3 => call.finish(&Arc::new(result)),
                    _ if random.bool() => call.refuse(&Arc::new(result)),
                    _ => call.decide(&Approval::Closed),
                });
                let Count { ready, running, closed } = turn.count();
                let told = ([ready, running, closed], turn.ready(3));
                assert_eq!(told, look_at_all(&turn));
                assert_eq!(turn.call(&id), turn.calls.iter().find(|call| call.call.id == id));
            }
        }
    }

    #[test]
    fn calls_that_have_started_are_not_looked_at_again_for_one_that_may() {
        let mut turn = turn(3);
        let id = |number: usize| CallId::new(format!("c{number}")).unwrap();
        turn.change(&id(1), |call| call.start(Effect::ReadOnly)).unwrap();
        assert_eq!(turn.ready_from, 0);
        turn.change(&id(0), |call| call.ask(None)).unwrap();
        assert_eq!(turn.ready_from, 2);
        turn.change(&id(0), |call| call.decide(&Approval::Approved { by: None, arguments: None, why: None })).unwrap();
        assert_eq!(turn.ready_from, 0, "it was approved");
    }
}
