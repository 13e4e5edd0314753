//! What each hook may decide: the decisions that mean something at its moment, and no others.

use andon_core::message::Message;
use serde_json::Value;

use super::{HookReply, ImmediateReply};
use crate::lanes::BoxFuture;
use crate::live::cord::Cancel;
use crate::live::{Changed, HookVerdict};
use crate::model::ModelRequest;
use crate::tool::ToolOutput;

/// A decision of one moment. Every moment can let the run go on, cancel it or fail it.
macro_rules! decision {
    (
        $(#[$doc:meta])* $name:ident {
            $($(#[$more:meta])* $variant:ident($($held:ty),+) => |$($bound:ident),+| $verdict:expr,)*
            $(@unit $(#[$unit_doc:meta])* $unit:ident => $unit_verdict:expr,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        #[cfg_attr(not(andon_whole), non_exhaustive)]
        pub enum $name {
            /// Go on. A hook that returns nothing says this.
            GoOn,
            $($(#[$more])* $variant($($held),+),)*
            $($(#[$unit_doc])* $unit,)*
            /// Cancel the run.
            Cancel(Cancel),
            /// Fail the run, and say why.
            Fail(String),
        }

        impl $name {
            /// Fails the run, and says why.
            pub fn fail(why: impl Into<String>) -> Self {
                Self::Fail(why.into())
            }
        }

        impl From<()> for $name {
            fn from((): ()) -> Self {
                Self::GoOn
            }
        }

        impl From<$name> for HookVerdict {
            fn from(decision: $name) -> Self {
                match decision {
                    $name::GoOn => Self::GoOn,
                    $($name::$variant($($bound),+) => $verdict,)*
                    $($name::$unit => $unit_verdict,)*
                    $name::Cancel(cancel) => Self::Cancel(cancel),
                    $name::Fail(why) => Self::Fail(why),
                }
            }
        }

        impl HookReply<Self, ImmediateReply> for $name {
            fn into_decision(self) -> BoxFuture<Self> {
                Box::pin(std::future::ready(self))
            }
        }
    };
}

decision! {
    /// What a [`before_run`](crate::AgentBuilder::before_run) hook decides.
    RunDecision {
        /// The prompt becomes this one, in the conversation, too. The prompt that was asked stays on record.
        ChangeInput(Message) => |input| HookVerdict::Change(Changed::Input(input)),
    }
}

decision! {
    /// What an [`after_run`](crate::AgentBuilder::after_run) hook decides. A run that was stopped stays stopped, and one that
    /// failed stays failed, whatever it says.
    EndDecision {}
}

decision! {
    /// What a [`before_model`](crate::AgentBuilder::before_model) hook decides.
    #[expect(clippy::large_enum_variant, reason = "it lives for a moment, and a box would be in every hook's way")]
    RequestDecision {
        /// The model is sent this request. It applies to this call alone: the conversation stays as it is. A request that no
        /// provider would accept fails the run.
        Change(ModelRequest) => |request| HookVerdict::Change(Changed::Request(Box::new(request))),
    }
}

decision! {
    /// What an [`after_model`](crate::AgentBuilder::after_model) hook decides. The answer has been shown by then, and is on
    /// record: these decide what the conversation has from now on.
    AnswerDecision {
        /// The answer's text becomes this one. Its thoughts and its calls stay.
        ReplaceText(String) => |text| HookVerdict::Change(Changed::AnswerText(text)),
        /// The answer is withdrawn, with its thoughts and calls: no tool is called. This text stands in its place, if it is not
        /// empty, and the run ends as `refused`. What was shown stays in the feed: the page's chat takes the old text away, ADK's page and
        /// sessions keep the answer and show the text after it, and a terminal has printed it.
        Withdraw(String) => |text| HookVerdict::Change(Changed::Withdrawn(text)),
    }
}

decision! {
    /// What a [`before_tool`](crate::AgentBuilder::before_tool) hook decides.
    CallDecision {
        /// The tool gets these arguments. If a person had approved the call, the person is asked again, about the changed one. A call
        /// that hooks had changed before that approval must then come out of them as it was approved, or the run fails. So change a call
        /// in the same way each time, or only while it is not approved
        /// ([`is_approved`](crate::BeforeTool::is_approved)).
        ChangeArguments(Value) => |arguments| HookVerdict::Change(Changed::Call { name: None, arguments }),
        /// Another tool is called, with these arguments. It is checked as if the model had asked for it: that the tool exists, that
        /// the arguments fit it, and whether a person must approve it. For a call that a person had approved, the same holds as for
        /// [`ChangeArguments`](Self::ChangeArguments).
        ChangeCall(String, Value) => |name, arguments| HookVerdict::Change(Changed::Call { name: Some(name), arguments }),
        /// Do not start the tool; the model is told why.
        Deny(String) => |why| HookVerdict::Deny(why),
        /// Do not start the tool; the model gets this as its result.
        Answer(ToolOutput) => |output| HookVerdict::Answer(output),
        @unit
        /// Ask a person first. Once it is approved, the hooks are called again, and then this means to go on.
        AskApproval => HookVerdict::Ask,
    }
}

impl CallDecision {
    /// Does not start the tool, and tells the model why.
    pub fn deny(why: impl Into<String>) -> Self {
        Self::Deny(why.into())
    }

    /// Does not start the tool, and gives the model this as its result.
    pub fn answer(output: impl Into<ToolOutput>) -> Self {
        Self::Answer(output.into())
    }
}

decision! {
    /// What an [`after_tool`](crate::AgentBuilder::after_tool) hook decides.
    ResultDecision {
        /// The model gets this instead of what the tool returned. Whether the call succeeded stays as it was. What the tool returned
        /// stays on record, and is what the model gets if the run is stopped or its process dies before the hook has decided: so this
        /// shortens or explains a result, and hides nothing for certain (see [`after_tool`](crate::AgentBuilder::after_tool)).
        Replace(ToolOutput) => |output| HookVerdict::Change(Changed::Result(output)),
    }
}

impl ResultDecision {
    /// Gives the model this instead of what the tool returned.
    pub fn replace(output: impl Into<ToolOutput>) -> Self {
        Self::Replace(output.into())
    }
}
