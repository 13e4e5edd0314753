//! What no client should send. Each is refused with an explanation, has no effect, and the next request is served.

use andon_runtime::SessionFilter;
use reqwest::StatusCode;
use serde_json::json;

use crate::house::House;
use crate::raw::Answer;

const JSON: &str = "host: localhost\r\ncontent-type: application/json\r\n";

/// Checks that nothing was created, and that the server still works.
async fn nothing_came_of_it(house: &House, what: &str) {
    assert!(house.runtime.runs().is_empty(), "{what}: a run");
    let sessions = house.runtime.list_sessions(SessionFilter::default()).await.unwrap();
    assert!(sessions.is_empty(), "{what}: a session");
    let remembered = house.runtime.shelf().kept("tombstone").await.unwrap();
    assert!(remembered.is_empty(), "{what}: {remembered:?}");
    assert_eq!(house.get("/healthz").await.0, StatusCode::OK, "{what}");
}

/// Checks that a response does not reveal where files are, or what the server is made of.
fn tells_nothing_of_the_machine(answer: &Answer) {
    let told = format!("{}{}", answer.head, answer.body);
    for secret in [env!("CARGO_MANIFEST_DIR"), ".cargo", ".rs:", "/home/", "/tmp/", "hyper", "axum"] {
        assert!(!told.contains(secret), "{secret} in {told}");
    }
    assert_eq!(answer.header("server"), None);
}

async fn post(house: &House, path: &str, body: impl AsRef<[u8]>) -> Answer {
    let body = body.as_ref();
    let head = format!("POST {path} HTTP/1.1\r\n{JSON}content-length: {}\r\n\r\n", body.len());
    house.raw([head.as_bytes(), body].concat()).await.expect("closed without an answer")
}

#[tokio::test]
async fn invalid_bodies_are_refused_with_the_place_of_the_error() {
    let house = House::silent().await;
    let deep =
        |depth: usize| format!("{{\"app\": \"shop\", \"input\": {}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    let image = |media_type: &str, reference: &str| -> Vec<u8> {
        let part = json!({"type": "image", "media_type": media_type, "reference": reference});
        json!({"app": "shop", "input": [part]}).to_string().into()
    };
    let table: Vec<(Vec<u8>, u16, &str)> = vec![
        (b"".to_vec(), 400, "bad-json"),
        (b"{".to_vec(), 400, "bad-json"),
        (b"not json".to_vec(), 400, "bad-json"),
        (b"{\"app\": \"shop\", \"input\": \"x\"} more".to_vec(), 400, "bad-json"),
        (b"{\"app\": \"shop\", \"input\": \"\xff\xfe\"}".to_vec(), 400, "bad-json"),
        (b"\xef\xbb\xbf{\"app\": \"shop\", \"input\": \"x\"}".to_vec(), 400, "bad-json"),
        (b"{\"app\": \"shop\", \"input\": \"x\0\"}".to_vec(), 400, "bad-json"),
        (b"{\"app\": \"shop\", \"input\": \"\\ud800\"}".to_vec(), 400, "bad-json"),
        (b"null".to_vec(), 422, "bad-field"),
        (b"[]".to_vec(), 422, "bad-field"),
        (json!(["shop", "ada", "s", null, "hi"]).to_string().into(), 422, "bad-field"),
        (b"{}".to_vec(), 422, "bad-field"),
        (json!({"app": "shop"}).to_string().into(), 422, "bad-field"),
        (json!({"app": 1, "input": "x"}).to_string().into(), 422, "bad-field"),
        (json!({"app": "shop", "input": 7}).to_string().into(), 422, "bad-field"),
        (json!({"app": "shop", "input": [{"type": "video"}]}).to_string().into(), 422, "bad-field"),
        (json!({"app": "shop", "input": "x", "colour": "red"}).to_string().into(), 422, "bad-field"),
        (json!({"app": "shop", "input": "x", "limits": {"turns": -1}}).to_string().into(), 422, "bad-field"),
        (json!({"app": "shop", "input": "x", "limits": {"turns": 1.5}}).to_string().into(), 422, "bad-field"),
        (json!({"app": "shop", "input": "x", "limits": {"turns": 0}}).to_string().into(), 422, "bad-limit"),
        (json!({"app": "shop", "input": "x", "when_busy": "maybe"}).to_string().into(), 422, "bad-field"),
        (json!({"app": "shop", "input": "x", "on_disconnect": "maybe"}).to_string().into(), 422, "bad-field"),
        (json!({"app": "shop", "input": ""}).to_string().into(), 422, "no-input"),
        (json!({"app": "shop", "input": []}).to_string().into(), 422, "no-input"),
        (image("application/pdf", "data:application/pdf;base64,AAAA"), 422, "bad-media"),
        (image("image/png", "data:application/pdf;base64,AAAA"), 422, "bad-media"),
        (image("image/png", "file:///etc/passwd"), 422, "bad-media"),
        (b"{\"app\": \"shop\", \"app\": \"shop\", \"input\": \"x\"}".to_vec(), 422, "bad-field"),
        (json!({"app": "none", "input": "x"}).to_string().into(), 404, "no-such-app"),
        (json!({"app": "../shop", "input": "x"}).to_string().into(), 404, "no-such-app"),
        (deep(65).into(), 400, "json-too-deep"),
        (vec![b'['; 100_000], 400, "json-too-deep"),
    ];
    for (body, status, kind) in table {
        let what = String::from_utf8_lossy(&body).chars().take(80).collect::<String>();
        let answer = post(&house, "/v1/runs", &body).await;
        assert_eq!((answer.status, answer.problem()), (status, kind), "{what}: {answer:?}");
        tells_nothing_of_the_machine(&answer);
        nothing_came_of_it(&house, &what).await;
    }
    let wrong = post(&house, "/v1/runs", r#"{"app": "shop", "input": "x", "limits": {"turns": "many"}}"#).await;
    assert!(wrong.body["detail"].as_str().unwrap().starts_with("limits.turns: "), "{wrong:?}");
}

#[tokio::test]
async fn invalid_ids_are_refused_in_bodies_and_in_paths() {
    let house = House::silent().await;
    let long = "x".repeat(10_000);
    for bad in ["", "a/b", "../../etc/passwd", "a\nb", "a\0b", "\u{85}", long.as_str()] {
        for field in ["run_id", "user", "session"] {
            let body = json!({"app": "shop", "input": "x", field: bad}).to_string();
            let answer = post(&house, "/v1/runs", body).await;
            assert_eq!((answer.status, answer.problem()), (400, "bad-id"), "{field} {bad:?}");
            tells_nothing_of_the_machine(&answer);
        }
        for field in ["app", "user"] {
            let (status, problem) = house.put("/v1/line", json!({"state": "held", field: bad})).await;
            assert_eq!((status.as_u16(), &problem["type"]), (400, &json!("urn:andon:bad-id")), "line {field} {bad:?}");
        }
        nothing_came_of_it(&house, bad).await;
    }
    for (bad, status, kind) in [
        ("a%2Fb", 400, "bad-id"),
        ("..%2F..%2Fetc%2Fpasswd", 400, "bad-id"),
        ("%00", 400, "bad-id"),
        ("a%0Ab", 400, "bad-id"),
        ("%ff%fe", 400, "bad-path"),
        (long.as_str(), 400, "bad-id"),
        ("", 404, "no-such-path"),
        ("a/b", 404, "no-such-path"),
        ("../../etc/passwd", 404, "no-such-path"),
    ] {
        for (method, suffix) in [
            ("GET", ""),
            ("GET", "/receipt"),
            ("GET", "/conversation"),
            ("GET", "/events"),
            ("POST", "/cancel"),
            ("POST", "/calls/c/cancel"),
        ] {
            let line = format!("{method} /v1/runs/{bad}{suffix}");
            let answer = house.ask(&line, &["host: localhost"], "").await;
            // With more segments it may be another path.
            if status == 404 {
                assert!((400..500).contains(&answer.status), "{line}");
                answer.problem();
            } else {
                assert_eq!((answer.status, answer.problem()), (status, kind), "{line}");
            }
            tells_nothing_of_the_machine(&answer);
        }
        nothing_came_of_it(&house, bad).await;
    }
    let odd = house.ask("GET /v1/runs/a:b", &["host: localhost"], "").await;
    assert_eq!((odd.status, odd.problem()), (404, "no-such-run"));
    for path in ["/v1/sessions/shop/%ff/s", "/v1/sessions/shop/%2F/s", "/v1/sessions/shop/u/%00/history"] {
        let answer = house.ask(&format!("GET {path}"), &["host: localhost"], "").await;
        assert!((400..500).contains(&answer.status), "{path} {answer:?}");
        answer.problem();
    }
}

#[tokio::test]
async fn an_invalid_cursor_is_refused() {
    let (house, run) = House::running().await;
    for bad in ["x", "-1", "1.", ".1", "1.2.3", "1e3", "18446744073709551616", "1 2", "\u{e9}", "+1"] {
        let line = format!("GET /v1/runs/{run}/events");
        let answer = house.ask(&line, &["host: localhost", &format!("last-event-id: {bad}")], "").await;
        assert_eq!((answer.status, answer.problem()), (400, "bad-event-id"), "{bad}");
    }
    for query in ["after=x", "colour=red", "after=1&after=2", "after=%ff"] {
        let answer = house.ask(&format!("GET /v1/runs/{run}/events?{query}"), &["host: localhost"], "").await;
        assert!((400..500).contains(&answer.status), "{query} {answer:?}");
        answer.problem();
    }
    for query in [
        "limit=0",
        "limit=-1",
        "limit=many",
        "limit=99999999999999999999",
        "state=odd",
        "settled=perhaps",
        "settled=true&state=queued",
        "since=yesterday",
        "until=1",
        "before=a%2Fb",
        "x=1",
    ] {
        let answer = house.ask(&format!("GET /v1/runs?{query}"), &["host: localhost"], "").await;
        assert!((400..500).contains(&answer.status), "{query} {answer:?}");
        answer.problem();
    }
    assert_eq!(house.runtime.runs().len(), 1);
}

#[tokio::test]
async fn requests_that_are_not_http_are_refused_with_a_reason_where_possible() {
    let house = House::silent().await;
    let create = r#"{"app": "shop", "input": "x"}"#;
    let (json, length) = (JSON, create.len());
    for (what, bytes, status) in [
        ("noise", "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n".to_owned(), 400),
        ("no version", "GET /v1/runs\r\n\r\n".to_owned(), 400),
        ("another version", "GET /v1/runs HTTP/9.9\r\nhost: localhost\r\n\r\n".to_owned(), 400),
        ("a space in a name", "GET /v1/runs HTTP/1.1\r\nhost : localhost\r\n\r\n".to_owned(), 400),
        ("a NUL in a value", "GET /v1/runs HTTP/1.1\r\nhost: local\0host\r\n\r\n".to_owned(), 400),
        ("a raw é in the path", "GET /v1/runs/\u{e9} HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(), 404),
        (
            "two lengths",
            format!("POST /v1/runs HTTP/1.1\r\n{json}content-length: 1\r\ncontent-length: 2\r\n\r\n{create}"),
            400,
        ),
        ("no length", format!("POST /v1/runs HTTP/1.1\r\n{json}content-length: x\r\n\r\n{create}"), 400),
        ("a length below zero", format!("POST /v1/runs HTTP/1.1\r\n{json}content-length: -1\r\n\r\n{create}"), 400),
        ("no encoding", format!("POST /v1/runs HTTP/1.1\r\n{json}transfer-encoding: gzip\r\n\r\n{create}"), 400),
        (
            "chunks that are none",
            format!("POST /v1/runs HTTP/1.1\r\n{json}transfer-encoding: chunked\r\n\r\nzz\r\n{create}"),
            400,
        ),
        ("a length too short", format!("POST /v1/runs HTTP/1.1\r\n{json}content-length: 5\r\n\r\n{create}"), 400),
        ("no body", format!("POST /v1/runs HTTP/1.1\r\n{json}\r\n"), 400),
        (
            "two kinds",
            format!(
                "POST /v1/runs HTTP/1.1\r\n{json}content-type: text/plain\r\ncontent-length: {length}\r\n\r\n{create}"
            ),
            415,
        ),
        (
            "no kind",
            format!("POST /v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{create}"),
            415,
        ),
        ("HTTP/1.0 without a host", "GET /v1/runs HTTP/1.0\r\n\r\n".to_owned(), 400),
        ("an asterisk", "GET * HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(), 404),
        ("CONNECT", "CONNECT localhost:80 HTTP/1.1\r\nhost: localhost:80\r\n\r\n".to_owned(), 404),
        ("a traversal", "GET /v1/..%2f..%2fetc/passwd HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(), 404),
    ] {
        let answer = house.raw(bytes).await.unwrap_or_else(|| panic!("{what}: closed without an answer"));
        assert_eq!(answer.status, status, "{what}: {answer:?}");
        // What is not a request at all is answered by hyper, with only a status.
        if answer.header("content-length") != Some("0") {
            answer.problem();
        }
        tells_nothing_of_the_machine(&answer);
        nothing_came_of_it(&house, what).await;
    }
    // A content length that is too long, and then the end.
    let mut raw = house.sent(format!("POST /v1/runs HTTP/1.1\r\n{json}content-length: 500\r\n\r\n{create}")).await;
    raw.no_more().await;
    raw.closed().await;
    nothing_came_of_it(&house, "a length too long").await;
    // Another protocol, whose client could not read a response.
    let raw = house.sent("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert_eq!(raw.closed().await, b"");
    nothing_came_of_it(&house, "HTTP/2").await;
    let old = house.raw("GET /v1/runs HTTP/1.0\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert_eq!(old.status, 200);
}

#[tokio::test]
async fn a_method_that_a_path_does_not_take_is_refused_with_those_that_it_takes() {
    let house = House::silent().await;
    for (line, allowed) in [
        ("DELETE /v1/runs", &["GET", "POST"][..]),
        ("TRACE /v1/runs", &["GET", "POST"][..]),
        ("PATCH /v1/line", &["GET", "PUT"][..]),
        ("GET /v1/cancel", &["POST"][..]),
        ("BREW /v1/runs/r/cancel", &["POST"][..]),
        ("POST /healthz", &["GET"][..]),
        ("POST /openapi.json", &["GET"][..]),
    ] {
        let answer = house.ask(line, &["host: localhost"], "").await;
        assert_eq!((answer.status, answer.problem()), (405, "wrong-method"), "{line}");
        let allow = answer.header("allow").unwrap_or_default().to_owned();
        assert!(allowed.iter().all(|method| allow.contains(method)), "{line}: {allow}");
        tells_nothing_of_the_machine(&answer);
    }
    nothing_came_of_it(&house, "wrong methods").await;
}

#[tokio::test]
async fn good_answers_carry_sane_headers_too() {
    let (house, run) = House::running().await;
    for path in ["/v1/runs", "/healthz", "/metrics", "/openapi.json", "/v1/line", &format!("/v1/runs/{run}/events")] {
        let answer = house.ask(&format!("GET {path}"), &["host: localhost"], "").await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(answer.header("server"), None, "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), None, "{path}");
    }
}

#[tokio::test]
async fn a_head_request_is_not_a_reader() {
    let house = House::silent().await;
    let run = house.start(json!({"on_disconnect": "cancel"})).await;
    let raw = house
        .sent(format!("HEAD /v1/runs/{run}/events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"))
        .await;
    assert!(String::from_utf8(raw.closed().await).unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
    // Enough time to count as a lost reader.
    for _ in 0..50 {
        assert_eq!(house.get(&format!("/v1/runs/{run}")).await.1["state"], "running");
    }
}
