//! An event as a journal holds it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Event;
use crate::answer::Lump;
use crate::time::Stamp;

/// An event's place in its run's journal, from 1 without a gap.
pub type Seq = u64;

/// Counts the owners of a run: a writer with an older epoch is refused.
pub type Epoch = u32;

/// A journaled event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The version of this form.
    #[serde(deserialize_with = "crate::known_version")]
    pub v: u16,
    /// Its place in the journal.
    pub seq: Seq,
    /// The writer's epoch.
    pub epoch: Epoch,
    /// When it was written.
    pub at: Stamp,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// An entry of a run's journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// An event.
    Fact(Arc<Record>),
    /// Streamed text that is not in an event yet.
    Lump(Arc<Lump>),
}

impl Entry {
    /// The journaled event, if it is one.
    pub fn fact(&self) -> Option<&Arc<Record>> {
        match self {
            Self::Fact(record) => Some(record),
            Self::Lump(_) => None,
        }
    }
}
