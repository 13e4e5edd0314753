//! Stopping while the disk is slow or broken, and many clients want to stop something.

use andon_runtime::{CallId, Cancel, ReplyKind};
use futures_util::FutureExt as _;
use tokio::time::sleep;

use crate::common::*;

fn disk_full() -> JournalError {
    JournalError::Storage("disk full".to_owned())
}

/// A server on a slow disk, with silent runs.
async fn on_a_slow_disk(delay: Duration, options: Options, runs: &[&str]) -> (Inside, TestJournal, Vec<Run>) {
    let journal = TestJournal::slow(None, delay);
    let answers = std::iter::repeat_with(endless).take(runs.len());
    let inside = Inside::build(Arc::new(journal.clone()), options, agent(answers)).await;
    let mut started = Vec::new();
    for run in runs {
        started.push(inside.start(json!({"run_id": run})).await);
        inside.feed(run, None).await.until_type("delta").await;
    }
    (inside, journal, started)
}

fn type_and_flags(problem: &Value) -> (Option<&str>, Option<bool>, Option<bool>) {
    (problem["type"].as_str(), problem["pulled"].as_bool(), problem["recorded"].as_bool())
}

const PULLED: (Option<&str>, Option<bool>, Option<bool>) = (Some("urn:andon:not-recorded"), Some(true), Some(false));

/// Checks P1: a cancel waits for nothing, and nothing makes the server refuse it.
#[tokio::test(start_paused = true)]
async fn a_cancel_takes_effect_however_many_wait_for_the_disk() {
    let options = Options::new().max_cancelling(2);
    let (inside, _, runs) = on_a_slow_disk(Duration::from_millis(900), options, &["a", "b", "c"]).await;
    let (a, b, c) = tokio::join!(
        inside.post("/v1/runs/a/cancel", json!({})),
        inside.post("/v1/runs/b/cancel", json!({})),
        inside.post("/v1/runs/c/cancel", json!({})),
    );
    assert_eq!((a.0, b.0, c.0), (StatusCode::ACCEPTED, StatusCode::ACCEPTED, StatusCode::SERVICE_UNAVAILABLE));
    assert_eq!(type_and_flags(&c.1), PULLED);
    for run in runs {
        assert_eq!(reason(&run).await, "requested");
    }
}

/// Checks P1.
#[tokio::test(start_paused = true)]
async fn with_no_room_to_wait_for_the_disk_a_selector_and_one_call_are_stopped_too() {
    let options = Options::new().max_cancelling(0);
    let journal = TestJournal::slow(None, Duration::from_millis(100));
    let log = ToolLog::new();
    let calls = Act::call(0, "c0", "slow", "{}").into_iter().chain([Act::tool_use()]).collect();
    let model = ScriptedModel::new([calls, endless()]);
    let shop = Agent::builder().model(model.clone()).tool(slow("slow", Duration::from_secs(600), &log));
    let inside = Inside::build(Arc::new(journal), options, shop).await;
    let run = inside.start(json!({"run_id": "r"})).await;
    inside.feed("r", None).await.until_type("tool_started").await;
    let (status, problem) = inside.post("/v1/runs/r/calls/c0/cancel", json!({})).await;
    assert_eq!((status, type_and_flags(&problem)), (StatusCode::SERVICE_UNAVAILABLE, PULLED));
    inside.feed("r", None).await.until_type("delta").await;
    let (status, problem) = inside.post("/v1/cancel", json!({"all": true})).await;
    assert_eq!((status, type_and_flags(&problem)), (StatusCode::SERVICE_UNAVAILABLE, PULLED));
    assert_eq!((problem["cancelled"].as_u64(), reason(&run).await.as_str()), (Some(1), "requested"));
    // What is recorded without waiting is answered as usual.
    assert_eq!(inside.post("/v1/runs/r/cancel", json!({})).await.0, StatusCode::OK);
}

/// A server whose run `r` is in a tool that takes ten minutes to stop.
async fn in_a_slow_tool(delay: Duration, options: Options) -> Inside {
    let journal = TestJournal::slow(None, delay);
    let calls = Act::call(0, "c0", "slow", "{}").into_iter().chain([Act::tool_use()]).collect();
    let tool = slow("slow", Duration::from_secs(600), &ToolLog::new()).grace(Duration::from_secs(600));
    let shop = Agent::builder().model(ScriptedModel::new([calls])).tool(tool);
    let inside = Inside::build(Arc::new(journal), options, shop).await;
    inside.start(json!({"run_id": "r"})).await;
    inside.feed("r", None).await.until_type("tool_started").await;
    inside
}

#[tokio::test(start_paused = true)]
async fn with_no_room_to_wait_for_the_end_the_answer_does_not_wait_for_it() {
    let delay = Duration::from_millis(200);
    let inside = in_a_slow_tool(delay, Options::new().max_waiting(0)).await;
    let began = Instant::now();
    let (status, told) = inside.post("/v1/runs/r/cancel", json!({"wait": true})).await;
    assert_eq!((status, told["state"].as_str()), (StatusCode::ACCEPTED, Some("cancelling")), "{told}");
    let (status, told) = inside.post("/v1/cancel", json!({"all": true, "wait": true})).await;
    assert_eq!((status, told["settled"].as_bool()), (StatusCode::ACCEPTED, Some(false)), "{told}");
    assert_eq!(began.elapsed(), delay);
}

/// Checks P7: waiting is bounded, by the promised limit.
#[tokio::test(start_paused = true)]
async fn a_selector_that_waits_waits_once_for_the_disk_and_the_end() {
    let inside = in_a_slow_tool(Duration::from_secs(20), Options::default()).await;
    let began = Instant::now();
    let (status, told) = inside.post("/v1/cancel", json!({"all": true, "wait": true})).await;
    assert_eq!((status, told["cancelled"].as_u64()), (StatusCode::ACCEPTED, Some(1)), "{told}");
    assert_eq!(began.elapsed(), Options::default().wait);
}

/// Checks P7: settled means on disk, in every response.
#[tokio::test(start_paused = true)]
async fn every_answer_says_that_a_run_settled_when_its_outcome_was_on_disk() {
    let (inside, _, _) = on_a_slow_disk(Duration::from_millis(300), Options::default(), &["r"]).await;
    sleep(Duration::from_secs(1)).await;
    let (status, told) = inside.post("/v1/runs/r/cancel", json!({"wait": true})).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    let receipt = &told["receipt"];
    let took = json!({"delivered_us": 0, "quiet_us": 0, "settled_us": 300_000});
    assert_eq!((&receipt["took"], &receipt["on_disk"]), (&took, &json!(true)));
    assert_eq!(inside.get("/v1/runs/r/receipt").await.1, *receipt);
    let (run, listed) = (inside.get("/v1/runs/r").await.1, inside.get("/v1/runs").await.1);
    for view in [&run, &listed["runs"][0]] {
        assert_eq!((&view["settled_at"], &view["ended_at"]), (&receipt["settled_at"], &receipt["quiet_at"]), "{view}");
    }
}

/// A run whose end is decided but not recorded.
async fn ending(delay: Duration) -> (Inside, Run) {
    let journal = TestJournal::slow(None, delay);
    let shop = agent([vec![Act::text("Yes."), Act::end()]]);
    let inside = Inside::build(Arc::new(journal), Options::default(), shop).await;
    let run = inside.start(json!({"run_id": "r"})).await;
    let none = CallId::new("none").unwrap();
    while !matches!(run.cancel_call(&none, Cancel::graceful()).kind(), ReplyKind::TooLate { .. }) {
        sleep(Duration::from_millis(5)).await;
    }
    assert!(run.try_outcome().is_none());
    (inside, run)
}

/// Checks P7: `settled` is a proof.
#[tokio::test(start_paused = true)]
async fn a_selector_that_waits_waits_for_runs_that_are_ending_by_themselves() {
    for millis in [700, 5_000] {
        let (inside, run) = ending(Duration::from_millis(millis)).await;
        let (status, told) = inside.post("/v1/cancel", json!({"all": true, "wait": true})).await;
        assert_eq!((status, run.try_outcome().is_some()), (StatusCode::OK, true), "{told}");
        assert_eq!((told["settled"].as_bool(), told["cancelled"].as_u64()), (Some(true), Some(0)), "{told}");
        assert_eq!((told["runs"][0]["reply"].as_str(), reason(&run).await.as_str()), (Some("too_late"), "none"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_is_too_late_is_not_said_to_have_pulled_the_cord() {
    let (inside, run) = ending(Duration::from_secs(5)).await;
    for path in ["/v1/runs/r/cancel", "/v1/runs/r/calls/none/cancel"] {
        let (status, problem) = inside.post(path, json!({})).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(type_and_flags(&problem), (PULLED.0, Some(false), Some(false)), "{path}: {problem}");
    }
    assert_eq!(reason(&run).await, "none");
}

/// A server on which these runs wait for a person, and their app does not exist.
async fn parked(runs: &[&str]) -> (Inside, TestJournal) {
    let journal = Arc::new(MemoryJournal::new());
    let first = Inside::build(journal.clone(), Options::default(), agent([])).await;
    let calls = || Act::call(0, "c0", "pay", "{}").into_iter().chain([Act::tool_use()]).collect();
    let model = ScriptedModel::new(std::iter::repeat_with(calls).take(runs.len()));
    let bank = Agent::builder().name("bank").model(model).tool(quick("pay", &ToolLog::new()).needs_approval());
    first.server.apps().put(bank.runtime(&first.runtime).build().unwrap(), None);
    for run in runs {
        first.start(json!({"run_id": run, "app": "bank"})).await;
        first.feed(run, None).await.until_type("approval_requested").await;
    }
    let journal = TestJournal::new(journal.snapshot(), None);
    let inside = Inside::build(Arc::new(journal.clone()), Options::default(), agent([endless()])).await;
    assert_eq!(inside.runtime.parked().len(), runs.len());
    (inside, journal)
}

#[tokio::test(start_paused = true)]
async fn hanging_up_during_a_selector_still_stops_all_of_it() {
    let (inside, _) = parked(&["a", "b", "c"]).await;
    let hung_up = inside.post("/v1/cancel", json!({"all": true})).now_or_never();
    assert!(hung_up.is_none(), "it was answered at once");
    let all_stopped = async {
        while !inside.runtime.parked().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(60), all_stopped).await.expect("some were left");
}

#[tokio::test(start_paused = true)]
async fn what_was_stopped_before_the_disk_broke_is_told() {
    let (inside, journal) = parked(&["a", "b"]).await;
    let run = inside.start(json!({"run_id": "live"})).await;
    inside.feed("live", None).await.until_type("delta").await;
    journal.fail(disk_full());
    let (status, problem) = inside.post("/v1/cancel", json!({"all": true})).await;
    assert_eq!((status, problem["pulled"].as_bool()), (StatusCode::SERVICE_UNAVAILABLE, Some(true)), "{problem}");
    assert_eq!(problem["cancelled"].as_u64(), Some(1));
    assert!(!problem["detail"].as_str().unwrap().contains("nothing was changed"), "{problem}");
    assert!(run.cord().is_pulled());
}
