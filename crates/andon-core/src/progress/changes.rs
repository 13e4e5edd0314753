//! What hooks change in a run.
//!
//! # Invariants
//!
//! 1. A hook changes only what it was called with.
//! 2. A change that does not fit changes nothing: every check comes first.
//! 3. Whatever a hook changes, every call in the conversation has its result, and every result its call.

use std::sync::Arc;

use crate::ending::ModelStop;
use crate::event::{HookChange, HookPoint};
use crate::message::{Message, Part, Role, ToolResult};

use super::RunProgress;
use super::fold::Misfit;

impl RunProgress {
    pub(super) fn take_change(&mut self, point: HookPoint, change: &HookChange) -> Result<(), Misfit> {
        match (point, change) {
            (HookPoint::BeforeRun, HookChange::Input { input }) => self.change_input(input),
            (HookPoint::BeforeModel, HookChange::Request { request }) => {
                self.change = Some(Box::new(request.clone()));
                Ok(())
            }
            (HookPoint::AfterModel, HookChange::Answer { answer, is_withdrawn }) => {
                self.change_answer(answer, *is_withdrawn)
            }
            (HookPoint::BeforeTool, HookChange::Call { call }) => {
                let id = call.id.clone();
                self.turn_call(&id, |open| open.change(call))
            }
            (HookPoint::AfterTool, HookChange::Result { result }) => self.change_result(result),
            _ => Err("a hook changes only what it was called with"),
        }
    }

    /// The run's prompt comes after the history that it brought along, and is the last message until the model has answered.
    fn change_input(&mut self, input: &Arc<Message>) -> Result<(), Misfit> {
        if input.role != Role::User || input.parts.is_empty() || input.cut.is_some() {
            return Err("a prompt must be a user message with content");
        }
        match self.messages.get_mut(self.accepted.history.len()..) {
            Some([prompt]) => *prompt = Arc::clone(input),
            _ => return Err("a prompt is changed before the first answer"),
        }
        Ok(())
    }

    /// An answer is withdrawn once its calls are closed, and their results go with it. The run is then done: it ends as refused,
    /// because that is what became of the answer. An answer that is not withdrawn keeps its calls.
    fn change_answer(&mut self, answer: &Arc<Message>, is_withdrawn: bool) -> Result<(), Misfit> {
        let place = self.messages.iter().rposition(|message| message.role == Role::Assistant).ok_or(NO_ANSWER)?;
        if place < self.accepted.history.len() {
            // One that the prompt brought along is no answer of this run.
            return Err(NO_ANSWER);
        }
        let before = self.messages.get(place).ok_or(NO_ANSWER)?;
        if answer.role != Role::Assistant || answer.cut != before.cut {
            return Err("a changed answer must still be an answer");
        }
        if is_withdrawn && (self.turn.is_some() || answer.calls().next().is_some()) {
            return Err("an answer can only be withdrawn together with its calls, after they have been closed");
        }
        if !is_withdrawn && !answer.calls().eq(before.calls()) {
            return Err("a changed answer must keep its calls");
        }
        if is_withdrawn {
            self.messages.truncate(place + 1);
            self.last_stop = Some(ModelStop::Refused);
        }
        if let Some(message) = self.messages.get_mut(place) {
            *message = Arc::clone(answer);
        }
        Ok(())
    }

    /// The result is with its call until all calls have one, and then in the conversation.
    fn change_result(&mut self, result: &Arc<ToolResult>) -> Result<(), Misfit> {
        if self.turn.is_some() {
            return self.turn_call(&result.call, |open| open.replace(result));
        }
        let message = self.messages.last_mut().filter(|message| message.role == Role::Tool).ok_or(NO_RESULT)?;
        if !message.results().any(|known| known.call == result.call) {
            return Err(NO_RESULT);
        }
        for part in &mut Arc::make_mut(message).parts {
            if let Part::ToolResult(known) = part
                && known.call == result.call
            {
                *known = (**result).clone();
            }
        }
        Ok(())
    }
}

const NO_ANSWER: Misfit = "there is no answer to change";
const NO_RESULT: Misfit = "there is no such result to change";
