//! What is learned about a run after it has settled.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Remains, ToolEnd};
use crate::id::CallId;
use crate::message::{Part, ToolResult};
use crate::time::Stamp;
use crate::usage::Used;

/// What was learned about a run after it had settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Addendum {
    /// The version of this form.
    #[serde(deserialize_with = "crate::format_version::known_version")]
    pub v: u16,
    /// Its number among the run's addenda, from 1.
    pub number: u32,
    /// When it was learned.
    pub at: Stamp,
    /// What it is.
    #[serde(flatten)]
    pub what: AddendumKind,
}

crate::with!(Addendum: number: u32);

impl Addendum {
    /// In the form of this version.
    pub const fn new(number: u32, at: Stamp, what: AddendumKind) -> Self {
        Self { v: crate::format_version::FORMAT_VERSION, number, at, what }
    }
}

/// What an addendum says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
#[cfg_attr(not(andon_whole), non_exhaustive)]
pub enum AddendumKind {
    /// A leaked or detached tool ended after all. Its result is recorded here, and is not part of the conversation.
    LateResult {
        /// The call.
        call: CallId,
        /// What it returned.
        result: Arc<ToolResult>,
        /// What its cleanup found, if there is anything to report.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remains: Option<Box<Remains>>,
    },
    /// Somebody asked to undo what a call did. This is on record before anything is undone.
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
        /// How: `finished`, `panicked`, or `unknown` if it ran out of time.
        end: ToolEnd,
        /// What it returned.
        result: Arc<ToolResult>,
    },
    /// What the model wrote after the cut. It was shown to nobody, and is not part of the conversation.
    Undelivered {
        /// The model call's number.
        call: u32,
        /// The text, thoughts and calls.
        parts: Vec<Part>,
    },
    /// The final figures of what a model call used; the same as before if nothing better was found.
    UsageCorrected {
        /// The call's number.
        call: u32,
        /// The figures.
        used: Box<Used>,
    },
}
