//! An event as a journal holds it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Event;
use crate::answer::Lump;
use crate::id::{Epoch, Seq};
use crate::time::Stamp;

/// A journaled event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// The version of this form.
    #[serde(deserialize_with = "crate::format_version::known_version")]
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

impl Record {
    /// In the form of this version.
    pub const fn new(seq: Seq, epoch: Epoch, at: Stamp, event: Event) -> Self {
        Self { v: crate::format_version::FORMAT_VERSION, seq, epoch, at, event }
    }
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
