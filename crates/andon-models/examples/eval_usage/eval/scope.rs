//! What counts in the last line, and why the rest does not.

use serde::Serialize;

use super::data::Call;
use super::replay::{From, Kind};

/// How many calls of a model must have been seen before its output counts.
const EARLIER: u64 = 5;
/// How many tokens an answer must have to count.
const LEAST: u64 = 20;

/// Why a figure does not count in the last line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LeftOut {
    /// The provider ran tools of its own.
    ProviderTools,
    /// The call had reasoning; for input, either it or its anchor had.
    Reasoning,
    /// The model hides its reasoning.
    HidesReasoning,
    /// The answer called tools.
    ToolCalls,
    /// Nothing of the answer is visible.
    NothingVisible,
    /// The answer is short.
    Short,
    /// Few calls of the model came before.
    Early,
    /// The input's anchor is another conversation.
    OtherConversation,
    /// The model reasons, by its name or by its figures.
    ReasoningModel,
}

impl LeftOut {
    /// All of them, in the order in which they are checked.
    pub(crate) const ALL: [Self; 9] = [
        Self::ProviderTools,
        Self::Reasoning,
        Self::HidesReasoning,
        Self::ToolCalls,
        Self::NothingVisible,
        Self::Short,
        Self::Early,
        Self::OtherConversation,
        Self::ReasoningModel,
    ];

    pub(crate) fn because(self) -> &'static str {
        match self {
            Self::ProviderTools => "the provider ran its own tools",
            Self::Reasoning => "with reasoning",
            Self::HidesReasoning => "the model hides its reasoning",
            Self::ToolCalls => "tool calls, not text",
            Self::NothingVisible => "nothing is visible",
            Self::Short => "under 20 tokens",
            Self::Early => "fewer than five earlier calls of the model",
            Self::OtherConversation => "the earlier call is of another conversation",
            Self::ReasoningModel => "a model that reasons",
        }
    }
}

/// What is known about a call once its figures are known.
pub(crate) struct Facts {
    /// The call had reasoning.
    pub(crate) reasoned: bool,
    /// The model hides its reasoning, as far as was known before.
    pub(crate) hides: bool,
    /// Earlier calls of the model.
    pub(crate) earlier: u64,
    /// The reported output.
    pub(crate) output: u64,
}

/// What kind of answer it was.
pub(crate) fn kind(call: &Call, reasoned: bool) -> Kind {
    match () {
        () if call.provider_tools => Kind::ProviderTools,
        () if reasoned => Kind::Reasoning,
        () if !call.calls.is_empty() => Kind::Calls,
        () if call.text.is_empty() => Kind::Nothing,
        () => Kind::Text,
    }
}

/// Output counts if it is a text of some length, without reasoning, of a model that has been seen a few times.
pub(crate) fn output(kind: Kind, facts: &Facts) -> Option<LeftOut> {
    match kind {
        Kind::ProviderTools => Some(LeftOut::ProviderTools),
        Kind::Reasoning => Some(LeftOut::Reasoning),
        _ if facts.hides => Some(LeftOut::HidesReasoning),
        Kind::Calls => Some(LeftOut::ToolCalls),
        Kind::Nothing => Some(LeftOut::NothingVisible),
        Kind::Text if facts.output < LEAST => Some(LeftOut::Short),
        Kind::Text => (facts.earlier < EARLIER).then_some(LeftOut::Early),
    }
}

/// Input counts if it has an anchor and neither the call, nor the anchor, nor the model reasons. It does not matter whether the
/// provider ran tools of its own: what they cost to read is measured, too.
pub(crate) fn input(from: From, facts: &Facts, anchor_reasoned: bool, thinker: bool) -> Option<LeftOut> {
    match () {
        () if from != From::Anchor => Some(LeftOut::OtherConversation),
        () if facts.reasoned || anchor_reasoned => Some(LeftOut::Reasoning),
        () if facts.hides || thinker => Some(LeftOut::ReasoningModel),
        () => None,
    }
}
