//! Stopping runs.

use reqwest::StatusCode;
use serde_json::json;

use crate::house::House;

#[tokio::test]
async fn a_run_is_cancelled_in_mid_answer_and_its_receipt_says_who_and_why() {
    let house = House::silent().await;
    let run = house.start(json!({})).await;
    let mut feed = house.feed(&run, None).await;
    feed.until_type("delta").await;
    let (status, reply) = house.post(&format!("/v1/runs/{run}/cancel"), json!({"note": "stop button"})).await;
    assert_eq!((status, reply["reply"].as_str()), (StatusCode::ACCEPTED, Some("accepted")), "{reply}");
    let end = feed.until_type("run_settled").await;
    assert_eq!(end.json["outcome"]["kind"], "cancelled");
    let (_, receipt) = house.get(&format!("/v1/runs/{run}/receipt")).await;
    let told =
        ["reason", "by", "note", "force", "cut_in"].map(|field| receipt[field].as_str().unwrap_or("?").to_owned());
    assert_eq!(told, ["requested", "local", "stop button", "graceful", "model"]);
    let (status, late) = house.post(&format!("/v1/runs/{run}/cancel"), json!({})).await;
    assert_eq!((status, late["reply"].as_str()), (StatusCode::OK, Some("too_late")));
}
