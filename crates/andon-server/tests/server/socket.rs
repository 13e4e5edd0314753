//! Feeds over WebSockets.

use std::net::SocketAddr;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::common::*;
use crate::ws::{connect, next, rest, say};

/// Opens a run's feed.
pub(crate) async fn open(house: &House, run: &str, query: &str) -> Result<Socket, Error> {
    open_at(house.address(), run, query).await
}

async fn open_at(address: SocketAddr, run: &str, query: &str) -> Result<Socket, Error> {
    connect(format!("ws://{address}/v1/runs/{run}/events{query}")).await
}

pub(crate) async fn until(socket: &mut Socket, kind: &str) -> Value {
    loop {
        let item = next(socket).await.unwrap();
        if item["type"] == kind {
            return item;
        }
    }
}

async fn house_with(options: Options, answers: Vec<Vec<Act>>) -> House {
    House::build(Arc::new(MemoryJournal::new()), options, agent(answers)).await
}

#[tokio::test]
async fn a_socket_gives_the_same_items_as_sse_and_resumes_at_any_of_their_ids() {
    let house = House::with([vec![Act::thinking("Hm 😀"), Act::text("Grüße."), Act::end()]]).await;
    let run = house.start(json!({})).await;
    house.settled(&run).await;
    let sse = house.feed(&run, None).await.rest().await;
    let sse: Vec<(String, Value)> = sse.into_iter().map(|event| (event.id, event.json)).collect();
    let mut socket = open(&house, &run, "").await.unwrap();
    let (items, end) = rest(&mut socket).await;
    assert_eq!(items, sse.iter().map(|(_, item)| item.clone()).collect::<Vec<_>>());
    assert_eq!(end, (1000, "the run has settled".to_owned()));
    for (place, item) in items.iter().enumerate() {
        let id = item["at"].as_str().filter(|_| item["type"] == "delta").map(str::to_owned);
        let id = id.unwrap_or_else(|| item["seq"].to_string());
        assert_eq!(id, sse[place].0);
        let mut socket = open(&house, &run, &format!("?after={id}")).await.unwrap();
        let (resumed, end) = rest(&mut socket).await;
        assert_eq!((resumed.as_slice(), end.0), (&items[place + 1..], 1000));
    }
}

#[tokio::test]
async fn the_cord_is_pulled_over_the_socket_and_the_answer_comes_before_the_end() {
    let (house, run) = House::running().await;
    let mut socket = open(&house, &run, "").await.unwrap();
    until(&mut socket, "delta").await;
    say(&mut socket, json!({"type": "cancel", "note": "stop button"})).await;
    let (items, end) = rest(&mut socket).await;
    let place = |kind: &str| items.iter().position(|item| item["type"] == kind).unwrap();
    let reply = &items[place("cancel_reply")];
    assert_eq!((reply["reply"].as_str(), reply["run_id"].as_str()), (Some("accepted"), Some(run.as_str())));
    assert_eq!(items[place("run_settled")]["outcome"]["reason"], "requested");
    assert_eq!(end.0, 1000);
    assert_eq!(house.settled(&run).await["note"], "stop button");
}

#[tokio::test]
async fn a_harder_cancel_over_the_socket_hardens() {
    let log = ToolLog::new();
    let mut acts = Act::call(0, "c1", "slow", "{}");
    acts.push(Act::tool_use());
    let shop = agent([acts]).tool(slow("slow", Duration::from_secs(600), &log).grace(Duration::from_secs(600)));
    let house = House::build(Arc::new(MemoryJournal::new()), Options::default(), shop).await;
    let run = house.start(json!({})).await;
    let mut socket = open(&house, &run, "").await.unwrap();
    until_running(&log, 1).await;
    for (force, reply) in [("graceful", "accepted"), ("graceful", "already_cancelling")] {
        say(&mut socket, json!({"type": "cancel", "force": force})).await;
        assert_eq!(until(&mut socket, "cancel_reply").await["reply"], reply);
    }
    say(&mut socket, json!({"type": "cancel", "force": "now"})).await;
    let (items, _) = rest(&mut socket).await;
    let one = |kind: &str| items.iter().find(|item| item["type"] == kind).unwrap();
    assert_eq!(one("cancel_reply")["reply"], "hardened");
    assert_eq!(one("run_settled")["outcome"]["kind"], "cancelled");
}

#[tokio::test]
async fn invalid_messages_close_the_socket_with_a_reason_and_touch_no_run() {
    let options = Options::new().max_frame(1000);
    let house = house_with(options, vec![endless()]).await;
    let run = house.start(json!({})).await;
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let long = format!(r#"{{"type": "cancel", "note": "{}"}}"#, "x".repeat(2000));
    let wrong = [
        (Message::text("stop!"), 1008),
        (Message::text(r#"{"type": "pause"}"#), 1008),
        (Message::text(r#"{"type": "cancel", "hard": true}"#), 1008),
        (Message::text(r#"{"type": "cancel", "force": "most"}"#), 1008),
        (Message::text(deep), 1008),
        (Message::text(""), 1008),
        (Message::binary(&b"{\"type\": \"cancel\"}"[..]), 1003),
        (Message::text(long), 1009),
    ];
    for (message, code) in wrong {
        let mut socket = open(&house, &run, "").await.unwrap();
        socket.send(message.clone()).await.unwrap();
        let (_, (told, words)) = rest(&mut socket).await;
        assert_eq!(told, code, "{message:?}");
        assert!(!words.is_empty());
    }
    assert_eq!(house.state(&run).await, "running");
}

#[tokio::test]
async fn a_flood_closes_the_socket() {
    let options = Options::new().frames_a_second(10);
    let house = house_with(options, vec![endless()]).await;
    let run = house.start(json!({})).await;
    let mut socket = open(&house, &run, "").await.unwrap();
    for _ in 0..100 {
        if socket.send(Message::Ping(Default::default())).await.is_err() {
            break;
        }
    }
    let (_, (code, words)) = rest(&mut socket).await;
    assert_eq!((code, words.as_str()), (1008, "send no more than 10 messages per second"));
    assert_eq!(house.state(&run).await, "running");
}

#[tokio::test]
async fn a_silent_socket_is_pinged_and_a_client_that_never_answers_is_gone() {
    let options = Options::new().heartbeat(Duration::from_millis(200)).stalled(Duration::from_secs(8));
    let house = house_with(options, vec![endless()]).await;
    let run = house.start(json!({"on_disconnect": "cancel"})).await;
    let mut socket = open(&house, &run, "").await.unwrap();
    let mut pings = 0;
    while pings < 45 {
        let message = timeout(Duration::from_secs(90), socket.next()).await.unwrap().unwrap().unwrap();
        pings += usize::from(matches!(message, Message::Ping(_)));
    }
    assert_eq!(house.state(&run).await, "running", "a client that answers stays, for longer than one may be silent");
    // From here on nobody reads the socket, so it answers no pings.
    assert_eq!(house.settled(&run).await["reason"], "client_disconnected");
    drop(socket);
}

/// More than a connection's buffers hold.
fn torrent() -> Vec<Act> {
    let piece: &'static str = "0123456789".repeat(1000).leak();
    vec![Act::Flood(piece, 2_000), Act::Silence]
}

#[tokio::test]
async fn a_socket_that_is_not_read_is_closed_when_it_has_stalled_for_too_long() {
    let options = Options::new().stalled(Duration::from_millis(300));
    let house = house_with(options, vec![torrent()]).await;
    let run = house.start(json!({"on_disconnect": "cancel"})).await;
    let socket = open(&house, &run, "").await.unwrap();
    assert_eq!(house.settled(&run).await["reason"], "client_disconnected");
    drop(socket);
}

#[tokio::test]
async fn a_socket_that_is_not_read_is_closed_also_where_the_routes_are_mounted_elsewhere() {
    let options = Options::new().stalled(Duration::from_millis(300));
    let house = house_with(options, vec![torrent()]).await;
    let run = house.start(json!({"on_disconnect": "cancel"})).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mounted =
        axum::serve(listener, house.server.mount("/", |_| Some(andon_server::Principal::local())).router().unwrap())
            .into_future();
    let reads_nothing = async {
        let socket = open_at(address, &run, "").await.unwrap();
        assert_eq!(house.settled(&run).await["reason"], "client_disconnected");
        drop(socket);
    };
    tokio::select! {
        ended = mounted => panic!("{ended:?}"),
        () = reads_nothing => {}
    }
}

#[tokio::test]
async fn a_cancel_from_a_client_that_does_not_read_is_carried_out() {
    let house = house_with(Options::default(), vec![torrent()]).await;
    let run = house.start(json!({})).await;
    let mut socket = open(&house, &run, "").await.unwrap();
    // By now more was streamed than the connection can hold.
    let mut feed = house.runtime.find(&RunId::new(&*run).unwrap()).await.unwrap().unwrap().feed();
    while feed.cursor().byte < 18_000_000 {
        feed.next().await.unwrap();
    }
    say(&mut socket, json!({"type": "cancel"})).await;
    assert_eq!(house.settled(&run).await["reason"], "requested");
}

/// Checks P1 and P7: a client that disconnects right after its cancel has cancelled.
#[tokio::test]
async fn a_cancel_from_a_client_that_hangs_up_at_once_is_carried_out() {
    let house = House::silent().await;
    for _ in 0..20 {
        let run = house.start(json!({})).await;
        let mut socket = open(&house, &run, "").await.unwrap();
        until(&mut socket, "run_accepted").await;
        say(&mut socket, json!({"type": "cancel"})).await;
        drop(socket);
        assert_eq!(house.settled(&run).await["reason"], "requested");
    }
}

#[tokio::test]
async fn shutting_down_closes_a_socket_whose_run_has_no_end_yet() {
    // A disk on which no run settles in time.
    let journal = TestJournal::slow(None, Duration::from_secs(3));
    let patience = Duration::from_secs(90);
    let settle = Duration::from_millis(50);
    let options = Options::new().drain(Duration::ZERO).settle(settle).record_patience(patience);
    let house = House::build(Arc::new(journal), options, agent([endless()])).await;
    let run = house.start(json!({})).await;
    let mut socket = open(&house, &run, "").await.unwrap();
    until(&mut socket, "run_accepted").await;
    let (_, (_, end)) = tokio::join!(house.serving.shut_down(), rest(&mut socket));
    assert_eq!(end, (1001, "the server is shutting down".to_owned()));
}

#[tokio::test]
async fn a_bad_upgrade_is_refused_with_a_problem() {
    let options = Options::new().max_feeds_of_user(1);
    let house = house_with(options, vec![endless()]).await;
    let run = house.start(json!({})).await;
    let half = house.request(Method::GET, &format!("/v1/runs/{run}/events")).header("upgrade", "websocket");
    let half = crate::house::answered(half.header("connection", "upgrade").send().await.unwrap()).await;
    assert_eq!((half.0, half.1["type"].as_str()), (StatusCode::BAD_REQUEST, Some("urn:andon:bad-upgrade")));
    let refused = |error: Error| match error {
        Error::Http(response) => response.status().as_u16(),
        other => panic!("{other}"),
    };
    assert_eq!(open(&house, "nobody", "").await.map(drop).map_err(refused), Err(404));
    assert_eq!(open(&house, &run, "?after=x").await.map(drop).map_err(refused), Err(400));
    let mut one = open(&house, &run, "").await.unwrap();
    until(&mut one, "delta").await;
    assert_eq!(open(&house, &run, "").await.map(drop).map_err(refused), Err(429));
}

#[tokio::test]
async fn the_socket_of_a_run_that_waits_for_its_agent_tells_what_is_known_and_to_come_again() {
    let inside = crate::approvals::parked().await;
    let serving = inside.server.serve(TcpListener::bind("127.0.0.1:0").await.unwrap()).unwrap();
    let mut socket = open_at(serving.address(), "r", "").await.unwrap();
    let (items, (code, words)) = rest(&mut socket).await;
    assert_eq!(items.last().unwrap()["type"], "approval_requested");
    assert_eq!(code, 1013, "{words}");
}

#[tokio::test]
async fn sse_and_websocket_facts_carry_the_same_standing() {
    // P7: all readers are told the same, wherever they begin.
    let house = House::with([endless()]).await;
    let run = house.start(json!({})).await;
    let mut feed = house.feed_until(&run, "delta").await;
    house.post(&format!("/v1/runs/{run}/cancel"), json!({"force": "after_turn"})).await;
    let asked = feed.until_type("cancel_requested").await.json;
    assert_eq!(asked["standing"], json!({"state": "cancelling", "phase": "model", "force": "after_turn"}));
    house.post(&format!("/v1/runs/{run}/cancel"), json!({"force": "graceful"})).await;
    house.settled(&run).await;
    let is_fact = |item: &Value| item["seq"].is_u64();
    let whole: Vec<Value> = house.feed(&run, None).await.rest().await.into_iter().map(|event| event.json).collect();
    let whole: Vec<Value> = whole.into_iter().filter(is_fact).collect();
    let told: Vec<&Value> = whole.iter().map(|fact| &fact["standing"]).collect();
    assert_eq!(told[0], &json!({"state": "queued", "phase": "queued"}));
    assert_eq!(told[1], &json!({"state": "running", "phase": "between"}));
    assert_eq!(told.last().unwrap(), &&json!({"state": "settled", "force": "graceful"}));
    for from in 0..whole.len() {
        let mut socket = open(&house, &run, &format!("?after={from}")).await.unwrap();
        let over_socket: Vec<Value> = rest(&mut socket).await.0.into_iter().filter(is_fact).collect();
        let over_events = house.feed(&run, Some(&from.to_string())).await.rest().await;
        let over_events: Vec<Value> = over_events.into_iter().map(|event| event.json).filter(is_fact).collect();
        assert_eq!((&over_socket[..], &over_events[..]), (&whole[from..], &whole[from..]), "after {from}");
    }
}
