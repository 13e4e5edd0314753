//! The board over WebSockets.

use futures_util::SinkExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::Message;

use crate::common::*;
use crate::house::answered;
use crate::raw::PATIENCE;
use crate::socket::until;
use crate::ws::{connect, rest};

async fn open(house: &House, query: &str) -> Socket {
    let address = format!("ws://{}/v1/board{query}", house.address());
    connect(address).await.unwrap()
}

#[tokio::test]
async fn a_socket_tells_the_board_message_by_message() {
    let (house, run) = House::running().await;
    let mut socket = open(&house, "").await;
    assert_eq!(until(&mut socket, "board").await["live"], 1);
    assert_eq!(until(&mut socket, "runs").await["runs"][0]["run_id"], json!(run));
    until(&mut socket, "ready").await;
    house.post(&format!("/v1/runs/{run}/cancel"), json!({})).await;
    loop {
        let row = until(&mut socket, "runs").await["runs"][0].clone();
        assert_eq!(row["run_id"], json!(run));
        if row["state"] == "settled" {
            break;
        }
    }
    assert_eq!(until(&mut socket, "second").await["cancelled"], 1);
}

#[tokio::test]
async fn a_client_that_writes_to_the_boards_socket_is_told_what_to_use_instead() {
    let house = House::silent().await;
    for said in [Message::text(r#"{"type": "cancel"}"#), Message::binary(vec![1])] {
        let mut socket = open(&house, "").await;
        until(&mut socket, "ready").await;
        socket.send(said).await.unwrap();
        let (code, words) = rest(&mut socket).await.1;
        assert!(code == 1008 && words.contains("/cancel"), "{code} {words}");
    }
}

#[tokio::test]
async fn a_socket_of_the_board_says_that_the_server_ends() {
    let house = House::silent().await;
    let mut socket = open(&house, "").await;
    until(&mut socket, "ready").await;
    let ((_, ended), _) = tokio::join!(rest(&mut socket), house.serving.shut_down());
    assert_eq!(ended.0, 1001);
}

/// Checks P11.
#[tokio::test]
async fn a_ticket_shows_no_more_of_the_board_than_its_key_and_ends_with_it() {
    let options = Options::new().auth(true);
    let endless = std::iter::repeat_with(endless).take(9);
    let house = House::build(Arc::new(MemoryJournal::new()), options, agent(endless)).await;
    let mut keys = Vec::new();
    for user in ["ada", "bob"] {
        let scopes = vec!["run:create".to_owned(), "run:read".to_owned()];
        let new = NewKey::new(user.to_owned(), scopes).user(user.to_owned());
        let (id, key) = house.key(new).await;
        let begin =
            house.request(Method::POST, "/v1/runs").bearer_auth(&key).json(&json!({"app": "shop", "input": "Go."}));
        let (status, run) = answered(begin.send().await.unwrap()).await;
        assert_eq!(status, StatusCode::CREATED);
        keys.push((id, key, run["run_id"].clone()));
    }
    let mut sockets = Vec::new();
    for (_, key, run) in &keys {
        let issued = house.request(Method::POST, "/v1/tickets").bearer_auth(key).send().await.unwrap();
        let ticket = answered(issued).await.1["ticket"].as_str().unwrap().to_owned();
        let mut socket = open(&house, &format!("?ticket={ticket}")).await;
        assert_eq!(until(&mut socket, "board").await["live"], 1);
        let rows = until(&mut socket, "runs").await["runs"].clone();
        let runs: Vec<&Value> = rows.as_array().unwrap().iter().map(|row| &row["run_id"]).collect();
        assert_eq!(runs, [run]);
        sockets.push(socket);
    }
    let (id, _, _) = &keys[0];
    drop(house.server.keys().revoke(id, house.runtime.now().wall, house.runtime.shelf()));
    let (_, (code, _)) = timeout(PATIENCE, rest(&mut sockets[0])).await.unwrap();
    assert_eq!(code, 1008);
    until(&mut sockets[1], "second").await;
}

/// The server closes the connection of a client that reads nothing, and its place is free again.
#[tokio::test]
async fn a_client_that_does_not_read_the_board_is_let_go() {
    let options = Options::new().stalled(Duration::from_millis(300)).max_feeds(1);
    let many = std::iter::repeat_with(endless).take(3_000);
    let house = House::build(Arc::new(MemoryJournal::new()), options, agent(many)).await;
    let run = |n: usize| json!({"session": format!("s{n}"), "input": "x".repeat(60)});
    for n in 0..2_000 {
        house.start(run(n)).await;
    }
    let stalls = open(&house, "").await;
    let began = tokio::time::Instant::now();
    loop {
        // The only place is free again once the server has closed the connection.
        let status = house.request(Method::GET, "/v1/board").send().await.unwrap().status();
        if status == StatusCode::OK {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{status}");
    }
    drop(stalls);
}

/// The server waits for a client that takes little at a time, even if one message takes longer than the limit for a stall.
#[tokio::test]
#[ignore = "it takes real time, and a busy machine is slow for reasons of its own: cargo xtask test --long runs it"]
async fn a_client_that_reads_the_board_slowly_stays() {
    // The kernel accepts more when half of its send buffer is free: with this reader that is more often than once a second.
    let options = Options::new().stalled(Duration::from_millis(1_500));
    let many = std::iter::repeat_with(endless).take(600);
    let house = House::build(Arc::new(MemoryJournal::new()), options, agent(many)).await;
    for n in 0..200 {
        house.start(json!({"session": format!("{n:0>250}"), "input": "x".repeat(80)})).await;
    }
    let narrow = tokio::net::TcpSocket::new_v4().unwrap();
    narrow.set_recv_buffer_size(8 << 10).unwrap();
    // As on a real link: on loopback a segment would be larger than the client's whole buffer.
    socket2::SockRef::from(&narrow).set_tcp_mss(1_400).unwrap();
    let mut slow = narrow.connect(house.address()).await.unwrap();
    let asked = format!(
        "GET /v1/board HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        house.address()
    );
    slow.write_all(asked.as_bytes()).await.unwrap();
    let (began, mut read, mut piece) = (tokio::time::Instant::now(), 0, [0; 1_000]);
    while began.elapsed() < Duration::from_secs(8) {
        let taken = timeout(Duration::from_secs(10), slow.read(&mut piece)).await.unwrap().unwrap();
        assert!(taken > 0, "it was let go after {:?}, with {read} bytes read", began.elapsed());
        read += taken;
        tokio::time::sleep(Duration::from_millis(75)).await;
    }
}
