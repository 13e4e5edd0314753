use std::collections::BTreeSet;

use andon_runtime::Runtime;
use axum::Router;
use axum::body::Body;
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use super::*;
use crate::access::table::{NATIVE, PAGE, table};
use crate::{Options, Server};

#[test]
fn a_ticket_is_taken_out_of_an_address_and_the_rest_stays() {
    for (before, ticket, after) in [
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
        assert_eq!(uri.to_string(), after);
    }
}

#[test]
fn only_health_and_the_page_are_open_to_all() {
    let open = NATIVE.iter().chain(PAGE).filter(|row| row.need == Need::Public).map(|row| row.path);
    let known = ["/healthz", "/readyz", "/", "/ui", "/ui/", "/ui/{*file}"];
    assert_eq!(open.collect::<BTreeSet<_>>(), BTreeSet::from(known));
}

#[test]
fn no_route_has_two_rows() {
    let all = NATIVE.iter().chain(PAGE);
    for row in all.clone() {
        let same = all.clone().filter(|other| (&other.method, other.path) == (&row.method, row.path)).count();
        assert_eq!(same, 1, "{row:?}");
    }
}

/// A path with every parameter filled in.
fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

async fn ask(router: &Router, method: &Method, path: &str) -> Response {
    let request = Request::builder().method(method).uri(filled(path)).header("host", "localhost");
    router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

/// All paths that are served: those in the OpenAPI description, those of the page, the description itself and the root.
async fn served(router: &Router) -> BTreeSet<String> {
    let described = ask(router, &Method::GET, "/openapi.json").await.into_body().collect().await.unwrap();
    let described: Value = serde_json::from_slice(&described.to_bytes()).unwrap();
    let native = described["paths"].as_object().unwrap().keys().cloned();
    let page = crate::page::routes().into_iter().map(|(path, _)| path.to_owned());
    native.chain(page).chain(["/openapi.json", "/"].map(str::to_owned)).collect()
}

#[tokio::test]
async fn the_table_has_every_route_that_is_served_and_no_other() {
    let runtime = Runtime::builder().one_lane().build();
    let server = Server::new(&runtime, Options::default()).await.unwrap();
    let router = server.mount("/", |_| Some(Principal::local())).router().unwrap();
    let listed: BTreeSet<String> = server.routes().iter().map(|row| row.path.to_owned()).collect();
    assert_eq!(listed, served(&router).await);
    for path in &listed {
        for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let is_listed = server.routes().iter().any(|row| row.path == path && row.method.as_ref() == Some(&method));
            let status = ask(&router, &method, path).await.status();
            let is_served = status != StatusCode::METHOD_NOT_ALLOWED;
            assert_eq!(is_listed, is_served, "{method} {path} answers {status}");
        }
    }
}

#[tokio::test]
async fn a_router_that_is_mounted_somewhere_asks_for_the_same() {
    let runtime = Runtime::builder().one_lane().build();
    let options = Options::new().auth(true);
    let server = Server::new(&runtime, options).await.unwrap();
    let mounted = Router::new().nest("/a/{b}", server.mount("/", |_| None).router().unwrap());
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
    let options = Options::new().auth(true);
    let unlisted = Router::new().route("/unlisted", axum::routing::get(|| async { "a secret" }));
    let auth = Auth::read(&runtime, &options, &TaskTracker::new()).await.unwrap();
    let key = auth.owner_key().unwrap().show().to_owned();
    let gate = Gate { auth: Arc::new(auth), table: table([]), runtime, asked: Asked::Nobody };
    let router = unlisted.layer(axum::middleware::from_fn_with_state(Arc::new(gate), check_access));
    let request = Request::get("/unlisted").header("authorization", format!("Bearer {key}"));
    let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
}
