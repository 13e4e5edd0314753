//! The word for each variant of an enum that people are shown, as in its JSON.

use crate::cancel::{Force, ReplyKind};
use crate::ending::{Ending, FailureKind, ModelStop};
use crate::event::{Approval, Effect, Event, HookEnd, HookPoint, ModelEnd, Refusal};
use crate::reason::Reason;
use crate::receipt::Verdict;
use crate::standing::{Phase, RunState};
use crate::usage::Provenance;

macro_rules! words {
    ($method:ident; $($enum:ident: $($variant:ident $word:literal),+;)+) => {$(
        impl $enum {
            /// The word for it, as in JSON.
            pub fn $method(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $word,)+
                }
            }
        }
    )+};
}

words! {
    as_str;
    Approval: Approved "approved", Denied "denied", Closed "closed";
    Effect: ReadOnly "read_only", Idempotent "idempotent", Effect "effect";
    Ending: Completed "completed", Cancelled "cancelled", Failed "failed", Lost "lost";
    FailureKind: Model "model", ContextOverflow "context_overflow", StreamBroken "stream_broken", Journal "journal",
        Hook "hook", Internal "internal";
    Force: AfterTurn "after_turn", Graceful "graceful", Now "now";
    HookEnd: Continued "continued", Changed "changed", Denied "denied", Answered "answered", Asked "asked", Failed "failed",
        Cancelled "cancelled", Panicked "panicked", Cut "cut", Leaked "leaked";
    HookPoint: BeforeRun "before_run", AfterRun "after_run", BeforeModel "before_model", AfterModel "after_model",
        BeforeTool "before_tool", AfterTool "after_tool";
    ModelEnd: Answered "answered", Cut "cut", Failed "failed", Lost "lost";
    ModelStop: EndTurn "end_turn", ToolUse "tool_use", MaxTokens "max_tokens", StopSequence "stop_sequence",
        Refused "refused";
    Phase: Queued "queued", Hook "hook", Model "model", Backoff "backoff", Tools "tools", Waiting "waiting",
        Between "between";
    Provenance: Reported "reported", ReportedRunning "reported_running", LookedUp "looked_up", Counted "counted",
        Estimated "estimated", Bounded "bounded", Unknown "unknown";
    Reason: Requested "requested", ClientDisconnected "client_disconnected", Superseded "superseded", Parent "parent",
        Deadline "deadline", Budget "budget", Policy "policy", ApprovalDenied "approval_denied", Operator "operator",
        Shutdown "shutdown", OwnerLost "owner_lost";
    Refusal: UnknownTool "unknown_tool", BadArguments "bad_arguments", DuplicateId "duplicate_id",
        DeniedByHook "denied_by_hook", AnsweredByHook "answered_by_hook", DeniedByPerson "denied_by_person", CallCancelled "call_cancelled",
        RunCancelled "run_cancelled", Lost "lost";
    ReplyKind: Accepted "accepted", Hardened "hardened", AlreadyCancelling "already_cancelling", TooLate "too_late",
        NotRunning "not_running", Armed "armed", NotFound "not_found";
    RunState: Queued "queued", Running "running", Waiting "waiting", Cancelling "cancelling", Settled "settled";
    Verdict: Finished "finished", NeverStarted "never_started", Cut "cut", Unknown "unknown", Late "late",
        Leaked "leaked", Detached "detached";
}

words! {
    kind;
    Event: RunAccepted "run_accepted", RunStarted "run_started", HookStarted "hook_started",
        HookFinished "hook_finished", ModelStarted "model_started", Message "message", Usage "usage",
        ModelFinished "model_finished", BackoffStarted "backoff_started", BackoffFinished "backoff_finished",
        ApprovalRequested "approval_requested", ApprovalResolved "approval_resolved", ToolStarted "tool_started",
        ToolFinished "tool_finished", ToolRefused "tool_refused", CallCancelRequested "call_cancel_requested",
        CancelRequested "cancel_requested", RunQuieted "run_quieted", GraceEnded "grace_ended",
        RunSettled "run_settled";
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
        check(&[Force::AfterTurn, Force::Graceful, Force::Now], Force::as_str);
        check(&[HookEnd::Continued, HookEnd::Changed, HookEnd::Asked, HookEnd::Panicked], HookEnd::as_str);
        check(&[HookPoint::BeforeRun, HookPoint::AfterTool], HookPoint::as_str);
        check(&[ModelStop::EndTurn, ModelStop::StopSequence], ModelStop::as_str);
        check(&[Phase::Backoff, Phase::Between], Phase::as_str);
        check(&[Provenance::ReportedRunning, Provenance::LookedUp], Provenance::as_str);
        check(&[Reason::ClientDisconnected, Reason::ApprovalDenied, Reason::OwnerLost], Reason::as_str);
        check(&[Refusal::UnknownTool, Refusal::DeniedByPerson, Refusal::RunCancelled], Refusal::as_str);
        check(
            &[RunState::Queued, RunState::Running, RunState::Waiting, RunState::Cancelling, RunState::Settled],
            RunState::as_str,
        );
        check(&[Verdict::NeverStarted, Verdict::Late], Verdict::as_str);
    }
}
