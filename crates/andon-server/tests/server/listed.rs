//! Which runs are listed.

use andon_store::SqliteJournal;
use futures_util::future::join_all;

use crate::common::*;

/// The ids of the runs that a query finds.
async fn found(inside: &Inside, query: &str) -> Vec<Value> {
    let (status, list) = inside.get(&format!("/v1/runs?{query}")).await;
    assert_eq!(status, 200, "{query} {list}");
    list["runs"].as_array().unwrap().iter().map(|run| run["run_id"].clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn runs_are_found_by_words_and_by_when_they_were_accepted() {
    let inside = Inside::new(agent([endless()])).await;
    let one = inside.start(json!({"session": "monday", "input": "Where is my ÄRMEL?"})).await;
    let two = inside.start(json!({"session": "tuesday", "input": "And my hat?"})).await;
    let (one, two) = (json!(one.id()), json!(two.id()));
    assert_eq!(found(&inside, "text=%C3%A4rmel").await, std::slice::from_ref(&one));
    assert_eq!(found(&inside, "text=TUES").await, std::slice::from_ref(&two));
    assert_eq!(found(&inside, "text=my").await, [two.clone(), one.clone()]);
    assert_eq!(found(&inside, "text=").await, [two.clone(), one.clone()], "no words are looked for");
    assert_eq!(found(&inside, "text=my&session=friday").await, [Value::Null; 0]);
    let (_, first) = inside.get(&format!("/v1/runs/{}", one.as_str().unwrap())).await;
    let accepted = first["accepted_at"].as_str().unwrap();
    assert!(found(&inside, &format!("since={accepted}")).await.contains(&one), "its own instant is in");
    assert!(!found(&inside, &format!("until={accepted}")).await.contains(&one), "its own instant is out");
    assert_eq!(found(&inside, "until=2001-01-01T00:00:00Z").await, [Value::Null; 0]);
    // Page by page the result is the same.
    let (_, page) = inside.get("/v1/runs?text=my&limit=1").await;
    assert_eq!((&page["runs"][0]["run_id"], &page["next"]), (&two, &two));
    assert_eq!(found(&inside, &format!("text=my&before={}", two.as_str().unwrap())).await, [one]);
}

#[tokio::test]
async fn a_list_that_is_asked_for_a_hundred_times_at_once_is_the_same_each_time_and_a_stop_is_taken_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Arc::new(SqliteJournal::open(folder.path().join("andon.db")).unwrap());
    let shop = agent(std::iter::repeat_with(endless).take(30));
    let house = House::build(journal, Options::default(), shop).await;
    let mut runs = Vec::new();
    for _ in 0..30 {
        runs.push(house.start(json!({})).await);
    }
    let list = || house.get("/v1/sessions?limit=20");
    let stop = format!("/v1/runs/{}/cancel", runs[0]);
    let (lists, (status, stopped)) =
        tokio::join!(join_all((0..100).map(|_| list())), house.post(&stop, json!({"wait": true})));
    assert_eq!((status, &stopped["outcome"]["kind"]), (StatusCode::OK, &json!("cancelled")));
    let names = |list: &Value| -> Vec<Value> {
        list["sessions"].as_array().unwrap().iter().map(|session| session["session"].clone()).collect()
    };
    let mut orders: Vec<Vec<Value>> = Vec::new();
    for (status, list) in &lists {
        assert_eq!(*status, StatusCode::OK, "{list}");
        assert_eq!(names(list).len(), 20);
        if !orders.contains(&names(list)) {
            orders.push(names(list));
        }
    }
    // The stop counts as a use of its session, so that session comes first in the lists read after it.
    assert!(orders.len() <= 2, "{orders:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_in_a_list_stands_where_it_stands_alone() {
    let calls = Act::call(0, "c1", "slow", "{}").into_iter().chain([Act::tool_use()]).collect();
    let tool = slow("slow", Duration::from_secs(600), &ToolLog::new()).grace(Duration::from_secs(600));
    let inside = Inside::new(Agent::builder().model(ScriptedModel::new([calls])).tool(tool)).await;
    let run = inside.start(json!({"run_id": "r", "session": "s"})).await;
    inside.start(json!({"run_id": "next", "session": "s", "when_busy": "queue"})).await;
    inside.feed("r", None).await.until_type("tool_started").await;
    let expected = [
        (None, json!(["running", "tools", null])),
        (Some("after_turn"), json!(["cancelling", "tools", "after_turn"])),
        (Some("graceful"), json!(["cancelling", "tools", "graceful"])),
    ];
    let standing = |run: &Value| json!([run["state"], run["phase"], run["force"]]);
    for (force, expected) in expected {
        if let Some(force) = force {
            inside.post("/v1/runs/r/cancel", json!({"force": force})).await;
        }
        let (_, one) = inside.get("/v1/runs/r").await;
        let (_, list) = inside.get("/v1/runs").await;
        let listed = [standing(&list["runs"][0]), standing(&list["runs"][1])];
        assert_eq!((standing(&one), listed), (expected.clone(), [json!(["queued", "queued", null]), expected]));
    }
    inside.post("/v1/runs/r/cancel", json!({"force": "now"})).await;
    run.outcome().await;
    let (_, list) = inside.get("/v1/runs?state=settled").await;
    assert_eq!(standing(list["runs"].as_array().unwrap().last().unwrap()), json!(["settled", null, null]));
}
