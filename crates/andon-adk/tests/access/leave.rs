//! What a key may not do indirectly either, and what happens when a key ends.

use std::time::Duration;

use andon_runtime::{OnDisconnect, Run, RunId};
use axum::body::Body;
use axum::http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::table::{RUNS, World, raw, send};

const SESSION: &str = "/apps/shop/users/ada/sessions/s";

/// A run that is cancelled when its last reader disconnects.
async fn clinging(world: &World) -> Run {
    let order = json!({"app": "shop", "input": "Go.", "on_disconnect": "cancel"});
    let maker = world.key("ada", None, &["run:create"]);
    let (status, told) = world.send(Some(&maker), &Method::POST, "/v1/runs", Some(&order)).await;
    assert_eq!(status, StatusCode::CREATED, "{told}");
    let id = RunId::new(told["run_id"].as_str().unwrap()).unwrap();
    world.runtime.find_in_progress(&id).unwrap()
}

async fn opened(world: &World, key: &str, run: &Run) -> Body {
    let path = format!("/v1/runs/{}/events", run.id());
    let mut body = raw(&world.router, Some(key), &Method::GET, &path, None).await.into_body();
    assert!(body.frame().await.is_some(), "it is read");
    body
}

fn revoke(world: &World, key: &str) {
    let id = key.split('_').nth(1).unwrap();
    drop(world.server.keys().revoke(id, world.runtime.now().wall, world.runtime.shelf()));
}

/// Lets everything that is pending happen.
async fn rest() {
    tokio::time::sleep(Duration::from_secs(60)).await;
}

/// A request for a run in ada's session `s`, queued behind the current one.
fn ask() -> Value {
    let message = json!({"role": "user", "parts": [{"text": "x"}]});
    json!({"appName": "shop", "userId": "ada", "sessionId": "s", "newMessage": message})
}

/// Checks P11.
#[tokio::test(start_paused = true)]
async fn disconnecting_without_run_cancel_does_not_stop_a_run() {
    let world = World::new().await;
    let (reader, stopper) = (world.key("ada", None, &["run:read"]), world.key("ada", None, &RUNS));
    let run = clinging(&world).await;
    drop(opened(&world, &reader, &run).await);
    rest().await;
    assert!(!run.cord().is_pulled());
    let reads_on = opened(&world, &reader, &run).await;
    drop(opened(&world, &stopper, &run).await);
    rest().await;
    assert!(run.cord().is_pulled(), "whoever may stop it was the last that counts");
    drop(reads_on);
}

#[tokio::test(start_paused = true)]
async fn without_run_cancel_a_reader_is_not_recorded_as_one_that_a_restart_loses() {
    let world = World::new().await;
    for (scopes, is_missed) in [(&["run:create", "run:read"][..], false), (&RUNS[..], true)] {
        let key = world.key("ada", None, scopes);
        let response = raw(&world.router, Some(&key), &Method::POST, "/run_sse", Some(&ask())).await;
        assert_eq!(response.status(), StatusCode::OK);
        let run = world.runtime.in_progress().pop().unwrap();
        let progress = run.progress().unwrap();
        assert_eq!(
            (progress.accepted().on_disconnect, progress.accepted().has_reader),
            (OnDisconnect::Cancel, is_missed)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_continues_when_the_key_of_its_reader_is_revoked() {
    let world = World::new().await;
    let key = world.key("ada", None, &RUNS);
    let run = clinging(&world).await;
    let mut feed = opened(&world, &key, &run).await;
    let mut sse = raw(&world.router, Some(&key), &Method::POST, "/run_sse", Some(&ask())).await.into_body();
    // This reader disconnects by itself, after the key is revoked and before the server notices.
    let gone = opened(&world, &key, &run).await;
    revoke(&world, &key);
    drop(gone);
    while feed.frame().await.is_some() {}
    while sse.frame().await.is_some() {}
    drop((feed, sse));
    rest().await;
    let runs = world.runtime.in_progress();
    assert_eq!((runs.len(), runs.iter().any(|run| run.cord().is_pulled())), (3, false));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_for_a_whole_answer_gets_nothing_more_once_its_key_is_revoked() {
    let world = World::new().await;
    let key = world.key("ada", None, &RUNS);
    let began = tokio::time::Instant::now();
    let body = ask();
    let (answer, ()) = tokio::join!(send(&world.router, Some(&key), &Method::POST, "/run", Some(&body)), async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        revoke(&world, &key);
    });
    let (status, told) = answer;
    assert_eq!((status, told.as_object().map(|told| told.len())), (StatusCode::UNAUTHORIZED, Some(1)), "{told}");
    assert!(told["detail"].is_string(), "{told}");
    assert!(began.elapsed() <= Duration::from_secs(15), "{:?}", began.elapsed());
    rest().await;
    let runs = world.runtime.in_progress();
    assert_eq!((runs.len(), runs.iter().any(|run| run.cord().is_pulled())), (2, false));
}

/// Checks P11.
#[tokio::test(start_paused = true)]
async fn without_run_cancel_one_can_neither_supersede_nor_delete_a_busy_session() {
    let world = World::new().await;
    let (maker, stopper) = (world.key("ada", None, &["run:create", "run:read"]), world.key("ada", None, &RUNS));
    let order = json!({"app": "shop", "input": "x", "session": "s", "when_busy": "supersede"});
    let native = "/v1/sessions/shop/ada/s";
    let asked =
        [(Method::POST, "/v1/runs", Some(&order)), (Method::DELETE, native, None), (Method::DELETE, SESSION, None)];
    for (method, path, body) in asked {
        let (status, told) = world.send(Some(&maker), &method, path, body).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{method} {path}: {told}");
        assert!(told["detail"].as_str().unwrap().contains("run:cancel"), "{told}");
        assert!(!world.run.cord().is_pulled(), "{method} {path}");
    }
    let (status, _) = world.send(Some(&stopper), &Method::POST, "/v1/cancel", Some(&json!({"all": true}))).await;
    assert!(status.is_success());
    world.run.outcome().await;
    rest().await;
    assert_eq!(world.send(Some(&maker), &Method::DELETE, native, None).await.0, StatusCode::NO_CONTENT);
}

/// Checks P11.
#[tokio::test(start_paused = true)]
async fn without_run_read_a_new_session_shows_no_shared_state() {
    let world = World::new().await;
    let maker = world.key("ada", None, &["run:create"]);
    let bob = world.key("bob", None, &RUNS);
    let state = json!({"state": {"app:note": "bob's", "own": 1}});
    let (status, told) = world.send(Some(&bob), &Method::POST, "/apps/shop/users/bob/sessions", Some(&state)).await;
    assert_eq!((status, &told["state"]["app:note"]), (StatusCode::OK, &json!("bob's")), "{told}");
    for (path, body) in [
        ("/apps/shop/users/ada/sessions", json!({"state": {"own": 1}})),
        ("/apps/shop/users/ada/sessions/s2", json!({"own": 1})),
    ] {
        let (status, told) = world.send(Some(&maker), &Method::POST, path, Some(&body)).await;
        assert_eq!((status, &told["state"]), (StatusCode::OK, &json!({"own": 1})), "{told}");
    }
    let change = json!({"stateDelta": {"own": 2}});
    let (status, told) = world.send(Some(&maker), &Method::PATCH, SESSION, Some(&change)).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{told}");
    let told = world.send(Some(&bob), &Method::GET, "/v1/sessions/shop/ada/s", None).await;
    assert_eq!(told.0, StatusCode::NOT_FOUND);
    let key = andon_runtime::SessionKey::new("shop", "ada", "s").unwrap();
    let state = world.runtime.state(&key).await.unwrap().unwrap();
    assert!(!state.contains_key("own"), "what is refused changes nothing: {state:?}");
}

#[tokio::test(start_paused = true)]
async fn only_admin_sees_why_an_app_is_refused() {
    let world = World::new().await;
    world.server.apps().refuse("shop", "there is no folder /srv/secret");
    let (ada, admin) = (world.key("ada", None, &RUNS), world.server.owner_key().unwrap().show());
    let order = json!({"app": "shop", "input": "x"});
    let live = "/run";
    for (method, path, body) in
        [(Method::GET, "/v1/apps", None), (Method::POST, "/v1/runs", Some(&order)), (Method::POST, live, Some(&ask()))]
    {
        let (_, told) = world.send(Some(&ada), &method, path, body).await;
        assert!(told.to_string().contains("ask the server's operator"), "{path}: {told}");
        assert!(!told.to_string().contains("secret"), "{path}: {told}");
        let (_, told) = world.send(Some(admin), &method, path, body).await;
        assert!(told.to_string().contains("/srv/secret"), "{path}: {told}");
    }
}

#[tokio::test(start_paused = true)]
async fn session_names_that_a_proxy_could_turn_into_a_cancel_are_refused() {
    let world = World::new().await;
    let key = world.key("ada", None, &RUNS);
    for name in ["x:cancel", "x:CANCEL", "x:Cancel", "x:cancel ", "x:CANCEL\t "] {
        let native = json!({"app": "shop", "input": "x", "session": name});
        let adk = json!({"sessionId": name});
        for (path, body) in [("/v1/runs", &native), ("/apps/shop/users/ada/sessions", &adk)] {
            let (status, told) = world.send(Some(&key), &Method::POST, path, Some(body)).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{path} {name:?}: {told}");
        }
    }
    for path in ["x:CANCEL", "x:cancel%20"] {
        let path = format!("/apps/shop/users/ada/sessions/{path}");
        let (status, told) = world.send(Some(&key), &Method::POST, &path, None).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {told}");
    }
}

#[tokio::test(start_paused = true)]
async fn responses_cannot_be_framed_by_other_sites() {
    let world = World::new().await;
    for path in ["/healthz", "/dev-ui/", "/nowhere", "/v1/runs"] {
        let response = raw(&world.router, None, &Method::GET, path, None).await;
        assert_eq!(response.headers()["x-frame-options"], "DENY", "{path}");
        assert_eq!(response.headers()["content-security-policy"], "frame-ancestors 'none'", "{path}");
    }
}

/// A reader with `aside` takes no place of the user whose run it is.
#[tokio::test(start_paused = true)]
async fn feeds_that_are_read_aside_are_counted_for_their_reader() {
    let world = World::limited(2).await;
    let path = format!("/v1/runs/{}/events", world.run.id());
    let scopes = ["run:read", "impersonate"];
    let (ada, bob) = (world.key("ada", None, &["run:read"]), world.key("bob", None, &scopes));
    let open = |key: String, query: &str| {
        let path = format!("{path}{query}");
        let router = world.router.clone();
        async move { raw(&router, Some(&key), &Method::GET, &path, None).await }
    };
    let asides = [open(bob.clone(), "?aside=true").await, open(bob.clone(), "?aside=true").await];
    assert!(asides.iter().all(|response| response.status() == StatusCode::OK));
    assert_eq!(open(bob.clone(), "?aside=true").await.status(), StatusCode::TOO_MANY_REQUESTS);
    let own = open(ada.clone(), "").await;
    assert_eq!(own.status(), StatusCode::OK, "ada has not opened one before");
    // A reader without `aside` is counted as the run's user.
    let beside = open(bob, "").await;
    assert_eq!(
        (beside.status(), open(ada.clone(), "").await.status()),
        (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS)
    );
    drop(beside);
    let on_the_side = open(ada.clone(), "?aside=true").await;
    assert_eq!((on_the_side.status(), open(ada, "").await.status()), (StatusCode::OK, StatusCode::TOO_MANY_REQUESTS));
    drop((asides, own));
}
