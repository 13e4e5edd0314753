//! What hooks decide about a call before its tool starts.
//!
//! # Invariants
//!
//! 1. A changed call passes every check that the model's own call would: the tool exists, the arguments fit its schema, and a person
//!    approves it if the tool needs that. An approval of what the call was before does not count.
//! 2. A call that a person approved because a hook asked is shown to all hooks once more, as approved.
//! 3. A person is asked about one call at most twice: as the model wrote it, and as hooks changed it. After the second approval the
//!    hooks are called once more, from the approved call on, and only what comes of all of them counts: if that is another call, the run
//!    fails. What they make of it on the way is not on record.

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

/// Where a hook stands among the hooks of a call.
#[derive(Clone, Copy)]
struct HookPlace<'a> {
    /// The call as hooks had changed it, if that is what a person has approved (invariant 3).
    approved: Option<&'a ToolCall>,
    is_last: bool,
}

impl Driver {
    /// Asks the hooks about a call. Returns the call to make, or `None` if none is to be made now.
    pub(super) async fn before_tool(&mut self, mut call: ToolCall) -> Result<Option<ToolCall>, JournalError> {
        let agent = Arc::clone(&self.agent);
        let was_approved = self.is_approved(&call);
        let approved_call = (was_approved && !self.is_as_the_model_wrote(&call)).then(|| call.clone());
        let hooks = &agent.hooks.before_tool;
        for (number, hook) in hooks.iter().enumerate() {
            // Triage has already refused calls of tools that do not exist.
            let Some(tool) = self.tool(&call.name) else { return Ok(None) };
            if !self.may_call_hook(POINT) {
                return Ok(None);
            }
            let place = HookPlace { approved: approved_call.as_ref(), is_last: number + 1 == hooks.len() };
            let is_approved = place.approved.map_or_else(|| self.is_approved(&call), |approved| *approved == call);
            let spec = Arc::clone(tool.spec());
            let moment = |cord, session| BeforeTool::new(cord, session, call.clone(), spec, is_approved);
            match self.call_hook(POINT, hook, moment).await? {
                HookReturn::GoOn => {}
                HookReturn::Panicked(text) => {
                    let why = format!("The program's own check crashed: {text}");
                    return Ok(self.refuse_by_hook(&call, &why));
                }
                HookReturn::Decided(verdict) => match self.decide_call(call, tool.spec(), verdict, place) {
                    Some(decided) => call = decided,
                    None => return Ok(None),
                },
            }
        }
        if !self.may_call_hook(POINT) {
            // The last one has failed the run, or it is being stopped.
            return Ok(None);
        }
        if approved_call.is_some_and(|approved| approved != call) {
            // The last one has stopped the run after this turn, and said nothing about the call.
            self.refuse_by_hook(&call, "The run is being stopped.");
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
    fn decide_call(
        &mut self,
        call: ToolCall,
        tool: &ToolSpec,
        verdict: HookVerdict,
        place: HookPlace<'_>,
    ) -> Option<ToolCall> {
        // The call may have been cancelled alone during the hook.
        if !self.is_ready(&call.id) {
            self.finish_hook(POINT, HookEnd::Continued);
            return None;
        }
        match verdict {
            HookVerdict::Change(Changed::Call { name, arguments }) => self.change_call(call, name, &arguments, place),
            HookVerdict::Deny(why) => {
                self.finish_hook(POINT, HookEnd::Denied);
                self.refuse_by_hook(&call, &why)
            }
            HookVerdict::Answer(output) => {
                self.finish_hook(POINT, HookEnd::Answered);
                self.answer_by_hook(&call, tool, output)
            }
            // Once a person has approved what comes of the hooks, nobody is asked about what it is on the way.
            HookVerdict::Ask if place.approved.is_none() && !self.is_approved(&call) => {
                self.finish_hook(POINT, HookEnd::Asked);
                self.ask(&call)
            }
            // A person has said yes. The other decisions are not of this moment.
            HookVerdict::Ask
            | HookVerdict::GoOn
            | HookVerdict::Change(_)
            | HookVerdict::Cancel(_)
            | HookVerdict::Fail(_) => self.keep_call(call, place),
        }
    }

    fn change_call(
        &mut self,
        call: ToolCall,
        name: Option<String>,
        arguments: &Value,
        place: HookPlace<'_>,
    ) -> Option<ToolCall> {
        let changed = call.clone().name(name.unwrap_or_else(|| call.name.clone())).arguments(arguments.to_string());
        if is_same(&call, &changed) {
            return self.keep_call(call, place);
        }
        let refused = self.refusal(&changed, &[]);
        if place.approved.is_some() {
            // No hook is shown a call that cannot be made, so this is what has come of it.
            return self.keep_call(changed, HookPlace { is_last: place.is_last || refused.is_some(), ..place });
        }
        self.finish_changed(POINT, Ok(Some(HookChange::Call { call: changed.clone() })));
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

    /// Goes on with the call as it is. After the last hook it must be the one that was approved, if hooks had changed that (invariant 3).
    fn keep_call(&mut self, call: ToolCall, place: HookPlace<'_>) -> Option<ToolCall> {
        let as_approved = place.approved.filter(|approved| is_same(approved, &call));
        if place.is_last && place.approved.is_some() && as_approved.is_none() {
            let (id, tool) = (&call.id, &call.name);
            let why = format!(
                "the hooks changed call {id} of {tool} again after a person had approved the changed call, so approval would never \
                 end: return GoOn when moment.is_approved, or always make the same change"
            );
            self.fail_hook(POINT, why);
            return None;
        }
        self.finish_hook(POINT, HookEnd::Continued);
        // An approval is bound to the arguments as they were written.
        Some(as_approved.cloned().unwrap_or(call))
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

/// Whether two forms of a call would do the same: their arguments may be written differently.
fn is_same(one: &ToolCall, other: &ToolCall) -> bool {
    let input = one.input();
    one.name == other.name && input.is_ok() && input.ok() == other.input().ok()
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
