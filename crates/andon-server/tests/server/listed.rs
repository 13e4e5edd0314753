//! Which runs are listed.

use serde_json::{Value, json};

use crate::house::{agent, endless};
use crate::inside::Inside;

/// The ids of the runs that a question finds.
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
    // Page by page it is the same.
    let (_, page) = inside.get("/v1/runs?text=my&limit=1").await;
    assert_eq!((&page["runs"][0]["run_id"], &page["next"]), (&two, &two));
    assert_eq!(found(&inside, &format!("text=my&before={}", two.as_str().unwrap())).await, [one]);
}
