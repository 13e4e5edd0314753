//! Faults that can be planted in the journal, to show that its checkers catch them. For Andon's own tests: without the
//! feature `faults` none can be.

/// A fault in the protocol of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An append is acknowledged before it is durable.
    AcknowledgedBeforeCommit,
    /// A writer that does not own the run any more is not refused.
    EpochNotChecked,
    /// Nothing in the database keeps a run from having two terminal events.
    TerminalNotUnique,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::AcknowledgedBeforeCommit, Self::EpochNotChecked, Self::TerminalNotUnique];
}

/// Which fault is planted in a journal.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Planted(#[cfg(feature = "faults")] pub(crate) Option<Fault>);

impl Planted {
    #[cfg(feature = "faults")]
    pub(crate) fn is(self, fault: Fault) -> bool {
        self.0 == Some(fault)
    }

    #[cfg(not(feature = "faults"))]
    #[expect(clippy::unused_self, reason = "with the feature there is something to look at")]
    pub(crate) const fn is(self, _fault: Fault) -> bool {
        false
    }
}
