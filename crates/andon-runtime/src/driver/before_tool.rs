//! What hooks decide about a call before its tool starts.
//!
//! # Invariants
//!
//! 1. A changed call passes every check that the model's own call would: the tool exists, the arguments fit its schema, and a person
//!    approves it if the tool needs that. An approval of what the call was before does not count.
//! 2. A call that a person approved because a hook asked is shown to all hooks once more, as approved.
//! 3. A person is asked about one call at most twice: as the model wrote it, and as hooks changed it. A hook that changes a changed call
//!    again after its approval fails the run.

use std::sync::Arc;

use andon_core::closing::refuse_with;
use andon_core::event::{Event, HookChange, HookEnd, HookPoint, Refusal};
use andon_core::message::{ResultStatus, ToolCall, ToolResult};
use andon_core::progress::Call;
use serde_json::Value;

use super::Driver;
use super::hooks::HookReturn;
use crate::agent::hook::BeforeTool;
use crate::journal::JournalError;
use crate::live::{Changed, HookVerdict};
use crate::tool::{ToolOutput, ToolSpec, bounded};

const POINT: HookPoint = HookPoint::BeforeTool;

impl Driver {
    /// Asks the hooks about a call. Returns the call to make, or `None` if none is to be made now.
    pub(super) async fn before_tool(&mut self, mut call: ToolCall) -> Result<Option<ToolCall>, JournalError> {
        let agent = Arc::clone(&self.agent);
        let was_approved = self.is_approved(&call);
        for hook in &agent.hooks.before_tool {
            // Triage has already refused calls of tools that do not exist.
            let Some(tool) = self.tool(&call.name) else { return Ok(None) };
            if !self.may_call_hook(POINT) {
                return Ok(None);
            }
            let (spec, is_approved) = (Arc::clone(tool.spec()), self.is_approved(&call));
            let moment = |cord, session| BeforeTool::new(cord, session, call.clone(), spec, is_approved);
            match self.call_hook(POINT, hook, moment).await? {
                HookReturn::GoOn => {}
                HookReturn::Panicked(text) => {
                    let why = format!("The program's own check crashed: {text}");
                    return Ok(self.refuse_by_hook(&call, &why));
                }
                HookReturn::Decided(verdict) => match self.decide_call(call, tool.spec(), verdict) {
                    Some(decided) => call = decided,
                    None => return Ok(None),
                },
            }
        }
        if !self.may_call_hook(POINT) {
            // The last one has failed the run, or it is being stopped.
            return Ok(None);
        }
        // If the call needed approval before its change, it needs it after that, too.
        let needs_approval = (was_approved || self.needs_approval(&call)) && !self.is_approved(&call);
        Ok(if needs_approval { self.ask(&call) } else { Some(call) })
    }

    fn is_approved(&self, call: &ToolCall) -> bool {
        self.progress().call(&call.id).is_some_and(|open| open.is_approved)
    }

    /// Stages what a hook decided, and what follows from it. Returns the call if it is still to be made.
    fn decide_call(&mut self, call: ToolCall, tool: &ToolSpec, verdict: HookVerdict) -> Option<ToolCall> {
        // The call may have been cancelled alone during the hook.
        if !self.is_ready(&call.id) {
            self.finish_hook(POINT, HookEnd::Continued);
            return None;
        }
        match verdict {
            HookVerdict::Change(Changed::Call { name, arguments }) => self.change_call(call, name, &arguments),
            HookVerdict::Deny(why) => {
                self.finish_hook(POINT, HookEnd::Denied);
                self.refuse_by_hook(&call, &why)
            }
            HookVerdict::Answer(output) => {
                self.finish_hook(POINT, HookEnd::Answered);
                self.answer_by_hook(&call, tool, output)
            }
            HookVerdict::Ask if !self.is_approved(&call) => {
                self.finish_hook(POINT, HookEnd::Asked);
                self.ask(&call)
            }
            // A person has said yes. The other decisions are not of this moment.
            HookVerdict::Ask
            | HookVerdict::GoOn
            | HookVerdict::Change(_)
            | HookVerdict::Cancel(_)
            | HookVerdict::Fail(_) => {
                self.finish_hook(POINT, HookEnd::Continued);
                Some(call)
            }
        }
    }

    fn change_call(&mut self, call: ToolCall, name: Option<String>, arguments: &Value) -> Option<ToolCall> {
        let is_same_input = call.input().is_ok_and(|input| input == *arguments);
        let name = name.unwrap_or_else(|| call.name.clone());
        if is_same_input && name == call.name {
            self.finish_hook(POINT, HookEnd::Continued);
            return Some(call);
        }
        if self.is_approved(&call) && !self.is_as_the_model_wrote(&call) {
            let (id, tool) = (&call.id, &call.name);
            let why = format!(
                "the hook changed call {id} of {tool} again after a person had approved the changed call, so approval would never \
                 end: return GoOn when moment.is_approved, or always make the same change"
            );
            self.fail_hook(POINT, why);
            return None;
        }
        let changed = call.name(name).arguments(arguments.to_string());
        self.finish_changed(POINT, Ok(Some(HookChange::Call { call: changed.clone() })));
        let refused = self.refusal(&changed, &[]);
        match refused {
            Some(refused) if self.is_ready(&changed.id) => {
                self.live.forget_call(&changed.id);
                self.stage(after_a_change(refused));
                None
            }
            Some(_) => None,
            None => Some(changed),
        }
    }

    fn is_as_the_model_wrote(&self, call: &ToolCall) -> bool {
        self.progress().last_answer().is_some_and(|answer| answer.calls().any(|written| written == call))
    }

    /// Closes a call that a hook denied, unless it was cancelled alone.
    fn refuse_by_hook(&mut self, call: &ToolCall, why: &str) -> Option<ToolCall> {
        if self.is_ready(&call.id) {
            self.live.forget_call(&call.id);
            self.stage(refuse_with(call.id.clone(), Refusal::DeniedByHook, Some(why)));
        }
        None
    }

    fn answer_by_hook(&mut self, call: &ToolCall, tool: &ToolSpec, output: ToolOutput) -> Option<ToolCall> {
        if self.is_ready(&call.id) {
            self.live.forget_call(&call.id);
            let content = bounded(Ok(output), tool.max_output).unwrap_or_else(|error| ToolOutput::from(error.0)).0;
            let result = Arc::new(ToolResult::new(call.id.clone(), ResultStatus::Ok, content));
            self.stage(Event::ToolRefused { call: call.id.clone(), why: Refusal::AnsweredByHook, result });
        }
        None
    }

    /// Asks a person about a call that could have started. A pull, or a cancel of the call alone, may have come first.
    fn ask(&mut self, call: &ToolCall) -> Option<ToolCall> {
        let arguments = self.progress().call(&call.id).map_or_else(|| call.digest(), Call::digest);
        if self.is_ready(&call.id) && self.live.ask(&call.id, arguments) {
            self.stage(Event::ApprovalRequested { call: call.id.clone(), arguments: Some(arguments) });
        }
        None
    }
}

/// The refusal of a call that the model did not write like this: the model is told that it is not to blame.
fn after_a_change(refused: Event) -> Event {
    match refused {
        Event::ToolRefused { call, why, result } => {
            let text = format!("{} A rule of this program had changed the call.", result.to_text());
            let result = Arc::new(ToolResult::text(call.clone(), result.status, text));
            Event::ToolRefused { call, why, result }
        }
        other => other,
    }
}
