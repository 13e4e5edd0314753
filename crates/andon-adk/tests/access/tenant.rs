//! Namesakes in two tenants, and the operator of both.

use andon_runtime::Run;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::table::{RUNS, World};

/// A run of south's ada in her session `s`, while `world` has one of local's ada.
async fn namesake(world: &World) -> (String, Run) {
    let key = world.key("ada", Some("south"), &RUNS);
    let order = json!({"app": "shop", "input": "Go.", "session": "s"});
    assert_eq!(world.send(Some(&key), &Method::POST, "/v1/runs", Some(&order)).await.0, StatusCode::CREATED);
    let mut runs = world.runtime.in_progress();
    runs.retain(|run| &*run.session().tenant == "south");
    (key, runs.remove(0))
}

/// Checks P9.
#[tokio::test(start_paused = true)]
async fn a_session_path_is_within_the_callers_tenant() {
    let world = World::new().await;
    let (_, souths) = namesake(&world).await;
    let admin = world.server.owner_key().unwrap().show();
    let cancel = async || world.send(Some(admin), &Method::POST, "/apps/shop/users/ada/sessions/s:cancel", None).await;
    let (status, told) = cancel().await;
    assert_eq!((status, told["cancelled"].as_array().map(Vec::len)), (StatusCode::OK, Some(1)), "{told}");
    assert!(world.run.cord().is_pulled() && !souths.cord().is_pulled());
    world.run.outcome().await;
    assert_eq!(cancel().await.0, StatusCode::NOT_FOUND);
    assert!(!souths.cord().is_pulled());
}

/// Checks P9.
#[tokio::test(start_paused = true)]
async fn a_selector_defaults_to_the_callers_tenant() {
    let world = World::new().await;
    let (key, souths) = namesake(&world).await;
    let admin = world.server.owner_key().unwrap().show();
    let cancel = async |key: &str, body: Value| world.send(Some(key), &Method::POST, "/v1/cancel", Some(&body)).await;
    let (_, told) = cancel(admin, json!({"user": "ada"})).await;
    assert_eq!(told["runs"].as_array().map(Vec::len), Some(1), "{told}");
    world.run.outcome().await;
    for own in [json!({"session": "s"}), json!({"app": "shop"}), json!({"app": "shop", "user": "ada", "session": "s"})]
    {
        assert_eq!(cancel(admin, own.clone()).await.1["runs"], json!([]), "{own}");
    }
    assert!(world.run.cord().is_pulled() && !souths.cord().is_pulled());
    let (status, told) = cancel(&key, json!({"user": "ada", "tenant": "local"})).await;
    assert_eq!((status, &told["scope"]), (StatusCode::FORBIDDEN, &json!("admin")), "{told}");
    let (_, told) = cancel(admin, json!({"all": true, "tenant": "north"})).await;
    assert_eq!(told["cancelled"], 0, "{told}");
    assert!(!souths.cord().is_pulled());
    let (_, told) = cancel(admin, json!({"user": "ada", "tenant": "south"})).await;
    assert_eq!(told["cancelled"], 1, "{told}");
    assert!(souths.cord().is_pulled());
}

/// Checks P9 and P11.
#[tokio::test(start_paused = true)]
async fn a_hold_is_on_one_tenant_and_is_told_to_those_for_whom_it_is_in_force() {
    let world = World::new().await;
    let (south, souths) = namesake(&world).await;
    let anybody = world.key("ada", Some("south"), &["run:create", "run:read", "impersonate"]);
    let local = world.key("ada", None, &RUNS);
    let admin = world.server.owner_key().unwrap().show();
    let put = async |body: Value| world.send(Some(admin), &Method::PUT, "/v1/line", Some(&body)).await;
    let seen = async |key: &str| world.send(Some(key), &Method::GET, "/v1/line", None).await.1;
    let start = async |key: &str| {
        let order = json!({"app": "shop", "input": "Go."});
        world.send(Some(key), &Method::POST, "/v1/runs", Some(&order)).await.0
    };
    for on in [json!({"user": "ada"}), json!({"app": "shop"})] {
        let mut hold = on.clone();
        hold["state"] = "held".into();
        hold["cancel"] = true.into();
        assert_eq!(put(hold.clone()).await.1["holds"][0]["tenant"], "local");
        assert!(!souths.cord().is_pulled(), "{on}");
        assert_eq!((start(&local).await, start(&south).await), (StatusCode::SERVICE_UNAVAILABLE, StatusCode::CREATED));
        assert_eq!(seen(&local).await["holds"].as_array().map(Vec::len), Some(1));
        for key in [&south, &anybody] {
            assert_eq!(seen(key).await["holds"], json!([]), "{on}");
        }
        let mut open = on;
        open["state"] = "open".into();
        assert_eq!(put(open).await.1["holds"], json!([]));
    }
    put(json!({"state": "held", "tenant": "south"})).await;
    assert_eq!((&seen(&south).await["state"], &seen(&local).await["state"]), (&json!("held"), &json!("open")));
    assert_eq!((start(&local).await, start(&south).await), (StatusCode::CREATED, StatusCode::SERVICE_UNAVAILABLE));
    put(json!({"state": "open", "tenant": "south"})).await;
    put(json!({"state": "held"})).await;
    assert_eq!(start(&local).await, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(start(&south).await, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(start_paused = true)]
async fn an_old_hold_without_a_tenant_applies_to_all_until_it_is_opened() {
    use andon_runtime::{MemoryJournal, Runtime};
    let journal = std::sync::Arc::new(MemoryJournal::new());
    let runtime = Runtime::builder().one_lane().journal(journal).build();
    let old = json!({"user": "ada", "by": "eve", "since": "2026-01-01T00:00:00Z"});
    runtime.shelf().keep("line", "user/ada", old).await.unwrap();
    let server = andon_server::Server::new(&runtime, andon_server::Options::default()).await.unwrap();
    let (_, held) = crate::table::send(
        &server.mount("/", |_| Some(andon_server::Principal::local())).router().unwrap(),
        None,
        &Method::GET,
        "/v1/line",
        None,
    )
    .await;
    assert!(held["holds"][0]["user"] == "ada" && held["holds"][0].get("tenant").is_none(), "{held}");
    let open = json!({"state": "open", "user": "ada"});
    let (status, told) = crate::table::send(
        &server.mount("/", |_| Some(andon_server::Principal::local())).router().unwrap(),
        None,
        &Method::PUT,
        "/v1/line",
        Some(&open),
    )
    .await;
    assert_eq!((status, &told["holds"]), (StatusCode::OK, &json!([])), "{told}");
    assert_eq!(runtime.shelf().kept("line").await.unwrap().len(), 0);
}
