//! What every journal promises, as cases that each of them must pass: in memory, in SQLite, on PostgreSQL.
//!
//! # Theory of operation
//!
//! A factory makes a fresh, empty [`Subject`] for each case. A case talks to it through [`Journal`](andon_runtime::Journal) and
//! [`Sessions`](andon_runtime::Sessions) alone, and panics with a sentence when a promise is broken. Each runs on a thread and a
//! tokio runtime of its own, so that one that panics or hangs takes no other with it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a case that cannot go on has failed, and says so by panicking"
)]

mod delete;
mod ending;
mod feed;
mod folding;
mod history;
mod hooks;
mod kept;
mod lists;
mod moving;
mod order;
mod owner;
mod random;
mod settled;
mod shelf;
mod state;
mod story;
mod subject;
mod together;

use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tokio::runtime::Builder;

pub use subject::Subject;

/// How long a case may take before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(120);

/// One promise.
struct Case {
    name: &'static str,
    check: fn(Subject) -> Pin<Box<dyn Future<Output = ()>>>,
}

macro_rules! cases {
    ($($module:ident: [$($case:ident),* $(,)?]),* $(,)?) => {
        const CASES: &[Case] = &[
            $($(Case { name: stringify!($case), check: |subject| Box::pin($module::$case(subject)) },)*)*
        ];
    };
}

cases! {
    order: [
        batches_are_stored_in_the_order_in_which_they_are_given,
        lumps_are_stored_between_the_facts_where_they_belong,
        a_gap_is_refused_and_nothing_of_its_batch_is_stored,
        a_repeat_is_refused_and_nothing_of_its_batch_is_stored,
        text_in_the_wrong_place_is_refused_with_its_batch,
        a_run_begins_with_event_one,
        a_run_begins_with_run_accepted,
        a_failed_batch_ends_its_epoch,
        an_older_writer_does_not_reopen_an_epoch,
        a_run_whose_first_batch_failed_can_be_begun_again,
        a_batch_before_a_run_began_does_not_block_the_run,
        a_batch_that_is_refused_harms_no_other_run,
        what_was_acknowledged_is_there_when_the_journal_is_opened_again,
    ],
    owner: [
        a_stale_writer_is_refused_once_the_run_was_claimed,
        a_batch_of_a_newer_epoch_is_refused_unless_it_takes_the_run_over,
        a_take_over_that_is_refused_changes_nothing,
        the_owner_goes_on_with_its_epoch,
        a_claim_waits_for_the_batches_before_it,
        a_run_is_claimed_from_its_owner_and_from_nobody_else,
        an_unknown_run_cannot_be_claimed,
        epochs_never_decrease_along_the_record,
        an_owner_is_remembered_when_the_journal_is_opened_again,
        taking_a_run_over_is_one_step,
        a_run_that_was_claimed_is_not_taken_over_from_the_owner_before,
        the_first_of_two_that_take_a_run_over_owns_it,
        a_run_is_not_taken_over_from_an_owner_that_never_was,
        a_run_that_has_settled_is_not_taken_over,
        a_late_take_over_that_makes_no_sense_harms_nobody,
    ],
    ending: [
        a_second_end_in_one_batch_is_refused_with_its_batch,
        a_second_end_is_refused_from_whoever_writes_it,
        nothing_is_accepted_after_the_end,
        a_run_id_is_used_once,
        a_run_id_that_is_taken_leaves_no_session_behind,
        a_batch_for_an_unknown_run_is_refused,
        addenda_are_numbered_from_one_and_change_nothing_else,
        what_model_calls_used_is_read_for_many_runs_at_once,
        a_cancel_request_is_kept_before_the_end_and_refused_after_it,
    ],
    settled: [
        when_a_run_settled_is_known_at_once_and_when_the_journal_is_opened_again,
        only_the_first_instant_of_a_run_that_has_settled_is_kept,
        an_instant_that_was_never_kept_is_unknown,
        the_instants_of_many_runs_are_each_their_own,
        a_run_id_that_is_used_again_has_no_instant_of_the_run_before,
    ],
    feed: [
        a_feed_can_be_resumed_at_every_byte,
        a_place_past_what_is_stored_is_reported_as_lost_text,
    ],
    together: [
        every_read_is_a_prefix_of_what_is_written,
        a_cancel_request_that_races_the_end_is_recorded_or_too_late,
        one_of_two_owners_writes_each_event,
    ],
    history: [
        history_is_what_settled_runs_said_in_the_order_in_which_they_started,
        history_keeps_its_order_when_the_journal_is_opened_again,
        the_last_reported_call_is_found_behind_those_that_were_not_reported,
        what_was_said_before_a_run_is_what_earlier_runs_said,
        only_the_latest_of_what_was_said_before_a_run_fits,
        unsettled_runs_are_listed_in_the_order_in_which_they_came,
    ],
    state: [
        a_session_is_begun_once,
        a_key_reaches_as_far_as_its_beginning_says,
        null_is_a_value_and_a_key_without_one_is_removed,
        a_change_is_seen_whole_or_not_at_all,
        a_change_begins_a_session_that_is_not_there,
        tenants_see_nothing_of_each_other,
    ],
    lists: [
        sessions_are_listed_by_when_they_were_last_used,
        a_session_is_as_fresh_as_the_beginning_or_end_of_its_latest_run,
        sessions_are_filtered_and_limited,
        a_session_is_titled_by_the_first_prompt_that_started,
        runs_are_found_by_words_of_their_title_their_id_their_user_and_their_session,
        runs_are_listed_newest_first_and_filtered,
        a_list_says_the_state_of_each_run,
        a_run_that_makes_no_sense_hides_no_other,
    ],
    delete: [
        a_session_is_not_deleted_while_a_run_of_it_has_not_settled,
        nothing_remains_of_a_deleted_session,
        deleting_leaves_what_is_shared_and_other_sessions,
        nothing_brings_a_deleted_run_back,
        a_deleted_session_can_be_begun_anew,
    ],
    moving: [
        a_session_that_was_moved_is_the_same_session,
        a_session_that_is_here_is_not_replaced,
        a_run_that_is_here_keeps_the_session_out,
        a_session_that_was_not_taken_can_be_begun_here,
        a_session_with_one_run_twice_is_not_taken_at_all,
        a_session_with_a_run_that_begins_in_the_middle_is_not_taken_at_all,
        what_is_shared_is_taken_only_where_there_is_nothing,
        a_run_that_was_moved_goes_on,
    ],
    kept: [
        what_is_kept_with_a_session_is_its_own,
        what_is_kept_moves_and_goes_with_its_session,
        what_comes_with_a_run_is_in_the_state_when_the_run_starts,
        what_comes_with_a_run_that_waits_is_in_the_state_when_its_turn_comes,
    ],
    shelf: [
        a_value_is_kept_in_place_of_the_one_before,
        kinds_do_not_see_each_other,
        what_is_discarded_is_gone_forever,
    ],
    folding: [
        what_is_said_about_runs_is_what_folding_them_says,
    ],
    random: [
        owners_that_write_at_random_leave_what_a_simple_model_says,
    ],
}

/// The names of all cases.
pub fn names() -> Vec<&'static str> {
    CASES.iter().map(|case| case.name).collect()
}

/// Runs every case, each on a journal of its own.
///
/// # Panics
///
/// With every case that the journal does not pass.
pub fn run(make: impl Fn() -> Subject) {
    let why = |case: &Case| Some(format!("{}: {}", case.name, check(case, make()).err()?));
    let failed: Vec<String> = CASES.iter().filter_map(why).collect();
    let all = CASES.len();
    assert!(failed.is_empty(), "{} of {all} cases failed:\n{}", failed.len(), failed.join("\n"));
}

/// Plays a case. An error says why the journal does not pass it.
fn check(case: &Case, subject: Subject) -> Result<(), String> {
    let (sender, over) = mpsc::channel();
    let play = case.check;
    let thread = std::thread::spawn(move || {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a tokio runtime");
        runtime.block_on(play(subject));
        // The waiter may have given up.
        let _ = sender.send(());
    });
    match over.recv_timeout(PATIENCE) {
        Err(RecvTimeoutError::Timeout) => Err(format!("it did not end within {} s", PATIENCE.as_secs())),
        // It has ended one way or the other: a thread that panics drops its sender.
        Ok(()) | Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Ok(()) => Ok(()),
            Err(panic) => {
                let why = panic.downcast_ref::<&str>().copied();
                match panic.downcast_ref::<String>().map(String::as_str).or(why) {
                    Some(why) => Err(why.to_owned()),
                    None => resume_unwind(panic),
                }
            }
        },
    }
}
