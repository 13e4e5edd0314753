//! Requests that are refused before they reach one of ADK's routes are also answered in ADK's words: W21.

use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use super::*;
use crate::raw::Answer;

const OWN: &str = "host: localhost";

/// One path of each kind that ADK has, and one that does not exist.
const LINES: [&str; 11] = [
    "GET /list-apps",
    "GET /health",
    "POST /run",
    "POST /run_sse",
    "GET /run_live",
    "GET /apps/shop/users/ada/sessions",
    "POST /apps/shop/users/ada/sessions",
    "POST /apps/shop/users/ada/sessions/s:cancel",
    "GET /dev-ui/",
    "GET /dev/apps/shop/build_graph",
    "GET /apps/nothing/here",
];

async fn house(options: Options) -> House {
    House::build(Arc::new(MemoryJournal::new()), options, agent([])).await
}

fn assert_plain(answer: &Answer, words: &str) {
    let kind = answer.header("content-type");
    assert_eq!((answer.status, kind, &answer.body), (403, Some("text/plain"), &json!(words)), "{answer:?}");
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
}

fn assert_detail(answer: &Answer, status: u16, detail: &str) {
    let kind = answer.header("content-type");
    assert_eq!((answer.status, kind), (status, Some("application/json")), "{answer:?}");
    assert_eq!(answer.body, json!({"detail": detail}));
}

/// W21.
#[tokio::test]
async fn a_foreign_host_and_a_foreign_page_are_refused_in_adks_words() {
    let house = house(Options::default()).await;
    let upgrade = ["connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13"];
    for line in LINES {
        let body = if line.starts_with("POST") { "{}" } else { "" };
        for host in ["host: evil.example", "host: localhost.evil.example", "host: 10.0.0.1", "host: "] {
            let answer = house.ask(line, &[&[host][..], &upgrade[..]].concat(), body).await;
            assert_plain(&answer, "Forbidden: host not allowed");
        }
        for origin in ["origin: https://evil.example", "origin: null", "sec-fetch-site: cross-site"] {
            let answer = house.ask(line, &[&[OWN, origin][..], &upgrade[..]].concat(), body).await;
            assert_plain(&answer, "Forbidden: origin not allowed");
        }
    }
    let (status, sessions) = house.get("/apps/shop/users/ada/sessions").await;
    assert_eq!((status.as_u16(), sessions), (200, json!([])), "nothing was begun");
}

#[tokio::test]
async fn a_socket_of_a_foreign_host_or_page_is_refused_at_the_handshake() {
    let house = house(Options::default()).await;
    for (name, value) in [("host", "evil.example"), ("origin", "https://evil.example"), ("origin", "null")] {
        let address = format!("ws://{}/run_live?app_name=shop&user_id=ada&session_id=s", house.address());
        let mut request = address.into_client_request().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
        let Err(Error::Http(response)) = tokio_tungstenite::connect_async(request).await else {
            panic!("{name}: {value} was let in");
        };
        assert_eq!(response.status().as_u16(), 403, "{name}: {value}");
    }
}

#[tokio::test]
async fn what_is_not_there_and_what_a_path_does_not_take_is_told_in_adks_words() {
    let house = house(Options::default()).await;
    for path in ["/apps/", "/apps/shop", "/apps/shop/nothing", "/dev/nothing", "/run/x", "/health/x", "/config/x"] {
        assert_detail(&house.ask(&format!("GET {path}"), &[OWN], "").await, 404, "Not Found");
    }
    for (line, allowed) in [
        ("GET /run", "POST"),
        ("PUT /run_sse", "POST"),
        ("POST /list-apps", "GET,HEAD"),
        ("PUT /apps/shop/users/ada/sessions", "GET,HEAD,POST"),
    ] {
        let answer = house.ask(line, &[OWN], "").await;
        assert_detail(&answer, 405, "Method Not Allowed");
        assert_eq!(answer.header("allow"), Some(allowed), "{line}");
    }
    for native in ["/v1/nothing", "/nothing", "/runs", "/applications"] {
        let answer = house.ask(&format!("GET {native}"), &[OWN], "").await;
        assert_eq!((answer.status, answer.problem()), (404, "no-such-path"), "{native}");
    }
    assert_eq!(house.ask("PUT /v1/runs", &[OWN], "").await.problem(), "wrong-method");
}

#[tokio::test]
async fn a_body_that_is_too_large_too_deep_or_too_slow_is_refused_in_adks_words() {
    let house = house(Options::new().body_idle(Duration::from_millis(200))).await;
    let head = |path: &str| format!("POST {path} HTTP/1.1\r\n{OWN}\r\ncontent-type: application/json\r\n");
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    for path in ["/run", "/run_sse", "/apps/shop/users/ada/sessions", "/apps/shop/users/ada/sessions/s"] {
        for (rest, status) in [
            ("content-length: 9999999999\r\n\r\n".to_owned(), 413),
            (format!("content-length: {}\r\n\r\n{deep}", deep.len()), 400),
            ("content-length: 100\r\n\r\n{\"a".to_owned(), 408),
        ] {
            let answer = house.raw(format!("{}{rest}", head(path))).await.unwrap();
            let kind = answer.header("content-type");
            assert_eq!((answer.status, kind), (status, Some("application/json")), "{path} {answer:?}");
            let fields = answer.body.as_object().unwrap();
            assert!(fields.len() == 1 && fields["detail"].is_string(), "{answer:?}");
        }
    }
}
