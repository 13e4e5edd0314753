//! Every route of the table, called by everybody who may not call it.

use std::sync::Arc;
use std::time::Duration;

use andon_adk::Adk;
use andon_runtime::core::time::Wall;
use andon_runtime::{Agent, Run, Runtime, TestClock};
use andon_testkit::{Act, ScriptedModel};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use andon_server::dialect::{Need, Row};
use andon_server::{Board, NewKey, Options, Principal, Scope, Server};

pub(crate) const RUNS: [&str; 3] = ["run:create", "run:read", "run:cancel"];

/// A server that requires keys, with a run of ada's.
pub(crate) struct World {
    pub(crate) runtime: Runtime,
    pub(crate) server: Server,
    pub(crate) router: Router,
    pub(crate) run: Run,
}

/// A status and a body.
pub(crate) type Answer = (StatusCode, Value);

impl World {
    pub(crate) async fn new() -> Self {
        Self::limited(Options::default().max_feeds_of_user).await
    }

    /// A world in which a user may have this many feeds.
    pub(crate) async fn limited(max_feeds_of_user: usize) -> Self {
        let clock = Arc::new(TestClock::new());
        let runtime = Runtime::builder().one_lane().observer(Board::new()).clock(clock).build();
        let options = Options::new().auth(true).max_feeds_of_user(max_feeds_of_user);
        let adk =
            Adk { page: Some(concat!(env!("CARGO_MANIFEST_DIR"), "/../andon-server/web").into()), ..Adk::default() };
        let server = Server::with_dialects(&runtime, options, vec![Arc::new(adk)]).await.unwrap();
        let model = ScriptedModel::new(std::iter::repeat_with(|| vec![Act::text("Once"), Act::Silence]).take(50));
        server.apps().put(Agent::builder().name("shop").model(model).runtime(&runtime).build().unwrap(), None);
        let router = server.mount("/", |_| None).router().unwrap();
        let ada = key(&server, "ada", None, &RUNS);
        let order = json!({"app": "shop", "input": "Go.", "session": "s"});
        let made = send(&router, Some(&ada), &Method::POST, "/v1/runs", Some(&order)).await;
        assert_eq!(made.0, StatusCode::CREATED, "{}", made.1);
        let run = runtime.in_progress().remove(0);
        Self { runtime, server, router, run }
    }

    pub(crate) fn key(&self, name: &str, tenant: Option<&str>, scopes: &[&str]) -> String {
        key(&self.server, name, tenant, scopes)
    }

    pub(crate) async fn send(&self, key: Option<&str>, method: &Method, path: &str, body: Option<&Value>) -> Answer {
        send(&self.router, key, method, path, body).await
    }

    /// Calls a row with ada's ids, or with ids that nobody has.
    async fn ask(&self, key: Option<&str>, (method, path, _): &Asked, whose: Whose) -> Answer {
        let path = self.filled(path, whose);
        let body = body(method, &path, whose);
        let (status, answer) = self.send(key, method, &path, body.as_ref()).await;
        // The answer may echo the ids.
        let told = answer.to_string();
        let told = told.replace(self.run.id().as_str(), "RUN").replace("unknown-run", "RUN");
        (status, serde_json::from_str(&told.replace("unknown-session", "s")).unwrap())
    }

    fn filled(&self, path: &str, whose: Whose) -> String {
        let parts = path.split('/').map(|part| match (part, whose) {
            ("{run_id}", Whose::Adas) => self.run.id().as_str(),
            ("{run_id}", Whose::Nobodys) => "unknown-run",
            ("{session}", Whose::Adas) => "s",
            ("{session}", Whose::Nobodys) => "unknown-session",
            ("{user}", _) => "ada",
            ("{app}", _) => "shop",
            (part, _) if part.starts_with('{') => "x",
            (part, _) => part,
        });
        parts.collect::<Vec<_>>().join("/")
    }

    /// What must not change, whatever others ask.
    async fn standing(&self) -> Value {
        let admin = self.server.owner_key().unwrap().show();
        let mut all = Vec::new();
        for path in ["/v1/runs", "/v1/sessions", "/v1/line", "/v1/keys", "/v1/sessions/shop/ada/s"] {
            all.push(self.send(Some(admin), &Method::GET, path, None).await.1);
        }
        json!([all, self.run.cord().is_pulled()])
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Adas,
    Nobodys,
}

/// A method, a path, and what it requires.
type Asked = (Method, &'static str, Need);

/// All rows except those of the page; a path that accepts every method is called with two of them.
fn rows(server: &Server) -> Vec<Asked> {
    let is_pages = |row: &&Row| row.path == "/" || row.path.starts_with("/ui");
    let rows = server.routes().iter().filter(|row| !is_pages(row));
    let methods = |row: &Row| row.method.clone().map_or(vec![Method::GET, Method::POST], |method| vec![method]);
    rows.flat_map(|row| methods(row).into_iter().map(|method| (method, row.path, row.need))).collect()
}

pub(crate) fn key(server: &Server, name: &str, tenant: Option<&str>, scopes: &[&str]) -> String {
    key_until(server, name, tenant, scopes, None)
}

pub(crate) fn key_until(
    server: &Server,
    name: &str,
    tenant: Option<&str>,
    scopes: &[&str],
    end: Option<Wall>,
) -> String {
    let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
    let tenant = tenant.map(str::to_owned);
    let new = NewKey::new(name.to_owned(), scopes).user("ada").tenant(tenant).expires_at(end);
    let new = if name == "bob" { new.user("bob") } else { new };
    let runtime = server.runtime();
    server.keys().create(new, runtime.now().wall, runtime.shelf()).unwrap().key.show().to_owned()
}

/// The body of a request that needs one. `session` is the one that the path is about.
fn body(method: &Method, path: &str, whose: Whose) -> Option<Value> {
    let session = if whose == Whose::Adas { "s" } else { "unknown-session" };
    match (method.as_str(), path) {
        ("POST", "/v1/runs") => Some(json!({"app": "shop", "input": "x", "user": "ada", "session": session})),
        ("POST", "/v1/cancel") => Some(json!({"session": session})),
        ("POST", "/v1/keys") => Some(json!({"name": "eve", "scopes": ["admin"]})),
        ("PUT", "/v1/line") => Some(json!({"state": "held"})),
        ("POST", path) if path.contains("/approvals/") => Some(json!({"decision": "approve"})),
        ("POST", "/run" | "/run_sse") => {
            let message = json!({"role": "user", "parts": [{"text": "x"}]});
            Some(json!({"appName": "shop", "userId": "ada", "sessionId": session, "newMessage": message}))
        }
        ("PATCH", path) if path.ends_with("/memory") => Some(json!({"sessionId": session})),
        ("PATCH", _) => Some(json!({"stateDelta": {"k": "v"}})),
        ("POST", path) if path.ends_with("/artifacts") => Some(json!({"filename": "f", "artifact": {"text": "x"}})),
        ("POST" | "PUT", _) => Some(json!({})),
        _ => None,
    }
}

pub(crate) async fn raw(
    router: &Router,
    key: Option<&str>,
    method: &Method,
    path: &str,
    body: Option<&Value>,
) -> Response {
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    let request = key.iter().fold(request, |request, key| request.header("authorization", format!("Bearer {key}")));
    let request = match body {
        Some(body) => request.header("content-type", "application/json").body(body.to_string().into()),
        None => request.body(Body::empty()),
    };
    router.clone().oneshot(request.unwrap()).await.unwrap()
}

pub(crate) async fn send(
    router: &Router,
    key: Option<&str>,
    method: &Method,
    path: &str,
    body: Option<&Value>,
) -> Answer {
    let response = raw(router, key, method, path, body).await;
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&body).into_owned();
    (status, without_id(serde_json::from_slice(&body).unwrap_or(Value::String(text))))
}

/// The response without the request's id, which is different each time.
fn without_id(mut told: Value) -> Value {
    if let Some(told) = told.as_object_mut() {
        told.remove("request_id");
    }
    told
}

#[tokio::test(start_paused = true)]
async fn every_bad_key_gets_the_same_401() {
    let world = World::new().await;
    let soon = Wall(world.runtime.now().wall.0 + 1_000_000);
    let expired = key_until(&world.server, "ada", None, &["admin"], Some(soon));
    let revoked = world.key("ada", None, &["admin"]);
    let id = revoked.split('_').nth(1).unwrap();
    world.server.keys().revoke(id, world.runtime.now().wall, world.runtime.shelf()).unwrap().1.await.unwrap();
    tokio::time::advance(Duration::from_secs(2)).await;
    let good = world.key("ada", None, &["admin"]);
    let wrong = format!("{}x", &good[..good.len() - 1]);
    let owner = format!("{}x", world.server.owner_key().unwrap().show());
    let shown = [None, Some(&*wrong), Some(&*expired), Some(&*revoked), Some(&*owner), Some(""), Some("a.b.c")];
    let standing = world.standing().await;
    for row in rows(&world.server) {
        let (method, path, need) = &row;
        for key in shown {
            let path = world.filled(path, Whose::Adas);
            let response = raw(&world.router, key, method, &path, body(method, &path, Whose::Adas).as_ref()).await;
            let what = format!("{method} {path} with {key:?}");
            if *need == Need::Public {
                assert_eq!(response.status(), StatusCode::OK, "{what}");
                continue;
            }
            assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{what}");
            assert_eq!(response.headers().get("www-authenticate").map(|value| value.as_bytes()), Some(&b"Bearer"[..]));
            let told = response.into_body().collect().await.unwrap().to_bytes();
            let told = without_id(serde_json::from_slice(&told).unwrap());
            let same = world.ask(None, &row, Whose::Nobodys).await.1;
            assert_eq!(told, same, "{what}");
        }
    }
    assert_eq!(world.standing().await, standing);
}

#[tokio::test(start_paused = true)]
async fn a_missing_scope_is_named_and_nothing_happens() {
    let world = World::new().await;
    let keys: Vec<(Scope, String)> = Scope::ALL
        .into_iter()
        .map(|lacking| {
            let rest = Scope::ALL.into_iter().filter(|scope| *scope != lacking && *scope != Scope::Admin);
            (lacking, world.key("ada", None, &rest.map(Scope::as_str).collect::<Vec<_>>()))
        })
        .collect();
    let standing = world.standing().await;
    for row in rows(&world.server) {
        let scopes = match row.2 {
            Need::Scope(scope) | Need::Feed(scope) => vec![scope],
            Need::Both(one, other) => vec![one, other],
            Need::Public | Need::Known => continue,
            #[cfg(not(andon_whole))]
            _ => continue,
        };
        for scope in scopes {
            let (_, key) = keys.iter().find(|(lacking, _)| *lacking == scope).unwrap();
            for whose in [Whose::Adas, Whose::Nobodys] {
                let (status, told) = world.ask(Some(key), &row, whose).await;
                assert_eq!(status, StatusCode::FORBIDDEN, "{} {}: {told}", row.0, row.1);
                assert!(told["detail"].as_str().unwrap().contains(scope.as_str()), "{told}");
            }
        }
    }
    assert_eq!(world.standing().await, standing);
}

#[tokio::test(start_paused = true)]
async fn the_data_of_other_users_and_tenants_looks_like_missing_data() {
    let world = World::new().await;
    let bob = world.key("bob", None, &RUNS);
    // She has the same name in another tenant, and may act for everybody there.
    let south = world.key("ada", Some("south"), &["run:create", "run:read", "run:cancel", "impersonate", "metrics"]);
    let standing = world.standing().await;
    let mut asked = 0;
    for row in rows(&world.server) {
        let (method, path, need) = &row;
        let is_about_ids = path.contains("{run_id}") || path.contains("{session}") || path.contains("{user}");
        let is_told_by_body = ["/run", "/run_sse", "/v1/cancel"].contains(path);
        if matches!(need, Need::Scope(Scope::Admin)) || !(is_about_ids || is_told_by_body) {
            continue;
        }
        for (who, key) in [("bob", &bob), ("south", &south)] {
            let foreign = world.ask(Some(key), &row, Whose::Adas).await;
            let unknown = world.ask(Some(key), &row, Whose::Nobodys).await;
            // South's ada may create things in her own tenant, where they are hers.
            let may_make = who == "south" && path.starts_with("/apps/") && foreign.0.is_success();
            assert!(foreign == unknown || (may_make && foreign.0 == unknown.0), "{who}: {method} {path}: {foreign:?}");
            // Memory is not supported, and an app's graph is the same for every caller.
            let is_same = path.ends_with("/memory") || path.ends_with("/graph") || foreign.1 == json!([]);
            let is_empty = is_same || (*path == "/v1/cancel" && foreign.1["cancelled"] == 0);
            assert!(foreign.0 == StatusCode::NOT_FOUND || may_make || is_empty, "{who}: {method} {path}: {foreign:?}");
            asked += 1;
        }
    }
    assert!(asked > 40, "{asked} were asked");
    let after = world.standing().await;
    assert_eq!(after[1], standing[1], "ada's run was stopped");
    assert_eq!(after[0][4], standing[0][4], "ada's session was changed");
    for (who, key) in [("bob", &bob), ("south", &south)] {
        for path in ["/v1/runs", "/v1/runs?user=ada", "/v1/runs?session=s", "/v1/sessions", "/v1/sessions?user=ada"] {
            let (status, told) = world.send(Some(key), &Method::GET, path, None).await;
            assert_eq!(status, StatusCode::OK);
            let list = told["runs"].as_array().or(told["sessions"].as_array()).unwrap();
            let of_adas = list.iter().filter(|one| one["session"] == "s" && who == "bob").count();
            assert!(of_adas == 0 && !told.to_string().contains(world.run.id().as_str()), "{who} {path}: {told}");
        }
        let of = |before: &str| format!("/v1/runs?before={before}");
        let foreign = world.send(Some(key), &Method::GET, &of(world.run.id().as_str()), None).await;
        assert_eq!(foreign, world.send(Some(key), &Method::GET, &of("unknown-run"), None).await);
    }
    let order = |user: &str| json!({"app": "shop", "input": "x", "user": user});
    let foreign = world.send(Some(&bob), &Method::POST, "/v1/runs", Some(&order("ada"))).await;
    assert_eq!(foreign, world.send(Some(&bob), &Method::POST, "/v1/runs", Some(&order("nobody"))).await);
    assert_eq!(foreign.0, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn choosing_an_id_reveals_no_other_ids() {
    let world = World::new().await;
    let (ada, bob) = (world.key("ada", None, &RUNS), world.key("bob", None, &RUNS));
    let order = |session: &str| json!({"app": "shop", "input": "x", "run_id": "r", "session": session});
    let (status, adas) = world.send(Some(&ada), &Method::POST, "/v1/runs", Some(&order("a"))).await;
    assert_eq!(status, StatusCode::CREATED);
    let (status, again) = world.send(Some(&ada), &Method::POST, "/v1/runs", Some(&order("a"))).await;
    assert_eq!((status, &again["run_id"]), (StatusCode::OK, &adas["run_id"]), "a repetition finds its run");
    assert_eq!(world.send(Some(&bob), &Method::POST, "/v1/runs/r/cancel", None).await.0, StatusCode::NOT_FOUND);
    let (status, bobs) = world.send(Some(&bob), &Method::POST, "/v1/runs", Some(&order("b"))).await;
    assert_eq!(status, StatusCode::CREATED, "the id is bob's own");
    assert_ne!(adas["run_id"], bobs["run_id"]);
    let whole = adas["run_id"].as_str().unwrap();
    for (key, path, status) in [
        (&ada, "/v1/runs/r".to_owned(), StatusCode::OK),
        (&ada, format!("/v1/runs/{whole}"), StatusCode::OK),
        (&bob, format!("/v1/runs/{whole}"), StatusCode::NOT_FOUND),
    ] {
        assert_eq!(world.send(Some(key), &Method::GET, &path, None).await.0, status, "{path}");
    }
    let taken = json!({"app": "shop", "input": "x", "run_id": whole, "session": "c"});
    let (status, told) = world.send(Some(&bob), &Method::POST, "/v1/runs", Some(&taken)).await;
    assert_eq!(status, StatusCode::CREATED, "the whole id of ada's run is as free to bob as any: {told}");
    let adas = world.runtime.find_in_progress(&andon_runtime::RunId::new(whole).unwrap()).unwrap();
    assert!(!adas.cord().is_pulled());
    // Bob's cancel waited for bob's own run.
    let bobs = andon_runtime::RunId::new(bobs["run_id"].as_str().unwrap()).unwrap();
    let bobs = world.runtime.find(&bobs).await.unwrap().unwrap();
    assert!(bobs.cord().is_pulled());
}

#[tokio::test(start_paused = true)]
async fn only_admin_reaches_every_tenant_and_may_say_operator() {
    let world = World::new().await;
    let south = world.key("ada", Some("south"), &["admin"]);
    let ada = world.key("ada", None, &RUNS);
    let path = format!("/v1/runs/{}/cancel", world.run.id());
    let operator = json!({"reason": "operator"});
    assert_eq!(world.send(Some(&ada), &Method::POST, &path, Some(&operator)).await.0, StatusCode::FORBIDDEN);
    assert!(!world.run.cord().is_pulled());
    let (_, told) = world.send(Some(&south), &Method::POST, "/v1/cancel", Some(&json!({"all": true}))).await;
    assert_eq!(told["cancelled"], 1, "{told}");
    assert_eq!(world.send(Some(&south), &Method::POST, &path, Some(&operator)).await.0, StatusCode::OK);
    world.run.outcome().await;
    let receipt = serde_json::to_value(world.run.receipt().unwrap()).unwrap();
    assert!(receipt.to_string().contains(r#""by":"ada""#), "{receipt}");
}

#[tokio::test(start_paused = true)]
async fn a_feed_ends_within_five_seconds_after_its_key_is_revoked_or_expires() {
    let world = World::new().await;
    let events = format!("/v1/runs/{}/events", world.run.id());
    let end = Wall(world.runtime.now().wall.0 + 20_000_000);
    let expiring = key_until(&world.server, "ada", None, &RUNS, Some(end));
    let kept = world.key("ada", None, &RUNS);
    let revoked = world.key("ada", None, &RUNS);
    let open = async |key: &str| raw(&world.router, Some(key), &Method::GET, &events, None).await.into_body();
    let (mut kept, mut expiring, mut to_be_revoked) = (open(&kept).await, open(&expiring).await, open(&revoked).await);
    for body in [&mut kept, &mut expiring, &mut to_be_revoked] {
        assert!(body.frame().await.is_some(), "it is read");
    }
    let began = tokio::time::Instant::now();
    tokio::time::advance(Duration::from_secs(3)).await;
    let id = revoked.split('_').nth(1).unwrap();
    drop(world.server.keys().revoke(id, world.runtime.now().wall, world.runtime.shelf()));
    while to_be_revoked.frame().await.is_some() {}
    assert!(began.elapsed() <= Duration::from_secs(8), "{:?}", began.elapsed());
    while expiring.frame().await.is_some() {}
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(20) && took <= Duration::from_secs(25), "{took:?}");
    assert!(kept.frame().await.is_some(), "whoever may read goes on reading");
    assert!(!world.run.cord().is_pulled());
}

#[tokio::test(start_paused = true)]
async fn a_ticket_opens_one_feed_once_and_nothing_else() {
    let world = World::new().await;
    let (ada, bob) = (world.key("ada", None, &RUNS), world.key("bob", None, &RUNS));
    let issue = async |key: &str| {
        let (status, told) = world.send(Some(key), &Method::POST, "/v1/tickets", None).await;
        assert_eq!((status, &told["expires_in_ms"]), (StatusCode::CREATED, &json!(30_000)));
        told["ticket"].as_str().unwrap().to_owned()
    };
    let events = format!("/v1/runs/{}/events", world.run.id());
    let open = async |path: &str, ticket: &str| {
        let path = format!("{path}?ticket={ticket}");
        raw(&world.router, None, &Method::GET, &path, None).await.status()
    };
    let ticket = issue(&ada).await;
    assert_eq!(open("/v1/runs", &ticket).await, StatusCode::UNAUTHORIZED, "a ticket is for feeds");
    assert_eq!(open(&events, &ticket).await, StatusCode::OK);
    assert_eq!(open(&events, &ticket).await, StatusCode::UNAUTHORIZED);
    assert_eq!(open(&events, &issue(&bob).await).await, StatusCode::NOT_FOUND, "it reaches no further than its key");
    let late = issue(&ada).await;
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(open(&events, &late).await, StatusCode::UNAUTHORIZED);
    let id = ada.split('_').nth(1).unwrap();
    let orphan = issue(&ada).await;
    drop(world.server.keys().revoke(id, world.runtime.now().wall, world.runtime.shelf()));
    assert_eq!(open(&events, &orphan).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn a_preflight_request_needs_no_key() {
    let runtime = Runtime::builder().one_lane().build();
    let options = Options::new().auth(true).origins(vec!["https://app.example".to_owned()]);
    let router = Server::new(&runtime, options).await.unwrap().mount("/", |_| None).router().unwrap();
    let preflight = Request::builder()
        .method(Method::OPTIONS)
        .uri("/v1/runs")
        .header("host", "localhost")
        .header("origin", "https://app.example")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization, content-type");
    let response = router.clone().oneshot(preflight.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["access-control-allow-origin"], "https://app.example");
    let asked = Request::get("/v1/runs").header("host", "localhost").header("origin", "https://app.example");
    let response = router.oneshot(asked.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(response.headers()["access-control-allow-origin"], "https://app.example", "the page can read why");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_cancels_for_idle_runs_is_limited_and_a_live_run_can_still_be_stopped() {
    let world = World::new().await;
    let ada = world.key("ada", None, &RUNS);
    let cancel = async |run: &str| world.send(Some(&ada), &Method::POST, &format!("/v1/runs/{run}/cancel"), None).await;
    let mut refused = 0;
    for n in 0..1_100 {
        refused += usize::from(cancel(&format!("none-{}", n % 50)).await.1["type"] == "urn:andon:too-many-cancels");
    }
    assert!(refused > 0, "none was refused");
    assert!(cancel(world.run.id().as_str()).await.0.is_success());
    assert!(world.run.cord().is_pulled());
}

/// The cost of authenticating a request. Run with `--ignored --nocapture`.
#[tokio::test]
#[ignore = "a measurement"]
async fn what_a_key_costs() {
    const TIMES: u32 = 20_000;
    let runtime = Runtime::builder().one_lane().build();
    let mut took = Vec::new();
    for auth in [false, true, false, true] {
        let server = Server::new(&runtime, Options::new().auth(auth)).await.unwrap();
        for _ in 0..1_000 {
            key(&server, "eve", None, &RUNS);
        }
        let (key, router) = (
            key(&server, "ada", None, &RUNS),
            server.mount("/", move |_| (!auth).then(Principal::local)).router().unwrap(),
        );
        let began = tokio::time::Instant::now();
        for _ in 0..TIMES {
            let response = raw(&router, Some(&key), &Method::GET, "/v1/apps", None).await;
            assert_eq!(response.status(), StatusCode::OK);
        }
        took.push(began.elapsed() / TIMES);
    }
    println!("a request without, with, without and with a key: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn anyone_gets_our_page_and_only_signed_in_users_get_adks() {
    let world = World::new().await;
    let led = raw(&world.router, None, &Method::GET, "/", None).await;
    assert_eq!(
        (led.status(), &led.headers()["location"]),
        (StatusCode::TEMPORARY_REDIRECT, &"dev-ui/".parse().unwrap())
    );
    assert_eq!(raw(&world.router, None, &Method::GET, "/dev-ui/", None).await.status(), StatusCode::UNAUTHORIZED);
}
