//! What hooks change, folded: the conversation always makes sense.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod common;

use common::*;

fn call(name: &str, arguments: &str) -> ToolCall {
    ToolCall::new(id("a"), name, arguments)
}

fn seen(text: &str) -> Arc<ToolResult> {
    Arc::new(ToolResult::text(id("a"), ResultStatus::Ok, text))
}

fn answer(parts: Vec<Part>) -> Arc<Message> {
    Arc::new(Message::new(Role::Assistant, parts))
}

/// A run whose model has asked for one call.
fn asked() -> Vec<Event> {
    let said = answer(vec![Part::text("Hm."), Part::ToolCall(call("look", "{}"))]);
    vec![model_started(1), Event::Message { message: said }, usage(1), answered(1, ModelStop::ToolUse)]
}

fn after(events: impl IntoIterator<Item = Event>) -> Result<RunProgress, FoldError> {
    let mut progress = RunProgress::new(accepted());
    for event in [Event::RunStarted].into_iter().chain(events) {
        progress.apply(&event)?;
    }
    Ok(progress)
}

#[test]
fn a_changed_prompt_takes_the_place_of_the_one_that_was_asked() {
    let input = Arc::new(Message::user("Look there."));
    let progress = after(changed(HookPoint::BeforeRun, HookChange::Input { input: Arc::clone(&input) })).unwrap();
    assert_eq!(progress.messages(), [input]);
    assert_eq!(progress.accepted().input.text(), "Look.");
}

#[test]
fn a_changed_prompt_stands_after_what_it_brought_along() {
    let history = vec![Arc::new(Message::user("Hi.")), Arc::new(Message::assistant("Hello."))];
    let brings = Arc::new((*accepted()).clone().history(history.clone()));
    let input = Arc::new(Message::user("Look there."));
    let [start, end] = changed(HookPoint::BeforeRun, HookChange::Input { input: Arc::clone(&input) });
    let mut progress = RunProgress::new(brings);
    for event in [Event::RunStarted, start, end] {
        progress.apply(&event).unwrap();
    }
    assert_eq!(progress.messages(), [history, vec![input]].concat());
}

#[test]
fn an_answer_that_the_prompt_brought_along_is_not_changed() {
    let history = vec![Arc::new(Message::user("Hi.")), Arc::new(Message::assistant("Hello."))];
    let mut progress = RunProgress::new(Arc::new((*accepted()).clone().history(history)));
    let change = HookChange::Answer { answer: answer(vec![Part::text("Well.")]), is_withdrawn: false };
    let [start, end] = changed(HookPoint::AfterModel, change);
    for event in [Event::RunStarted, start] {
        progress.apply(&event).unwrap();
    }
    assert!(matches!(progress.apply(&end), Err(FoldError::OutOfPlace { .. })));
}

#[test]
fn a_changed_request_belongs_to_the_next_model_call_alone() {
    let request = andon_core::request::RequestChange::new().instructions("Be brief.");
    let change = HookChange::Request { request: request.clone() };
    let mut progress = after(changed(HookPoint::BeforeModel, change).into_iter().chain([model_started(1)])).unwrap();
    assert_eq!(progress.open_model().unwrap().change.as_deref(), Some(&request));
    for event in [message(Message::assistant("So.")), usage(1), answered(1, ModelStop::EndTurn), model_started(2)] {
        progress.apply(&event).unwrap();
    }
    assert_eq!(progress.open_model().unwrap().change, None);
}

#[test]
fn a_replaced_answer_keeps_its_calls() {
    let new = answer(vec![Part::text("Well."), Part::ToolCall(call("look", "{}"))]);
    let change = HookChange::Answer { answer: Arc::clone(&new), is_withdrawn: false };
    let progress = after(asked().into_iter().chain(changed(HookPoint::AfterModel, change))).unwrap();
    assert_eq!(progress.last_answer(), Some(&new));
    assert_eq!(progress.next_step(8), Some(Step::CallTools { start: vec![id("a")] }));
}

#[test]
fn a_withdrawn_answer_leaves_neither_call_nor_result_and_ends_the_run() {
    let change = HookChange::Answer { answer: answer(vec![]), is_withdrawn: true };
    let [start, end] = changed(HookPoint::AfterModel, change);
    let events = asked().into_iter().chain([start, refused("a"), end]);
    let progress = after(events).unwrap();
    assert_eq!(progress.messages(), [Arc::new(Message::user("Look.")), answer(vec![])]);
    let ending = Arc::new(Ending::Completed { stop: ModelStop::Refused });
    assert_eq!(progress.next_step(8), Some(Step::Settle(ending)));
}

#[test]
fn a_changed_call_is_the_one_that_is_made_and_its_approval_is_void() {
    let approved = Event::ApprovalResolved {
        call: id("a"),
        verdict: Box::new(Approval::Approved { by: None, arguments: Some(call("look", "{}").digest()), why: None }),
    };
    let asks = Event::ApprovalRequested { call: id("a"), arguments: None };
    let mut progress = after(asked().into_iter().chain([asks, approved])).unwrap();
    assert!(progress.call(&id("a")).unwrap().is_approved);
    for event in changed(HookPoint::BeforeTool, HookChange::Call { call: call("see", r#"{"n":1}"#) }) {
        progress.apply(&event).unwrap();
    }
    let open = progress.call(&id("a")).unwrap();
    assert_eq!((&open.call, open.is_approved), (&call("see", r#"{"n":1}"#), false));
    assert_eq!(progress.last_answer().unwrap().calls().next(), Some(&call("look", "{}")), "the model's words stay");
}

#[test]
fn an_approval_is_bound_to_the_name_once_a_hook_has_changed_it() {
    let after_changes = |calls: &[ToolCall]| {
        let changes =
            calls.iter().flat_map(|call| changed(HookPoint::BeforeTool, HookChange::Call { call: call.clone() }));
        after(asked().into_iter().chain(changes)).unwrap().call(&id("a")).unwrap().digest()
    };
    let (far, see) = (call("look", r#"{"n":1}"#), call("see", "{}"));
    assert_eq!(after_changes(std::slice::from_ref(&far)), far.digest());
    assert_eq!(after_changes(std::slice::from_ref(&see)), see.digest_with_name());
    let see_far = call("see", r#"{"n":1}"#);
    assert_eq!(after_changes(&[see, see_far.clone()]), see_far.digest_with_name(), "it is still another name");
}

#[test]
fn records_that_are_shown_fold_as_far_as_they_follow_each_other() {
    let events = [Event::RunAccepted { accepted: accepted() }, Event::RunStarted].into_iter().chain(asked());
    let records: Vec<_> =
        (1..).zip(events).map(|(seq, event)| Arc::new(Record::new(seq, 1, Stamp::default(), event))).collect();
    let folded = RunProgress::of_records(&records).unwrap();
    assert_eq!(folded.messages(), after(asked()).unwrap().messages());
    assert!(RunProgress::of_records(&records[1..]).is_none() && RunProgress::of_records(&[]).is_none());
}

#[test]
fn an_approval_names_the_question_that_it_answers() {
    let asks = |arguments| Event::ApprovalRequested { call: id("a"), arguments };
    let approved = |arguments| Event::ApprovalResolved {
        call: id("a"),
        verdict: Box::new(Approval::Approved { by: None, arguments, why: None }),
    };
    let (look, see) = (call("look", "{}"), call("see", "{}"));
    let renamed = changed(HookPoint::BeforeTool, HookChange::Call { call: see.clone() });
    let asked_twice = |question| {
        let first = Some(look.digest());
        let begun = asked().into_iter().chain([asks(first), approved(first)]).chain(renamed.clone());
        after(begun.chain([asks(question)])).unwrap()
    };
    let both = Some(see.digest_with_name());
    assert_eq!(asked_twice(both).call(&id("a")).unwrap().digest(), see.digest_with_name());
    asked_twice(both).apply(&approved(both)).unwrap();
    assert!(asked_twice(both).apply(&approved(Some(look.digest()))).is_err());
    // Older programs have asked about the arguments alone.
    asked_twice(Some(see.digest())).apply(&approved(Some(see.digest()))).unwrap();
}

#[test]
fn a_replaced_result_is_in_the_conversation_whether_its_turn_is_over_or_not() {
    let replace = || changed(HookPoint::AfterTool, HookChange::Result { result: seen("hidden") });
    let two = vec![Part::ToolCall(call("look", "{}")), Part::ToolCall(call("look", "{}").id(id("b")))];
    let begun = |parts| {
        let ends = [usage(1), answered(1, ModelStop::ToolUse), tool_started("a")];
        [model_started(1), Event::Message { message: answer(parts) }].into_iter().chain(ends)
    };
    let alone = begun(vec![Part::ToolCall(call("look", "{}"))]).chain([tool_finished("a")]).chain(replace());
    let beside = begun(two).chain([tool_finished("a")]).chain(replace()).chain([tool_started("b"), tool_finished("b")]);
    for events in [alone.collect::<Vec<_>>(), beside.collect()] {
        let progress = after(events).unwrap();
        assert_eq!(progress.messages()[2].results().next(), Some(&*seen("hidden")));
    }
}

#[test]
fn a_change_that_does_not_fit_is_refused_and_changes_nothing() {
    let other = || HookChange::Call { call: call("see", "{}") };
    let half = || HookChange::Answer { answer: answer(vec![Part::text("Well.")]), is_withdrawn: false };
    let withdrawn = || HookChange::Answer { answer: answer(vec![]), is_withdrawn: true };
    let prompt = |message: Message| HookChange::Input { input: Arc::new(message) };
    let kept = || vec![Part::text("Well."), Part::ToolCall(call("look", "{}"))];
    let said = |message: Message| HookChange::Answer { answer: Arc::new(message), is_withdrawn: false };
    for (before, point, change) in [
        (vec![], HookPoint::BeforeRun, other()),
        (vec![], HookPoint::BeforeRun, prompt(Message::assistant("Hi"))),
        (vec![], HookPoint::BeforeRun, prompt(Message::new(Role::User, vec![]))),
        (vec![], HookPoint::BeforeRun, prompt(Message::user("Hi").cut(Cut::Broken))),
        (asked(), HookPoint::AfterModel, said(Message::new(Role::Assistant, kept()).cut(Cut::Broken))),
        (asked(), HookPoint::AfterModel, said(Message::new(Role::User, kept()))),
        (vec![], HookPoint::BeforeTool, other()),
        (vec![], HookPoint::AfterModel, half()),
        (vec![], HookPoint::AfterTool, HookChange::Result { result: seen("x") }),
        (asked(), HookPoint::AfterModel, half()),
        (asked(), HookPoint::AfterModel, withdrawn()),
        (asked(), HookPoint::AfterTool, HookChange::Result { result: seen("x") }),
        (asked(), HookPoint::BeforeRun, HookChange::Input { input: Arc::new(Message::user("Hi")) }),
        ([asked(), vec![tool_started("a")]].concat(), HookPoint::BeforeTool, other()),
    ] {
        let [start, end] = changed(point, change);
        let mut progress = after(before.into_iter().chain([start])).unwrap();
        let (messages, seq) = (progress.messages().to_vec(), progress.seq());
        assert!(matches!(progress.apply(&end), Err(FoldError::OutOfPlace { .. })), "{end:?}");
        assert_eq!((progress.messages(), progress.seq(), progress.open_hook()), (&*messages, seq, Some(point)));
    }
}

#[test]
fn a_hook_that_fails_the_run_without_a_word_is_named() {
    let failed = Event::HookFinished { point: HookPoint::BeforeModel, end: HookEnd::Failed, change: None, why: None };
    let progress = after([hook_started(HookPoint::BeforeModel), failed]).unwrap();
    let failure = Failure::new(FailureKind::Hook, "the before_model hook failed the run");
    assert_eq!(progress.next_step(8), Some(Step::Settle(Arc::new(Ending::Failed(failure)))));
}

#[test]
fn a_hook_that_fails_the_run_waits_for_the_tools_that_run() {
    let failed = Event::HookFinished {
        point: HookPoint::BeforeTool,
        end: HookEnd::Failed,
        change: None,
        why: Some("no".into()),
    };
    let failure = Failure::new(FailureKind::Hook, "no");
    let settles = Some(Step::Settle(Arc::new(Ending::Failed(failure.clone()))));
    let hook = [hook_started(HookPoint::BeforeTool), failed];
    let none_runs = after(asked().into_iter().chain(hook.clone())).unwrap();
    assert_eq!((none_runs.next_step(8), none_runs.failure()), (settles.clone(), Some(&failure)));
    let mut progress = after(asked().into_iter().chain([tool_started("a")]).chain(hook)).unwrap();
    assert_eq!(progress.next_step(8), Some(Step::CallTools { start: vec![] }));
    let (end, result) = (ToolEnd::Finished, seen("seen"));
    progress.apply(&Event::ToolFinished { call: id("a"), end, result, remains: None, state: None }).unwrap();
    assert_eq!(progress.next_step(8), settles);
}
