//! How far a live run has come: who advances it, and whether its end is on disk.

use std::sync::Arc;

use andon_core::outcome::Outcome;

use crate::journal::JournalError;

/// Who advances a run, and whether its end is on disk.
#[derive(Default)]
pub(super) enum Life {
    /// Its driver advances it.
    #[default]
    Driven,
    /// A batch failed, so no later one may be written. Its driver is about to give it up.
    Unwritable(Box<JournalError>),
    /// Its driver is gone, and it is being settled from its journal.
    Orphaned {
        /// Why a batch failed: no later one may be written.
        unwritable: Option<Box<JournalError>>,
        /// Why the journal does not accept the run's end, for now.
        stalled: Option<Box<JournalError>>,
    },
    /// Its outcome is durable.
    Settled { outcome: Arc<Outcome> },
    /// It could not be settled. Its outcome, as far as it is known, is only in memory.
    LeftOpen { outcome: Arc<Outcome>, error: Box<JournalError> },
    /// It is unsettled in the journal, and this process does not drive it.
    Elsewhere {
        /// Why it cannot be written any more, if this process has driven it.
        taken: Option<Box<JournalError>>,
    },
}

impl Life {
    /// The outcome, once there is one.
    pub(super) fn outcome(&self) -> Option<&Arc<Outcome>> {
        match self {
            Self::Settled { outcome } | Self::LeftOpen { outcome, .. } => Some(outcome),
            Self::Driven | Self::Unwritable(_) | Self::Orphaned { .. } | Self::Elsewhere { .. } => None,
        }
    }

    /// Whether the run has lost its driver before its end was durable.
    pub(super) fn has_lost_its_driver(&self) -> bool {
        matches!(self, Self::Orphaned { .. } | Self::LeftOpen { .. })
    }

    /// Why a batch failed, so that no later one may be written.
    pub(super) fn unwritable(&self) -> Option<&JournalError> {
        match self {
            Self::Unwritable(error) => Some(error),
            Self::Orphaned { unwritable, .. } => unwritable.as_deref(),
            Self::Driven | Self::Settled { .. } | Self::LeftOpen { .. } | Self::Elsewhere { .. } => None,
        }
    }

    /// Why the run could not be settled.
    pub(super) fn left_open(&self) -> Option<&JournalError> {
        match self {
            Self::LeftOpen { error, .. } => Some(error),
            Self::Driven
            | Self::Unwritable(_)
            | Self::Orphaned { .. }
            | Self::Settled { .. }
            | Self::Elsewhere { .. } => None,
        }
    }

    /// Why the journal does not accept the run's end, for now or for good.
    pub(super) fn trouble(&self) -> Option<&JournalError> {
        match self {
            Self::Orphaned { stalled, .. } => stalled.as_deref(),
            Self::LeftOpen { error, .. } => Some(error),
            Self::Driven | Self::Unwritable(_) | Self::Settled { .. } | Self::Elsewhere { .. } => None,
        }
    }

    /// Why nothing of the run is recorded by this process any more, if another one has taken it over.
    pub(super) fn taken(&self) -> Option<&JournalError> {
        match self {
            Self::Elsewhere { taken } => taken.as_deref(),
            Self::Driven
            | Self::Unwritable(_)
            | Self::Orphaned { .. }
            | Self::Settled { .. }
            | Self::LeftOpen { .. } => None,
        }
    }

    /// A batch failed.
    pub(super) fn fail(&mut self, error: JournalError) {
        match self {
            Self::Driven | Self::Unwritable(_) => *self = Self::Unwritable(Box::new(error)),
            Self::Orphaned { unwritable, .. } => *unwritable = Some(Box::new(error)),
            // Nothing more is written.
            Self::Settled { .. } | Self::LeftOpen { .. } | Self::Elsewhere { .. } => {}
        }
    }

    /// The driver is gone.
    pub(super) fn orphan(&mut self) {
        *self = match std::mem::take(self) {
            Self::Driven => Self::Orphaned { unwritable: None, stalled: None },
            Self::Unwritable(error) => Self::Orphaned { unwritable: Some(error), stalled: None },
            same @ (Self::Orphaned { .. } | Self::Settled { .. } | Self::LeftOpen { .. } | Self::Elsewhere { .. }) => {
                same
            }
        };
    }

    /// The journal does not accept the run's end, for now. Returns whether that is news.
    pub(super) fn stall(&mut self, error: JournalError) -> bool {
        match self {
            Self::Orphaned { stalled, .. } => stalled.replace(Box::new(error)).is_none(),
            Self::Driven
            | Self::Unwritable(_)
            | Self::Settled { .. }
            | Self::LeftOpen { .. }
            | Self::Elsewhere { .. } => false,
        }
    }
}
