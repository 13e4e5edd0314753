//! What is learnt about a run after its last event.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Remains, ToolEnd};
use crate::id::CallId;
use crate::message::{Part, ToolResult};
use crate::time::Stamp;
use crate::usage::Used;

/// What was learnt about a run after it had settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addendum {
    /// The version of this form.
    #[serde(deserialize_with = "crate::known_version")]
    pub v: u16,
    /// Its number among the run's addenda, from 1.
    pub number: u32,
    /// When it was learnt.
    pub at: Stamp,
    /// What it is.
    #[serde(flatten)]
    pub what: Learnt,
}

/// What an addendum says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Learnt {
    /// A leaked or detached tool ended after all. Its result is recorded and believed by nobody.
    LateResult {
        /// The call.
        call: CallId,
        /// What it returned.
        result: Arc<ToolResult>,
        /// What its cleanup found, if there is something to say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remains: Option<Box<Remains>>,
    },
    /// Somebody asked to undo what a call did; on record before anything is done about it.
    CompensationStarted {
        /// The call.
        call: CallId,
        /// Who asked.
        by: Option<Arc<str>>,
    },
    /// The compensation is over.
    CompensationFinished {
        /// The call.
        call: CallId,
        /// How: `finished`, `panicked`, or `unknown` if its time was over first.
        end: ToolEnd,
        /// What it returned.
        result: Arc<ToolResult>,
    },
    /// The model went on behind the cut. Nobody was shown this, and it is no part of the conversation.
    Undelivered {
        /// The model call's number.
        call: u32,
        /// What it wrote.
        parts: Vec<Part>,
    },
    /// The last word on what a model call used; the same figures if nothing better was found.
    UsageCorrected {
        /// The call's number.
        call: u32,
        /// The figures.
        used: Box<Used>,
    },
}
