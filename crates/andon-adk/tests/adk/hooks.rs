//! What hooks change, in ADK's words.

use andon_runtime::{Agent, AnswerDecision, CallDecision, Message, ResultDecision, RunState};
use andon_server::App;
use andon_testkit::ScriptedModel;
use andon_testkit::tools::quick;

use super::questions::answer;
use super::shape::assert_shape;
use super::*;

/// The names and responses in an event.
fn responses(event: &Value) -> Vec<(&str, &Value)> {
    let parts = event["content"]["parts"].as_array().unwrap().iter();
    parts.map(|part| &part["functionResponse"]).map(|it| (it["id"].as_str().unwrap(), &it["response"])).collect()
}

#[tokio::test(start_paused = true)]
async fn a_result_that_a_hook_replaced_is_never_shown_live_nor_in_the_session() {
    for ids in [&["c1"][..], &["c1", "c2"]] {
        let written: Vec<(&str, &str, &str)> = ids.iter().map(|id| (*id, "look", "{}")).collect();
        let model = ScriptedModel::new([calls(&written), says(&["Done."])]);
        let agent = Agent::builder().model(model).tool(quick("look", &ToolLog::new()));
        let inside = dialect(agent.after_tool(|_| ResultDecision::Replace("hidden".into()))).await;
        let events = streamed(&inside, stream("s", "look")).await;
        let events = whole(&events);
        events.iter().for_each(assert_shape);
        let [call, results, done] = events.as_slice() else { panic!("{events:?}") };
        let hidden = json!({"result": "hidden"});
        assert_eq!(responses(results), ids.iter().map(|id| (*id, &hidden)).collect::<Vec<_>>());
        assert_eq!((text(done), turns(&events)), ("Done.".to_owned(), vec!["model", "user", "model"]));
        assert!(call["timestamp"].as_f64() <= results["timestamp"].as_f64());
        assert_eq!(stored(&inside, "s").await[1..], events[..]);
    }
}

#[tokio::test(start_paused = true)]
async fn results_that_no_hook_could_see_any_more_are_shown_when_the_run_ends() {
    let model = ScriptedModel::new([calls(&[("c1", "look", "{}")])]);
    let agent = Agent::builder().model(model).tool(quick("look", &ToolLog::new()));
    let inside = dialect(agent.after_tool(|_| ResultDecision::fail("Enough."))).await;
    let told = whole(&streamed(&inside, stream("s", "look")).await);
    let events = stored(&inside, "s").await;
    assert_eq!(told[..3], events[1..], "then comes what ADK's server says of an error");
    is_valid(&events);
    assert_eq!(turns(&events), ["user", "model", "user", "model"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_question_does_not_approve_what_a_hook_made_of_the_call() {
    for change in [CallDecision::ChangeCall("burn".into(), json!({})), CallDecision::ChangeArguments(json!({"n": 9}))] {
        let log = ToolLog::new();
        let model = ScriptedModel::new([calls(&[("c1", "pay", "{}")]), says(&["Done."])]);
        let tools = ["pay", "burn"].map(|name| quick(name, &log).needs_approval());
        let agent = tools.into_iter().fold(Agent::builder().model(model), |agent, tool| agent.tool(tool));
        let inside = dialect(agent.before_tool(move |_| change.clone())).await;
        let events = streamed(&inside, stream("s", "pay")).await;
        let first = answer(&events[1], json!({"confirmed": true}));
        let (status, rest) = inside.post("/run", first.clone()).await;
        assert_eq!(status, StatusCode::OK, "{rest}");
        let run = inside.runtime.in_progress().remove(0);
        let second = rest.as_array().unwrap().last().unwrap();
        let ids = [&events[1], second].map(|asked| [&asked["id"], &asked["content"]["parts"][0]["functionCall"]["id"]]);
        assert!(ids[0][0] != ids[1][0] && ids[0][1] != ids[1][1], "{ids:?}");
        let (status, told) = inside.post("/run", first).await;
        assert_eq!((status, run.state(), log.started()), (StatusCode::CONFLICT, RunState::Waiting, 0), "{told}");
        let (status, rest) = inside.post("/run", answer(second, json!({"confirmed": true}))).await;
        assert_eq!((status, log.started()), (StatusCode::OK, 1), "{rest}");
        let stored = stored(&inside, "s").await;
        let ids: std::collections::BTreeSet<&str> = stored.iter().map(|event| event["id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), stored.len(), "each event has an id of its own: {stored:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_text_that_takes_the_place_of_an_answer_follows_it() {
    let agent = Agent::builder().model(ScriptedModel::new([says(&["Secret."])]));
    let inside = dialect(agent.after_model(|_| AnswerDecision::ReplaceText("Public.".into()))).await;
    let events = whole(&streamed(&inside, stream("s", "say")).await);
    assert_eq!(events.iter().map(text).collect::<Vec<_>>(), ["Secret.", "Public."]);
    assert_eq!(stored(&inside, "s").await[1..], events[..]);
}

#[tokio::test(start_paused = true)]
async fn what_a_prompt_brought_along_begins_the_session() {
    let agent = Agent::builder().model(ScriptedModel::new([says(&["Ada."])]));
    let inside = dialect(agent).await;
    let Some(App::Served { agent: shop, .. }) = inside.server.apps().get("shop") else { panic!("it is served") };
    let session = shop.session(USER, "s").unwrap();
    let before = [Message::user("I am Ada."), Message::assistant("Hello, Ada.")];
    session.prompt("Who am I?").history(before).run().await.unwrap();
    inside.runtime.idle().await;
    let events = stored(&inside, "s").await;
    events.iter().for_each(assert_shape);
    let said: Vec<(&str, String)> = turns(&events).into_iter().zip(events.iter().map(text)).collect();
    let said: Vec<(&str, &str)> = said.iter().map(|(role, text)| (*role, text.as_str())).collect();
    let expected = [("user", "I am Ada."), ("model", "Hello, Ada."), ("user", "Who am I?"), ("model", "Ada.")];
    assert_eq!(said, expected);
    let ids: std::collections::BTreeSet<&str> = events.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 4);
}
