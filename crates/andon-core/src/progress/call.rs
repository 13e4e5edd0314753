//! One tool call of a turn, and what may happen to it.
//!
//! # Invariants
//!
//! 1. A call is closed once, by a result of its own.
//! 2. A denied call stays denied: only its refusal can follow.
//! 3. An approval names the question that it answers. Two questions about one call have the same name only if they show the same tool
//!    and the same arguments.

use std::sync::Arc;

use crate::digest::Digest;
use crate::event::{Approval, Effect};
use crate::message::{ToolCall, ToolResult};

use super::fold::Misfit;

/// One tool call of the current turn.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// What the model asked for, or what a hook made of it.
    pub call: ToolCall,
    /// How far it has come.
    pub state: CallState,
    /// Whether a person has approved it, with the name and the arguments that it has now.
    pub is_approved: bool,
    /// Whether a hook has given it another name than the model wrote.
    pub is_renamed: bool,
    /// What the open question, or the last one, asks a person to approve. `None` in records of older programs.
    question: Option<Digest>,
}

/// How far a tool call has come.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum CallState {
    /// It may start.
    Ready,
    /// It waits for a person's approval.
    AwaitingApproval,
    /// A person denied it, or the stop closed the approval. Its refusal comes next. Never holds [`Approval::Approved`].
    Denied(Box<Approval>),
    /// It was started.
    Running(Effect),
    /// It has its result.
    Closed(Arc<ToolResult>),
}

impl Call {
    pub(super) fn new(call: &ToolCall) -> Self {
        Self { call: call.clone(), state: CallState::Ready, is_approved: false, is_renamed: false, question: None }
    }

    /// What an approval of this call is bound to: the digest that its question has on record or, before there is one, will have.
    pub fn digest(&self) -> Digest {
        let named = || if self.is_renamed { self.call.digest_with_name() } else { self.call.digest() };
        self.question.unwrap_or_else(named)
    }

    pub(super) fn ask(&mut self, question: Option<Digest>) -> Result<(), Misfit> {
        match self.state {
            CallState::Ready => (self.state, self.question) = (CallState::AwaitingApproval, question),
            CallState::AwaitingApproval | CallState::Denied(_) | CallState::Running(_) | CallState::Closed(_) => {
                return Err("approval is requested before the call starts");
            }
        }
        Ok(())
    }

    pub(super) fn decide(&mut self, verdict: &Approval) -> Result<(), Misfit> {
        if self.state != CallState::AwaitingApproval {
            return Err("no approval is open for this call");
        }
        if let Approval::Approved { arguments: Some(arguments), .. } = verdict
            && *arguments != self.digest()
        {
            return Err("the approval was for another call or other arguments");
        }
        self.is_approved = matches!(verdict, Approval::Approved { .. });
        self.state = match verdict {
            Approval::Approved { .. } => CallState::Ready,
            Approval::Denied { .. } | Approval::Closed => CallState::Denied(Box::new(verdict.clone())),
        };
        Ok(())
    }

    /// A hook changes the call. An approval was for what it was before.
    pub(super) fn change(&mut self, call: &ToolCall) -> Result<(), Misfit> {
        match self.state {
            CallState::Ready => {
                self.is_renamed |= call.name != self.call.name;
                (self.call, self.is_approved, self.question) = (call.clone(), false, None);
            }
            CallState::AwaitingApproval | CallState::Denied(_) | CallState::Running(_) | CallState::Closed(_) => {
                return Err("a hook changes a call before it starts");
            }
        }
        Ok(())
    }

    /// A hook replaces the result.
    pub(super) fn replace(&mut self, result: &Arc<ToolResult>) -> Result<(), Misfit> {
        match self.state {
            CallState::Closed(_) => self.close(result),
            CallState::Ready | CallState::AwaitingApproval | CallState::Denied(_) | CallState::Running(_) => {
                Err("a hook replaces the result of a call that has ended")
            }
        }
    }

    pub(super) fn start(&mut self, effect: Effect) -> Result<(), Misfit> {
        match self.state {
            CallState::Ready => self.state = CallState::Running(effect),
            CallState::AwaitingApproval | CallState::Denied(_) | CallState::Running(_) | CallState::Closed(_) => {
                return Err("a call starts once, and only when it may");
            }
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, result: &Arc<ToolResult>) -> Result<(), Misfit> {
        match self.state {
            CallState::Running(_) => self.close(result),
            CallState::Ready | CallState::AwaitingApproval | CallState::Denied(_) | CallState::Closed(_) => {
                Err("only a call that runs can finish")
            }
        }
    }

    pub(super) fn refuse(&mut self, result: &Arc<ToolResult>) -> Result<(), Misfit> {
        match self.state {
            CallState::Ready | CallState::AwaitingApproval | CallState::Denied(_) => self.close(result),
            CallState::Running(_) | CallState::Closed(_) => Err("a call that has started cannot be refused"),
        }
    }

    fn close(&mut self, result: &Arc<ToolResult>) -> Result<(), Misfit> {
        if result.call != self.call.id {
            return Err("a result belongs to the call that it closes");
        }
        self.state = CallState::Closed(Arc::clone(result));
        Ok(())
    }
}
