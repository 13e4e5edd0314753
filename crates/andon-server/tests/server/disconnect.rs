//! What losing its readers does to a run.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::common::*;
use crate::house::Events;
use crate::inside::Frames;

const LONG: Duration = Duration::from_secs(3600);

/// A server whose runs never end, one of its runs, and a reader of that run.
async fn watched(on_disconnect: Value) -> (Inside, Run, Frames) {
    let inside = Inside::new(agent(std::iter::repeat_with(endless).take(10))).await;
    let run = inside.start(json!({"on_disconnect": on_disconnect})).await;
    let mut feed = inside.feed(run.id().as_str(), None).await;
    feed.until_type("delta").await;
    (inside, run, feed)
}

fn is_alive(run: &Run) -> bool {
    run.try_outcome().is_none()
}

#[tokio::test(start_paused = true)]
async fn a_run_continues_without_its_reader_by_default() {
    for on_disconnect in [None, Some("continue")] {
        let inside = Inside::new(agent([endless()])).await;
        let more = on_disconnect.map_or(json!({}), |policy| json!({"on_disconnect": policy}));
        let run = inside.start(more).await;
        let mut feed = inside.feed(run.id().as_str(), None).await;
        feed.until_type("delta").await;
        drop(feed);
        sleep(LONG).await;
        assert!(is_alive(&run));
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_cancelled_when_its_last_reader_goes_and_not_before() {
    let (inside, run, first) = watched(json!("cancel")).await;
    let second = inside.feed(run.id().as_str(), None).await;
    drop(first);
    sleep(LONG).await;
    assert!(is_alive(&run));
    drop(second);
    assert_eq!(reason(&run).await, "client_disconnected");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_never_watched_does_not_stop_for_lack_of_readers() {
    let inside = Inside::new(agent([endless(), endless()])).await;
    for policy in [json!("cancel"), json!({"cancel_after_ms": 1})] {
        let run = inside.start(json!({"on_disconnect": policy})).await;
        sleep(LONG).await;
        assert!(is_alive(&run));
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_returns_in_time_finds_the_run_alive_and_the_time_starts_over() {
    let (inside, run, mut feed) = watched(json!({"cancel_after_ms": 1000})).await;
    for _ in 0..5 {
        drop(feed);
        sleep(Duration::from_millis(900)).await;
        assert!(is_alive(&run));
        feed = inside.feed(run.id().as_str(), None).await;
        sleep(LONG).await;
        assert!(is_alive(&run));
    }
    let left = Instant::now();
    drop(feed);
    assert_eq!(reason(&run).await, "client_disconnected");
    assert_eq!(left.elapsed().as_secs(), 1);
    let receipt = serde_json::to_value(run.receipt().unwrap()).unwrap();
    assert_eq!((receipt["by"].as_str(), receipt["force"].as_str()), (Some("server"), Some("graceful")));
    let late = inside.feed(run.id().as_str(), None).await.rest().await;
    assert_eq!(late.last().unwrap().json["outcome"]["reason"], "client_disconnected");
}

#[tokio::test(start_paused = true)]
async fn the_feed_that_the_start_itself_answers_with_is_a_reader() {
    let inside = Inside::new(agent([endless()])).await;
    let body = order(json!({"run_id": "r", "on_disconnect": "cancel"}));
    let response = inside.send(Method::POST, "/v1/runs", Some("text/event-stream"), Some(body)).await;
    let mut feed = Frames { body: response.into_body() };
    feed.until_type("delta").await;
    let run = inside.run("r").await;
    assert!(is_alive(&run));
    drop(feed);
    assert_eq!(reason(&run).await, "client_disconnected");
}

#[tokio::test(start_paused = true)]
async fn a_queued_run_whose_reader_goes_is_cancelled_and_never_begins() {
    let model = andon_testkit::ScriptedModel::new([endless()]);
    let inside = Inside::new(andon_runtime::Agent::builder().model(model.clone())).await;
    let first = inside.start(json!({"session": "s"})).await;
    let more = json!({"session": "s", "when_busy": "queue", "on_disconnect": "cancel"});
    let queued = inside.start(more).await;
    let mut feed = inside.feed(queued.id().as_str(), None).await;
    feed.until_type("run_accepted").await;
    drop(feed);
    assert_eq!(reason(&queued).await, "client_disconnected");
    assert!(is_alive(&first));
    assert_eq!(model.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_settled_first_is_not_touched() {
    let inside = Inside::new(agent([vec![Act::text("Done."), Act::end()]])).await;
    let run = inside.start(json!({"on_disconnect": "cancel"})).await;
    let mut feed = inside.feed(run.id().as_str(), None).await;
    run.outcome().await;
    feed.frame().await.unwrap();
    drop(feed);
    sleep(LONG).await;
    assert_eq!(reason(&run).await, "none");
    assert_eq!(run.outcome().await.stop_reason(), "end_turn");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_superseded_says_so_also_when_its_reader_leaves_then() {
    let inside = Inside::new(agent([endless()])).await;
    let first = inside.start(json!({"session": "s", "on_disconnect": {"cancel_after_ms": 10}})).await;
    let mut feed = inside.feed(first.id().as_str(), None).await;
    feed.until_type("delta").await;
    let second = inside.start(json!({"session": "s", "when_busy": "supersede"})).await;
    drop(feed);
    assert_eq!((reason(&first).await.as_str(), reason(&second).await.as_str()), ("superseded", "none"));
}

#[tokio::test(start_paused = true)]
async fn a_repeated_or_refused_start_displaces_no_reader() {
    let inside = Inside::new(agent([endless()])).await;
    let body = json!({"run_id": "r", "on_disconnect": "cancel"});
    let run = inside.start(body.clone()).await;
    let mut feed = inside.feed("r", None).await;
    feed.until_type("delta").await;
    let session = run.session().session.to_string();
    assert_eq!(inside.post("/v1/runs", order(body)).await.0, StatusCode::OK);
    let busy = json!({"session": session, "on_disconnect": "cancel"});
    assert_eq!(inside.post("/v1/runs", order(busy)).await.0, StatusCode::CONFLICT);
    drop(feed);
    assert_eq!(reason(&run).await, "client_disconnected");
}

#[tokio::test]
async fn an_invalid_policy_is_refused() {
    let house = House::silent().await;
    for wrong in [
        json!("stop"),
        json!({"cancel_after_ms": -1}),
        json!({"cancel_after_ms": "1"}),
        json!({"cancel_after_ms": 5, "x": 1}),
        json!({}),
        json!(7),
    ] {
        let (status, problem) = house.post("/v1/runs", order(json!({"on_disconnect": wrong}))).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
    }
    assert!(house.runtime.runs().is_empty());
}

/// A reader on its own socket that has seen the run begin.
async fn raw_reader(house: &House, run: &str) -> TcpStream {
    let mut socket = TcpStream::connect(house.address()).await.unwrap();
    let head = format!("GET /v1/runs/{run}/events HTTP/1.1\r\nhost: localhost\r\n\r\n");
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("delta") {
        assert_ne!(socket.read_buf(&mut seen).await.unwrap(), 0);
    }
    socket
}

#[tokio::test]
async fn a_connection_that_is_closed_or_reset_on_a_silent_feed_is_noticed_at_once() {
    // So that it is not the next heartbeat that notices it.
    let options = Options::new().heartbeat(Duration::from_secs(3600));
    let many = std::iter::repeat_with(endless).take(3);
    let house = House::build(Arc::new(MemoryJournal::new()), options, agent(many)).await;
    for how in ["close", "reset", "half"] {
        let run = house.start(json!({"on_disconnect": "cancel"})).await;
        let mut socket = raw_reader(&house, &run).await;
        let kept = match how {
            "close" => {
                drop(socket);
                None
            }
            "half" => {
                socket.shutdown().await.unwrap();
                Some(socket)
            }
            _ => {
                socket.set_zero_linger().unwrap();
                drop(socket);
                None
            }
        };
        assert_eq!(house.settled(&run).await["reason"], "client_disconnected", "{how}");
        drop(kept);
    }
}

#[tokio::test]
async fn a_websocket_is_a_reader_like_any_other() {
    let house = House::silent().await;
    let run = house.start(json!({"on_disconnect": "cancel"})).await;
    let sse = house.feed_until(&run, "delta").await;
    let socket = crate::socket::open(&house, &run, "").await.unwrap();
    drop(sse);
    assert_eq!(house.state(&run).await, "running");
    drop(socket);
    assert_eq!(house.settled(&run).await["reason"], "client_disconnected");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_leaves_before_the_run_is_on_record_counts_as_gone() {
    let journal = TestJournal::slow(None, Duration::from_millis(400));
    let inside = Inside::build(Arc::new(journal), Options::default(), agent([endless()])).await;
    let body = order(json!({"run_id": "r", "on_disconnect": "cancel"}));
    let sent = inside.send(Method::POST, "/v1/runs", Some("text/event-stream"), Some(body));
    assert!(timeout(Duration::from_millis(100), sent).await.is_err(), "it was answered before it was on record");
    sleep(LONG).await;
    assert_eq!(reason(&inside.run("r").await).await, "client_disconnected");
}

#[tokio::test(start_paused = true)]
async fn a_refused_start_is_not_a_reader_of_the_run_that_has_its_id() {
    let inside = Inside::new(agent([endless()])).await;
    let run = inside.start(json!({"run_id": "r", "on_disconnect": "cancel"})).await;
    let other = order(json!({"run_id": "r", "user": "eve"}));
    let response = inside.send(Method::POST, "/v1/runs", Some("text/event-stream"), Some(other)).await;
    assert_eq!(response.status(), StatusCode::CONFLICT);
    drop(response);
    sleep(LONG).await;
    assert!(is_alive(&run));
}

/// A reader of a run's feed, over either transport, that has received something.
enum Reader {
    Sse(Events),
    Socket(Box<Socket>),
}

impl Reader {
    async fn open(house: &House, transport: &str, run: &str, query: &str) -> Self {
        if transport == "websocket" {
            let mut socket = crate::socket::open(house, run, query).await.unwrap();
            crate::socket::until(&mut socket, "delta").await;
            return Self::Socket(Box::new(socket));
        }
        let mut events = house.feed_with(run, query).await;
        events.until_type("delta").await;
        Self::Sse(events)
    }

    /// Disconnects, and waits until the server has noticed.
    async fn leave(self, house: &House, feeds_left: u64) {
        match self {
            Self::Sse(events) => drop(events),
            Self::Socket(socket) => drop(socket),
        }
        house.until_figure("andon_feeds_open", |open| open == feeds_left).await;
    }
}

#[tokio::test]
async fn a_reader_aside_comes_and_goes_and_the_run_neither_stops_nor_is_kept() {
    let house = House::silent().await;
    for (looks_on, counts) in [("sse", "websocket"), ("websocket", "sse"), ("sse", "sse"), ("websocket", "websocket")] {
        let run = house.start(json!({"on_disconnect": "cancel"})).await;
        let aside = Reader::open(&house, looks_on, &run, "?aside=true").await;
        aside.leave(&house, 0).await;
        let counted = Reader::open(&house, counts, &run, "?aside=false").await;
        let aside = Reader::open(&house, looks_on, &run, "?aside=true").await;
        aside.leave(&house, 1).await;
        let kept = Reader::open(&house, looks_on, &run, "?after=1&aside=true").await;
        assert_eq!(house.state(&run).await, "running", "{looks_on} aside of {counts}");
        drop(counted);
        assert_eq!(house.settled(&run).await["reason"], "client_disconnected", "{looks_on} aside of {counts}");
        kept.leave(&house, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_aside_does_not_count_as_somebody_who_came_back() {
    let (inside, run, feed) = watched(json!({"cancel_after_ms": 1000})).await;
    drop(feed);
    let left = Instant::now();
    let mut aside = inside.feed_with(run.id().as_str(), "?aside=true").await;
    aside.until_type("delta").await;
    assert_eq!(reason(&run).await, "client_disconnected");
    assert_eq!(left.elapsed().as_secs(), 1);
    let end = aside.rest().await;
    assert_eq!(end.last().unwrap().json["type"], "run_settled");
}

#[tokio::test]
async fn an_invalid_aside_is_refused() {
    let (house, run) = House::running().await;
    for wrong in ["aside=yes", "aside=1", "aside=", "aside", "beside=true"] {
        let (status, problem) = house.get(&format!("/v1/runs/{run}/events?{wrong}")).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{wrong}: {problem}");
    }
}
