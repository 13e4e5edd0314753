//! The calls of a session that later calls are measured from.
//!
//! # Invariants
//!
//! 1. A call is measured from one of the same model. Its instructions and tools were the same, or, if it is known only from the
//!    record, the anchor says that they may have been others.
//! 2. There are few.

use std::sync::Arc;

use crate::model::Anchor;

/// How many setups of an agent are told apart in one session.
const MOST: usize = 4;

/// The calls of a session that later calls are measured from, the latest last.
#[derive(Default)]
pub(crate) struct Anchors(Vec<(Asked, Anchor)>);

/// Who was asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    pub(crate) model: Arc<str>,
    /// The digest of the instructions and tools; `None` if the call is known only from the record.
    pub(crate) setup: Option<u64>,
}

impl Anchors {
    /// What a call is measured from.
    pub(crate) fn find(&self, asked: &Asked) -> Option<Anchor> {
        let of = |asked: &Asked| self.0.iter().find(|(by, _)| by == asked).map(|(_, anchor)| anchor.clone());
        of(asked).or_else(|| of(&Asked { setup: None, ..asked.clone() }))
    }

    /// Forgets the anchor of this setup, and recorded ones of the same model.
    pub(crate) fn forget(&mut self, asked: &Asked) {
        self.0.retain(|(by, _)| by != asked && (by.setup.is_some() || by.model != asked.model));
    }

    /// Adds a call. It takes the place of an earlier one with the same setup.
    pub(crate) fn add(&mut self, asked: Asked, anchor: Anchor) {
        self.0.retain(|(by, _)| *by != asked);
        if self.0.len() >= MOST {
            self.0.remove(0);
        }
        self.0.push((asked, anchor));
    }
}
