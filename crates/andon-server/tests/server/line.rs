//! The line: holding it and opening it.

use andon_runtime::Shelf as _;

use crate::common::*;

async fn create(inside: &Inside, more: Value) -> (StatusCode, Value) {
    inside.post("/v1/runs", order(more)).await
}

#[tokio::test]
async fn a_refused_client_is_told_who_holds_the_line_and_why() {
    let inside = Inside::new(agent([])).await;
    let (status, line) = inside.put("/v1/line", json!({"state": "held", "reason": "bad release"})).await;
    assert_eq!((status, line["state"].as_str()), (StatusCode::OK, Some("held")));
    let told = &inside.get("/v1/line").await.1;
    let hold = &told["holds"][0];
    assert_eq!((hold["reason"].as_str(), hold["by"].as_str()), (Some("bad release"), Some("local")));
    assert!(hold["since"].is_string());
    let (status, problem) = create(&inside, json!({})).await;
    assert_eq!((status, problem["type"].as_str()), (StatusCode::SERVICE_UNAVAILABLE, Some("urn:andon:line-held")));
    let detail = problem["detail"].as_str().unwrap();
    assert!(["local", "bad release", "for all"].iter().all(|word| detail.contains(word)), "{detail}");
    assert!(inside.runtime.runs().is_empty());
    let (status, line) = inside.put("/v1/line", json!({"state": "open"})).await;
    assert_eq!((status, line), (StatusCode::OK, json!({"state": "open", "holds": []})));
    assert_eq!(create(&inside, json!({})).await.0, StatusCode::CREATED);
}

#[tokio::test]
async fn an_app_or_a_user_is_held_alone_and_opened_alone() {
    let inside = Inside::new(agent([])).await;
    let more = andon_runtime::Agent::builder().model(andon_testkit::ScriptedModel::new([])).name("bank");
    inside.server.apps().put(more.runtime(&inside.runtime).build().unwrap(), None);
    inside.put("/v1/line", json!({"state": "held", "app": "bank"})).await;
    let (_, line) = inside.put("/v1/line", json!({"state": "held", "user": "eve", "reason": "spam"})).await;
    assert_eq!((line["state"].as_str(), line["holds"].as_array().unwrap().len()), (Some("open"), 2));
    let held = StatusCode::SERVICE_UNAVAILABLE;
    assert_eq!(create(&inside, json!({"app": "bank"})).await.0, held);
    assert_eq!(create(&inside, json!({"user": "eve"})).await.0, held);
    assert_eq!(create(&inside, json!({"user": "ada"})).await.0, StatusCode::CREATED);
    inside.put("/v1/line", json!({"state": "open", "app": "bank"})).await;
    assert_eq!(create(&inside, json!({"app": "bank"})).await.0, StatusCode::CREATED);
    // Opening for all removes the hold for all, and there is none.
    inside.put("/v1/line", json!({"state": "open"})).await;
    assert_eq!(create(&inside, json!({"user": "eve"})).await.0, held);
}

#[tokio::test]
async fn a_hold_survives_a_restart_and_so_does_opening() {
    let journal = Arc::new(MemoryJournal::new());
    let inside = Inside::build(journal.clone(), Options::default(), agent([])).await;
    inside.put("/v1/line", json!({"state": "held", "reason": "night"})).await;
    inside.put("/v1/line", json!({"state": "held", "user": "eve"})).await;
    inside.put("/v1/line", json!({"state": "held", "app": "shop"})).await;
    inside.put("/v1/line", json!({"state": "open", "app": "shop"})).await;
    let before = inside.get("/v1/line").await;
    drop(inside);
    let again = Inside::build(journal, Options::default(), agent([])).await;
    assert_eq!(again.get("/v1/line").await, before);
    assert_eq!(before.1["holds"].as_array().unwrap().len(), 2);
    let (status, problem) = create(&again, json!({})).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(problem["detail"].as_str().unwrap().contains("night"));
}

#[tokio::test]
async fn holding_with_cancel_and_wait_is_the_proof_that_all_have_settled() {
    const RUNS: usize = 500;
    let inside = Inside::new(agent(std::iter::repeat_with(endless).take(RUNS))).await;
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(inside.start(json!({})).await);
    }
    let request = json!({"state": "held", "reason": "stop everything", "cancel": true, "wait": true});
    let (status, line) = inside.put("/v1/line", request).await;
    assert_eq!((status, line["state"].as_str()), (StatusCode::OK, Some("held")));
    let stopped = &line["stopped"];
    assert_eq!((stopped["cancelled"].as_u64(), stopped["settled"].as_bool()), (Some(RUNS as u64), Some(true)));
    assert_eq!(stopped["runs"].as_array().unwrap().len(), RUNS);
    assert!(runs.iter().all(|run| run.try_outcome().is_some()));
    assert!(inside.runtime.in_progress().is_empty());
    let receipt = serde_json::to_value(runs[0].receipt().unwrap()).unwrap();
    assert_eq!((receipt["reason"].as_str(), receipt["note"].as_str()), (Some("operator"), Some("stop everything")));
}

#[tokio::test]
async fn holding_a_user_with_cancel_stops_only_theirs() {
    let inside = Inside::new(agent([endless(), endless()])).await;
    let (ada, bob) = (inside.start(json!({"user": "ada"})).await, inside.start(json!({"user": "bob"})).await);
    let (_, line) = inside.put("/v1/line", json!({"state": "held", "user": "ada", "cancel": true, "wait": true})).await;
    assert_eq!(line["stopped"]["cancelled"], 1);
    assert_eq!((reason(&ada).await.as_str(), bob.try_outcome().is_none()), ("operator", true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_run_that_is_being_created_is_refused_or_counted_and_never_missed() {
    let house = House::build(
        Arc::new(MemoryJournal::new()),
        Options::default(),
        agent(std::iter::repeat_with(endless).take(400)),
    )
    .await;
    let (mut refused, mut counted) = (0, 0);
    for round in 0..25 {
        // One run before the hold, some that race with it, and one after it.
        let first = house.post("/v1/runs", order(json!({}))).await;
        let creates = (0..12).map(|_| house.post("/v1/runs", order(json!({}))));
        let hold = async {
            for _ in 0..round * 2 {
                tokio::task::yield_now().await;
            }
            house.put("/v1/line", json!({"state": "held", "cancel": true, "wait": true})).await
        };
        let (raced, (status, line)) = tokio::join!(futures_util::future::join_all(creates), hold);
        let last = house.post("/v1/runs", order(json!({}))).await;
        assert_eq!((first.0, last.0), (StatusCode::CREATED, StatusCode::SERVICE_UNAVAILABLE));
        assert_eq!(status, StatusCode::OK, "{line}");
        assert!(house.runtime.in_progress().is_empty(), "round {round}: something runs despite the hold");
        let stopped: Vec<&str> =
            line["stopped"]["runs"].as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap()).collect();
        for (status, told) in raced.into_iter().chain([first, last]) {
            match status {
                StatusCode::SERVICE_UNAVAILABLE => refused += 1,
                StatusCode::CREATED => {
                    counted += 1;
                    assert!(stopped.contains(&told["run_id"].as_str().unwrap()), "round {round}: {told}");
                }
                other => panic!("{other}: {told}"),
            }
        }
        house.put("/v1/line", json!({"state": "open"})).await;
    }
    println!("{refused} refused, {counted} counted");
}

#[tokio::test]
async fn cancels_work_while_the_line_is_held() {
    let inside = Inside::new(agent([endless(), endless()])).await;
    let (one, two) = (inside.start(json!({})).await, inside.start(json!({})).await);
    inside.put("/v1/line", json!({"state": "held"})).await;
    assert!(one.try_outcome().is_none(), "holding alone stops nothing");
    let (status, _) = inside.post(&format!("/v1/runs/{}/cancel", one.id()), json!({"wait": true})).await;
    assert_eq!(status, StatusCode::OK);
    let (status, told) = inside.post("/v1/cancel", json!({"all": true, "wait": true})).await;
    assert_eq!((status, told["cancelled"].as_u64()), (StatusCode::OK, Some(1)));
    assert_eq!(reason(&two).await, "requested");
}

#[tokio::test]
async fn contradictory_fields_are_refused_and_change_nothing() {
    let inside = Inside::new(agent([])).await;
    for wrong in [
        json!({}),
        json!({"state": "closed"}),
        json!({"state": "held", "app": "a", "user": "u"}),
        json!({"state": "held", "wait": true}),
        json!({"state": "held", "force": "now"}),
        json!({"state": "open", "cancel": true}),
        json!({"state": "open", "wait": true}),
        json!({"state": "open", "reason": "done"}),
        json!({"state": "open", "force": "now"}),
        json!({"state": "held", "until": "noon"}),
        json!({"state": "held", "reason": "x".repeat(3000)}),
    ] {
        assert_eq!(inside.put("/v1/line", wrong.clone()).await.0, StatusCode::UNPROCESSABLE_ENTITY, "{wrong}");
    }
    for id in ["", "a/b\u{0}", &"x".repeat(10_000)] {
        let (status, problem) = inside.put("/v1/line", json!({"state": "held", "app": id})).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{problem}");
    }
    assert_eq!(inside.get("/v1/line").await.1, json!({"state": "open", "holds": []}));
}

/// Checks P10: what was acknowledged is recorded, and the response says what is not recorded.
#[tokio::test(start_paused = true)]
async fn a_hold_that_cannot_be_written_is_in_force_and_says_what_it_stopped() {
    let journal = TestJournal::new(MemoryJournal::new(), None);
    let inside = Inside::build(Arc::new(journal.clone()), Options::default(), agent([endless()])).await;
    let run = inside.start(json!({})).await;
    inside.feed(run.id().as_str(), None).await.until_type("delta").await;
    journal.fail(JournalError::Storage("disk full".to_owned()));
    let (status, problem) = inside.put("/v1/line", json!({"state": "held", "cancel": true, "wait": true})).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let told = ["held", "pulled", "recorded"].map(|field| problem[field].as_bool());
    assert_eq!(told, [Some(true), Some(true), Some(false)], "{problem}");
    assert!(run.cord().is_pulled());
    assert_eq!(create(&inside, json!({})).await.1["type"], "urn:andon:line-held");
}

/// Checks P10.
#[tokio::test(start_paused = true)]
async fn opening_is_answered_when_it_is_on_record_however_often_it_is_asked_for() {
    let journal = TestJournal::new(MemoryJournal::new(), None);
    let inside = Inside::build(Arc::new(journal.clone()), Options::default(), agent([])).await;
    inside.put("/v1/line", json!({"state": "held"})).await;
    journal.fail(JournalError::Storage("disk full".to_owned()));
    for _ in 0..2 {
        let (status, problem) = inside.put("/v1/line", json!({"state": "open"})).await;
        assert_eq!(
            (status, problem["recorded"].as_bool()),
            (StatusCode::SERVICE_UNAVAILABLE, Some(false)),
            "{problem}"
        );
    }
    journal.heal();
    assert_eq!(inside.put("/v1/line", json!({"state": "open"})).await.0, StatusCode::OK);
    let again = Inside::build(Arc::new(journal.durable()), Options::default(), agent([])).await;
    assert_eq!(again.get("/v1/line").await.1["holds"], json!([]));
}

#[tokio::test]
async fn a_hold_that_cannot_be_read_keeps_the_server_from_starting_and_is_named() {
    let journal = MemoryJournal::new();
    journal.keep("line", "user/eve", json!({"by": 7})).await.unwrap();
    let runtime = Runtime::builder().journal(Arc::new(journal)).build();
    let error = Server::new(&runtime, Options::default()).await.unwrap_err().to_string();
    assert!(["user/eve", "remove"].iter().all(|word| error.contains(word)), "{error}");
}
