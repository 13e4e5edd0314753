//! The board: every run that one may see, live.

use std::collections::BTreeMap;
use std::time::Duration;

use andon::Run;
use andon_testkit::Act;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::house::{agent, endless};
use crate::inside::{Frames, Inside};

/// A reader of the board, and what it knows.
struct Reader {
    frames: Frames,
    said: std::collections::VecDeque<Value>,
    rows: BTreeMap<u64, Value>,
}

impl Reader {
    async fn open(inside: &Inside) -> Self {
        let response = inside.send(Method::GET, "/v1/board", None, None).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let frames = Frames { body: response.into_body() };
        Self { frames, said: std::collections::VecDeque::new(), rows: BTreeMap::new() }
    }

    /// One that has read the beginning.
    async fn ready(inside: &Inside) -> Self {
        let mut reader = Self::open(inside).await;
        reader.until("ready").await;
        reader
    }

    /// The next message; nothing at the end.
    async fn next(&mut self) -> Option<Value> {
        while self.said.is_empty() {
            let frame = self.frames.frame().await?;
            let text = std::str::from_utf8(&frame).unwrap();
            assert!(text.ends_with("\n\n"), "a message is written as a whole");
            let data = text.split("\n\n").filter_map(|block| block.strip_prefix("data: "));
            self.said.extend(data.map(|data| serde_json::from_str::<Value>(data).unwrap()));
        }
        let said = self.said.pop_front()?;
        match said["type"].as_str().unwrap() {
            "board" => self.rows.clear(),
            "runs" => {
                let rows = said["runs"].as_array().unwrap();
                assert!(!rows.is_empty() && rows.len() <= 200, "{} rows", rows.len());
                self.rows.extend(rows.iter().map(|row| (row["n"].as_u64().unwrap(), row.clone())));
            }
            "gone" => {
                said["rows"].as_array().unwrap().iter().for_each(|n| drop(self.rows.remove(&n.as_u64().unwrap())))
            }
            _ => {}
        }
        Some(said)
    }

    async fn until(&mut self, kind: &str) -> Value {
        loop {
            let said = self.next().await.expect("the board ended too early");
            if said["type"] == kind {
                return said;
            }
        }
    }

    /// Reads until the one row that there is satisfies something.
    async fn until_row(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            if let Some(row) = self.rows.values().find(|row| is_it(row)) {
                return row.clone();
            }
            self.next().await.expect("the board ended too early");
        }
    }

    async fn until_state(&mut self, state: &str, phase: &str) -> Value {
        self.until_row(|row| row["state"] == state && row["phase"] == phase).await
    }
}

async fn shop(answers: impl IntoIterator<Item = Vec<Act>>) -> Inside {
    Inside::new(agent(answers)).await
}

/// Waits until a run has settled.
async fn settled(run: &Run) {
    tokio::time::timeout(Duration::from_secs(3600), run.outcome()).await.expect("the run does not settle");
}

#[tokio::test(start_paused = true)]
async fn a_row_follows_its_run_from_its_beginning_to_its_end() {
    let inside = shop([endless()]).await;
    let mut reader = Reader::ready(&inside).await;
    let run = inside.start(json!({"session": "s", "user": "ada"})).await;
    let row = reader.until_state("running", "model").await;
    let accepted = run.records()[0].at.wall.to_string();
    let zero = json!({"value": 0, "provenance": "reported", "low": 0, "high": 0});
    let expected = json!({
        "n": row["n"], "run_id": run.id(), "app": "shop", "user": "ada", "session": "s", "state": "running",
        "phase": "model", "accepted_at": accepted, "title": "hello", "model": row["model"], "pieces": 0, "open": true,
        "tokens": {"input": zero, "output": zero},
    });
    assert_eq!(row, expected);
    assert!(row["model"].is_string());
    let second = reader.until("second").await;
    assert_eq!((&second["live"], &second["begun"], &second["settled"]), (&json!(1), &json!(1), &json!(0)));
    assert_eq!(second["pieces"], json!([[row["n"], 1]]));

    inside.post(&format!("/v1/runs/{}/cancel", run.id()), json!({})).await;
    settled(&run).await;
    let row = reader.until_row(|row| row["state"] == "settled").await;
    let receipt = serde_json::to_value(run.receipt().unwrap()).unwrap();
    assert_eq!(row["outcome"], json!({"kind": "cancelled", "reason": "requested"}));
    assert_eq!((&row["phase"], &row["open"]), (&Value::Null, &Value::Null));
    assert_eq!((&row["settled_at"], &row["pieces"]), (&receipt["settled_at"], &json!(1)));
    assert_eq!(row["took_us"], receipt["took"]["settled_us"]);
    assert_eq!(row["tokens"]["output"], receipt["usage"]["billed"]["output"]);
    let cancel =
        json!({"requested_at": receipt["requested_at"], "by": "local", "reason": "requested", "force": "graceful"});
    assert_eq!(row["cancel"], cancel);
    let second = reader.until("second").await;
    assert_eq!((&second["live"], &second["settled"], &second["cancelled"]), (&json!(0), &json!(1), &json!(1)));
    assert_eq!((&second["median_us"], &second["slowest_us"]), (&row["took_us"], &row["took_us"]));
}
