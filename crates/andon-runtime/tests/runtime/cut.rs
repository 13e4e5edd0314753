//! An answer can be cut at any point: at once (P1), with every byte that was shown kept (P3), and a valid history (P2).

use andon_runtime::core::message::{Cut, Part, Signature};
use andon_runtime::{ModelError, Piece};

use crate::common::*;

fn cut(parts: Vec<Part>) -> Message {
    Message::new(Role::Assistant, parts).cut(Cut::Cancelled(Reason::Requested))
}

#[tokio::test(start_paused = true)]
async fn cancel_in_the_middle_of_text_keeps_every_byte_that_was_shown_and_marks_it_as_cut() {
    let words = ["Grüße ", "aus ", "Köln"].map(Act::text).to_vec();
    let model = ScriptedModel::new([answer([words, vec![Act::Silence]])]);
    let session = agent(&model).open();
    let run = start_until_shown(&session, "Say hello.", "Köln").await;
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    let expected = cut(vec![Part::text("Grüße aus Köln")]);
    assert_eq!(outcome.message.as_deref(), Some(&expected));
    assert_eq!(session.history().await.unwrap(), [Arc::new(Message::user("Say hello.")), Arc::new(expected)]);
    assert_eq!(model.open(), 0, "the connection is closed");
}

#[tokio::test(start_paused = true)]
async fn cancel_after_the_last_text_and_before_the_usage_keeps_the_whole_answer() {
    let model = ScriptedModel::new([vec![Act::text("All of it."), Act::Pause(secs(1)), Act::usage(9, 3), Act::end()]]);
    let session = agent(&model).open();
    let run = start_until_shown(&session, "Go.", "All of it.").await;
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(outcome.message.as_deref(), Some(&cut(vec![Part::text("All of it.")])));
}

#[tokio::test(start_paused = true)]
async fn cancel_inside_the_arguments_of_a_tool_call_drops_the_half_call_and_keeps_the_text() {
    let begin = Act::Piece(Piece::Call { id: "half".into(), name: "look".into() });
    let input = Act::Piece(Piece::CallInput { index: 0, json: "{\"where\": \"Kö".into() });
    let session = scripted([vec![Act::text("I look. "), begin, input, Act::Silence]]).open();
    let run = start_until_shown(&session, "Look.", "Kö").await;
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(outcome.message.as_deref(), Some(&cut(vec![Part::text("I look. ")])));
    assert_eq!(outcome.receipt.calls, []);
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn cancel_after_a_whole_call_of_an_unfinished_answer_keeps_the_call_and_says_that_it_was_not_run() {
    let model = ScriptedModel::new([answer([Act::call(0, "whole", "look", "{}"), vec![Act::Silence]])]);
    let log = ToolLog::new();
    let session = agent(&model).tool(tools::quick("look", &log)).open();
    let run = session.start("Look.").unwrap();
    while run.passed().pieces < 3 {
        tokio::task::yield_now().await;
    }
    stop(&session, &run, Cancel::graceful()).await;
    let result = result_of(&session.history().await.unwrap(), "whole");
    assert_eq!(result.to_text(), "Not run: the run was stopped before this call started.");
    assert_eq!(log.started(), 0);
}

#[tokio::test(start_paused = true)]
async fn cancel_inside_signed_thinking_keeps_the_thought_without_a_seal_and_sends_none_of_it() {
    let model = ScriptedModel::new([vec![Act::thinking("Hm, let me"), Act::Silence], says("Fine.")]);
    let session = agent(&model).open();
    let run = start_until_shown(&session, "Think.", "let me").await;
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    let thought = Part::Thinking { text: "Hm, let me".into(), signature: None };
    assert_eq!(outcome.message.as_deref(), Some(&cut(vec![thought])));

    assert_usable(&session).await;
    let sent = model.requests()[1].prompt();
    let thinks = |message: &Message| message.parts.iter().any(|part| matches!(part, Part::Thinking { .. }));
    assert!(!sent.iter().any(thinks), "{sent:#?}");
}

#[tokio::test(start_paused = true)]
async fn cancel_after_signed_thinking_keeps_the_thought_whole() {
    let model = ScriptedModel::new([vec![Act::thinking("Two."), Act::signed(), Act::text("It is"), Act::Silence]]);
    let session = agent(&model).open();
    let run = start_until_shown(&session, "Think.", "It is").await;
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    let thought = Part::Thinking { text: "Two.".into(), signature: Some(Signature::new("scripted", "c2VhbA==")) };
    assert_eq!(outcome.message.as_deref(), Some(&cut(vec![thought, Part::text("It is")])));
}

#[tokio::test(start_paused = true)]
async fn cancel_while_the_model_is_silent_before_its_first_token_stops_at_once() {
    let model = ScriptedModel::new([vec![Act::Pause(secs(30)), Act::text("Late."), Act::end()]]);
    let session = agent(&model).open();
    let run = start_until(&session, "Hello?", |event| matches!(event, Event::ModelStarted { .. })).await;
    let pulled = Instant::now();
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(pulled.elapsed(), secs(0));
    assert_eq!((outcome.message.clone(), outcome.receipt.cut_in), (None, Some(Phase::Model)));
    assert_eq!(model.open(), 0);
    assert_usable(&session).await;
}

#[tokio::test(start_paused = true)]
async fn cancel_while_the_model_is_silent_in_mid_stream_stops_at_once() {
    let model = ScriptedModel::new([vec![Act::text("And "), Act::Pause(secs(30)), Act::text("then."), Act::end()]]);
    let session = agent(&model).open();
    let run = start_until_shown(&session, "Go.", "And").await;
    tokio::time::sleep(secs(3)).await;
    let pulled = Instant::now();
    run.cancel(Cancel::graceful());
    assert_eq!(cancelled(&session, &run).await.text_so_far(), "And ");
    assert_eq!((pulled.elapsed(), model.open()), (secs(0), 0));
}

#[tokio::test(start_paused = true)]
async fn cancel_in_a_back_off_with_a_long_retry_after_ends_it_at_once_and_makes_no_more_calls() {
    let busy = || vec![Act::Fail(ModelError::retry_after(secs(120), "429: slow down"))];
    let model = ScriptedModel::new([busy(), busy(), busy()]);
    let session = agent(&model).open();
    let run = start_until(&session, "Go.", |event| matches!(event, Event::BackoffStarted { delay_ms: 120_000 })).await;
    let pulled = Instant::now();
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    assert_eq!(pulled.elapsed(), secs(0));
    assert_eq!(outcome.receipt.cut_in, Some(Phase::Backoff));
    tokio::time::sleep(secs(600)).await;
    assert_eq!(model.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn cancel_inside_a_hook_that_waits_stops_at_once() {
    let model = ScriptedModel::new([]);
    let session = agent(&model)
        .before_model(|_| async {
            tokio::time::sleep(secs(2)).await;
        })
        .open();
    let run = start_until(&session, "Go.", |event| matches!(event, Event::HookStarted { .. })).await;
    let pulled = Instant::now();
    let outcome = stop(&session, &run, Cancel::graceful()).await;
    assert_eq!((pulled.elapsed(), model.calls()), (secs(0), 0));
    assert_eq!(outcome.receipt.cut_in, Some(Phase::Hook));
}

#[tokio::test(start_paused = true)]
async fn once_a_pull_has_returned_no_piece_is_accepted_and_no_model_called() {
    let model = ScriptedModel::new([answer([
        vec![Act::text("First. "), Act::Pause(millis(10))],
        vec![Act::Flood("flood ", 1_000), Act::end()],
    ])]);
    let session = agent(&model).open();
    let run = start_until_shown(&session, "Go.", "First.").await;
    run.cancel(Cancel::graceful());
    let at_the_pull = run.passed();
    assert_eq!(cancelled(&session, &run).await.text_so_far(), "First. ");
    assert_eq!(run.passed(), at_the_pull);
}

#[tokio::test(start_paused = true)]
async fn the_model_is_told_in_its_next_request_that_its_answer_was_stopped() {
    let model = ScriptedModel::new([says_and_hangs("One, two")]);
    let session = agent(&model).open();
    let run = start_until_shown(&session, "Count.", "two").await;
    stop(&session, &run, Cancel::graceful()).await;
    session.run("Never mind.").await.unwrap();

    let note = "[Your previous answer was stopped by the user and is incomplete. Do not resume it unless asked to.]";
    let told = Message::new(Role::User, vec![Part::text(note), Part::text("Never mind.")]);
    let expected = [Message::user("Count."), Message::assistant("One, two"), told];
    assert_eq!(model.requests()[1].prompt(), expected);
}

#[tokio::test(start_paused = true)]
async fn the_model_is_told_of_a_request_that_was_stopped_before_an_answer_began() {
    let model = ScriptedModel::new([vec![Act::Silence]]);
    let session = agent(&model).open();
    let run = start_until(&session, "Count.", |event| matches!(event, Event::ModelStarted { .. })).await;
    stop(&session, &run, Cancel::graceful()).await;
    session.run("Again.").await.unwrap();

    let sent = model.requests()[1].prompt();
    let note = Part::text("[The previous request ended before an answer began.]");
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].parts, [Part::text("Count."), note, Part::text("Again.")]);
}
