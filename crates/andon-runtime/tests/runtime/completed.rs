//! Whoever asks for a finished answer gets one, or an error that says why there is none and carries the outcome.

use andon_runtime::{AnswerDecision, ModelError, NotCompleted, Piece};

use crate::common::*;

async fn not_completed(session: &Session) -> NotCompleted {
    session.run("Go.").await.unwrap().completed().unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn a_completed_run_gives_its_text_in_one_line() {
    let session = scripted([says("All is well.")]).open();
    assert_eq!(session.run("Go.").await.unwrap().completed().unwrap().text(), "All is well.");
}

#[tokio::test(start_paused = true)]
async fn a_dead_provider_gives_an_error_and_not_an_empty_text() {
    let dead = vec![Act::Fail(ModelError::fatal("no connection to the provider: check its address"))];
    let error = not_completed(&scripted([dead]).open()).await;
    assert!(
        error.to_string().starts_with("the run failed: no connection to the provider: check its address"),
        "{error}"
    );
    assert_eq!((error.outcome.stop_reason(), error.outcome.text_so_far().as_str()), ("failed", ""));
}

#[tokio::test(start_paused = true)]
async fn a_broken_stream_gives_an_error_that_has_the_half_answer() {
    let error = not_completed(&scripted([vec![Act::text("Half an "), Act::Break]]).open()).await;
    assert!(error.to_string().starts_with("the run failed: the model's answer broke off: "), "{error}");
    assert_eq!(error.outcome.text_so_far(), "Half an ");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_gives_an_error_that_says_who_cancelled_it_and_why() {
    let session = scripted([says_and_hangs("Half an answer")]).open();
    let run = start_until_shown(&session, "Go.", "Half").await;
    run.cancel(Cancel::graceful().by("ada").note("too long"));
    let error = cancelled(&session, &run).await.completed().unwrap_err();
    assert!(error.to_string().starts_with("the run was cancelled: requested, by ada (too long); "), "{error}");
    assert_eq!(error.outcome.text_so_far(), "Half an answer");
}

#[tokio::test(start_paused = true)]
async fn a_lost_run_gives_an_error_that_says_where_to_look() {
    let journal = memory();
    let model = ScriptedModel::new([says_and_hangs("Half an answer")]);
    let session = Agent::builder().model(model).runtime(&runtime_on(&journal)).open();
    let run = start_until_shown(&session, "Go.", "Half").await;
    tokio::time::sleep(millis(50)).await;
    journal.crash();

    let next = next_runtime_on(&TestJournal::new(journal.durable(), None));
    next.recover().await.unwrap();
    let found = next.find(run.id()).await.unwrap().unwrap();
    let error = found.outcome().await.completed().unwrap_err();
    assert!(error.to_string().starts_with("the run was lost, because the process that ran it died: "), "{error}");
    assert_eq!(error.outcome.text_so_far(), "Half an answer");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_reached_the_limit_of_tokens_is_an_error_that_has_the_half_answer() {
    let half = vec![Act::text("Half an "), Act::usage(10, 2), Act::Piece(Piece::End(ModelStop::MaxTokens))];
    let error = not_completed(&scripted([half]).open()).await;
    assert!(error.to_string().contains("so the answer is not whole"), "{error}");
    assert_eq!((error.outcome.stop_reason(), error.outcome.text_so_far().as_str()), ("max_tokens", "Half an "));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_an_error_also_when_a_hook_has_withdrawn_the_answer() {
    let refused = vec![Act::text("I cannot "), Act::usage(10, 2), Act::Piece(Piece::End(ModelStop::Refused))];
    let error = not_completed(&scripted([refused]).open()).await;
    assert!(error.to_string().starts_with("the answer was refused by "), "{error}");
    assert_eq!((error.outcome.stop_reason(), error.outcome.text_so_far().as_str()), ("refused", "I cannot "));

    let guarded = scripted([says("The password is 1234.")]);
    let guarded = guarded.after_model(|_| AnswerDecision::Withdraw(String::new()));
    let error = not_completed(&guarded.open()).await;
    assert!(error.to_string().starts_with("the answer was refused by "), "{error}");
    assert_eq!((error.outcome.stop_reason(), error.outcome.text_so_far().as_str()), ("refused", ""));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_ends_at_a_stop_sequence_is_whole() {
    let stopped = vec![Act::text("42"), Act::usage(10, 2), Act::Piece(Piece::End(ModelStop::StopSequence))];
    let completed = scripted([stopped]).open().run("Go.").await.unwrap().completed().unwrap();
    assert_eq!((completed.text().as_str(), completed.stop()), ("42", ModelStop::StopSequence));
}
