//! A disk that is full for a while: meanwhile every response is true, and when there is room again everything settles (P6, P7,
//! P10).

use http_body_util::BodyExt as _;

use crate::common::*;

/// A run in the middle of its answer, on a disk that is now full.
async fn on_a_full_disk() -> (Inside, TestJournal, String) {
    let journal = TestJournal::new(MemoryJournal::new(), None);
    let inside = Inside::build(Arc::new(journal.clone()), Options::default(), agent([endless()])).await;
    let run = inside.start(json!({"session": "s"})).await;
    inside.feed(run.id().as_str(), None).await.until_type("delta").await;
    journal.fail(JournalError::Storage("the disk is full".to_owned()));
    run.settled().await.unwrap_err();
    (inside, journal, run.id().to_string())
}

async fn one(inside: &Inside, run: &str) -> Value {
    inside.get(&format!("/v1/runs/{run}")).await.1
}

#[tokio::test(start_paused = true)]
async fn a_run_that_stalls_is_in_progress_and_says_why_wherever_it_is_looked_for() {
    let (inside, journal, run) = on_a_full_disk().await;
    let why = json!("the journal could not be written: the disk is full");
    let told = one(&inside, &run).await;
    assert_eq!((&told["state"], &told["stalled"]), (&json!("running"), &why));
    let listed = inside.get("/v1/runs?settled=false").await.1;
    assert_eq!((&listed["runs"][0]["run_id"], &listed["runs"][0]["stalled"]), (&json!(run), &why));
    let (status, health) = inside.get("/readyz").await;
    assert_eq!(
        (status, &health["status"], &health["detail"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("journal_failing"), &why)
    );
    let figures =
        inside.send(Method::GET, "/metrics", None, None).await.into_body().collect().await.unwrap().to_bytes();
    let figures = String::from_utf8_lossy(&figures);
    for line in ["andon_runs_stalled 1", "andon_journal_failing 1", "andon_runs_in_progress 1"] {
        assert!(figures.lines().any(|told| told == line), "{line} is not in {figures}");
    }

    journal.heal();
    inside.feed(&run, None).await.until_type("run_settled").await;
    let told = one(&inside, &run).await;
    assert_eq!((&told["state"], &told["outcome"]["kind"]), (&json!("settled"), &json!("failed")));
    assert_eq!(inside.get("/readyz").await.0, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn no_cancel_is_told_as_settled_while_its_run_is_not_on_disk() {
    let (inside, journal, run) = on_a_full_disk().await;
    for (path, body) in [
        (format!("/v1/runs/{run}/cancel"), json!({"wait": true})),
        ("/v1/cancel".to_owned(), json!({"all": true, "wait": true})),
        ("/v1/cancel".to_owned(), json!({"app": "shop", "wait": true})),
    ] {
        let (status, told) = inside.post(&path, body).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{path}: {told}");
        assert_eq!((told["pulled"].as_bool(), told["recorded"].as_bool()), (Some(true), Some(false)), "{path}: {told}");
    }
    let (status, told) = inside.put("/v1/line", json!({"state": "held", "cancel": true, "wait": true})).await;
    assert_eq!((status, &told["settled"]), (StatusCode::SERVICE_UNAVAILABLE, &Value::Null), "{told}");

    journal.heal();
    inside.feed(&run, None).await.until_type("run_settled").await;
    let (status, told) = inside.post(&format!("/v1/runs/{run}/cancel"), json!({"wait": true})).await;
    assert_eq!((status, &told["state"]), (StatusCode::OK, &json!("settled")), "{told}");
    assert_eq!(told["outcome"]["kind"], "cancelled", "the first cancel was carried out: {told}");
}

#[tokio::test(start_paused = true)]
async fn a_feed_that_is_opened_while_its_run_stalls_ends_with_the_run_and_not_before() {
    let (inside, journal, run) = on_a_full_disk().await;
    let mut feed = inside.feed(&run, None).await;
    feed.until_type("delta").await;
    let early = tokio::time::timeout(std::time::Duration::from_secs(10), feed.until_type("run_settled")).await;
    assert!(early.is_err(), "nothing has settled");
    journal.heal();
    inside.feed(&run, None).await.until_type("run_settled").await;
}

#[tokio::test(start_paused = true)]
async fn a_prompt_on_a_full_disk_is_refused_and_the_next_one_knows_what_was_said_before() {
    let (inside, journal, run) = on_a_full_disk().await;
    let (status, problem) = inside.post("/v1/runs", order(json!({"session": "s"}))).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{problem}");
    journal.heal();
    inside.feed(&run, None).await.until_type("run_settled").await;
    let next = inside.start(json!({"session": "s"})).await;
    next.outcome().await;
    let history = inside.runtime.history(next.session()).await.unwrap();
    assert!(history.iter().any(|message| message.cut.is_some()), "what was broken off is there: {history:?}");
}
