//! What runs cost, according to their receipts.

use andon_server::{ModelPrice, Price, Prices};

use crate::common::*;

/// A price list in which everything costs one unit per thousand tokens.
fn prices() -> Prices {
    let price: Price = "1000".parse().unwrap();
    let all = ModelPrice::new(price, price, price, price);
    Prices::new("EUR").unwrap().with("*", all).unwrap()
}

async fn house(prices: Option<Prices>) -> House {
    let answers = [
        vec![Act::text("Done."), Act::usage(1500, 500), Act::end()],
        vec![Act::text("Once upon a time"), Act::Silence],
    ];
    let options = Options::new().prices(prices);
    House::build(Arc::new(MemoryJournal::new()), options, agent(answers)).await
}

#[tokio::test]
async fn a_receipt_tells_what_the_run_and_each_call_cost_and_so_does_a_cancel_that_waits() {
    let house = house(Some(prices())).await;
    let run = house.start(json!({})).await;
    house.settled(&run).await;
    let (_, receipt) = house.get(&format!("/v1/runs/{run}/receipt")).await;
    let two = json!({"currency": "EUR", "value": 2.0, "provenance": "reported", "low": 2.0, "high": 2.0});
    assert_eq!((&receipt["cost"], &receipt["model_calls"][0]["cost"]), (&two, &two));

    let run = house.start(json!({})).await;
    house.feed(&run, None).await.until_type("delta").await;
    let (_, open) = house.get(&format!("/v1/runs/{run}/receipt")).await;
    assert_eq!(open["cost"]["value"], Value::Null, "the usage of an open call is unknown: {open}");
    let (_, told) = house.post(&format!("/v1/runs/{run}/cancel"), json!({"wait": true})).await;
    let (_, receipt) = house.get(&format!("/v1/runs/{run}/receipt")).await;
    assert_eq!(told["receipt"]["cost"], receipt["cost"]);
    assert_eq!((&receipt["cost"]["currency"], &receipt["cost"]["high"]), (&json!("EUR"), &Value::Null), "{receipt}");
}

#[tokio::test]
async fn a_run_costs_what_the_model_costs_that_answered_wherever_its_cost_is_read() {
    let price = |text: &str| {
        let price: Price = text.parse().unwrap();
        ModelPrice::new(price, price, price, price)
    };
    // The model that is asked for is called `scripted`, and `scripted-1` answers.
    let list = Prices::new("EUR").unwrap().with("scripted", price("1000")).unwrap();
    let house = house(Some(list.with("scripted-1", price("2000")).unwrap())).await;
    let run = house.start(json!({})).await;
    house.settled(&run).await;
    let (_, receipt) = house.get(&format!("/v1/runs/{run}/receipt")).await;
    let (_, runs) = house.get("/v1/runs").await;
    let four = json!({"currency": "EUR", "value": 4.0, "provenance": "reported", "low": 4.0, "high": 4.0});
    assert_eq!((&receipt["cost"], &receipt["model_calls"][0]["cost"]), (&four, &four));
    assert_eq!(runs["runs"][0]["cost"], four, "{runs}");
}

#[tokio::test]
async fn without_prices_a_receipt_is_what_it_was() {
    let house = house(None).await;
    let run = house.start(json!({})).await;
    let plain = house.settled(&run).await;
    let (_, receipt) = house.get(&format!("/v1/runs/{run}/receipt")).await;
    assert_eq!(receipt, plain);
}
