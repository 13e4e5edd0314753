//! The receipt says who, why, when, what became of each call, and no time that nobody measured.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use andon_core::event::{Addendum, AddendumKind, Remains};
use andon_core::receipt::{CallAccount, Compensation, ModelAccount, Receipt, Took, Verdict};
use common::*;

fn records(events: impl IntoIterator<Item = Event>) -> Vec<Arc<Record>> {
    let facts = journal(events).into_iter().filter_map(|entry| match entry {
        Entry::Fact(record) => Some(record),
        Entry::Lump(_) => None,
    });
    facts.collect()
}

/// When the last event of [`stopped_run`] was on disk: 6 ms after its own time.
const DURABLE: Stamp = Stamp { wall: Wall(1_000_006_013), mono_us: 7_300 };

/// The model asks for two tools; somebody pulls while one runs; that one is left behind, the other never starts.
fn stopped_run() -> Vec<Arc<Record>> {
    let pull = ((*request(Force::Graceful)).clone()).by("ann").note("stop button");
    let delivered_at = Stamp { wall: Wall(1_000_000_007), mono_us: 520 };
    let leaked = ToolResult::text(id("a"), ResultStatus::Unknown, "left");
    records([
        Event::RunStarted,
        model_started(1),
        message(asking(&["a", "b"])),
        usage(1),
        Event::ModelFinished {
            call: 1,
            end: ModelEnd::Answered { stop: ModelStop::ToolUse },
            first_piece_us: Some(42),
        },
        tool_started("a"),
        Event::CancelRequested { request: Arc::new(pull), delivered_at },
        refuse(id("b"), Refusal::RunCancelled),
        Event::RunQuieted,
        Event::GraceEnded { calls: [id("a")].into() },
        Event::ToolFinished {
            call: id("a"),
            end: ToolEnd::Leaked,
            result: Arc::new(leaked),
            remains: None,
            state: None,
        },
        settled(cancelled()),
    ])
}

fn expected() -> Receipt {
    let pull = ((*request(Force::Graceful)).clone()).by("ann").note("stop button");
    let used = reported();
    let mut never = CallAccount::new(id("b"), "look", Verdict::NeverStarted);
    never.refused = Some(Refusal::RunCancelled);
    let mut leaked = CallAccount::new(id("a"), "look", Verdict::Leaked);
    leaked.took_us = Some(500);
    let mut model = ModelAccount::new(1, "practice", used);
    (model.first_piece_us, model.took_us) = (Some(42), Some(300));
    let mut receipt = Receipt::unknown(&RunId::new("r").unwrap(), &session());
    receipt.outcome = Some(Arc::new(cancelled()));
    receipt.accepted_at = Wall(1_000_000_001);
    receipt.requested_at = Some(Wall(1_000_000_000));
    receipt.delivered_at = Some(Wall(1_000_000_007));
    receipt.quiet_at = Some(Wall(1_000_000_010));
    receipt.settled_at = Some(DURABLE.wall);
    receipt.on_disk = true;
    receipt.took = Took::new().delivered_us(20).quiet_us(500).settled_us(6_800);
    receipt.run_us = 7_200;
    receipt.reason = Some(Reason::Requested);
    receipt.by = pull.by.clone();
    receipt.note = pull.note.clone();
    receipt.force = Some(Force::Graceful);
    receipt.requests = vec![Arc::new(pull)];
    receipt.cut_in = Some(Phase::Tools);
    receipt.calls = vec![never, leaked];
    receipt.model_calls = vec![model];
    receipt.usage = used;
    receipt.first_piece_us = Some(42);
    receipt.leaked = vec!["look (a)".into()];
    receipt
}

#[test]
fn a_receipt_says_who_why_when_and_what_became_of_each_call() {
    assert_eq!(Receipt::fold(&stopped_run(), [], Some(DURABLE)), Some(expected()));
}

#[test]
fn a_run_whose_settling_nobody_has_measured_is_on_disk_and_has_no_such_instant() {
    let took = (expected().took).settled_us(None);
    let expected = expected().settled_at(None).took(took).run_us(1_200);
    assert_eq!(Receipt::fold(&stopped_run(), [], None), Some(expected));
}

#[test]
fn a_run_without_an_outcome_is_not_on_disk_whatever_instant_is_given() {
    let mut records = stopped_run();
    records.pop();
    let receipt = Receipt::fold(&records, [], Some(DURABLE)).unwrap();
    assert_eq!((receipt.on_disk, receipt.settled_at, receipt.took.settled_us), (false, None, None));
    assert_eq!(receipt.run_us, 1_100, "until its latest event");
}

#[test]
fn what_is_learned_later_is_folded_in_and_counted() {
    let at = Stamp { wall: Wall(2_000_000_000), mono_us: 9_000 };
    let better = Used::whole(Usage::reported(10, 7));
    let late = AddendumKind::LateResult { call: id("a"), result: Arc::new(result("a")), remains: None };
    let corrected = AddendumKind::UsageCorrected { call: 1, used: Box::new(better) };
    let addenda = [Addendum::new(1, at, late), Addendum::new(2, at, corrected)];
    let mut expected = expected();
    expected.calls[1].verdict = Verdict::Late;
    expected.leaked.clear();
    (expected.model_calls[0].usage, expected.usage) = (better, better);
    (expected.revision, expected.addenda) = (2, addenda.to_vec());
    assert_eq!(Receipt::fold(&stopped_run(), addenda, Some(DURABLE)), Some(expected));
}

#[test]
fn a_journal_without_a_beginning_has_no_receipt() {
    assert_eq!(Receipt::fold(&[], [], None), None);
    assert_eq!(Receipt::fold(&stopped_run()[1..], [], None), None);
}

/// A journal whose events after the first `length` were written by the next owner, whose clock began anew.
fn with_next_owner(length: usize, events: impl IntoIterator<Item = Event>) -> Vec<Arc<Record>> {
    let mut records = records(events);
    for (record, place) in records.iter_mut().skip(length).zip(0..) {
        let at = Stamp { wall: Wall(1_000_060_000 + place), mono_us: 60_000_000 + place };
        *record = Arc::new(Record::new(record.seq, 2, at, record.event.clone()));
    }
    records
}

#[test]
fn the_receipt_of_a_recovered_run_measures_no_time_across_two_processes() {
    let lost = ModelEnd::Lost;
    let events = [
        Event::RunStarted,
        model_started(1),
        message(asking(&["a"])),
        usage(1),
        answered(1, ModelStop::ToolUse),
        tool_started("a"),
        tool_finished("a"),
        model_started(2),
        cancel_requested(Force::Graceful),
        usage(2),
        Event::ModelFinished { call: 2, end: lost, first_piece_us: None },
        Event::RunQuieted,
        settled(cancelled()),
    ];
    let durable = Stamp { wall: Wall(1_000_065_000), mono_us: 60_005_000 };
    let receipt = Receipt::fold(&with_next_owner(10, events), [], Some(durable)).unwrap();
    assert_eq!(receipt.settled_at, Some(durable.wall));
    assert_eq!(receipt.took, Took::new().delivered_us(0));
    assert_eq!(receipt.model_calls.iter().map(|call| call.took_us).collect::<Vec<_>>(), [Some(300), None]);
    assert_eq!(receipt.run_us, 64_999, "wall time");
}

#[test]
fn a_tool_that_a_dead_process_ran_took_nobody_knows_how_long() {
    let unknown = ToolResult::text(id("a"), ResultStatus::Unknown, "lost");
    let events = [
        Event::RunStarted,
        model_started(1),
        message(asking(&["a"])),
        answered(1, ModelStop::ToolUse),
        tool_started("a"),
        Event::ToolFinished {
            call: id("a"),
            end: ToolEnd::Unknown,
            result: Arc::new(unknown),
            remains: None,
            state: None,
        },
    ];
    let receipt = Receipt::fold(&with_next_owner(6, events), [], None).unwrap();
    let account = CallAccount::new(id("a"), "look", Verdict::Unknown);
    assert_eq!(receipt.calls, [account]);
}

#[test]
fn a_softer_request_after_a_harder_one_leaves_the_force_in_the_receipt() {
    let records = records([cancel_requested(Force::Now), cancel_requested(Force::AfterTurn)]);
    assert_eq!(Receipt::fold(&records, [], None).unwrap().force, Some(Force::Now));
}

#[test]
fn the_time_to_the_first_piece_is_that_of_the_first_call_that_had_one() {
    let answered = |call, first_piece_us| Event::ModelFinished {
        call,
        end: ModelEnd::Answered { stop: ModelStop::EndTurn },
        first_piece_us,
    };
    let calls = [model_started(1), failed(1), model_started(2), answered(2, Some(7))];
    let later = [model_started(3), answered(3, Some(9))];
    let records = records([Event::RunStarted].into_iter().chain(calls).chain(later));
    assert_eq!(Receipt::fold(&records, [], None).unwrap().first_piece_us, Some(7));
}

#[test]
fn the_receipt_of_a_run_of_which_nothing_is_known_says_only_whose_it_is() {
    let unknown = Receipt::unknown(&accepted().run, &session());
    let folded = Receipt::fold(&records([]), [], None).unwrap();
    assert_eq!(folded.accepted_at(unknown.accepted_at), unknown);
}

#[test]
fn what_an_open_model_call_has_used_is_unknown_until_it_is_accounted() {
    let usage_after = |events: Vec<Event>| {
        Receipt::fold(&records([Event::RunStarted].into_iter().chain(events)), [], None).unwrap().usage
    };
    assert_eq!(usage_after(vec![model_started(1)]), Used::NONE.plus(Used::UNKNOWN));
    assert_eq!(usage_after(vec![model_started(1), usage(1)]), reported());
}

/// A tool whose cleanup found something, and then what is learned about it.
fn cleaned_up(end: ToolEnd, addenda: Vec<AddendumKind>) -> Receipt {
    let remains = Remains::new()
        .leaked(vec!["process 7".into()])
        .unended("the server does not answer")
        .notes(vec!["It took two signals.".into()]);
    let result = ToolResult::text(id("a"), ResultStatus::Unknown, "left");
    let (result, remains) = (Arc::new(result), Some(Box::new(remains)));
    let records = records([
        Event::RunStarted,
        model_started(1),
        message(asking(&["a", "b"])),
        usage(1),
        answered(1, ModelStop::ToolUse),
        tool_started("b"),
        tool_finished("b"),
        tool_started("a"),
        Event::ToolFinished { call: id("a"), end, result, remains, state: None },
    ]);
    let addenda = addenda.into_iter().zip(1..).map(|(what, number)| Addendum::new(number, DURABLE, what));
    Receipt::fold(&records, addenda, None).unwrap()
}

#[test]
fn what_a_cleanup_found_is_in_the_receipt_by_name() {
    let receipt = cleaned_up(ToolEnd::Leaked, vec![]);
    assert_eq!(receipt.leaked, ["look (a): process 7", "look (a): the server does not answer"]);
    assert_eq!(receipt.calls[1].notes, ["It took two signals."]);
    assert_eq!(cleaned_up(ToolEnd::Cut, vec![]).leaked, ["look (a): process 7"]);
}

#[test]
fn what_became_of_a_compensation_is_in_the_account_of_its_call_and_of_no_other() {
    let finished = |end, status| AddendumKind::CompensationFinished {
        call: id("a"),
        end,
        result: Arc::new(ToolResult::text(id("a"), status, "so")),
    };
    let started = || AddendumKind::CompensationStarted { call: id("a"), by: None };
    for (addenda, expected) in [
        (vec![], None),
        (vec![started()], Some(Compensation::Started)),
        (vec![started(), finished(ToolEnd::Finished, ResultStatus::Ok)], Some(Compensation::Done)),
        (vec![started(), finished(ToolEnd::Finished, ResultStatus::Error)], Some(Compensation::Failed)),
        (vec![started(), finished(ToolEnd::Panicked, ResultStatus::Error)], Some(Compensation::Failed)),
        (vec![started(), finished(ToolEnd::Unknown, ResultStatus::Unknown)], Some(Compensation::Unknown)),
    ] {
        let calls = cleaned_up(ToolEnd::Unknown, addenda).calls;
        assert_eq!([calls[0].compensation, calls[1].compensation], [None, expected]);
    }
}

#[test]
fn a_hook_that_could_not_be_dropped_is_named_as_leaked() {
    let leaked = Event::hook_finished(HookPoint::BeforeTool, HookEnd::Leaked);
    let records = records([Event::RunStarted, hook_started(HookPoint::BeforeTool), leaked]);
    assert_eq!(Receipt::fold(&records, [], None).unwrap().leaked, ["before_tool hook"]);
}

#[test]
fn a_receipt_marks_the_calls_that_a_hook_has_changed_and_no_others() {
    let asks = [model_started(1), message(asking(&["a", "b", "c"])), usage(1), answered(1, ModelStop::ToolUse)];
    let other = HookChange::Call { call: ToolCall::new(id("a"), "see", "{}") };
    let hidden = HookChange::Result { result: Arc::new(ToolResult::text(id("b"), ResultStatus::Ok, "hidden")) };
    let events = [Event::RunStarted].into_iter().chain(asks).chain(changed(HookPoint::BeforeTool, other));
    let events = events.chain(["a", "b", "c"].into_iter().flat_map(|of| [tool_started(of), tool_finished(of)]));
    let receipt = Receipt::fold(&records(events.chain(changed(HookPoint::AfterTool, hidden))), [], None).unwrap();
    let marked: Vec<_> = receipt.calls.iter().map(|call| (call.call.as_str(), call.changed_by_hook)).collect();
    assert_eq!(marked, [("a", true), ("b", true), ("c", false)]);
}
