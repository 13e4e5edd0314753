//! The server in another program, which has a sign-in of its own: the program of the example `mounted`, over real sockets.

use std::collections::BTreeSet;

use andon_server::{Board, MountError, Part, Principal, ShutDown};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response as Answer;
use http_body_util::BodyExt as _;
use reqwest::header::HeaderMap;
use reqwest::{Response, Url};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tower::ServiceExt as _;

use crate::common::*;
use crate::house::{Events, answered};
use crate::mounted_example::program;
use crate::ws::{connect, next, rest, say};

/// Where the program is: by itself, or behind a proxy that strips a prefix.
const ROOT: &str = "";
const PROXIED: &str = "/tools";

/// The example's program with an app `shop` that says something and is then silent forever.
struct Outer {
    runtime: Runtime,
    server: Server,
    address: std::net::SocketAddr,
    client: reqwest::Client,
    serving: JoinHandle<std::io::Result<()>>,
    end: tokio::sync::oneshot::Sender<()>,
}

/// Somebody who has signed in to the program.
struct Person<'a> {
    outer: &'a Outer,
    cookie: String,
}

/// What programs put around their routes: it looks into requests, and passes the bodies of answers through a stream of its own.
async fn own_layer(mut request: Request, next: Next) -> Answer {
    request.extensions_mut().insert("of the program");
    let (mut head, body) = next.run(request).await.into_parts();
    head.headers.insert("x-of-the-program", "yes".parse().unwrap());
    let is_upgrade = head.status == axum::http::StatusCode::SWITCHING_PROTOCOLS;
    let body = if is_upgrade { body } else { Body::from_stream(body.into_data_stream()) };
    Answer::from_parts(head, body)
}

/// Passes requests on as a proxy does that strips [`PROXIED`], and other requests as they are.
fn proxied(program: Router) -> Router {
    Router::new().fallback(move |mut request: Request| {
        let program = program.clone();
        async move {
            let asked = request.uri().path_and_query().unwrap().to_string();
            *request.uri_mut() = asked.strip_prefix(PROXIED).unwrap_or(&asked).parse().unwrap();
            // A proxy passes on nothing but the request.
            request.extensions_mut().remove::<axum::extract::OriginalUri>();
            program.oneshot(request).await
        }
    })
}

impl Outer {
    async fn new() -> Self {
        let runtime = Runtime::builder().observer(Board::new()).build();
        let options = Options::new().drain(Duration::from_millis(1));
        let server = Server::with_dialects(&runtime, options, vec![Arc::new(andon_adk::Adk::default())]).await.unwrap();
        let shop = agent(std::iter::repeat_with(endless).take(9)).name("shop").runtime(&runtime);
        server.apps().put(shop.build().unwrap(), None);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = proxied(program(&server).unwrap().layer(from_fn(own_layer)));
        let (end, ended) = tokio::sync::oneshot::channel();
        let ended = async move { ended.await.unwrap_or_default() };
        let serving = axum::serve(listener, router).with_graceful_shutdown(ended);
        #[expect(clippy::disallowed_methods, reason = "the program is not one of ours")]
        let serving = tokio::spawn(serving.into_future());
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
        Self { runtime, server, address, client: client.build().unwrap(), serving, end }
    }

    fn url(&self, path: &str) -> Url {
        format!("http://{}{path}", self.address).parse().unwrap()
    }

    async fn get(&self, path: &str) -> Response {
        self.client.get(self.url(path)).send().await.unwrap()
    }

    async fn sign_in(&self, user: &str) -> Person<'_> {
        let response = self.client.post(self.url("/")).body(format!("user={user}")).send().await.unwrap();
        assert_eq!(response.headers()["location"], "/agents/");
        let cookie = response.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        Person { outer: self, cookie }
    }
}

impl Person<'_> {
    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.outer.client.request(method, self.outer.url(path)).header("cookie", &self.cookie)
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        answered(self.request(Method::GET, path).send().await.unwrap()).await
    }

    async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        answered(self.request(Method::POST, path).json(&body).send().await.unwrap()).await
    }

    async fn start(&self) -> String {
        let (status, run) = self.post("/agents/v1/runs", json!({"app": "shop", "session": "s", "input": "Go."})).await;
        assert_eq!(status, StatusCode::CREATED, "{run}");
        run["run_id"].as_str().unwrap().to_owned()
    }

    async fn state(&self, run: &str) -> Value {
        self.get(&format!("/agents/v1/runs/{run}")).await.1["state"].clone()
    }

    async fn feed(&self, run: &str, after: Option<&str>) -> Events {
        let request = self.request(Method::GET, &format!("/agents/v1/runs/{run}/events"));
        let request = after.into_iter().fold(request, |request, after| request.header("last-event-id", after));
        let response = request.send().await.unwrap();
        assert_eq!(
            (response.status(), &response.headers()["x-of-the-program"]),
            (StatusCode::OK, &"yes".parse().unwrap())
        );
        Events::of(response)
    }

    async fn socket(&self, path: &str) -> crate::ws::Socket {
        let mut request = self.outer.url(path).as_str().replace("http", "ws").into_client_request().unwrap();
        request.headers_mut().insert("cookie", self.cookie.parse().unwrap());
        connect(request).await.unwrap()
    }
}

/// Checks P9 and P11.
#[tokio::test]
async fn a_user_neither_sees_nor_stops_the_run_of_another_and_their_own_goes_on() {
    let outer = Outer::new().await;
    let (ada, bob) = (outer.sign_in("ada").await, outer.sign_in("bob").await);
    let (of_ada, of_bob) = (ada.start().await, bob.start().await);
    let run = format!("/agents/v1/runs/{of_ada}");
    let unknown = bob.get("/agents/v1/runs/unknown").await;
    for path in ["", "/receipt", "/conversation", "/events"] {
        let (status, told) = bob.get(&format!("{run}{path}")).await;
        assert_eq!((status, &told["type"]), (unknown.0, &unknown.1["type"]), "{path}");
    }
    for (path, body) in [
        (format!("{run}/cancel"), json!({})),
        (format!("{run}/calls/c1/cancel"), json!({})),
        (format!("{run}/approvals/c1"), json!({"decision": "approve"})),
    ] {
        assert_eq!(bob.post(&path, body).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    let (_, told) = bob.post("/agents/v1/cancel", json!({"user": "ada"})).await;
    assert_eq!((&told["cancelled"], &told["known"]), (&json!(0), &json!(false)), "{told}");
    assert_eq!(bob.get("/agents/v1/runs").await.1["runs"].as_array().unwrap().len(), 1);
    assert_eq!(bob.get("/agents/v1/keys").await.0, StatusCode::FORBIDDEN);
    let (_, told) = bob.post("/agents/v1/cancel", json!({"all": true, "wait": true})).await;
    assert_eq!((&told["cancelled"], &told["asked_by"]["name"]), (&json!(1), &json!("bob")), "{told}");
    assert_eq!([ada.state(&of_ada).await, bob.state(&of_bob).await], ["running", "settled"]);
    let (status, told) = ada.post(&format!("{run}/cancel"), json!({"wait": true})).await;
    assert_eq!(
        (status, &told["receipt"]["by"], ada.state(&of_ada).await),
        (StatusCode::OK, &json!("ada"), json!("settled"))
    );
}

/// Checks P11.
#[tokio::test]
async fn without_a_sign_in_nothing_but_the_page_and_health_is_served() {
    let outer = Outer::new().await;
    let run = outer.sign_in("ada").await.start().await;
    let open =
        ["/agents", "/agents/", "/agents/ui", "/agents/ui/", "/agents/healthz", "/agents/readyz", "/agents/health"];
    for path in open {
        let status = outer.get(path).await.status();
        assert!(status.is_success() || status.is_redirection(), "{path} answers {status}");
    }
    for path in [
        "/agents/v1/runs".to_owned(),
        format!("/agents/v1/runs/{run}/events"),
        "/agents/v1/me".to_owned(),
        "/agents/v1/board".to_owned(),
        "/agents/openapi.json".to_owned(),
        "/agents/metrics".to_owned(),
        "/agents/nowhere".to_owned(),
    ] {
        let (status, told) = answered(outer.get(&path).await).await;
        assert_eq!((status, &told["type"]), (StatusCode::UNAUTHORIZED, &json!("urn:andon:not-signed-in")), "{path}");
        assert_eq!(told["sign_in"], "/", "{path}");
    }
    assert_eq!(outer.get("/agents/list-apps").await.status(), StatusCode::UNAUTHORIZED);
    // Neither a key nor a made-up cookie is a sign-in.
    let made = outer.server.keys().create(
        NewKey::new("eve", vec!["admin".into()]),
        outer.runtime.now().wall,
        outer.runtime.shelf(),
    );
    let key = made.unwrap().key.show().to_owned();
    let asked = outer.client.get(outer.url("/agents/v1/runs"));
    assert_eq!(asked.bearer_auth(key).send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    let eve = Person { outer: &outer, cookie: "signed-in=eve".to_owned() };
    assert_eq!(eve.post("/agents/v1/cancel", json!({"all": true})).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(outer.runtime.in_progress().len(), 1);
    assert!(!outer.runtime.in_progress()[0].cord().is_pulled());
}

/// The addresses that a file of the page names: in its elements, its imports and its style sheets.
fn named(file: &str, text: &str) -> Vec<String> {
    let before: &[&str] = match file.rsplit('.').next().unwrap() {
        "js" => &[" from \"./", " from \"../", "import \"./", "import \"../", "import(\"./", "import(\"../"],
        "css" => &["url(\"", "@import \""],
        "svg" => &[],
        _ => &["src=\"", "href=\""],
    };
    let values = before.iter().flat_map(|before| {
        let start = if before.ends_with("../") { "../" } else { "" };
        text.split(before).skip(1).map(move |rest| format!("{start}{}", rest.split('"').next().unwrap()))
    });
    values.filter(|address| !address.starts_with('#')).collect()
}

/// Loads the page from the root of the server as a browser does, with everything that its files name; the paths of all.
async fn loaded(outer: &Outer, root: &str) -> BTreeSet<String> {
    let mut url = outer.url(root);
    let index = loop {
        let response = outer.client.get(url.clone()).send().await.unwrap();
        match response.headers().get("location") {
            Some(to) => url = url.join(to.to_str().unwrap()).unwrap(),
            None => break response,
        }
    };
    assert_eq!(index.status(), StatusCode::OK, "{url}");
    let mut open = vec![(url.clone(), index.text().await.unwrap())];
    let mut all = BTreeSet::from([url.path().to_owned()]);
    while let Some((url, text)) = open.pop() {
        for address in named(url.path(), &text) {
            assert!(!address.starts_with('/') && !address.contains(':'), "{address} in {url} is not relative");
            let next = url.join(&address).unwrap();
            if all.insert(next.path().to_owned()) {
                let response = outer.client.get(next.clone()).send().await.unwrap();
                assert_eq!(response.status(), StatusCode::OK, "{next} is named in {url}");
                open.push((next, response.text().await.unwrap()));
            }
        }
    }
    all
}

#[tokio::test]
async fn the_page_is_served_with_all_its_files_under_a_prefix_and_behind_a_proxy_that_strips_one() {
    let outer = Outer::new().await;
    let all = loaded(&outer, "/agents").await;
    let files: BTreeSet<String> = all.iter().map(|path| path.strip_prefix("/agents/ui/").unwrap().to_owned()).collect();
    for known in ["", "app.js", "board/board.js", "chat/chat.js", "run/trace.js", "stop.js", "style.css", "icon.svg"] {
        assert!(files.contains(known), "{known} is not among {files:?}");
    }
    for root in ["/agents/", "/agents/ui", "/tools/agents", "/tools/agents/"] {
        let found = loaded(&outer, root).await;
        let prefix = if root.starts_with(PROXIED) { PROXIED } else { ROOT };
        let expected: BTreeSet<String> = all.iter().map(|path| format!("{prefix}{path}")).collect();
        assert_eq!(found, expected, "{root}");
    }
}

#[tokio::test]
async fn what_an_answer_names_is_there_under_a_prefix_and_behind_a_proxy_that_strips_one() {
    let outer = Outer::new().await;
    let ada = outer.sign_in("ada").await;
    for prefix in ["/agents", "/tools/agents"] {
        let asked = outer.url(&format!("{prefix}/v1/runs"));
        let order = json!({"app": "shop", "input": "Go."});
        let made = ada.request(Method::POST, asked.path()).json(&order).send().await.unwrap();
        let place = asked.join(made.headers()["location"].to_str().unwrap()).unwrap();
        let run = made.json::<Value>().await.unwrap()["run_id"].clone();
        assert_eq!(ada.get(place.path()).await.1["run_id"], run, "{place}");
        let asked = outer.url(&format!("{prefix}/openapi.json"));
        let (_, description) = ada.get(asked.path()).await;
        let api = asked.join(description["servers"][0]["url"].as_str().unwrap()).unwrap();
        let api = api.as_str().trim_end_matches('/');
        for path in description["paths"].as_object().unwrap().keys().filter(|path| !path.contains('{')) {
            let url: Url = format!("{api}{path}").parse().unwrap();
            let status = ada.request(Method::HEAD, url.path()).send().await.unwrap().status();
            assert_ne!(status, StatusCode::NOT_FOUND, "{url}");
        }
        let adks = outer.url(&format!("{prefix}/dev-ui"));
        let to_page = ada.request(Method::GET, adks.path()).send().await.unwrap();
        let page = adks.join(to_page.headers()["location"].to_str().unwrap()).unwrap();
        assert_eq!(page.path(), format!("{prefix}/dev-ui/"));
    }
}

/// Checks P3.
#[tokio::test]
async fn feeds_resume_under_a_prefix_and_through_the_layers_of_the_program() {
    let outer = Outer::new().await;
    let ada = outer.sign_in("ada").await;
    let run = ada.start().await;
    // The run goes on, so what comes was not held back by anything.
    let mut feed = ada.feed(&run, None).await;
    let delta = feed.until_type("delta").await;
    drop(feed);
    let mut resumed = ada.feed(&run, Some(&delta.id)).await;
    let path = format!("/agents/v1/runs/{run}/events");
    let mut socket = ada.socket(&format!("{path}?after={}", delta.id)).await;
    let mut board = ada.socket("/agents/v1/board").await;
    assert_eq!(next(&mut board).await.unwrap()["type"], "board");
    say(&mut socket, json!({"type": "cancel", "note": "stop button"})).await;
    let first = resumed.next().await.unwrap();
    assert_eq!(first.json["type"], "cancel_requested", "nothing is sent again");
    let rest_of = resumed.rest().await;
    assert_eq!(rest_of.last().unwrap().json["type"], "run_settled");
    let (said, _) = rest(&mut socket).await;
    assert!(said.iter().any(|item| item["type"] == "run_settled"), "{said:?}");
    let over =
        ada.request(Method::GET, &path).header("last-event-id", &rest_of.last().unwrap().id).send().await.unwrap();
    assert_eq!(over.status(), StatusCode::NO_CONTENT);
}

/// Checks P11.
#[tokio::test]
async fn feeds_end_when_their_reader_signs_out_and_the_run_goes_on() {
    let outer = Outer::new().await;
    let ada = outer.sign_in("ada").await;
    let order = json!({"app": "shop", "input": "Go.", "run_id": "r", "on_disconnect": "cancel"});
    let run = ada.post("/agents/v1/runs", order).await.1["run_id"].as_str().unwrap().to_owned();
    let mut feed = ada.feed(&run, None).await;
    feed.until_type("delta").await;
    let mut socket = ada.socket(&format!("/agents/v1/runs/{run}/events")).await;
    let out = ada.request(Method::POST, "/out").send().await.unwrap();
    assert_eq!(out.headers()["location"], "/");
    assert!(feed.rest().await.is_empty());
    let (_, (code, _)) = rest(&mut socket).await;
    assert_eq!((code, ada.get("/agents/v1/me").await.0), (1008, StatusCode::UNAUTHORIZED));
    let again = outer.sign_in("ada").await;
    assert_eq!(again.state(&run).await, "running", "a reader that is cut off has not left by itself");
}

/// Checks P11.
#[tokio::test]
async fn pages_of_other_sites_do_nothing_with_the_cookie_of_the_program() {
    let outer = Outer::new().await;
    let ada = outer.sign_in("ada").await;
    let run = ada.start().await;
    let cancel = format!("/agents/v1/runs/{run}/cancel");
    let (events, ui) = (format!("/agents/v1/runs/{run}/events"), "/agents/ui/".to_owned());
    let site = |site: &'static str, mode: &'static str| vec![("sec-fetch-site", site), ("sec-fetch-mode", mode)];
    let form = ("content-type", "application/x-www-form-urlencoded");
    for (method, path, headers, status) in [
        (Method::POST, &cancel, vec![("origin", "https://evil.example")], 403),
        (Method::POST, &cancel, vec![("origin", "null")], 403),
        (Method::POST, &cancel, site("cross-site", "navigate"), 403),
        (Method::POST, &cancel, site("same-site", "no-cors"), 403),
        // An old browser, which says nothing about the page.
        (Method::POST, &cancel, vec![form], 403),
        (Method::POST, &cancel, vec![], 403),
        (Method::GET, &events, site("cross-site", "no-cors"), 403),
        // A WebSocket, which can stop a run, says its origin.
        (Method::GET, &events, vec![("origin", "https://evil.example"), ("upgrade", "websocket")], 403),
        (Method::GET, &events, site("cross-site", "navigate"), 403),
        (Method::GET, &ui, site("cross-site", "navigate"), 200),
    ] {
        let request = headers
            .iter()
            .fold(ada.request(method.clone(), path), |request, (name, value)| request.header(*name, *value));
        assert_eq!(request.send().await.unwrap().status().as_u16(), status, "{method} {path} {headers:?}");
    }
    assert_eq!(ada.state(&run).await, "running");
    let own = ada.request(Method::POST, &cancel).header("sec-fetch-site", "same-origin");
    assert_eq!(own.send().await.unwrap().status(), StatusCode::ACCEPTED);
}

/// Checks P6.
#[tokio::test]
async fn the_program_ends_once_the_server_has_shut_down_and_every_feed_has_its_end() {
    let outer = Outer::new().await;
    let ada = outer.sign_in("ada").await;
    let run = ada.start().await;
    let feed = ada.feed(&run, None).await;
    let mut board = ada.socket("/agents/v1/board").await;
    let ShutDown { cancelled, unsettled, .. } = outer.server.shut_down().await;
    assert_eq!((cancelled, unsettled), (1, 0));
    let events = feed.rest().await;
    assert_eq!(events.last().unwrap().json["outcome"]["reason"], "shutdown", "{:?}", events.last());
    assert_eq!(rest(&mut board).await.1.0, 1001);
    let Outer { serving, end, client, .. } = outer;
    drop(client);
    end.send(()).unwrap();
    timeout(Duration::from_secs(60), serving).await.expect("the program does not end").unwrap().unwrap();
}

/// A server of its own for the tests below.
async fn server(auth: bool) -> Server {
    let options = Options::new().auth(auth);
    let runtime = Runtime::builder().one_lane().build();
    Server::with_dialects(&runtime, options, vec![Arc::new(andon_adk::Adk::default())]).await.unwrap()
}

async fn asked(router: &Router, path: &str, headers: &[(&'static str, &str)]) -> (u16, HeaderMap, Value) {
    let request = headers
        .iter()
        .fold(Request::get(path).header("host", "localhost"), |request, (name, value)| request.header(*name, *value));
    let (head, body) = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), head.headers, serde_json::from_slice(&body).unwrap_or_default())
}

#[tokio::test]
async fn only_the_parts_that_are_named_are_served_and_described() {
    let server = server(false).await;
    // The status at the API, its description, the page, ADK's routes and health.
    let paths = ["/a/v1/me", "/a/openapi.json", "/a/ui/", "/a/list-apps", "/a/healthz", "/a/"];
    for (parts, expected) in [
        (vec![Part::Api], [200, 200, 404, 404, 404, 404]),
        (vec![Part::Page], [200, 200, 200, 404, 404, 307]),
        (vec![Part::Dialects], [404, 404, 404, 200, 404, 404]),
        (vec![Part::Operations], [404, 404, 404, 404, 200, 404]),
        (Part::ALL.to_vec(), [200, 200, 200, 200, 200, 307]),
    ] {
        let mount = server.mount("/a", |_| Some(Principal::local())).only(parts.clone());
        let router = Router::new().merge(mount.router().unwrap());
        let mut found = Vec::new();
        for path in paths {
            found.push(asked(&router, path, &[]).await.0);
        }
        assert_eq!(found, expected, "{parts:?}");
        let described = asked(&router, "/a/openapi.json", &[]).await.2["paths"].clone();
        assert_eq!(
            described.get("/healthz").is_some(),
            parts.contains(&Part::Operations) && expected[0] == 200,
            "{parts:?}"
        );
    }
    let mount = || server.mount("/a", |_| None);
    assert!(matches!(mount().only([]).router(), Err(MountError::NoPart)));
    let refused = server.mount("/{team}", |_| None).router().unwrap_err().to_string();
    assert!(refused.contains("\"/{team}\"") && refused.contains("/agents"), "{refused}");
}

/// Checks P11.
#[tokio::test]
async fn only_the_program_says_who_asks_and_where_it_knows_nobody_a_key_does() {
    let server = server(true).await;
    let who = |request: &axum::http::request::Parts| {
        let user = request.headers.get("x-user")?.to_str().ok()?;
        Principal::builder(user).build().ok()
    };
    // A layer that calls everybody the owner of the machine changes nothing.
    let agents = server.mount("/a", who).router().unwrap().layer(axum::Extension(Principal::local()));
    let router = Router::new().nest("/b", Router::new().merge(agents));
    let key = format!("Bearer {}", server.owner_key().unwrap().show());
    let name = |told: (u16, HeaderMap, Value)| (told.0, told.2["name"].as_str().map(str::to_owned));
    for (headers, expected) in [
        (vec![("x-user", "ada")], (200, Some("ada"))),
        (vec![("authorization", &*key)], (200, Some("local"))),
        (vec![("x-user", "ada"), ("authorization", &*key)], (200, Some("ada"))),
        (vec![("x-user", "a/b")], (401, None)),
        (vec![("authorization", "Bearer andon_local_0")], (401, None)),
        (vec![], (401, None)),
    ] {
        let told = name(asked(&router, "/b/a/v1/me", &headers).await);
        assert_eq!((told.0, told.1.as_deref()), expected, "{headers:?}");
    }
    assert_eq!(asked(&router, "/b/a/v1/me", &[]).await.2["type"], "urn:andon:unauthorized");
    for odd in [
        "/b/a//v1/me",
        "/b/a//",
        "/b//a/v1/me",
        "//b/a/v1/me",
        "/b/a/../a/v1/me",
        "/b/av1/me",
        "/b/a/b/a/v1/me",
        "/b/%61/v1/me",
    ] {
        let status = asked(&router, odd, &[("x-user", "ada")]).await.0;
        assert!(status == 404, "{odd} answers {status}");
    }
}
