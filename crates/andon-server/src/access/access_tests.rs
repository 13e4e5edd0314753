use std::collections::BTreeSet;

use andon_runtime::Runtime;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use http_body_util::BodyExt as _;
use serde_json::Value;
use tower::ServiceExt as _;

use super::*;
use crate::{Options, Server, adk};

#[test]
fn a_ticket_is_taken_out_of_an_address_and_the_rest_stays() {
    for (before, ticket, behind) in [
        ("/v1/runs/r/events?ticket=abc", Some("abc"), "/v1/runs/r/events"),
        ("/v1/runs/r/events?after=3&ticket=abc&x=y", Some("abc"), "/v1/runs/r/events?after=3&x=y"),
        ("/v1/runs/r/events?ticket=abc&ticket=def", Some("abc"), "/v1/runs/r/events"),
        ("http://localhost:8000/v1/runs/r/events?ticket=a", Some("a"), "http://localhost:8000/v1/runs/r/events"),
        ("/v1/runs/r/events?after=3", None, "/v1/runs/r/events?after=3"),
        ("/v1/runs/r/events?noticket=1", None, "/v1/runs/r/events?noticket=1"),
        ("/v1/runs/r/events", None, "/v1/runs/r/events"),
    ] {
        let mut uri: Uri = before.parse().unwrap();
        assert_eq!(take_ticket(&mut uri).as_deref(), ticket, "{before}");
        assert_eq!(uri.to_string(), behind);
    }
}

fn all() -> impl Iterator<Item = &'static Row> + Clone {
    NATIVE.iter().chain(PAGE).chain(ADK)
}

#[test]
fn only_health_the_page_and_what_says_which_server_this_is_is_open_to_all() {
    let open = all().filter(|(_, _, need)| *need == Public).map(|(_, path, _)| *path);
    let known = ["/healthz", "/readyz", "/health", "/version", "/", "/ui", "/ui/", "/ui/{*file}"];
    assert_eq!(open.collect::<BTreeSet<_>>(), BTreeSet::from(known));
}

#[test]
fn no_route_has_two_rows() {
    for (place, (method, path, _)) in all().enumerate() {
        let same = all().filter(|(m, p, _)| (m, p) == (method, path)).count();
        assert_eq!(same, 1, "row {place}: {method} {path}");
    }
}

/// A path with something in the place of each part that stands for something.
fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

async fn router() -> Router {
    let runtime = Runtime::builder().one_lane().build();
    let options = Options { adk_ui: Some("page".into()), ..Options::default() };
    Server::new(&runtime, options).await.unwrap().router()
}

async fn ask(router: &Router, method: &Method, path: &str) -> Response {
    let request = Request::builder().method(method).uri(filled(path)).header("host", "localhost");
    router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

/// All paths that are served: those that are described, those of ADK's dialect, the description, and the root.
async fn served(router: &Router) -> BTreeSet<String> {
    let described = ask(router, &Method::GET, "/openapi.json").await.into_body().collect().await.unwrap();
    let described: Value = serde_json::from_slice(&described.to_bytes()).unwrap();
    let native = described["paths"].as_object().unwrap().keys().cloned();
    let adk = adk::routes().into_iter().map(|(path, _)| path.to_owned());
    let page = crate::page::routes().into_iter().map(|(path, _)| path.to_owned());
    native.chain(adk).chain(page).chain(["/openapi.json", "/"].map(str::to_owned)).collect()
}

#[tokio::test]
async fn the_table_has_every_route_that_is_served_and_no_other() {
    let router = router().await;
    let listed: BTreeSet<String> = TABLE.keys().map(|path| (*path).to_owned()).collect();
    assert_eq!(listed, served(&router).await);
    let methods = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    for (path, row) in TABLE.iter() {
        for method in &methods {
            let is_listed = row.any.is_some() || row.methods.iter().any(|(known, _)| known == method);
            let status = ask(&router, method, path).await.status();
            let is_served = status != StatusCode::METHOD_NOT_ALLOWED;
            assert_eq!(is_listed, is_served, "{method} {path} answers {status}");
        }
    }
}

#[test]
fn the_dialect_of_a_path_is_the_one_of_its_table() {
    assert!(NATIVE.iter().all(|(_, path, _)| !adk::is_adks(path)));
    assert!(PAGE.iter().all(|(_, path, _)| !adk::is_adks(path)));
    let adks = ADK.iter().map(|(_, path, _)| *path).chain(ADK_ANY.iter().map(|(path, _)| *path));
    assert!(adks.into_iter().all(adk::is_adks));
}

#[tokio::test]
async fn a_router_that_is_mounted_somewhere_asks_for_the_same() {
    let runtime = Runtime::builder().one_lane().build();
    let options = Options { auth: true, ..Options::default() };
    let server = Server::new(&runtime, options).await.unwrap();
    let mounted = Router::new().nest("/a/{b}", server.router());
    for (path, status) in [("/a/x/healthz", 200), ("/a/x/v1/runs", 401), ("/a/x/v1/nothing", 401)] {
        assert_eq!(ask(&mounted, &Method::GET, path).await.status().as_u16(), status, "{path}");
    }
    let key = server.owner_key().unwrap().show().to_owned();
    for (path, status) in [("/a/x/v1/runs", 200), ("/a/x/v1/nothing", 404), ("/a/x/v1/cancel", 405)] {
        let request = Request::get(path).header("host", "localhost").header("authorization", format!("Bearer {key}"));
        let response = mounted.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{path}");
    }
}

#[tokio::test]
async fn a_route_without_a_row_is_served_to_nobody() {
    let runtime = Runtime::builder().one_lane().build();
    let options = Options { auth: true, ..Options::default() };
    let server = Server::new(&runtime, options).await.unwrap();
    let unlisted = Router::new().route("/unlisted", axum::routing::get(|| async { "a secret" }));
    let layer = axum::middleware::from_fn_with_state(Shared::clone(&server.core), admit);
    let router = unlisted.layer(layer);
    let key = server.owner_key().unwrap().show();
    let request = Request::get("/unlisted").header("authorization", format!("Bearer {key}"));
    let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
}
