//! The journal in SQLite keeps every promise of a journal.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::sync::Arc;

use andon_store::SqliteJournal;
use andon_testkit::conformance::{self, Subject};

#[test]
fn the_journal_in_sqlite_keeps_every_promise_of_a_journal() {
    conformance::run(|| {
        let folder = tempfile::tempdir().unwrap();
        Subject::on_disk(move || Arc::new(SqliteJournal::open(folder.path().join("andon.db")).unwrap()))
    });
}
