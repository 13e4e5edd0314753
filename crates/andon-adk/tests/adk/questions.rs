//! A person's yes or no, in ADK's words.

use andon_runtime::{Agent, RunState};
use andon_testkit::ScriptedModel;
use andon_testkit::tools::quick;

use super::shape::assert_shape;
use super::*;

/// A server with a run that waits for approval of the call `c1`, and the events that its client was sent.
async fn waiting() -> (Inside, Vec<Value>, ToolLog) {
    let log = ToolLog::new();
    let model = ScriptedModel::new([calls(&[("c1", "pay", r#"{"n": 7}"#)]), says(&["Done."])]);
    let inside = dialect(Agent::builder().model(model).tool(quick("pay", &log).needs_approval())).await;
    let events = streamed(&inside, stream("s", "pay")).await;
    (inside, events, log)
}

/// The answer to the question that an event asks.
pub(crate) fn answer(question: &Value, response: Value) -> Value {
    let id = &question["content"]["parts"][0]["functionCall"]["id"];
    let response = json!({"id": id, "name": "adk_request_confirmation", "response": response});
    with(ask("s", ""), json!({"newMessage": {"role": "user", "parts": [{"functionResponse": response}]}}))
}

#[tokio::test(start_paused = true)]
async fn the_stream_ends_with_the_question_and_the_run_waits_without_its_client() {
    let (inside, events, log) = waiting().await;
    let [call, question] = events.as_slice() else { panic!("{events:?}") };
    events.iter().for_each(assert_shape);
    let asked = &question["content"]["parts"][0]["functionCall"];
    assert_eq!(asked["name"], "adk_request_confirmation");
    assert_eq!(asked["args"]["originalFunctionCall"], call["content"]["parts"][0]["functionCall"]);
    assert_eq!(asked["args"]["toolConfirmation"]["confirmed"], false);
    assert_eq!(question["longRunningToolIds"], json!([asked["id"]]));
    assert_eq!(question["actions"]["requestedToolConfirmations"]["c1"], asked["args"]["toolConfirmation"]);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let run = inside.runtime.in_progress().remove(0);
    assert_eq!((run.state(), log.started()), (RunState::Waiting, 0));
}

#[tokio::test(start_paused = true)]
async fn an_approval_runs_the_call_and_gives_the_rest_of_the_same_run() {
    for response in [json!({"confirmed": true}), json!({"response": "{\"confirmed\": true}"})] {
        let (inside, events, log) = waiting().await;
        let (status, rest) = inside.post("/run", answer(&events[1], response)).await;
        assert_eq!(status, StatusCode::OK, "{rest}");
        let rest = rest.as_array().unwrap();
        assert_eq!((rest.len(), log.started()), (2, 1), "{rest:?}");
        assert_eq!(rest[0]["content"]["parts"][0]["functionResponse"]["id"], "c1");
        assert_eq!((text(&rest[1]), &rest[1]["invocationId"]), ("Done.".to_owned(), &events[0]["invocationId"]));
        let stored = stored(&inside, "s").await;
        let decision = &stored[3]["content"]["parts"][0]["functionResponse"];
        assert_eq!((&stored[3]["author"], &decision["response"]), (&json!("user"), &json!({"confirmed": true})));
        assert_eq!(stored[4..], rest[..]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_denial_reaches_the_model_and_a_second_answer_comes_too_late() {
    let (inside, events, log) = waiting().await;
    let rest =
        streamed(&inside, with(answer(&events[1], json!({"confirmed": false})), json!({"streaming": true}))).await;
    assert_eq!(log.started(), 0);
    assert!(
        rest[0]["content"]["parts"][0]["functionResponse"]["response"]["error"].as_str().unwrap().contains("said no")
    );
    assert_eq!(text(rest.last().unwrap()), "Done.");
    let (status, late) = inside.post("/run", answer(&events[1], json!({"confirmed": true}))).await;
    assert_eq!((status, late["detail"].is_string()), (StatusCode::CONFLICT, true), "{late}");
    assert_eq!(log.started(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stop_closes_the_question_and_the_call() {
    let (inside, events, log) = waiting().await;
    let (status, told) = inside.post(&format!("{}:cancel", path("s")), json!({"wait": true})).await;
    assert_eq!((status, &told["settled"], log.started()), (StatusCode::OK, &json!(true), 0));
    let stored = stored(&inside, "s").await;
    assert_eq!(stored[1..3], whole(&events));
    let [_, _, _, responses, seal] = stored.as_slice() else { panic!("{stored:?}") };
    assert_eq!(responses["content"]["parts"].as_array().unwrap().len(), 2);
    assert_eq!(seal["errorCode"], "INVOCATION_ABORTED");
    let turns = turns(&stored);
    assert!(!turns.windows(2).any(|two| two == ["user", "user"]), "{turns:?}");
}

/// Two calls wait; the first is denied, and the run waits for the second.
#[tokio::test(start_paused = true)]
async fn after_a_denial_the_stream_ends_as_soon_as_the_run_waits_for_another_decision() {
    let log = ToolLog::new();
    let both = calls(&[("c1", "pay", r#"{"n": 1}"#), ("c2", "pay", r#"{"n": 2}"#)]);
    let model = ScriptedModel::new([both, says(&["Done."])]);
    let inside = dialect(Agent::builder().model(model).tool(quick("pay", &log).needs_approval())).await;
    let events = streamed(&inside, stream("s", "pay")).await;
    let run = inside.runtime.in_progress().remove(0);
    let began = tokio::time::Instant::now();
    let (status, rest) = inside.post("/run", answer(&events[1], json!({"confirmed": false}))).await;
    assert_eq!((status, rest, began.elapsed()), (StatusCode::OK, json!([]), Duration::ZERO));
    assert_eq!((run.state(), log.started()), (RunState::Waiting, 0));
    let rest =
        streamed(&inside, with(answer(&events[2], json!({"confirmed": true})), json!({"streaming": true}))).await;
    assert_eq!((log.started(), text(rest.last().unwrap())), (1, "Done.".to_owned()), "{rest:?}");
}

/// Two calls wait, and both are denied at once: the second decision is not recorded yet when the first one is.
#[tokio::test(start_paused = true)]
async fn two_denials_in_one_message_give_the_rest_of_the_run() {
    let log = ToolLog::new();
    let both = calls(&[("c1", "pay", r#"{"n": 1}"#), ("c2", "pay", r#"{"n": 2}"#)]);
    let model = ScriptedModel::new([both, says(&["Done."])]);
    let inside = dialect(Agent::builder().model(model).tool(quick("pay", &log).needs_approval())).await;
    let events = streamed(&inside, stream("s", "pay")).await;
    let part = |question: &Value| answer(question, json!({"confirmed": false}))["newMessage"]["parts"][0].clone();
    let parts = json!([part(&events[1]), part(&events[2])]);
    let message = with(ask("s", ""), json!({"newMessage": {"role": "user", "parts": parts}}));
    let (status, rest) = inside.post("/run", message).await;
    assert_eq!((status, log.started()), (StatusCode::OK, 0), "{rest}");
    assert_eq!(text(rest.as_array().unwrap().last().unwrap()), "Done.");
}

/// Two calls wait; a message answers both.
#[tokio::test(start_paused = true)]
async fn decisions_in_one_message_are_all_or_nothing() {
    let log = ToolLog::new();
    let both = calls(&[("c1", "pay", r#"{"n": 1}"#), ("c2", "pay", r#"{"n": 2}"#)]);
    let model = ScriptedModel::new([both, says(&["Done."])]);
    let inside = dialect(Agent::builder().model(model).tool(quick("pay", &log).needs_approval())).await;
    let events = streamed(&inside, stream("s", "pay")).await;
    let run = inside.runtime.in_progress().remove(0);
    let [_, questions @ ..] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(questions.len(), 2, "both are asked before the stream ends: {events:?}");
    let message = |answers: [(&Value, bool); 2]| {
        let part = |(question, yes): (&Value, bool)| {
            answer(question, json!({"confirmed": yes}))["newMessage"]["parts"][0].clone()
        };
        with(ask("s", ""), json!({"newMessage": {"role": "user", "parts": answers.map(part)}}))
    };
    let (status, told) = inside.post("/run", message([(&questions[0], true), (&questions[0], false)])).await;
    assert_eq!((status, told["detail"].is_string()), (StatusCode::CONFLICT, true), "{told}");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!((run.state(), log.started()), (RunState::Waiting, 0), "whose answer is refused has not left");
    // One of them is answered elsewhere, so none of the message is accepted.
    run.decide(&andon_runtime::CallId::new("c2").unwrap()).deny().send().unwrap();
    let (status, told) = inside.post("/run", message([(&questions[0], true), (&questions[1], true)])).await;
    assert_eq!((status, log.started(), run.state()), (StatusCode::CONFLICT, 0, RunState::Waiting), "{told}");
    let (status, rest) = inside.post("/run", answer(&questions[0], json!({"confirmed": true}))).await;
    assert_eq!((status, log.started()), (StatusCode::OK, 1), "{rest}");
    assert_eq!(text(rest.as_array().unwrap().last().unwrap()), "Done.");
}
