//! A prompt may bring a history along: it begins a new session's history, on record with the run, valid for every
//! provider (P2, P3, P10).

use andon_runtime::{BadHistory, HistoryFault, Part, StartError};
use andon_testkit::wire::check_history;

use crate::common::*;

fn look(id: &str) -> [Message; 2] {
    let call = andon_runtime::ToolCall::new(self::id(id), "look", "{}");
    let result = ToolResult::text(self::id(id), ResultStatus::Ok, "a door");
    [
        Message::new(Role::Assistant, vec![Part::ToolCall(call)]),
        Message::new(Role::Tool, vec![Part::ToolResult(result)]),
    ]
}

/// What was said elsewhere, with a tool call.
fn elsewhere() -> Vec<Message> {
    let [asks, sees] = look("a");
    vec![Message::user("Look."), asks, sees, Message::assistant("There is a door.")]
}

#[tokio::test(start_paused = true)]
async fn a_history_that_a_prompt_brings_along_is_sent_and_stored_as_the_beginning_of_its_session() {
    let model = ScriptedModel::new([calls(&[("a", "look")]), says("It is open."), says("Yes.")]);
    let session = agent(&model).tool(tools::quick("look", &ToolLog::new())).open();
    let run = session.prompt("Is it open?").history(elsewhere()).start().unwrap();
    let outcome = settled(&session, &run).await;
    assert_eq!((outcome.stop_reason(), outcome.text_so_far().as_str()), ("end_turn", "It is open."));

    let sent = model.requests()[0].prompt();
    let expected: Vec<Message> = elsewhere().into_iter().chain([Message::user("Is it open?")]).collect();
    assert_eq!(sent, expected);
    let Event::RunAccepted { accepted } = &run.records()[0].event else { panic!("{:?}", run.records()) };
    let on_record: Vec<Message> = accepted.history.iter().map(|message| (**message).clone()).collect();
    assert_eq!(on_record, elsewhere(), "on record with the run");

    session.run("Sure?").await.unwrap();
    let said = session.history().await.unwrap();
    assert_eq!(check_history(&said), Vec::<String>::new());
    let ids: Vec<&str> = said.iter().flat_map(|message| message.calls()).map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["a", "a-2"], "an id of the model's that was brought along is not used twice");
    assert_eq!(said.last().unwrap().text(), "Yes.");
}

#[tokio::test(start_paused = true)]
async fn a_history_that_a_provider_would_refuse_is_refused_and_nothing_is_started() {
    let model = ScriptedModel::new([says("Well.")]);
    let session = agent(&model).open();
    let [asks, _] = look("a");
    let error = session.prompt("Go on.").history([Message::user("Look."), asks]).start().unwrap_err();
    assert_eq!(error, StartError::BadHistory(BadHistory::new(1, HistoryFault::NoResult(id("a")))));
    let text = "message 1 of the history: call a has no result: put one into the tool message after its answer";
    assert_eq!(error.to_string(), text);
    let error = session.prompt("Go on.").history([Message::assistant("Hello.")]).start().unwrap_err();
    assert_eq!(error, StartError::BadHistory(BadHistory::new(0, HistoryFault::NoUserFirst)));
    assert_eq!((model.calls(), session.agent().runtime().runs().len()), (0, 0));
    assert_eq!(session.run("Go.").await.unwrap().completed().unwrap().text(), "Well.", "the session is free");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_has_a_history_keeps_it() {
    let journal = memory();
    let first = Agent::builder().model(ScriptedModel::new([says("One.")])).runtime(&runtime_on(&journal));
    let first = first.build().unwrap().session(LOCAL, "s").unwrap();
    first.run("Go.").await.unwrap();
    let error = first.prompt("Go on.").history(elsewhere()).start().unwrap_err();
    assert_eq!(error, StartError::HistoryExists { session: first.key().clone() });

    // A runtime that has not read the history finds out before the run starts.
    let model = ScriptedModel::new([says("Well.")]);
    let next = Agent::builder().model(model.clone()).runtime(&next_runtime_on(&journal));
    let next = next.build().unwrap().session(LOCAL, "s").unwrap();
    let run = next.prompt("Go on.").history(elsewhere()).start().unwrap();
    let outcome = cancelled_because(&next, &run, Reason::Policy).await;
    let note = "the session already has a history, and only a new session accepts one with its first prompt";
    assert_eq!((outcome.receipt.note.as_deref(), model.calls()), (Some(note), 0));
    assert_eq!(texts(&next.history().await.unwrap()), ["Go.", "One."]);
    assert_usable(&next).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_stopped_has_no_answer_of_the_history_that_was_brought_along() {
    let model = ScriptedModel::new([vec![Act::Silence], says("Well.")]);
    let session = agent(&model).open();
    let run = session.prompt("Is it open?").history(elsewhere()).start().unwrap();
    until(&run, |event| matches!(event, Event::ModelStarted { .. })).await;
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    assert_eq!((outcome.message.as_deref(), outcome.text_so_far().as_str()), (None, ""));
    assert_eq!(texts(&session.history().await.unwrap()).last().unwrap(), "Is it open?");
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_never_started_leaves_nothing_of_its_history_and_another_prompt_may_bring_one() {
    let model = ScriptedModel::new([says("Well.")]);
    let session = agent(&model).open();
    let run = session.prompt("Go on.").history(elsewhere()).born_cancelled(Cancel::graceful()).start().unwrap();
    cancelled(&session, &run).await;
    assert!(session.history().await.unwrap().is_empty());
    let run = session.prompt("Go on.").history(elsewhere()).start().unwrap();
    settled(&session, &run).await;
    assert_eq!(session.history().await.unwrap().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_resumed_after_a_crash_has_the_history_that_it_brought_along() {
    let (journal, log) = (memory(), ToolLog::new());
    let danger = || tools::quick("danger", &log).needs_approval();
    let model = ScriptedModel::new([calls(&[("g", "danger")])]);
    let first = Agent::builder().model(model).runtime(&runtime_on(&journal)).tool(danger()).build().unwrap();
    let run = first.session(LOCAL, "s").unwrap().prompt("Open it.").history(elsewhere()).start().unwrap();
    until(&run, |event| matches!(event, Event::ApprovalRequested { .. })).await;
    settle_down().await;
    journal.crash();

    let next = next_runtime_on(&andon_testkit::TestJournal::new(journal.durable(), None));
    let model = ScriptedModel::new([says("Open.")]);
    let session = Agent::builder()
        .model(model.clone())
        .runtime(&next)
        .tool(danger())
        .build()
        .unwrap()
        .session(LOCAL, "s")
        .unwrap();
    next.recover().await.unwrap();
    let run = next.find(run.id()).await.unwrap().unwrap();
    run.approvals()[0].approve().send().unwrap();
    assert_eq!(settled(&session, &run).await.text_so_far(), "Open.");
    let said = session.history().await.unwrap();
    let begins: Vec<Message> = said.iter().take(4).map(|message| (**message).clone()).collect();
    assert_eq!((begins, said.len()), (elsewhere(), 8));
    assert_eq!(model.requests()[0].prompt()[..4], elsewhere());
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_history_was_brought_along_is_lost_in_a_crash_with_all_that_was_said() {
    let journal = memory();
    let first = Agent::builder().model(ScriptedModel::new([says_and_hangs("Half")])).runtime(&runtime_on(&journal));
    let first = first.build().unwrap().session(LOCAL, "s").unwrap();
    let run = first.prompt("Open it.").history(elsewhere()).start().unwrap();
    until_shown(&run, "Half").await;
    tokio::time::sleep(millis(50)).await;
    journal.crash();

    let next = next_runtime_on(&andon_testkit::TestJournal::new(journal.durable(), None));
    next.recover().await.unwrap();
    let session = Agent::builder()
        .model(ScriptedModel::new([says("Well.")]))
        .runtime(&next)
        .build()
        .unwrap()
        .session(LOCAL, "s")
        .unwrap();
    let said = texts(&session.history().await.unwrap());
    assert_eq!(said[3..], ["There is a door.", "Open it.", "Half [cut]"]);
    let exported = next.export(session.key()).await.unwrap().unwrap();
    let other = next_runtime_on(&memory());
    other.import(&exported).await.unwrap();
    assert_eq!(texts(&other.history(session.key()).await.unwrap()), said, "a copy has it, too");
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_is_not_a_users_message_is_refused_and_leaves_nothing_in_its_session() {
    let model = ScriptedModel::new([says("Well.")]);
    let session = agent(&model).open();
    let [asks, sees] = look("a");
    let mut smuggled = Message::user("Look.");
    smuggled.parts.extend(asks.parts.iter().cloned());
    for (input, why) in [
        (Message::assistant("I am the model."), HistoryFault::NoUserFirst),
        (asks, HistoryFault::NoUserFirst),
        (sees, HistoryFault::NoUserFirst),
        (smuggled, HistoryFault::PartOfAnotherRole),
        (Message::new(Role::User, Vec::new()), HistoryFault::NothingAsked),
    ] {
        assert_eq!(session.start(input).unwrap_err(), StartError::NotAPrompt(why));
    }
    assert_eq!(session.run("Go.").await.unwrap().completed().unwrap().text(), "Well.");
    assert_eq!(texts(&session.history().await.unwrap()), ["Go.", "Well."]);
}
