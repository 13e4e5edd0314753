//! A run's record, put together from its two tables.

use std::sync::Arc;

use andon_runtime::core::answer::Lump;
use andon_runtime::core::event::{Entry, Record, Seq};

/// A run's facts, each followed by the text that streamed after it.
pub(crate) fn interleaved(facts: Vec<Arc<Record>>, lumps: Vec<Arc<Lump>>) -> Vec<Entry> {
    let mut entries = Vec::with_capacity(facts.len() + lumps.len());
    let mut lumps = lumps.into_iter().peekable();
    let mut add_lumps_before = |entries: &mut Vec<Entry>, seq: Seq| {
        while let Some(lump) = lumps.next_if(|lump| lump.span.after < seq) {
            entries.push(Entry::Lump(lump));
        }
    };
    for fact in facts {
        add_lumps_before(&mut entries, fact.seq);
        entries.push(Entry::Fact(fact));
    }
    add_lumps_before(&mut entries, Seq::MAX);
    entries
}
