//! The word for each variant of an enum that people are shown, as in its JSON.

use crate::ending::FailureKind;
use crate::event::{Approval, Effect, HookEnd, ModelEnd, Refusal};
use crate::receipt::Verdict;
use crate::standing::Phase;
use crate::usage::Provenance;

macro_rules! words {
    ($($enum:ident: $($variant:ident $word:literal),+;)+) => {$(
        impl $enum {
            /// The word for it, as in JSON.
            pub fn as_str(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $word,)+
                }
            }
        }
    )+};
}

words! {
    Approval: Approved "approved", Denied "denied", Closed "closed";
    Effect: ReadOnly "read_only", Idempotent "idempotent", Effect "effect";
    FailureKind: Model "model", ContextOverflow "context_overflow", StreamBroken "stream_broken", Journal "journal",
        Hook "hook", Internal "internal";
    HookEnd: Continued "continued", Denied "denied", Cancelled "cancelled", Panicked "panicked", Cut "cut", Leaked "leaked";
    ModelEnd: Answered "answered", Cut "cut", Failed "failed", Lost "lost";
    Phase: Queued "queued", Hook "hook", Model "model", Backoff "backoff", Tools "tools", Waiting "waiting",
        Between "between";
    Provenance: Reported "reported", ReportedRunning "reported_running", LookedUp "looked_up", Counted "counted",
        Estimated "estimated", Bounded "bounded", Unknown "unknown";
    Refusal: UnknownTool "unknown_tool", BadArguments "bad_arguments", DuplicateId "duplicate_id",
        DeniedByHook "denied_by_hook", DeniedByPerson "denied_by_person", CallCancelled "call_cancelled",
        RunCancelled "run_cancelled", Lost "lost";
    Verdict: Finished "finished", NeverStarted "never_started", Cut "cut", Unknown "unknown", Late "late",
        Leaked "leaked", Detached "detached";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_reads_back_as_its_variant() {
        fn check<T: serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(
            values: &[T],
            word: fn(&T) -> &'static str,
        ) {
            for value in values {
                assert_eq!(serde_json::from_value::<T>(word(value).into()).unwrap(), *value);
            }
        }
        check(&[Effect::ReadOnly, Effect::Idempotent, Effect::Effect], Effect::as_str);
        check(&[FailureKind::ContextOverflow, FailureKind::StreamBroken], FailureKind::as_str);
        check(&[HookEnd::Continued, HookEnd::Panicked], HookEnd::as_str);
        check(&[Phase::Backoff, Phase::Between], Phase::as_str);
        check(&[Provenance::ReportedRunning, Provenance::LookedUp], Provenance::as_str);
        check(&[Refusal::UnknownTool, Refusal::DeniedByPerson, Refusal::RunCancelled], Refusal::as_str);
        check(&[Verdict::NeverStarted, Verdict::Late], Verdict::as_str);
    }
}
