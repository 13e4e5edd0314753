//! Who sees what on the board.

use std::time::Duration;

use andon_runtime::core::time::Wall;
use axum::body::Body;
use axum::http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::table::{RUNS, World, raw};

/// The most messages that a test reads, so that one whose message never comes fails.
const MOST: usize = 1_000;

/// A reader of the board, and everything that it was sent.
struct Reader {
    body: Body,
    told: Vec<Value>,
}

impl Reader {
    async fn open(world: &World, key: &str) -> Self {
        let response = raw(&world.router, Some(key), &Method::GET, "/v1/board", None).await;
        assert_eq!(response.status(), StatusCode::OK);
        Self { body: response.into_body(), told: Vec::new() }
    }

    /// Reads one frame; returns whether there was one.
    async fn read(&mut self) -> bool {
        let Some(frame) = self.body.frame().await else { return false };
        let frame = frame.unwrap().into_data().unwrap();
        let text = std::str::from_utf8(&frame).unwrap();
        let data = text.split("\n\n").filter_map(|block| block.strip_prefix("data: "));
        self.told.extend(data.map(|data| serde_json::from_str::<Value>(data).unwrap()));
        assert!(self.told.len() <= MOST, "what is waited for does not come: {:?}", self.told.last());
        true
    }

    fn of(&self, kind: &str) -> Vec<&Value> {
        self.told.iter().filter(|said| said["type"] == kind).collect()
    }

    /// Reads on until this many seconds have come.
    async fn seconds(&mut self, number: usize) {
        while self.of("second").len() < number {
            assert!(self.read().await, "the board ended too early");
        }
    }

    /// Reads on until the second that contains this instant has come.
    async fn past(&mut self, instant: Wall) {
        let second = Wall(instant.0 / 1_000_000 * 1_000_000).to_string();
        while self.of("second").last().is_none_or(|last| last["at"].as_str() < Some(&*second)) {
            assert!(self.read().await, "the board ended too early");
        }
    }

    fn rows(&self) -> Vec<&Value> {
        self.of("runs").into_iter().flat_map(|said| said["runs"].as_array().unwrap()).collect()
    }
}

async fn begin(world: &World, key: &str, session: &str) -> String {
    let order = json!({"app": "shop", "input": "Go.", "session": session});
    let (status, told) = world.send(Some(key), &Method::POST, "/v1/runs", Some(&order)).await;
    assert_eq!(status, StatusCode::CREATED, "{told}");
    told["run_id"].as_str().unwrap().to_owned()
}

/// Checks P11.
#[tokio::test(start_paused = true)]
async fn the_board_hides_the_runs_of_other_users_and_tenants() {
    let world = World::new().await;
    let keys = [
        ("ada", world.key("ada", None, &RUNS)),
        ("bob", world.key("bob", None, &RUNS)),
        ("south", world.key("ada", Some("south"), &RUNS)),
        ("all of local", world.key("eve", None, &["run:read", "impersonate"])),
        ("admin", world.server.owner_key().unwrap().show().to_owned()),
    ];
    let [(_, ada), (_, bob), (_, south), ..] = &keys;
    let mut readers = Vec::new();
    for (_, key) in &keys {
        readers.push(Reader::open(&world, key).await);
    }
    for reader in &mut readers {
        reader.seconds(1).await;
    }
    let (first, second) = (world.run.id().to_string(), begin(&world, ada, "s2").await);
    let (bobs, souths) = (begin(&world, bob, "s").await, begin(&world, south, "s").await);
    world.send(Some(bob), &Method::POST, &format!("/v1/runs/{bobs}/cancel"), None).await;
    let settled = Wall(world.runtime.now().wall.0 + 1_000_000);
    for (reader, (who, _)) in readers.iter_mut().zip(&keys) {
        reader.past(settled).await;
        let mut runs: Vec<&str> = reader.rows().iter().map(|row| row["run_id"].as_str().unwrap()).collect();
        runs.sort_unstable();
        runs.dedup();
        let mut expected: Vec<&str> = match *who {
            "ada" => vec![&first, &second],
            "bob" => vec![&bobs],
            "south" => vec![&souths],
            "all of local" => vec![&first, &second, &bobs],
            _ => vec![&first, &second, &bobs, &souths],
        };
        expected.sort_unstable();
        assert_eq!(runs, expected, "{who}");
        let stops: u64 = reader.of("second").iter().map(|second| second["cancelled"].as_u64().unwrap()).sum();
        let live = reader.of("second").last().unwrap()["live"].as_u64().unwrap();
        let may_see = expected.contains(&bobs.as_str());
        assert_eq!((live, stops), (expected.len() as u64 - u64::from(may_see), u64::from(may_see)), "{who}");
        let numbers: Vec<&Value> = reader.rows().iter().map(|row| &row["n"]).collect();
        let pieces = reader.of("second").into_iter().flat_map(|second| second["pieces"].as_array().unwrap());
        assert!(pieces.into_iter().all(|pair| numbers.contains(&&pair[0])), "{who}");
        let foreign = reader.rows().iter().filter(|row| row.get("tenant").is_some()).count();
        assert_eq!(foreign > 0, *who == "admin", "only a caller who sees several tenants gets their names: {who}");
    }
}

/// Checks P11.
#[tokio::test(start_paused = true)]
async fn the_board_hides_holds_on_other_users() {
    let world = World::new().await;
    let (ada, bob) = (world.key("ada", None, &RUNS), world.key("bob", None, &RUNS));
    let admin = world.server.owner_key().unwrap().show();
    let (mut adas, mut bobs) = (Reader::open(&world, &ada).await, Reader::open(&world, &bob).await);
    for reader in [&mut adas, &mut bobs] {
        reader.seconds(1).await;
    }
    let hold = json!({"state": "held", "user": "bob", "reason": "a secret"});
    assert!(world.send(Some(admin), &Method::PUT, "/v1/line", Some(&hold)).await.0.is_success());
    for reader in [&mut adas, &mut bobs] {
        reader.seconds(2).await;
    }
    assert_eq!(adas.of("line"), Vec::<&Value>::new());
    assert_eq!(bobs.of("line").len(), 1);
    assert!(bobs.of("line")[0].to_string().contains("a secret"));
}

#[tokio::test(start_paused = true)]
async fn the_board_ends_within_five_seconds_after_its_key_is_revoked() {
    let world = World::new().await;
    let (kept, revoked) = (world.key("ada", None, &RUNS), world.key("ada", None, &RUNS));
    let (mut kept, mut to_be_revoked) = (Reader::open(&world, &kept).await, Reader::open(&world, &revoked).await);
    for reader in [&mut kept, &mut to_be_revoked] {
        reader.seconds(1).await;
    }
    let began = tokio::time::Instant::now();
    let id = revoked.split('_').nth(1).unwrap();
    drop(world.server.keys().revoke(id, world.runtime.now().wall, world.runtime.shelf()));
    while to_be_revoked.read().await {
        assert!(began.elapsed() <= Duration::from_secs(5), "{:?}", began.elapsed());
    }
    kept.seconds(10).await;
}

#[tokio::test(start_paused = true)]
async fn a_ticket_opens_its_owners_board() {
    let world = World::new().await;
    let bob = world.key("bob", None, &RUNS);
    let (_, told) = world.send(Some(&bob), &Method::POST, "/v1/tickets", None).await;
    let path = format!("/v1/board?ticket={}", told["ticket"].as_str().unwrap());
    let response = raw(&world.router, None, &Method::GET, &path, None).await;
    assert_eq!(response.status(), StatusCode::OK);
    let mut reader = Reader { body: response.into_body(), told: Vec::new() };
    reader.seconds(2).await;
    assert_eq!((reader.rows(), &reader.of("board")[0]["live"]), (Vec::new(), &json!(0)), "ada's run is not bob's");
    let again = raw(&world.router, None, &Method::GET, &path, None).await;
    assert_eq!(again.status(), StatusCode::UNAUTHORIZED);
}
