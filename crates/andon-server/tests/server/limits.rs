//! What a client may send and hold, and for how long.

use andon_server::raise_file_limit;
use futures_util::StreamExt as _;
use tokio::time::interval;

use crate::common::*;
use crate::house::{Event, parse};
use crate::raw::{PATIENCE, Raw};

const CREATE: &str = r#"{"app": "shop", "input": "hello"}"#;
const GET_RUNS: &str = "GET /v1/runs HTTP/1.1\r\nhost: localhost\r\n\r\n";
const POST_RUNS: &str = "POST /v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
const SHORT: Duration = Duration::from_millis(300);

async fn house(options: Options) -> House {
    let answers = std::iter::repeat_with(endless).take(100);
    House::build(Arc::new(MemoryJournal::new()), options, agent(answers)).await
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused_and_the_connection_closed() {
    let house = house(Options::default()).await;
    let long = "x".repeat(17 << 10);
    let many: String = (0..120).map(|n| format!("x-{n}: {n}\r\n")).collect();
    for head in [
        format!("GET /v1/runs HTTP/1.1\r\nhost: localhost\r\nx-long: {long}\r\n\r\n"),
        format!("GET /v1/runs?app={long} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        format!("GET /v1/runs HTTP/1.1\r\nhost: localhost\r\n{many}\r\n"),
    ] {
        let mut raw = house.sent(head).await;
        let answer = raw.answer().await.unwrap();
        assert_eq!(answer.status, 431);
        assert_eq!(answer.header("connection"), Some("close"));
        assert_eq!(raw.closed().await, b"");
    }
    assert_eq!(house.get("/v1/runs").await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_small_limit_for_heads_is_kept_and_one_below_what_is_possible_does_no_harm() {
    let house = house(Options::new().max_head(512)).await;
    let answer =
        house.raw(format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(600))).await.unwrap();
    assert_eq!(answer.status, 431);
    assert_eq!(house.raw(GET_RUNS).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_head_that_never_ends_is_closed_in_time_however_it_drips() {
    let house = house(Options::new().head_time(SHORT)).await;
    let begun = Instant::now();
    let half = house.sent("GET /v1/runs HTTP/1.1\r\nhost: loc").await;
    assert_eq!(half.closed().await, b"");
    assert!(begun.elapsed() >= SHORT);
    // It sends nothing at all.
    assert_eq!(Raw::open(house.address()).await.closed().await, b"");
    let mut drip = house.sent("GET /v1/runs HTTP/1.1\r\nx: ").await;
    let mut beat = interval(Duration::from_millis(20));
    let dripping = async {
        while drip.send("x").await {
            beat.tick().await;
        }
    };
    timeout(PATIENCE, dripping).await.expect("it drips forever");
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let house = house(Options::new().head_time(SHORT)).await;
    let mut raw = Raw::open(house.address()).await;
    for _ in 0..2 {
        raw.send(GET_RUNS).await;
        assert_eq!(raw.answer().await.unwrap().status, 200);
    }
    assert_eq!(raw.closed().await, b"");
}

#[tokio::test]
async fn a_body_that_never_arrives_times_out() {
    let house = house(Options::new().body_idle(SHORT)).await;
    for begun in ["content-length: 100\r\n\r\n{\"app\"", "transfer-encoding: chunked\r\n\r\n5\r\n{\"app\r\n"] {
        let mut raw = house.sent(format!("{POST_RUNS}{begun}")).await;
        let answer = raw.answer().await.unwrap();
        assert_eq!((answer.status, answer.problem()), (408, "body-timeout"), "{answer:?}");
        assert_eq!(answer.header("connection"), Some("close"));
        assert_eq!(raw.closed().await, b"");
    }
    assert!(house.runtime.runs().is_empty());
}

#[tokio::test]
async fn a_body_that_drips_forever_times_out_too() {
    let options = Options::new().body_idle(SHORT).body_time(Duration::from_millis(600));
    let house = house(options).await;
    let mut raw = house.sent(format!("{POST_RUNS}transfer-encoding: chunked\r\n\r\n")).await;
    let mut beat = interval(Duration::from_millis(20));
    let dripping = async {
        while raw.send("1\r\n \r\n").await {
            beat.tick().await;
        }
    };
    timeout(PATIENCE, dripping).await.expect("it drips forever");
    assert!(house.runtime.runs().is_empty());
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let house = house(Options::default()).await;
    // The length is declared, and the client is not told to continue.
    let mut raw = house.sent(format!("{POST_RUNS}content-length: 9999999999\r\nexpect: 100-continue\r\n\r\n")).await;
    let answer = raw.answer().await.unwrap();
    assert_eq!((answer.status, answer.problem()), (413, "body-too-large"));
    assert_eq!(raw.closed().await, b"");
    // The length is declared, the client sends all the same, and it can read the response.
    let mut raw = house.sent(format!("{POST_RUNS}content-length: 9999999999\r\n\r\n")).await;
    raw.send(vec![b' '; 64 << 10]).await;
    assert_eq!(raw.answer().await.unwrap().problem(), "body-too-large");
    for _ in 0..8 {
        assert!(raw.send(vec![b' '; 64 << 10]).await, "it was cut off in the middle of a word");
        tokio::task::yield_now().await;
    }
    // The length is not declared.
    let mut raw = house.sent(format!("{POST_RUNS}transfer-encoding: chunked\r\n\r\n")).await;
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(64 << 10));
    for _ in 0..20 {
        raw.send(&chunk).await;
    }
    let answer = raw.answer().await.unwrap();
    assert_eq!((answer.status, answer.problem()), (413, "body-too-large"));
    assert!(house.runtime.runs().is_empty());
}

#[tokio::test]
async fn when_all_connections_are_taken_the_cord_can_still_be_pulled() {
    let options = Options::new().max_connections(3).reserved_connections(1);
    let house = house(options).await;
    let run = house.start(json!({})).await;
    // The client's own connection is one; these are the others.
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut raw = house.sent(GET_RUNS).await;
        assert_eq!(raw.answer().await.unwrap().status, 200);
        held.push(raw);
    }
    let served = |bytes: String| {
        let house = &house;
        async move {
            // It is closed at once until the connection before it has released its place.
            loop {
                if let Some(answer) = house.raw(&bytes).await {
                    return answer;
                }
            }
        }
    };
    for refused in [GET_RUNS.to_owned(), format!("{POST_RUNS}content-length: {}\r\n\r\n{CREATE}", CREATE.len())] {
        let answer = served(refused).await;
        assert_eq!((answer.status, answer.problem()), (503, "too-many-connections"));
        assert_eq!(answer.header("connection"), Some("close"));
    }
    for vital in ["/healthz", "/readyz", "/v1/line"] {
        let answer = served(format!("GET {vital} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;
        assert_eq!((answer.status, answer.header("connection")), (200, Some("close")), "{vital}");
    }
    let evil = served("GET /healthz HTTP/1.1\r\nhost: evil.example\r\n\r\n".to_owned()).await;
    assert_eq!((evil.status, evil.problem()), (403, "unknown-host"));
    let cancelled = served(format!("POST /v1/runs/{run}/cancel HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;
    assert_eq!((cancelled.status, cancelled.body["reply"].as_str()), (202, Some("accepted")));
    assert_eq!(house.settled(&run).await["reason"], "requested");
    // A client that disconnects makes room.
    drop(held);
    house.until_figure("andon_connections_open", |open| open == 1).await;
    assert_eq!(house.raw(GET_RUNS).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_reserved_connection_has_a_short_timeout() {
    // On other connections a head may take an hour.
    let hour = Duration::from_secs(3_600);
    let options = Options::new().max_connections(0).reserved_connections(1).head_time(hour);
    let house = house(options).await;
    let sits = Raw::open(house.address()).await;
    let late = Raw::open(house.address()).await;
    assert_eq!(late.closed().await, b"");
    assert_eq!(sits.closed().await, b"");
    // Nor does the server wait long for a client that begins a vital request and does not go on.
    let answer = loop {
        let half = "POST /v1/cancel HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{";
        if let Some(answer) = house.raw(half).await {
            break answer;
        }
    };
    assert_eq!((answer.status, answer.problem()), (408, "body-timeout"));
}

/// Checks P1: a client that waits for a run to settle does not keep others from the cord.
#[tokio::test]
async fn nobody_waits_for_a_run_to_settle_on_a_reserved_connection() {
    let options = Options::new().max_connections(1).reserved_connections(1).wait(Duration::from_secs(3600));
    let log = ToolLog::new();
    let calls = Act::call(0, "c0", "slow", "{}").into_iter().chain([Act::tool_use()]).collect();
    let tool = slow("slow", Duration::from_secs(600), &log).grace(Duration::from_secs(600));
    let shop = Agent::builder().model(ScriptedModel::new([calls])).tool(tool);
    let house = House::build(Arc::new(MemoryJournal::new()), options, shop).await;
    let mut raw = house.sent(format!("{POST_RUNS}content-length: {}\r\n\r\n{CREATE}", CREATE.len())).await;
    let run = raw.answer().await.unwrap().body["run_id"].as_str().unwrap().to_owned();
    until_running(&log, 1).await;
    for (line, body) in [
        (format!("POST /v1/runs/{run}/cancel"), r#"{"wait": true}"#),
        ("POST /v1/cancel".to_owned(), r#"{"all": true, "wait": true}"#),
        ("PUT /v1/line".to_owned(), r#"{"state": "held", "cancel": true, "wait": true}"#),
    ] {
        let answer = loop {
            let head = "host: localhost\r\ncontent-type: application/json";
            let request = format!("{line} HTTP/1.1\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            // It is closed at once until the connection before it has released its place.
            if let Some(answer) = house.raw(request).await {
                break answer;
            }
        };
        assert_eq!(answer.status, 202, "{line}: {}", answer.body);
    }
}

#[tokio::test]
async fn settings_that_are_as_large_as_can_be_do_no_harm() {
    let (most, forever) = (usize::MAX, Duration::MAX);
    let options = Options::new()
        .max_body(most)
        .max_bodies(most)
        .max_vital_bodies(most)
        .max_frame(most)
        .max_depth(most)
        .max_runs(most)
        .max_feeds(most)
        .max_connections(most)
        .reserved_connections(most)
        .max_creating(most)
        .max_reading(most)
        .max_answers(most)
        .max_cancelling(most)
        .max_waiting(most)
        .max_remembered(most)
        .frames_a_second(u32::MAX)
        .head_time(forever)
        .body_idle(forever)
        .body_time(forever)
        .stalled(forever)
        .heartbeat(forever)
        .record_patience(forever)
        .wait(forever)
        .remember(forever)
        .drain(forever)
        .settle(forever);
    let house = house(options).await;
    let (run, other) = (house.start(json!({})).await, house.start(json!({})).await);
    house.feed(&run, None).await.until_type("delta").await;
    let mut socket = crate::socket::open(&house, &run, "").await.unwrap();
    assert!(socket.next().await.unwrap().is_ok());
    let mut slow = house.sent(format!("{POST_RUNS}content-length: {}\r\n\r\n", CREATE.len())).await;
    tokio::task::yield_now().await;
    slow.send(CREATE).await;
    assert_eq!(slow.answer().await.unwrap().status, 201);
    assert_eq!(house.post("/v1/runs/nobody/cancel", json!({})).await.0, StatusCode::NOT_FOUND);
    assert_eq!(house.post(&format!("/v1/runs/{run}/cancel"), json!({"wait": true})).await.0, StatusCode::OK);
    let (status, line) = house.put("/v1/line", json!({"state": "held", "cancel": true, "wait": true})).await;
    assert_eq!((status, line["stopped"]["cancelled"].as_u64()), (StatusCode::OK, Some(2)), "{line}");
    assert_eq!(house.settled(&other).await["reason"], "operator");
    timeout(PATIENCE, house.serving.shut_down()).await.expect("it does not end");
}

/// Begins a thousand requests and finishes none.
async fn a_thousand_slow_heads(house: &House) -> Vec<Raw> {
    raise_file_limit();
    let mut slow = Vec::new();
    for _ in 0..1_000 {
        let raw = house.sent("GET /v1/runs HTTP/1.1\r\nhost: loc").await;
        slow.push(raw);
    }
    slow
}

#[tokio::test]
async fn a_thousand_slow_heads_keep_nobody_else_waiting() {
    // None is closed to make room: all of them stay open until the test ends.
    let house = house(Options::new().head_time(Duration::from_secs(3_600))).await;
    let slow = a_thousand_slow_heads(&house).await;
    house.until_figure("andon_connections_open", |open| open > slow.len() as u64).await;
    let run = house.start(json!({})).await;
    let (status, _) = house.post(&format!("/v1/runs/{run}/cancel"), json!({"wait": true})).await;
    assert_eq!(status, StatusCode::OK);
    assert!(house.figure("andon_connections_open").await > slow.len() as u64);
}

#[tokio::test]
async fn a_thousand_slow_heads_are_all_closed_in_the_end() {
    let house = house(Options::new().head_time(SHORT)).await;
    for raw in a_thousand_slow_heads(&house).await {
        assert_eq!(raw.closed().await, b"");
    }
    house.until_figure("andon_connections_open", |open| open <= 1).await;
}

#[tokio::test]
async fn slow_bodies_do_not_use_up_the_slots_for_starting_runs() {
    let house = house(Options::new().max_creating(1)).await;
    let mut dripping = Vec::new();
    for _ in 0..10 {
        let raw = house.sent(format!("{POST_RUNS}content-length: 100\r\n\r\n{{")).await;
        dripping.push(raw);
    }
    house.until_figure("andon_connections_open", |open| open > 10).await;
    let run = house.start(json!({})).await;
    assert_eq!(house.post(&format!("/v1/runs/{run}/cancel"), json!({"wait": true})).await.0, StatusCode::OK);
}

/// Two ways to begin a body of 300 KiB that does not go on: with its length, and without.
const UNFINISHED: [&str; 2] = ["content-length: 307200\r\n\r\n{", "transfer-encoding: chunked\r\n\r\n1\r\n{\r\n"];

#[tokio::test]
async fn no_more_is_read_than_there_is_room_for_and_cancels_have_room_of_their_own() {
    for unfinished in UNFINISHED {
        let (max_body, max_bodies) = (300 << 10, 900 << 10);
        let house = house(Options::new().max_body(max_body).max_bodies(max_bodies)).await;
        let (run, other) = (house.start(json!({})).await, house.start(json!({})).await);
        let mut dripping = Vec::new();
        for _ in 0..3 {
            let raw = house.sent(format!("{POST_RUNS}{unfinished}")).await;
            dripping.push(raw);
        }
        // Once another body is refused, they have taken all the room.
        let refused = async {
            loop {
                let answer = house.ask("POST /v1/runs", &["host: localhost"], "{}").await;
                if answer.status == 503 {
                    return answer;
                }
            }
        };
        let refused = timeout(PATIENCE, refused).await.expect("everything is let in");
        assert_eq!(refused.problem(), "too-many-bodies");
        assert_eq!((refused.header("retry-after"), refused.header("connection")), (Some("1"), Some("close")));
        // A request without a body needs no room, and cancels have their own.
        assert_eq!(house.get("/v1/runs").await.0, StatusCode::OK);
        let (status, _) = house.post(&format!("/v1/runs/{run}/cancel"), json!({"wait": true})).await;
        assert_eq!(status, StatusCode::OK);
        let held = json!({"state": "held", "user": "eve", "cancel": true});
        assert_eq!(house.put("/v1/line", held).await.0, StatusCode::OK);
        assert_eq!(house.post("/v1/cancel", json!({"all": true, "wait": true})).await.1["cancelled"], 1);
        assert_eq!(house.settled(&other).await["reason"], "requested");
        // A client that disconnects makes room.
        drop(dripping);
        let again = async { while house.post("/v1/runs", json!({"app": "shop", "input": "hello"})).await.0 != 201 {} };
        timeout(PATIENCE, again).await.expect("the room is not given back");
    }
}

#[tokio::test]
async fn cancels_have_small_bodies_and_stalled_ones_block_no_others() {
    let house = house(Options::new().max_frame(4 << 10).max_vital_bodies(8 << 10)).await;
    let run = house.start(json!({})).await;
    let large = format!(r#"{{"note": "{}"}}"#, "x".repeat(5 << 10));
    let answer = house.ask(&format!("POST /v1/runs/{run}/cancel"), &["host: localhost"], &large).await;
    assert_eq!((answer.status, answer.problem()), (413, "body-too-large"));
    assert!(answer.body["detail"].as_str().unwrap().contains("4096"), "{answer:?}");
    let mut dripping = Vec::new();
    for _ in 0..20 {
        let mut raw =
            house.sent("POST /v1/cancel HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n").await;
        raw.send(UNFINISHED[1]).await;
        dripping.push(raw);
    }
    house.until_figure("andon_connections_open", |open| open > 20).await;
    assert_eq!(house.post(&format!("/v1/runs/{run}/cancel"), json!({"wait": true})).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_cancel_is_served_while_no_more_runs_are_taken() {
    let house = house(Options::new().max_runs(2).max_runs_of_user(1)).await;
    let run = house.start(json!({})).await;
    let (status, problem) = house.post("/v1/runs", json!({"app": "shop", "input": "more"})).await;
    assert_eq!(
        (status, problem["type"].as_str()),
        (StatusCode::TOO_MANY_REQUESTS, Some("urn:andon:too-many-runs-of-user"))
    );
    house.start(json!({"user": "ada"})).await;
    let (status, problem) = house.post("/v1/runs", json!({"app": "shop", "input": "more", "user": "bob"})).await;
    assert_eq!((status, problem["type"].as_str()), (StatusCode::SERVICE_UNAVAILABLE, Some("urn:andon:too-many-runs")));
    assert_eq!(house.post(&format!("/v1/runs/{run}/cancel"), json!({"wait": true})).await.0, StatusCode::OK);
    house.start(json!({})).await;
}

#[tokio::test]
async fn a_cancel_is_served_while_the_places_of_those_who_start_runs_are_taken() {
    let journal: Arc<dyn Journal> = Arc::new(TestJournal::slow(None, Duration::from_secs(3)));
    let options = Options::new().max_creating(1).record_patience(PATIENCE);
    let house = House::build(journal, options, agent([endless(), endless()])).await;
    let run = house.start(json!({})).await;
    let creating = house.start(json!({}));
    let meanwhile = async {
        while house.runtime.runs().len() < 2 {
            tokio::task::yield_now().await;
        }
        let (status, problem) = house.post("/v1/runs", json!({"app": "shop", "input": "third"})).await;
        assert_eq!(
            (status, problem["type"].as_str()),
            (StatusCode::TOO_MANY_REQUESTS, Some("urn:andon:too-many-requests"))
        );
        let (status, reply) = house.post(&format!("/v1/runs/{run}/cancel"), json!({})).await;
        assert_eq!((status, reply["reply"].as_str()), (StatusCode::ACCEPTED, Some("accepted")), "{reply}");
    };
    tokio::join!(creating, meanwhile);
}

const PIECE: &str = "a piece of an answer that is not very short, so that it has some weight on the wire";
const PIECES: usize = 40_000;

/// The text of all events.
fn text(events: &[Event]) -> String {
    let pieces = events.iter().filter(|event| event.json["type"] == "delta");
    pieces.map(|event| event.json["text"].as_str().unwrap_or_default()).collect()
}

/// The complete events of a response that was cut.
fn events(bytes: &[u8]) -> Vec<Event> {
    let text = String::from_utf8_lossy(bytes);
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    // The response is chunked: each chunk follows a line with its size, and ends in CRLF.
    let mut whole = String::new();
    let mut rest = body;
    while let Some((size, after)) = rest.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size, 16) else { break };
        let Some(chunk) = after.get(..size) else {
            whole.push_str(after);
            break;
        };
        whole.push_str(chunk);
        rest = after.get(size + 2..).unwrap_or("");
    }
    let end = whole.rfind("\n\n").map_or(0, |end| end + 2);
    whole[..end].split_inclusive("\n\n").filter_map(parse).collect()
}

#[tokio::test]
async fn a_reader_that_stalls_is_closed_costs_nobody_anything_and_can_go_on_where_it_was() {
    let flood = vec![Act::Flood(PIECE, PIECES), Act::end()];
    let options = Options::new().stalled(Duration::from_secs(1));
    let house = House::build(Arc::new(MemoryJournal::new()), options, agent([flood])).await;
    let run = house.start(json!({})).await;
    let mut deaf = Raw::narrow(house.address()).await;
    deaf.send(format!("GET /v1/runs/{run}/events HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;
    house.until_figure("andon_feeds_open", |open| open == 1).await;
    let all = house.feed(&run, None).await.rest().await;
    assert_eq!(text(&all).len(), PIECE.len() * PIECES);
    assert_eq!(all.last().unwrap().json["type"], "run_settled");
    // It was closed, and its place is free.
    house.until_figure("andon_feeds_open", |open| open == 0).await;
    let got = deaf.closed().await;
    assert!(got.len() < 1 << 20, "{} bytes were sent to a reader that does not read", got.len());
    let first = events(&got);
    let last = first.last().unwrap();
    let rest = house.feed(&run, Some(&last.id)).await.rest().await;
    assert_eq!(text(&first) + &text(&rest), text(&all), "something was lost or told twice");
}
