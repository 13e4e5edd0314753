//! What the board's rows say about pieces and money.

use andon_runtime::{Figure, Piece, Usage};
use andon_server::{ModelPrice, Prices};

use crate::board_reader::{Reader, calls, settled, shop};
use crate::common::*;

#[tokio::test(start_paused = true)]
async fn a_row_says_how_many_pieces_were_accepted_also_if_nobody_looked_meanwhile() {
    let inside = shop([]).await;
    let answers = ["One.", "Two."].map(|text| vec![Act::text(text), Act::text("More."), Act::usage(1, 2), Act::end()]);
    let talks = Agent::builder().name("talks").model(ScriptedModel::new(answers)).runtime(&inside.runtime);
    let talks = talks.build().unwrap();
    let unseen = talks.start("Go.").unwrap();
    settled(&unseen).await;
    let mut reader = Reader::ready(&inside).await;
    let row = reader.until_row(|row| row["state"] == "settled").await;
    assert_eq!((&row["run_id"], &row["pieces"]), (&json!(unseen.id()), &json!(unseen.passed().pieces)));
    assert!(unseen.passed().pieces >= 2);
    let seen = talks.start("Go on.").unwrap();
    settled(&seen).await;
    let row = reader.until_row(|row| row["run_id"] == json!(seen.id()) && row["state"] == "settled").await;
    assert_eq!(row["pieces"], json!(seen.passed().pieces));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_an_earlier_process_left_queued_counts_all_of_its_pieces() {
    let journal = TestJournal::new(MemoryJournal::new(), None);
    {
        let shop = agent([calls(&[("c1", "pay")])]).tool(quick("pay", &ToolLog::new()).needs_approval());
        let before = Inside::build(Arc::new(journal.clone()), Options::default(), shop).await;
        let mut reader = Reader::ready(&before).await;
        for _ in 0..2 {
            before.start(json!({"session": "s", "when_busy": "queue"})).await;
        }
        reader.until_state("waiting", "waiting").await;
        reader.until_state("queued", "queued").await;
        journal.crash();
    }
    let answers = [vec![Act::text("Paid."), Act::end()], vec![Act::text("Done."), Act::end()]];
    let shop = agent(answers).tool(quick("pay", &ToolLog::new()).needs_approval());
    let inside = Inside::build(Arc::new(journal.durable()), Options::default(), shop).await;
    let mut reader = Reader::ready(&inside).await;
    let (waits, queued) =
        (reader.until_state("waiting", "waiting").await, reader.until_state("queued", "queued").await);
    assert_eq!((waits.get("pieces"), &queued["pieces"]), (None, &json!(0)));
    let path = format!("/v1/runs/{}/cancel", waits["run_id"].as_str().unwrap());
    inside.post(&path, json!({})).await;
    let row = reader.until_row(|row| row["n"] == queued["n"] && row["state"] == "settled").await;
    assert!(row["pieces"].as_u64() >= Some(1), "{row}");
    let row = reader.until_row(|row| row["n"] == waits["n"] && row["state"] == "settled").await;
    assert_eq!(row.get("pieces"), None);
}

#[tokio::test(start_paused = true)]
async fn a_row_says_what_it_costs_where_there_are_prices() {
    let price = |text: &str| text.parse().unwrap();
    let scripted = ModelPrice::new(price("3"), price("0.3"), price("3.75"), price("15"));
    let prices = Prices::new("USD").unwrap().with("scripted", scripted).unwrap();
    let options = Options::new().prices(prices);
    let (input, output) = (Figure::reported(1_000), Figure::reported(200));
    let used = Act::Piece(Piece::Usage(Box::new(Usage::NONE.input(input).output(output))));
    let answer = vec![Act::text("Hi."), used, Act::end()];
    let shop = agent([answer, endless()]);
    let inside = Inside::build(Arc::new(MemoryJournal::new()), options, shop).await;
    let mut reader = Reader::ready(&inside).await;
    let run = inside.start(json!({})).await;
    let row = reader.until_row(|row| row["state"] == "settled").await;
    assert_eq!(
        row["cost"],
        json!({"currency": "USD", "value": 0.006, "provenance": "reported", "low": 0.006, "high": 0.006})
    );
    let (_, receipt) = inside.get(&format!("/v1/runs/{}/receipt", run.id())).await;
    assert_eq!(row["cost"], receipt["cost"]);
    let run = inside.start(json!({"session": "open"})).await;
    let row = reader.until_state("running", "model").await;
    let (_, receipt) = inside.get(&format!("/v1/runs/{}/receipt", run.id())).await;
    assert_eq!(
        (&row["cost"]["value"], &row["cost"]["high"]),
        (&json!(null), &json!(null)),
        "it is not known, and not 0"
    );
    assert_eq!((&row["cost"], &row["tokens"]["output"]), (&receipt["cost"], &receipt["usage"]["billed"]["output"]));
}
