//! The suite is worth something: a journal with a fault in it does not pass.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeSet;
use std::sync::Arc;

use andon_store::fault::Fault;
use andon_store::{Options, SqliteJournal};
use andon_testkit::conformance::{self, Subject};

/// The cases that a journal with this fault does not pass, and that one without it does.
fn caught_by(fault: Fault) -> BTreeSet<&'static str> {
    let failed = |fault: Option<Fault>| -> BTreeSet<&'static str> {
        let failures = conformance::failures(|| {
            let (folder, options) = (tempfile::tempdir().unwrap(), Options::new().fault(fault));
            let open = move || SqliteJournal::open_with(folder.path().join("andon.db"), &options).unwrap();
            Subject::on_disk(move || Arc::new(open()))
        });
        failures.iter().map(|failed| failed.name).collect()
    };
    &failed(Some(fault)) - &failed(None)
}

#[test]
fn a_journal_that_does_not_check_the_epoch_does_not_pass() {
    let caught = caught_by(Fault::EpochNotChecked);
    let expected = BTreeSet::from([
        "a_stale_writer_is_refused_once_the_run_was_claimed",
        "a_batch_of_a_newer_epoch_takes_over_in_the_same_step",
        "a_claim_stands_in_line_behind_the_batches_before_it",
        "epochs_never_decrease_along_the_record",
        "an_owner_is_remembered_when_the_journal_is_opened_again",
        "a_run_that_was_moved_goes_on",
    ]);
    assert!(caught.is_superset(&expected), "caught only by {caught:?}");
}

#[test]
fn a_journal_that_allows_two_ends_does_not_pass() {
    let caught = caught_by(Fault::TerminalNotUnique);
    let expected = BTreeSet::from(["a_second_end_in_one_batch_is_refused_with_its_batch"]);
    assert!(caught.is_superset(&expected), "caught only by {caught:?}");
}
