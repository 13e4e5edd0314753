//! The journal in memory keeps every promise of a journal.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use andon_runtime::MemoryJournal;
use andon_testkit::conformance::{self, Subject};

#[test]
fn the_journal_in_memory_keeps_every_promise_of_a_journal() {
    conformance::run(|| Subject::in_memory(MemoryJournal::new()));
}
