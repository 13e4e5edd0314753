//! Who may do what, over real sockets.

use andon_server::ServeError;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::common::*;
use crate::house::answered;
use crate::ws::{connect, rest};

/// A server that requires keys.
async fn house() -> House {
    let options = Options::new().auth(true);
    House::build(Arc::new(MemoryJournal::new()), options, agent(std::iter::repeat_with(endless).take(9))).await
}

/// A key of ada's: its id and the key itself.
async fn key(house: &House, scopes: &[&str]) -> (String, String) {
    let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
    let new = NewKey::new("ada", scopes);
    house.key(new).await
}

async fn start(house: &House, key: &str) -> String {
    let request = house.request(Method::POST, "/v1/runs").bearer_auth(key);
    let (status, run) = answered(request.json(&json!({"app": "shop", "input": "Go."})).send().await.unwrap()).await;
    assert_eq!(status, StatusCode::CREATED, "{run}");
    run["run_id"].as_str().unwrap().to_owned()
}

async fn open(house: &House, path: &str, key: Option<&str>) -> Result<Socket, Error> {
    let mut request = format!("ws://{}{path}", house.address()).into_client_request().unwrap();
    if let Some(key) = key {
        request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    }
    connect(request).await
}

#[tokio::test]
async fn feeds_and_sockets_of_a_revoked_key_end() {
    let house = house().await;
    let (id, ada) = key(&house, &["run:create", "run:read", "run:cancel"]).await;
    let run = start(&house, &ada).await;
    let path = format!("/v1/runs/{run}/events");
    let mut feed = house.request(Method::GET, &path).bearer_auth(&ada).send().await.unwrap();
    assert_eq!(feed.status(), StatusCode::OK);
    let mut socket = open(&house, &path, Some(&ada)).await.unwrap();
    let admin = house.server.owner_key().unwrap().show();
    let revoking = house.request(Method::DELETE, &format!("/v1/keys/{id}")).bearer_auth(admin);
    assert_eq!(revoking.send().await.unwrap().status(), StatusCode::OK);
    // Neither ends by itself, because the run goes on. How soon they end is tested with the board, under a controlled clock.
    let ((), (_, end)) = tokio::join!(async { while feed.chunk().await.unwrap().is_some() {} }, rest(&mut socket));
    assert_eq!(end.0, 1008);
    let again = house.request(Method::GET, "/v1/runs").bearer_auth(&ada).send().await.unwrap();
    assert_eq!(again.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_ticket_opens_one_socket_once() {
    let house = house().await;
    let (_, ada) = key(&house, &["run:create", "run:read", "run:cancel"]).await;
    let run = start(&house, &ada).await;
    let issued = house.request(Method::POST, "/v1/tickets").bearer_auth(&ada).send().await.unwrap();
    let (status, ticket) = answered(issued).await;
    assert_eq!(status, StatusCode::CREATED);
    let path = format!("/v1/runs/{run}/events?ticket={}", ticket["ticket"].as_str().unwrap());
    let mut socket = open(&house, &path, None).await.unwrap();
    assert!(matches!(socket.next().await, Some(Ok(Message::Text(_)))));
    let refused = open(&house, &path, None).await;
    assert!(matches!(&refused, Err(Error::Http(response)) if response.status() == 401), "{refused:?}");
}

#[tokio::test]
async fn a_reader_without_run_cancel_cannot_stop_the_run_over_its_socket() {
    let house = house().await;
    let (_, maker) = key(&house, &["run:create"]).await;
    let (_, reader) = key(&house, &["run:read"]).await;
    let run = start(&house, &maker).await;
    let mut socket = open(&house, &format!("/v1/runs/{run}/events"), Some(&reader)).await.unwrap();
    socket.send(Message::text(r#"{"type": "cancel"}"#)).await.unwrap();
    let reply = loop {
        let Some(Ok(Message::Text(text))) = socket.next().await else { continue };
        let item: Value = serde_json::from_str(&text).unwrap();
        if item["type"] == "cancel_reply" {
            break item;
        }
    };
    assert_eq!(reply["problem"]["scope"], "run:cancel", "{reply}");
    assert!(!house.runtime.in_progress().remove(0).cord().is_pulled());
}

#[tokio::test]
async fn a_server_that_others_reach_asks_for_keys_or_does_not_serve() {
    let everywhere = || TcpListener::bind("0.0.0.0:0");
    let open = House::silent().await;
    let refused = open.server.serve(everywhere().await.unwrap()).unwrap_err();
    assert!(matches!(refused, ServeError::NotLoopback(_)) && refused.to_string().contains("--auth"), "{refused}");
    let options = Options::new().auth(true);
    let guarded = Server::new(&open.runtime, options).await.unwrap();
    let serving = guarded.serve(everywhere().await.unwrap()).unwrap();
    let url = format!("http://127.0.0.1:{}/v1/runs", serving.address().port());
    let asked = open.client.get(&url).send().await.unwrap();
    assert_eq!(asked.status(), StatusCode::UNAUTHORIZED);
    let owner = guarded.owner_key().unwrap().show();
    assert_eq!(open.client.get(&url).bearer_auth(owner).send().await.unwrap().status(), StatusCode::OK);
}
