//! Stopping runs.

use std::collections::HashMap;

use andon_runtime::{Cancel, Event};
use andon_testkit::tools::cooperative;

use crate::common::*;

#[tokio::test]
async fn a_run_is_cancelled_in_mid_answer_and_its_receipt_says_who_and_why() {
    let (house, run) = House::running().await;
    let mut feed = house.feed_until(&run, "delta").await;
    let (status, reply) = house.post(&format!("/v1/runs/{run}/cancel"), json!({"note": "stop button"})).await;
    assert_eq!((status, reply["reply"].as_str()), (StatusCode::ACCEPTED, Some("accepted")), "{reply}");
    let end = feed.until_type("run_settled").await;
    assert_eq!(end.json["outcome"]["kind"], "cancelled");
    let (_, receipt) = house.get(&format!("/v1/runs/{run}/receipt")).await;
    let told =
        ["reason", "by", "note", "force", "cut_in"].map(|field| receipt[field].as_str().unwrap_or("?").to_owned());
    assert_eq!(told, ["requested", "local", "stop button", "graceful", "model"]);
    let call = &receipt["model_calls"][0];
    let answered = ["model", "answered_by", "request_id"].map(|field| call[field].as_str().unwrap_or("?"));
    assert_eq!(answered, ["scripted", "scripted-1", "req-1"]);
    let (status, late) = house.post(&format!("/v1/runs/{run}/cancel"), json!({})).await;
    assert_eq!((status, late["reply"].as_str()), (StatusCode::OK, Some("too_late")));
    assert_eq!((late["outcome"]["kind"].as_str(), late["state"].as_str()), (Some("cancelled"), Some("settled")));
}

/// An agent whose first answer calls these tools in parallel.
fn calling(tools: &[&str]) -> ScriptedModel {
    let calls = tools.iter().enumerate().flat_map(|(n, tool)| Act::call(n, &format!("c{n}"), tool, "{}"));
    ScriptedModel::new([calls.chain([Act::tool_use()]).collect()])
}

/// A server whose run is in a tool that takes ten minutes to finish, and as long to stop.
async fn in_a_slow_tool() -> (Inside, andon_runtime::Run) {
    let tool = slow("slow", Duration::from_secs(600), &ToolLog::new()).grace(Duration::from_secs(600));
    let inside = Inside::new(Agent::builder().model(calling(&["slow"])).tool(tool)).await;
    let run = inside.start(json!({"run_id": "r"})).await;
    inside.feed("r", None).await.until_type("tool_started").await;
    (inside, run)
}

#[tokio::test(start_paused = true)]
async fn asking_again_changes_nothing_and_asking_harder_hardens() {
    let (inside, run) = in_a_slow_tool().await;
    let asked = [
        ("after_turn", "accepted"),
        ("after_turn", "already_cancelling"),
        ("graceful", "hardened"),
        ("after_turn", "already_cancelling"),
        ("graceful", "already_cancelling"),
        ("now", "hardened"),
    ];
    for (force, reply) in asked {
        let (status, told) = inside.post("/v1/runs/r/cancel", json!({"force": force})).await;
        assert_eq!((status, told["reply"].as_str()), (StatusCode::ACCEPTED, Some(reply)), "{force}: {told}");
    }
    assert_eq!(reason(&run).await, "requested");
    let ends = run.records().iter().filter(|record| matches!(record.event, Event::RunSettled { .. })).count();
    assert_eq!(ends, 1);
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_cancel_says_how_hard_the_run_is_being_stopped() {
    let (inside, run) = in_a_slow_tool().await;
    let asked = [("after_turn", "after_turn"), ("graceful", "graceful"), ("after_turn", "graceful")];
    for (force, in_effect) in asked {
        let (_, told) = inside.post("/v1/runs/r/cancel", json!({"force": force})).await;
        assert_eq!((&told["state"], &told["force"]), (&json!("cancelling"), &json!(in_effect)), "{force}: {told}");
    }
    run.cancel(Cancel::now());
    run.outcome().await;
    let (_, late) = inside.post("/v1/runs/r/cancel", json!({})).await;
    assert_eq!((&late["state"], late.get("force")), (&json!("settled"), None), "{late}");
}

#[tokio::test(start_paused = true)]
async fn a_run_says_how_hard_it_is_being_stopped_only_while_it_is() {
    let (inside, run) = in_a_slow_tool().await;
    for force in [None, Some("after_turn"), Some("graceful")] {
        if let Some(force) = force {
            inside.post("/v1/runs/r/cancel", json!({"force": force})).await;
        }
        let (_, one) = inside.get("/v1/runs/r").await;
        let (_, list) = inside.get("/v1/runs").await;
        let force = force.map(|force| json!(force));
        assert_eq!((one.get("force"), list["runs"][0].get("force")), (force.as_ref(), force.as_ref()), "{one} {list}");
    }
    inside.post("/v1/runs/r/cancel", json!({"force": "now"})).await;
    run.outcome().await;
    let (_, one) = inside.get("/v1/runs/r").await;
    let (_, list) = inside.get("/v1/runs").await;
    assert_eq!((one["state"].as_str(), one.get("force"), list["runs"][0].get("force")), (Some("settled"), None, None));
}

#[tokio::test(start_paused = true)]
async fn the_grace_is_what_the_request_says() {
    let (inside, run) = in_a_slow_tool().await;
    let began = Instant::now();
    inside.post("/v1/runs/r/cancel", json!({"grace_ms": 3000, "reason": "operator"})).await;
    assert_eq!(reason(&run).await, "operator");
    assert_eq!(began.elapsed().as_secs(), 3);
}

#[tokio::test]
async fn what_a_client_may_not_say_is_refused_and_stops_nothing() {
    let (house, run) = House::running().await;
    let long = "x".repeat(2001);
    let reasons = ["shutdown", "client_disconnected", "deadline", "superseded", "because"];
    let wrong = reasons.map(|reason| json!({"reason": reason})).into_iter().chain([
        json!({"force": "hard"}),
        json!({"grace_ms": -1}),
        json!({"note": 1}),
        json!({"note": long}),
        json!({"wait": "yes"}),
        json!({"run": "r"}),
        json!([]),
    ]);
    for body in wrong {
        let (status, problem) = house.post(&format!("/v1/runs/{run}/cancel"), body.clone()).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body}: {problem}");
    }
    assert_eq!(house.state(&run).await, "running");
}

#[tokio::test]
async fn a_hundred_cancels_from_fifty_clients_are_one_end_and_each_is_told() {
    let (house, run) = House::running().await;
    let feed = house.feed_until(&run, "delta").await;
    let path = format!("http://{}/v1/runs/{run}/cancel", house.address());
    let clients = (0..50).map(|_| reqwest::Client::builder().no_proxy().build().unwrap());
    let cancels = clients.flat_map(|client| [client.clone(), client]).map(|client| client.post(&path).send());
    let mut told: HashMap<String, usize> = HashMap::new();
    for answer in futures_util::future::join_all(cancels).await {
        let (status, body) = crate::house::answered(answer.unwrap()).await;
        assert!(status.is_success(), "{body}");
        *told.entry(body["reply"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert_eq!((told["accepted"], told.values().sum::<usize>()), (1, 100), "{told:?}");
    assert!(told.keys().all(|reply| ["accepted", "already_cancelling", "too_late"].contains(&reply.as_str())));
    let ends = feed.rest().await.into_iter().filter(|event| event.json["type"] == "run_settled").count();
    assert_eq!(ends, 1);
}

#[tokio::test]
async fn with_wait_the_answer_is_the_receipt() {
    let (house, run) = House::running().await;
    let (status, told) = house.post(&format!("/v1/runs/{run}/cancel"), json!({"wait": true})).await;
    assert_eq!((status, told["state"].as_str()), (StatusCode::OK, Some("settled")));
    assert_eq!(told["receipt"]["run"].as_str(), Some(run.as_str()));
    let (_, receipt) = house.get(&format!("/v1/runs/{run}/receipt")).await;
    assert_eq!(told["receipt"]["settled_at"], receipt["settled_at"]);
    let (status, late) = house.post(&format!("/v1/runs/{run}/cancel"), json!({"wait": true})).await;
    assert_eq!((status, late["reply"].as_str()), (StatusCode::OK, Some("too_late")));
}

#[tokio::test(start_paused = true)]
async fn wait_does_not_wait_forever() {
    let (inside, run) = in_a_slow_tool().await;
    let began = Instant::now();
    let (status, told) = inside.post("/v1/runs/r/cancel", json!({"wait": true})).await;
    assert_eq!((status, told["reply"].as_str()), (StatusCode::ACCEPTED, Some("accepted")));
    assert_eq!((began.elapsed(), told["receipt"].is_null()), (Options::default().wait, true));
    assert!(run.try_outcome().is_none());
}

fn is_request(event: &Event) -> bool {
    matches!(event, Event::CancelRequested { .. })
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_acknowledged_when_it_is_on_record_and_not_before() {
    let journal = TestJournal::slow(None, Duration::from_millis(400));
    let inside = Inside::build(Arc::new(journal.clone()), Options::default(), agent([endless()])).await;
    let run = inside.start(json!({})).await;
    inside.feed(run.id().as_str(), None).await.until_type("delta").await;
    let began = Instant::now();
    let (status, _) = inside.post(&format!("/v1/runs/{}/cancel", run.id()), json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert!(journal.has(run.id(), is_request));
    assert!(began.elapsed() >= Duration::from_millis(400));
}

#[tokio::test(start_paused = true)]
async fn when_the_disk_stalls_the_cord_is_pulled_and_the_client_is_told_that_it_is_not_on_record() {
    let journal = TestJournal::slow(None, Duration::from_secs(5));
    let pieces = (0..10_000).flat_map(|_| [Act::text("tick "), Act::Pause(Duration::from_millis(100))]);
    let shop = agent([pieces.collect()]);
    let inside = Inside::build(Arc::new(journal.clone()), Options::default(), shop).await;
    let run = inside.start(json!({})).await;
    inside.feed(run.id().as_str(), None).await.until_type("delta").await;
    let began = Instant::now();
    let (status, problem) = inside.post(&format!("/v1/runs/{}/cancel", run.id()), json!({})).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!((problem["pulled"].as_bool(), problem["recorded"].as_bool()), (Some(true), Some(false)), "{problem}");
    assert_eq!(began.elapsed(), Options::default().record_patience);
    assert!(!journal.has(run.id(), is_request));
    // Quiet already: nothing more is accepted, whatever the disk does.
    let passed = format!("{:?}", run.passed());
    assert_eq!(reason(&run).await, "requested");
    assert_eq!(format!("{:?}", run.passed()), passed);
    assert!(journal.has(run.id(), is_request));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cancel_that_races_its_run_always_stops_it_and_never_another() {
    let house = House::build(
        Arc::new(MemoryJournal::new()),
        Options::default(),
        agent(std::iter::repeat_with(endless).take(200)),
    )
    .await;
    let mut early = 0;
    for n in 0..60 {
        let (own, other) = (format!("own-{n}"), format!("other-{n}"));
        let (create, bystander) = (order(json!({"run_id": own})), order(json!({"run_id": other})));
        let path = format!("/v1/runs/{own}/cancel");
        let cancel = async {
            for _ in 0..(n % 7) * 3 {
                tokio::task::yield_now().await;
            }
            house.post(&path, json!({})).await
        };
        let (created, cancelled, _) =
            tokio::join!(house.post("/v1/runs", create), cancel, house.post("/v1/runs", bystander));
        assert_eq!(created.0, StatusCode::CREATED, "{}", created.1);
        early += usize::from(cancelled.0 == StatusCode::NOT_FOUND);
        assert_eq!(house.settled(&own).await["reason"], "requested", "run {n}: {cancelled:?}");
        assert_eq!(house.state(&other).await, "running");
    }
    println!("{early} of 60 cancels came before their run");
}

/// Runs of two users in two sessions, one of them queued.
async fn three_users() -> (House, HashMap<&'static str, String>) {
    let house = House::silent().await;
    let mut runs = HashMap::new();
    for (name, user, session, when_busy) in [
        ("ada", "ada", "s", "reject"),
        ("ada queued", "ada", "s", "queue"),
        ("ada elsewhere", "ada", "t", "reject"),
        ("bob", "bob", "s", "reject"),
    ] {
        let more = json!({"user": user, "session": session, "when_busy": when_busy});
        runs.insert(name, house.start(more).await);
    }
    (house, runs)
}

#[tokio::test]
async fn a_selector_stops_what_it_names_queued_runs_included_and_nothing_else() {
    let cases: [(Value, &[&str]); 5] = [
        (json!({"user": "ada", "session": "s"}), &["ada", "ada queued"]),
        (json!({"session": "s"}), &["ada", "ada queued", "bob"]),
        (json!({"user": "ada"}), &["ada", "ada queued", "ada elsewhere"]),
        (json!({"app": "shop"}), &["ada", "ada queued", "ada elsewhere", "bob"]),
        (json!({"all": true}), &["ada", "ada queued", "ada elsewhere", "bob"]),
    ];
    for (mut selector, meant) in cases {
        let (house, runs) = three_users().await;
        selector["wait"] = true.into();
        let (status, told) = house.post("/v1/cancel", selector.clone()).await;
        assert_eq!((status, told["settled"].as_bool()), (StatusCode::OK, Some(true)), "{selector}: {told}");
        assert_eq!(told["cancelled"], meant.len());
        for (name, run) in &runs {
            let (_, view) = house.get(&format!("/v1/runs/{run}")).await;
            let stopped = view["outcome"]["kind"] == "cancelled";
            assert_eq!(stopped, meant.contains(name), "{selector}: {name}: {view}");
        }
    }
}

#[tokio::test]
async fn a_selector_that_names_nothing_or_too_much_is_refused() {
    let (house, runs) = three_users().await;
    for wrong in [
        json!({}),
        json!({"all": false}),
        json!({"all": true, "user": "ada"}),
        json!({"all": true, "app": "shop"}),
        json!({"user": "ada", "reason": "shutdown"}),
        json!({"user": ["ada"]}),
        json!({"tenant": "x"}),
    ] {
        assert_eq!(house.post("/v1/cancel", wrong.clone()).await.0, StatusCode::UNPROCESSABLE_ENTITY, "{wrong}");
    }
    assert_eq!(house.runtime.in_progress().len(), runs.len());
    let (status, told) = house.post("/v1/cancel", json!({"user": "nobody"})).await;
    assert_eq!((status, told["cancelled"].as_u64()), (StatusCode::OK, Some(0)));
}

#[tokio::test]
async fn a_selector_does_not_touch_runs_that_come_later() {
    let (house, _) = three_users().await;
    assert_eq!(house.post("/v1/cancel", json!({"user": "ada"})).await.1["cancelled"], 3);
    let later = house.start(json!({"user": "ada", "session": "new"})).await;
    house.feed(&later, None).await.until_type("delta").await;
    assert_eq!(house.state(&later).await, "running");
}

#[tokio::test(start_paused = true)]
async fn one_call_is_stopped_alone_and_the_model_is_told() {
    let log = ToolLog::new();
    let model = calling(&["one", "two"]);
    let shop = Agent::builder()
        .model(model.clone())
        .tool(cooperative("one", Duration::from_secs(600), &log))
        .tool(cooperative("two", Duration::from_secs(30), &log));
    let inside = Inside::new(shop).await;
    let run = inside.start(json!({"run_id": "r"})).await;
    let mut feed = inside.feed("r", None).await;
    feed.until_type("tool_started").await;
    until_running(&log, 2).await;
    let (status, problem) = inside.post("/v1/runs/r/calls/c9/cancel", json!({})).await;
    assert_eq!((status, problem["type"].as_str()), (StatusCode::NOT_FOUND, Some("urn:andon:no-such-call")));
    let (status, told) = inside.post("/v1/runs/r/calls/c0/cancel", json!({"note": "not that"})).await;
    assert_eq!(
        (status, told["reply"].as_str(), told["call"].as_str()),
        (StatusCode::ACCEPTED, Some("accepted"), Some("c0"))
    );
    feed.until_type("tool_finished").await;
    let (status, told) = inside.post("/v1/runs/r/calls/c0/cancel", json!({})).await;
    assert_eq!((status, told["reply"].as_str()), (StatusCode::OK, Some("not_running")));
    assert_eq!(run.outcome().await.stop_reason(), "end_turn");
    let results = format!("{:?}", model.requests()[1]);
    assert!(results.contains("whole result") && results.contains("part of the result"), "{results}");
    let (status, told) = inside.post("/v1/runs/r/calls/c1/cancel", json!({})).await;
    assert_eq!((status, told["state"].as_str()), (StatusCode::OK, Some("settled")), "{told}");
}

/// Checks P7: between a call's end and the record of it, the call has ended; it is not unknown.
#[tokio::test(start_paused = true)]
async fn a_call_that_has_just_ended_is_not_running_and_not_unknown() {
    let (log, journal) = (ToolLog::new(), TestJournal::slow(None, Duration::from_secs(5)));
    let shop = Agent::builder().model(calling(&["one"])).tool(cooperative("one", Duration::from_secs(1), &log));
    let inside = Inside::build(Arc::new(journal.clone()), Options::default(), shop).await;
    let run = inside.start(json!({"run_id": "r"})).await;
    inside.feed("r", None).await.until_type("tool_started").await;
    until_running(&log, 1).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    // Its end is being written, which takes a while longer.
    assert!(log.running() == 0 && !journal.has(run.id(), |event| matches!(event, Event::ToolFinished { .. })));
    let (status, told) = inside.post("/v1/runs/r/calls/c0/cancel", json!({})).await;
    assert_eq!((status, told["reply"].as_str()), (StatusCode::OK, Some("not_running")), "{told}");
    let (status, _) = inside.post("/v1/runs/r/calls/c1/cancel", json!({})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(run.outcome().await.stop_reason(), "end_turn");
}
