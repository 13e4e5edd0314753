//! Planted faults: ways in which a runtime like this one goes wrong, to show that the explorer catches them.
//!
//! Without the feature `faults` none can be planted, and the questions are compiled away.

/// A way to go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A piece is accepted after the pull.
    PieceAfterPull,
    /// A tool is started after the pull.
    ToolAfterPull,
    /// The model is called after the pull.
    ModelAfterPull,
    /// An event is shown before it is durable.
    ShownBeforeDurable,
    /// The text of a cut answer is thrown away.
    CutTextLost,
    /// An open call gets no result.
    CallWithoutResult,
    /// Half a tool call is stored.
    HalfCallKept,
    /// Unknown usage is written as 0.
    UnknownIsZero,
    /// The run waits for a silent model and does not hear the cord.
    DeafWhileSilent,
    /// The run sleeps through its back-off and does not hear the cord.
    DeafInBackoff,
    /// The run completes although it was told to stop.
    SealIgnoresPull,
    /// A second terminal event is written.
    TwoTerminals,
    /// The session stays taken after a stop.
    SeatKept,
    /// The result of a tool that had finished is replaced by "cut".
    FinishedResultLost,
    /// Streamed text is journaled only with the next fact.
    LumpsNotJournaled,
    /// A tool is started before its call is on record.
    EffectBeforeIntent,
    /// The answer is stored without the mark that it was cut.
    CutMarkMissing,
    /// A back-off that is stopped is not ended in the feed.
    BackoffNotEnded,
    /// `after_turn` is accepted, and the model is called again.
    AfterTurnIgnored,
    /// `now` gives the grace that `graceful` gives.
    NowGivesGrace,
    /// A harder pull is accepted, and tools are not told.
    HardeningIgnored,
    /// A request is said to be recorded before it is durable.
    RecordedAtOnce,
    /// An accepted request is never recorded.
    RequestNotRecorded,
    /// The session is free before the outcome is durable.
    SeatFreedEarly,
    /// An approval is taken after the pull.
    ApprovalAfterPull,
    /// Every pull is answered with `already_cancelling`.
    ReplyIsWrong,
    /// The end of a grace is not recorded.
    GraceEndNotRecorded,
    /// A call is closed before its cleanup is done.
    CleanupNotAwaited,
    /// A tool that is declared to outlive its run is stopped with it.
    DetachedToolStopped,
    /// What an abandoned thread returns is thrown away.
    LateResultLost,
    /// A call that was told elsewhere and not seen to end is not named.
    UnendedNotNamed,
    /// What a tool says while the disk is slow is thrown away.
    HeldOutputLost,
    /// A tool that waited for a thread is started after the pull.
    QueuedThreadAfterPull,
    /// A call goes on past its limit.
    TimeoutIgnored,
    /// A compensation begins before it is on record.
    CompensationNotRecorded,
    /// A receipt says for ever that a better figure is on its way.
    LastWordMissing,
    /// What is learnt about a cut call is added to the record before the run's end.
    AddendumBeforeEnd,
    /// Observers are not told of a stop's request.
    RequestNotTold,
    /// A run whose end the journal does not take is given up.
    StalledRunLeft,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 39] = [
        Self::PieceAfterPull,
        Self::ToolAfterPull,
        Self::ModelAfterPull,
        Self::ShownBeforeDurable,
        Self::CutTextLost,
        Self::CallWithoutResult,
        Self::HalfCallKept,
        Self::UnknownIsZero,
        Self::DeafWhileSilent,
        Self::DeafInBackoff,
        Self::SealIgnoresPull,
        Self::TwoTerminals,
        Self::SeatKept,
        Self::FinishedResultLost,
        Self::LumpsNotJournaled,
        Self::EffectBeforeIntent,
        Self::CutMarkMissing,
        Self::BackoffNotEnded,
        Self::AfterTurnIgnored,
        Self::NowGivesGrace,
        Self::HardeningIgnored,
        Self::RecordedAtOnce,
        Self::RequestNotRecorded,
        Self::SeatFreedEarly,
        Self::ApprovalAfterPull,
        Self::ReplyIsWrong,
        Self::GraceEndNotRecorded,
        Self::CleanupNotAwaited,
        Self::DetachedToolStopped,
        Self::LateResultLost,
        Self::UnendedNotNamed,
        Self::HeldOutputLost,
        Self::QueuedThreadAfterPull,
        Self::TimeoutIgnored,
        Self::CompensationNotRecorded,
        Self::LastWordMissing,
        Self::AddendumBeforeEnd,
        Self::RequestNotTold,
        Self::StalledRunLeft,
    ];
}

#[cfg(feature = "faults")]
mod planted {
    use super::Fault;
    use std::cell::Cell;

    std::thread_local! {
        static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    /// Plants a fault in all runtimes that this thread drives, or takes it out.
    pub fn plant(fault: Option<Fault>) {
        PLANTED.set(fault);
    }

    pub(crate) fn planted(fault: Fault) -> bool {
        PLANTED.get() == Some(fault)
    }
}

#[cfg(feature = "faults")]
pub use planted::plant;
#[cfg(feature = "faults")]
pub(crate) use planted::planted;

#[cfg(not(feature = "faults"))]
pub(crate) const fn planted(_fault: Fault) -> bool {
    false
}
