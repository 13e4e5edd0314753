//! `/run_live`, on real sockets: W20, and a stop in mid-text.

use andon_runtime::RunId;
use andon_server::NewKey;
use futures_util::SinkExt as _;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::*;
use crate::ws::{Socket, connect, next, rest, say};

const PLACE: &str = "app_name=shop&user_id=ada&session_id=s&modalities=TEXT";

async fn house(answers: impl IntoIterator<Item = Vec<Act>>) -> House {
    let house = House::build(Arc::new(MemoryJournal::new()), Options::default(), agent(answers)).await;
    let (status, _) = house.post(&format!("/apps/shop/users/{USER}/sessions"), json!({"sessionId": "s"})).await;
    assert_eq!(status, StatusCode::OK);
    house
}

async fn open(house: &House, query: &str) -> Result<Socket, Error> {
    connect(format!("ws://{}/run_live?{query}", house.address())).await
}

fn content(text: &str) -> Value {
    json!({"content": {"role": "user", "parts": [{"text": text}]}})
}

/// All events of a turn.
async fn turn(socket: &mut Socket) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        let event = next(socket).await.unwrap();
        if event["turnComplete"] == true {
            return all;
        }
        all.push(event);
    }
}

/// W20.
#[tokio::test]
async fn a_wrong_session_is_refused_at_the_handshake() {
    let house = house([]).await;
    for query in [
        "",
        "app_name=shop&user_id=ada",
        "app_name=shop&session_id=s",
        "user_id=ada&session_id=s",
        "app_name=shop&user_id=ada&session_id=s&modalities=SMELL",
    ] {
        let Err(Error::Http(response)) = open(&house, query).await else { panic!("{query} was let in") };
        assert_eq!(response.status().as_u16(), 403, "{query}");
    }
    for (query, expected) in [
        ("app_name=shop&user_id=ada&session_id=nope", (1002, "Session not found")),
        ("app_name=shop&user_id=eve&session_id=s", (1002, "Session not found")),
        (
            "app_name=nope&user_id=ada&session_id=s",
            (1011, "Agent not found: 'nope'. No matching directory or module exists."),
        ),
        (
            "app_name=shop&user_id=ada&session_id=s&modalities=AUDIO",
            (1003, "only text is supported here: set modalities=TEXT, and send content"),
        ),
    ] {
        let mut socket = open(&house, query).await.unwrap();
        assert_eq!(rest(&mut socket).await.1, (expected.0, expected.1.to_owned()), "{query}");
    }
    assert_eq!(house.get("/run_live").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn turns_are_taken_one_after_the_other_with_pieces_and_the_session_shows_the_same() {
    let house = house([says(&["a ", "b "]), says(&["c"])]).await;
    let mut socket = open(&house, PLACE).await.unwrap();
    say(&mut socket, content("one")).await;
    say(&mut socket, json!({"content": {"parts": [{"text": "two"}]}, "state_delta": {"k": 1}})).await;
    let (first, second) = (turn(&mut socket).await, turn(&mut socket).await);
    assert_eq!((pieces(&first), text(first.last().unwrap())), ("a b ".to_owned(), "a b ".to_owned()));
    assert_eq!(text(second.last().unwrap()), "c");
    say(&mut socket, json!({"stateDelta": {"later": 2}})).await;
    say(&mut socket, json!({"close": true})).await;
    assert_eq!(rest(&mut socket).await.1.0, 1000);
    let (_, session) = house.get(&path("s")).await;
    assert_eq!(session["state"], json!({"k": 1, "later": 2}));
    let last = session["events"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["author"], &last["actions"]["stateDelta"]), (&json!("user"), &json!({"later": 2})));
    let of_agent: Vec<Value> =
        session["events"].as_array().unwrap().iter().filter(|event| event["author"] != "user").cloned().collect();
    assert_eq!(of_agent, [whole(&first), whole(&second)].concat());
}

#[tokio::test]
async fn a_stop_is_the_last_event_and_then_the_socket_is_closed() {
    let house = house([endless()]).await;
    let mut socket = open(&house, PLACE).await.unwrap();
    say(&mut socket, content("go")).await;
    let piece = next(&mut socket).await.unwrap();
    let (status, told) = house.post(&format!("{}:cancel", path("s")), json!({})).await;
    assert_eq!((status, &told["cancelled"][0]["invocationId"]), (StatusCode::OK, &piece["invocationId"]));
    let (events, ended) = rest(&mut socket).await;
    assert_eq!(ended, (1000, "cancelled".to_owned()));
    assert_eq!(events.last().unwrap()["errorCode"], "INVOCATION_ABORTED");
    let (_, session) = house.get(&path("s")).await;
    assert_eq!(session["events"].as_array().unwrap()[1..], whole(&events));
}

#[tokio::test]
async fn a_lost_client_leaves_all_its_runs() {
    let house = house([endless(), endless()]).await;
    let mut socket = open(&house, PLACE).await.unwrap();
    say(&mut socket, content("go")).await;
    let piece = next(&mut socket).await.unwrap();
    drop(socket);
    let run = house.runtime.find(&RunId::new(piece["invocationId"].as_str().unwrap()).unwrap()).await.unwrap().unwrap();
    timeout(Duration::from_secs(90), run.outcome()).await.expect("the run does not settle");
    assert_eq!(json!(run.receipt().unwrap().reason), "client_disconnected");
}

#[tokio::test]
async fn invalid_messages_close_the_socket_with_a_code_and_run_nothing() {
    let house = house([]).await;
    for (message, code) in [
        (Message::text("{"), 1007),
        (Message::text("[]"), 1007),
        (Message::text(r#"{"content": 5}"#), 1007),
        (Message::text(r#"{"content": {"parts": []}}"#), 1007),
        (Message::text("[".repeat(100)), 1007),
        (Message::text(r#"{"blob": {"mimeType": "audio/pcm", "data": ""}}"#), 1003),
        (Message::text(r#"{"activity_start": {}}"#), 1003),
        (Message::text(r#"{"audioStreamEnd": true}"#), 1003),
        (Message::binary(vec![1]), 1003),
        (Message::text(format!("\"{}\"", "x".repeat(100_000))), 1009),
    ] {
        let mut socket = open(&house, PLACE).await.unwrap();
        socket.send(message.clone()).await.unwrap();
        let (events, (ended, words)) = rest(&mut socket).await;
        assert_eq!((ended, events.len()), (code, 0), "{message:?} {words}");
        assert!(!words.is_empty() && words.len() <= 123);
    }
    let mut socket = open(&house, PLACE).await.unwrap();
    for _ in 0..60 {
        say(&mut socket, json!({})).await;
    }
    assert_eq!(rest(&mut socket).await.1.0, 1008, "too many messages");
    let (_, session) = house.get(&path("s")).await;
    assert_eq!(session["events"], json!([]));
}

/// A server that requires keys, with the session `s`, and a socket to it with the key that opened it.
async fn guarded(answers: impl IntoIterator<Item = Vec<Act>>) -> (House, Socket, String) {
    let options = Options::new().auth(true);
    let house = House::build(Arc::new(MemoryJournal::new()), options, agent(answers)).await;
    let scopes = ["run:create", "run:read", "run:cancel"].map(str::to_owned).to_vec();
    let new = NewKey::new(USER.to_owned(), scopes);
    let (id, key) = house.key(new).await;
    let begun = house.request(reqwest::Method::POST, &path("s")).bearer_auth(&key).send().await.unwrap();
    assert_eq!(begun.status(), StatusCode::OK);
    let mut request = format!("ws://{}/run_live?{PLACE}", house.address()).into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    let (socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    (house, socket, id)
}

fn revoke(house: &House, id: &str) {
    drop(house.server.keys().revoke(id, house.runtime.now().wall, house.runtime.shelf()));
}

/// More than all the buffers on the way hold.
fn flood() -> Vec<Act> {
    let text: &'static str = "0123456789".repeat(100).leak();
    vec![Act::Flood(text, 40_000), Act::usage(1, 1), Act::end()]
}

/// Checks P11.
#[tokio::test]
async fn a_revoked_key_reads_no_more_and_starts_nothing_however_slowly_it_reads() {
    let (house, mut socket, id) = guarded([flood(), flood()]).await;
    say(&mut socket, content("go")).await;
    next(&mut socket).await.unwrap();
    revoke(&house, &id);
    say(&mut socket, content("again")).await;
    let (told, (code, words)) = rest(&mut socket).await;
    let read: usize = told.iter().map(|event| text(event).len()).sum();
    assert_eq!(code, 1008, "{words}");
    assert!(read < 30_000_000, "{read} bytes were read");
    let owner = house.server.owner_key().unwrap().show();
    let asked = house.request(reqwest::Method::GET, "/v1/runs").bearer_auth(owner).send().await.unwrap();
    let (_, runs) = crate::house::answered(asked).await;
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs}");
}
