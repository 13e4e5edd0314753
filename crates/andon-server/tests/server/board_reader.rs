//! A reader of the board, for tests.

use std::collections::{BTreeMap, VecDeque};

use crate::common::*;
use crate::inside::Frames;

/// The most messages that a test reads, so that one whose message never comes fails.
const MOST: usize = 5_000;

/// A reader of the board, and what it knows.
pub(crate) struct Reader {
    frames: Frames,
    said: VecDeque<Value>,
    /// How many messages it has read.
    read: usize,
    pub(crate) rows: BTreeMap<u64, Value>,
}

impl Reader {
    pub(crate) async fn open(inside: &Inside) -> Self {
        let response = inside.send(Method::GET, "/v1/board", None, None).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let frames = Frames { body: response.into_body() };
        Self { frames, said: VecDeque::new(), read: 0, rows: BTreeMap::new() }
    }

    /// A reader that has read the beginning.
    pub(crate) async fn ready(inside: &Inside) -> Self {
        let mut reader = Self::open(inside).await;
        reader.until("ready").await;
        reader
    }

    /// The next message; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        while self.said.is_empty() {
            let frame = self.frames.frame().await?;
            let text = std::str::from_utf8(&frame).unwrap();
            assert!(text.ends_with("\n\n"), "a message is written as a whole");
            let data = text.split("\n\n").filter_map(|block| block.strip_prefix("data: "));
            self.said.extend(data.map(|data| serde_json::from_str::<Value>(data).unwrap()));
        }
        let said = self.said.pop_front()?;
        self.read += 1;
        assert!(self.read <= MOST, "the expected message has not come; the last one was {said}");
        match said["type"].as_str().unwrap() {
            "board" => self.rows.clear(),
            "runs" => {
                let rows = said["runs"].as_array().unwrap();
                assert!(!rows.is_empty() && rows.len() <= 25, "{} rows", rows.len());
                self.rows.extend(rows.iter().map(|row| (row["n"].as_u64().unwrap(), row.clone())));
            }
            "gone" => {
                said["rows"].as_array().unwrap().iter().for_each(|n| drop(self.rows.remove(&n.as_u64().unwrap())))
            }
            _ => {}
        }
        Some(said)
    }

    pub(crate) async fn until(&mut self, kind: &str) -> Value {
        loop {
            let said = self.next().await.expect("the board ended too early");
            if said["type"] == kind {
                return said;
            }
        }
    }

    /// Reads until the only row matches.
    pub(crate) async fn until_row(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            if let Some(row) = self.rows.values().find(|row| is_it(row)) {
                return row.clone();
            }
            self.next().await.expect("the board ended too early");
        }
    }

    pub(crate) async fn until_state(&mut self, state: &str, phase: &str) -> Value {
        self.until_row(|row| row["state"] == state && row["phase"] == phase).await
    }
}

pub(crate) async fn shop(answers: impl IntoIterator<Item = Vec<Act>>) -> Inside {
    Inside::new(agent(answers)).await
}

/// Waits until a run has settled.
pub(crate) async fn settled(run: &Run) {
    tokio::time::timeout(Duration::from_secs(3600), run.outcome()).await.expect("the run does not settle");
}

/// An answer that makes calls, given as an id and a tool each.
pub(crate) fn calls(all: &[(&str, &str)]) -> Vec<Act> {
    let acts = all.iter().enumerate().flat_map(|(index, (id, tool))| Act::call(index, id, tool, "{}"));
    acts.chain([Act::usage(10, 5), Act::tool_use()]).collect()
}
