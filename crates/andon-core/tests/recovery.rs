//! After a crash anywhere, everything that was open is closed, and nothing is lost or recorded twice.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use std::collections::HashMap;

use andon_core::answer::Answerer;
use andon_core::closing::{close_lost, refuse_with};
use andon_core::usage::Figure;
use common::*;

/// An answer with a thought, text and two calls, as lumps of one span.
fn first_answer(after: Seq) -> Vec<Lump> {
    let mut span = Span::new(after);
    let mut lumps = Vec::new();
    let mut at = (0, 0);
    let mut lump = |span: &Span| {
        lumps.extend(span.lump_from(at.0, at.1));
        at = (span.text.len(), span.marks.len());
    };
    span.push(&Kind::Thinking, "Hm.");
    lump(&span);
    span.mark(MarkKind::ThinkingEnded { signature: Some(Signature::new("maker", "seal")) });
    span.push(&Kind::Text, "Lookin");
    lump(&span);
    span.push(&Kind::Text, "g.");
    span.push(&Kind::ToolInput(head(0, "a")), "{}");
    span.mark(MarkKind::CallEnded { index: 0 });
    lump(&span);
    span.push(&Kind::ToolInput(head(1, "b")), "{}");
    span.mark(MarkKind::Used(Box::new(Usage::reported(10, 5))));
    lump(&span);
    lumps
}

/// A run with everything in it: hooks, a stream in lumps, approvals, tools, a failure, a back-off, a pull.
fn whole_journal() -> Vec<Entry> {
    let mut entries = journal([
        Event::RunStarted,
        hook_started(HookPoint::BeforeRun),
        hook_finished(HookPoint::BeforeRun),
        model_started(1),
    ]);
    entries.extend(first_answer(5).into_iter().map(|lump| Entry::Lump(Arc::new(lump))));
    let text = [Part::text("Looking.")].into_iter();
    let spoken = asking(&[]).parts(text.chain(asking(&["a", "b", "c"]).parts).collect());
    let rest = [
        message(spoken),
        usage(1),
        answered(1, ModelStop::ToolUse),
        approval_requested("a"),
        tool_started("b"),
        approved("a"),
        tool_started("a"),
        tool_finished("b"),
        approval_requested("c"),
        denied("c"),
        refuse(id("c"), Refusal::DeniedByPerson),
        tool_finished("a"),
        model_started(2),
        Event::usage(2, Used::NONE),
        failed(2),
        backoff_started(),
        Event::BackoffFinished,
        model_started(3),
    ];
    entries.extend(rest.into_iter().zip(6..).map(|(event, seq)| Entry::Fact(Arc::new(record(seq, event)))));
    let mut span = Span::new(23);
    span.push(&Kind::Text, "So ");
    entries.push(Entry::Lump(Arc::new(span.lump_from(0, 0).unwrap())));
    entries.push(Entry::Fact(Arc::new(record(24, cancel_requested(Force::AfterTurn)))));
    let mut span = Span::new(24);
    span.push(&Kind::Text, "it is");
    entries.push(Entry::Lump(Arc::new(span.lump_from(0, 0).unwrap())));
    entries
}

/// Every journal that a crash can leave of the run, with what recovery adds to it.
fn crashes() -> Vec<(RunProgress, Vec<Event>)> {
    let journal = whole_journal();
    let cut = |length: usize| {
        let progress = RunProgress::fold(&journal[..length]).unwrap();
        let closing = close_lost(&progress, None);
        (progress, closing)
    };
    (1..=journal.len()).map(cut).collect()
}

fn recovered(progress: &RunProgress, closing: &[Event]) -> RunProgress {
    let mut progress = progress.clone();
    for event in closing {
        progress.apply(event).unwrap();
    }
    progress.apply(&settled(Ending::Lost)).unwrap();
    progress
}

#[test]
fn after_a_crash_anywhere_the_closing_events_fold_and_the_run_settles() {
    for (progress, closing) in crashes() {
        assert_eq!(recovered(&progress, &closing).state(), RunState::Settled);
    }
}

#[test]
fn after_a_crash_anywhere_every_call_has_exactly_one_result_in_the_models_order() {
    for (progress, closing) in crashes() {
        let progress = recovered(&progress, &closing);
        let messages = progress.messages();
        for (place, message) in messages.iter().enumerate() {
            let calls: Vec<_> = message.calls().map(|call| &call.id).collect();
            let next = messages.get(place + 1);
            let results: Vec<_> = next.iter().flat_map(|next| next.results()).map(|result| &result.call).collect();
            assert_eq!(calls, results, "after {} events", progress.seq());
        }
    }
}

#[test]
fn after_a_crash_anywhere_an_open_call_is_closed_once_and_a_closed_one_never_again() {
    for (progress, closing) in crashes() {
        let mut closed: HashMap<CallId, usize> = HashMap::new();
        for event in &closing {
            if let Event::ToolFinished { call, .. } | Event::ToolRefused { call, .. } = event {
                *closed.entry(call.clone()).or_default() += 1;
            }
        }
        for call in progress.calls() {
            let expected = usize::from(!matches!(call.state, CallState::Closed(_)));
            assert_eq!(closed.get(&call.call.id).copied().unwrap_or_default(), expected, "{call:?}");
        }
        assert!(closed.values().all(|times| *times == 1), "{closed:?}");
    }
}

#[test]
fn after_a_crash_in_an_answer_all_text_that_was_journaled_is_kept_and_marked() {
    let journal = whole_journal();
    let expected = [(6, "", 0), (7, "Lookin", 0), (8, "Looking.", 1), (9, "Looking.", 1)];
    for (length, text, calls) in expected {
        let progress = RunProgress::fold(&journal[..length]).unwrap();
        let progress = recovered(&progress, &close_lost(&progress, None));
        let answer = progress.last_answer().unwrap();
        let seal = (length > 6).then(|| Signature::new("maker", "seal"));
        assert_eq!(answer.parts[0], Part::Thinking { text: "Hm.".into(), signature: seal });
        assert_eq!((answer.text().as_str(), answer.calls().count(), answer.cut), (text, calls, Some(Cut::Lost)));
    }
    let (progress, closing) = crashes().pop().unwrap();
    let answer = recovered(&progress, &closing).last_answer().unwrap().text();
    assert_eq!(answer, "So it is", "text on both sides of an event");
}

#[test]
fn after_a_crash_a_tool_that_ran_is_unknown_and_one_that_waited_is_refused() {
    let progress = asked(&["a", "b", "c"], [tool_started("b"), approval_requested("c")]);
    let progress = recovered(&progress, &close_lost(&progress, None));
    let statuses: Vec<_> = progress.messages()[2].results().map(|result| result.status).collect();
    assert_eq!(statuses, [ResultStatus::Refused, ResultStatus::Unknown, ResultStatus::Refused]);
}

#[test]
fn after_a_crash_in_an_answer_its_usage_is_what_was_reported_so_far_or_unknown() {
    let journal = whole_journal();
    for (length, expected) in [(8, Used::UNKNOWN), (9, Used::cut(Usage::reported(10, 5).running()))] {
        let progress = RunProgress::fold(&journal[..length]).unwrap();
        let closing = close_lost(&progress, None);
        let usage: Vec<_> = closing.iter().filter(|event| matches!(event, Event::Usage { .. })).collect();
        assert_eq!(usage, [&Event::usage(1, expected)]);
    }
}

/// The usage of a call that a crash cut, when its answer had come as far as this span.
fn usage_of(span: &Span) -> Event {
    let mut entries = journal([Event::RunStarted, model_started(1)]);
    entries.push(Entry::Lump(Arc::new(span.lump_from(0, 0).unwrap())));
    let closing = close_lost(&RunProgress::fold(&entries).unwrap(), None);
    closing.into_iter().find(|event| matches!(event, Event::Usage { .. })).unwrap()
}

#[test]
fn after_a_crash_an_answer_that_had_begun_has_not_0_tokens_and_one_that_had_not_may() {
    let mut span = Span::new(3);
    span.mark(MarkKind::Used(Box::new(Usage::reported(12, 0))));
    assert_eq!(usage_of(&span), Event::usage(1, Used::cut(Usage::reported(12, 0).running())));
    span.push(&Kind::Text, "Half");
    let input = Usage::reported(12, 0).output(Figure::UNKNOWN);
    assert_eq!(usage_of(&span), Event::usage(1, Used::cut(input.running())));
}

#[test]
fn after_a_crash_a_call_says_who_answered_it_if_that_was_on_record() {
    let mut span = Span::new(3);
    span.push(&Kind::Text, "Half");
    let (model, id) = ("exact-1", "req-7");
    span.mark(MarkKind::Answered(Box::new(Answerer::new(Some(model), Some(id)))));
    let Event::Usage { answered_by, request_id, .. } = usage_of(&span) else { panic!("it is a usage") };
    assert_eq!((answered_by.as_deref(), request_id.as_deref()), (Some(model), Some(id)));
}

#[test]
fn after_a_crash_between_an_answer_and_its_usage_a_report_of_0_is_unknown() {
    let mut entries = journal([Event::RunStarted, model_started(1)]);
    let mut span = Span::new(3);
    span.mark(MarkKind::Used(Box::new(Usage::reported(12, 0))));
    entries.push(Entry::Lump(Arc::new(span.lump_from(0, 0).unwrap())));
    entries.push(Entry::Fact(Arc::new(record(4, message(Message::assistant("So."))))));
    let closing = close_lost(&RunProgress::fold(&entries).unwrap(), None);
    let input = Usage::reported(12, 0).output(Figure::UNKNOWN);
    assert_eq!(closing[0], Event::usage(1, Used::cut(input.running())));
}

#[test]
fn after_a_crash_anywhere_every_model_call_has_exactly_one_usage() {
    let whole = [model_started(1), message(Message::assistant("So.")), usage(1), answered(1, ModelStop::EndTurn)];
    let early = [model_started(1), usage(1), message(Message::assistant("So."))];
    let lengths = |events: Vec<Event>| (1..=events.len()).map(move |length| events[..length].to_vec());
    for events in lengths(whole.to_vec()).chain(lengths(early.to_vec())) {
        let closing = close_lost(&run(events.clone()), None);
        let all = events.iter().chain(&closing);
        let usages = all.filter(|event| matches!(event, Event::Usage { call: 1, .. })).count();
        assert_eq!(usages, 1, "{events:?}");
        recovered(&run(events), &closing);
    }
}

#[test]
fn after_a_crash_after_a_denial_the_call_is_refused_in_the_persons_words_and_not_decided_again() {
    let no = Approval::Denied { by: None, why: Some("Not today.".into()) };
    let progress = asked(&["a"], [approval_requested("a"), approval_resolved("a", no)]);
    let closing = close_lost(&progress, None);
    assert_eq!(closing, [refuse_with(id("a"), Refusal::DeniedByPerson, Some("Not today."))]);
    recovered(&progress, &closing);
}

#[test]
fn after_a_crash_after_an_approval_was_closed_nobody_is_said_to_have_denied_it() {
    let progress = asked(&["a"], [approval_requested("a"), approval_resolved("a", Approval::Closed)]);
    let closing = close_lost(&progress, None);
    assert_eq!(closing, [refuse(id("a"), Refusal::Lost)]);
    recovered(&progress, &closing);
}
