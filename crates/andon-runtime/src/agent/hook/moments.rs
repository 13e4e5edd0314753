//! What each hook is called with.

use std::sync::Arc;

use andon_core::event::ToolEnd;
use andon_core::id::{RunId, SessionKey};
use andon_core::message::{Message, ToolCall, ToolResult};
use andon_core::outcome::{Ending, ModelStop};
use andon_core::usage::Used;

use crate::live::cord::Cord;
use crate::model::ModelRequest;
use crate::tool::ToolSpec;

macro_rules! moment {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        #[non_exhaustive]
        pub struct $name {
            /// The run.
            pub run: RunId,
            /// Its session.
            pub session: SessionKey,
            /// The run's cord: a hook may watch it or pull it.
            pub cord: Cord,
            $($(#[$field_doc])* pub $field: $type,)+
        }

        impl $name {
            pub(crate) fn new(cord: Cord, session: SessionKey, $($field: $type),+) -> Self {
                Self { run: cord.run_id().clone(), session, cord, $($field),+ }
            }
        }
    };
}

moment! {
    /// A run begins. What a [`before_run`](crate::AgentBuilder::before_run) hook is called with.
    BeforeRun {
        /// The prompt, as earlier hooks left it.
        input: Arc<Message>,
    }
}

moment! {
    /// A run is about to end. What an [`after_run`](crate::AgentBuilder::after_run) hook is called with.
    AfterRun {
        /// How it will end, as earlier hooks left it: one of them may have failed the run or cancelled it.
        ending: Arc<Ending>,
        /// Its last answer, whole or cut, if there is one.
        answer: Option<Arc<Message>>,
        /// The tokens of all its model calls, as far as they are known.
        used: Used,
    }
}

moment! {
    /// The model is about to be called. What a [`before_model`](crate::AgentBuilder::before_model) hook is called with.
    BeforeModel {
        /// What it would be sent, as earlier hooks left it.
        request: ModelRequest,
    }
}

moment! {
    /// The model has answered. What an [`after_model`](crate::AgentBuilder::after_model) hook is called with.
    AfterModel {
        /// The number of the model call in its run, from 1.
        number: u32,
        /// The answer, as earlier hooks left it. Whoever reads the feed has seen the model's own.
        answer: Arc<Message>,
        /// Why the model stopped writing.
        stop: ModelStop,
    }
}

moment! {
    /// A tool is about to be started. What a [`before_tool`](crate::AgentBuilder::before_tool) hook is called with.
    BeforeTool {
        /// The call, as earlier hooks left it.
        call: ToolCall,
        /// The tool.
        tool: Arc<ToolSpec>,
        /// Whether a person has approved the call as it is now.
        is_approved: bool,
    }
}

moment! {
    /// A tool has finished. What an [`after_tool`](crate::AgentBuilder::after_tool) hook is called with.
    AfterTool {
        /// The call, as the tool got it.
        call: ToolCall,
        /// Its result, as earlier hooks left it.
        result: Arc<ToolResult>,
        /// How the call ended.
        end: ToolEnd,
    }
}
