//! Starting runs.

use andon_runtime::Limits;

use crate::common::*;
use crate::house::answered;

#[tokio::test]
async fn a_run_is_on_record_when_it_is_answered_and_its_feed_tells_all_of_it() {
    let house = House::with([vec![Act::text("Good day."), Act::usage(3, 2), Act::end()]]).await;
    let run = house.start(json!({"user": "ada", "session": "monday"})).await;
    let events = house.feed(&run, None).await.rest().await;
    let kinds: Vec<&str> = events.iter().map(|event| event.json["type"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], *kinds.last().unwrap()), ("run_accepted", "run_settled"));
    let (status, view) = house.get(&format!("/v1/runs/{run}")).await;
    assert_eq!(status, StatusCode::OK);
    let shown = ["run_id", "app", "user", "session", "state"].map(|field| view[field].as_str().unwrap().to_owned());
    assert_eq!(shown, [run.as_str(), "shop", "ada", "monday", "settled"]);
    assert_eq!(view["outcome"]["kind"], "completed");
}

#[tokio::test]
async fn the_same_request_again_gives_the_same_run_and_another_one_is_refused() {
    let house = House::silent().await;
    let body = json!({"app": "shop", "input": "hello", "run_id": "r1"});
    let (first, run) = house.post("/v1/runs", body.clone()).await;
    let (again, same) = house.post("/v1/runs", body).await;
    assert_eq!((first, again, &run["run_id"]), (StatusCode::CREATED, StatusCode::OK, &same["run_id"]));
    let (other, problem) = house.post("/v1/runs", json!({"app": "shop", "input": "else", "run_id": "r1"})).await;
    assert_eq!((other, problem["type"].as_str()), (StatusCode::CONFLICT, Some("urn:andon:run-id-taken")));
    assert_eq!(house.runtime.runs().len(), 1);
}

#[tokio::test]
async fn with_accept_the_answer_is_the_feed_itself() {
    let house = House::with([vec![Act::text("Good day."), Act::end()]]).await;
    let request = house.request(Method::POST, "/v1/runs").header("accept", "text/event-stream");
    let response = request.json(&json!({"app": "shop", "input": "hello"})).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let (_, text) = answered(response).await;
    assert!(text.as_str().unwrap().contains("run_settled"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn any_difference_makes_it_another_request() {
    let inside = Inside::new(agent([endless()])).await;
    let body = json!({"run_id": "r", "session": "s", "user": "ada", "limits": {"turns": 3}});
    inside.start(body.clone()).await;
    for other in [
        json!({"input": "else"}),
        json!({"input": [{"type": "text", "text": "hello"}]}),
        json!({"app": "other"}),
        json!({"user": "bob"}),
        json!({"session": "t"}),
        json!({"session": null}),
        json!({"on_disconnect": "cancel"}),
        json!({"on_disconnect": {"cancel_after_ms": 5}}),
        json!({"when_busy": "queue"}),
        json!({"limits": {"turns": 4}}),
        json!({"limits": {}}),
    ] {
        let mut asked = order(body.clone());
        asked.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        let (status, problem) = inside.post("/v1/runs", asked).await;
        assert_eq!(
            (status, problem["type"].as_str()),
            (StatusCode::CONFLICT, Some("urn:andon:run-id-taken")),
            "{other}"
        );
    }
    // Spelling out the defaults makes the same request.
    let mut asked = order(body);
    asked
        .as_object_mut()
        .unwrap()
        .extend([("when_busy".into(), json!("reject")), ("on_disconnect".into(), json!("continue"))]);
    assert_eq!(inside.post("/v1/runs", asked).await.0, StatusCode::OK);
    assert_eq!(inside.runtime.runs().len(), 1);
}

#[tokio::test]
async fn how_a_request_is_written_does_not_make_it_another_one() {
    let house = House::silent().await;
    let ask = |body: &'static str| house.ask("POST /v1/runs", &["host: localhost"], body);
    assert_eq!(ask(r#"{"app": "shop", "input": "hello", "run_id": "r1"}"#).await.status, 201);
    assert_eq!(ask(r#"{ "run_id":"r1","input":"h\u0065llo",  "app" : "shop" }"#).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_repetition_finds_its_run_also_when_the_app_was_edited_or_is_gone() {
    let inside = Inside::new(agent([endless()])).await;
    let run = inside.start(json!({"run_id": "r"})).await;
    let apps = inside.server.apps();
    let limits = Limits::new().turns(2);
    let edited = Agent::builder().name("shop").model(ScriptedModel::new([])).limits(limits);
    apps.put(edited.runtime(&inside.runtime).build().unwrap(), None);
    let again = inside.post("/v1/runs", order(json!({"run_id": "r"}))).await;
    assert_eq!(
        (again.0, again.1["session"].as_str()),
        (StatusCode::OK, Some(run.session().session.as_str())),
        "{again:?}"
    );
    apps.refuse("shop", "it has no model: name one");
    assert_eq!(inside.post("/v1/runs", order(json!({"run_id": "r"}))).await.0, StatusCode::OK);
    apps.remove("shop");
    assert_eq!(inside.post("/v1/runs", order(json!({"run_id": "r"}))).await.0, StatusCode::OK);
    assert_eq!(inside.post("/v1/runs", order(json!({"run_id": "q"}))).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn the_next_server_recognizes_a_repetition_but_not_of_a_run_that_was_started_differently() {
    let journal = Arc::new(MemoryJournal::new());
    let shop = || agent([vec![Act::text("Yes."), Act::end()], vec![Act::text("Yes."), Act::end()]]);
    let inside = Inside::build(journal.clone(), Options::default(), shop()).await;
    inside.start(json!({"run_id": "r"})).await.outcome().await;
    let otherwise = Agent::builder().name("shop").model(ScriptedModel::new([vec![Act::text("Yes."), Act::end()]]));
    let otherwise = otherwise.runtime(&inside.runtime).build().unwrap();
    otherwise.prompt("hello").run_id(RunId::new("q").unwrap()).run().await.unwrap();
    drop(inside);
    let again = Inside::build(journal, Options::default(), shop()).await;
    assert_eq!(again.post("/v1/runs", order(json!({"run_id": "r"}))).await.0, StatusCode::OK);
    assert_eq!(again.post("/v1/runs", order(json!({"run_id": "q"}))).await.0, StatusCode::CONFLICT);
}
