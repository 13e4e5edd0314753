//! Who may call the API at all.

use andon_server::ServeError;

use crate::common::*;

const CREATE: &str = r#"{"app": "shop", "input": "hello"}"#;

async fn house() -> House {
    let options =
        Options::new().hosts(vec!["andon.example".to_owned()]).origins(vec!["https://app.example/".to_owned()]);
    House::build(Arc::new(MemoryJournal::new()), options, agent([])).await
}

#[tokio::test]
async fn a_request_names_a_host_that_the_server_answers_to() {
    let house = house().await;
    for host in ["localhost", "LOCALHOST:8000", "127.0.0.1", "[::1]:8000", "andon.example:443"] {
        let answer = house.ask("GET /healthz", &[&format!("host: {host}")], "").await;
        assert_eq!(answer.status, 200, "{host}: {answer:?}");
    }
    for host in [
        "evil.example",
        "localhost.",
        "localhost.evil.example",
        "me@localhost",
        "localhost:port",
        "10.0.0.1",
        "[::]",
        "",
    ] {
        for line in ["GET /v1/runs", "POST /v1/runs", "GET /v1/runs/r/events", "GET /nowhere", "OPTIONS /v1/runs"] {
            let body = if line.starts_with("POST") { CREATE } else { "" };
            let answer = house.ask(line, &[&format!("host: {host}")], body).await;
            assert_eq!((answer.status, answer.problem()), (403, "unknown-host"), "{host} {line}");
        }
    }
    assert!(house.runtime.runs().is_empty());
}

#[tokio::test]
async fn a_request_names_one_host_and_no_other() {
    let house = house().await;
    for (line, headers, kind) in [
        ("GET /v1/runs", &["host: localhost", "host: localhost"][..], "two-headers"),
        ("GET /v1/runs", &["host: localhost", "host: evil.example"][..], "two-headers"),
        ("GET http://evil.example/v1/runs", &["host: localhost"][..], "two-hosts"),
        ("GET http://localhost/v1/runs", &["host: evil.example"][..], "two-hosts"),
        ("GET /v1/runs", &[][..], "no-host"),
        (
            "GET /v1/runs",
            &["host: localhost", "origin: http://localhost", "origin: http://localhost"][..],
            "two-headers",
        ),
    ] {
        let answer = house.ask(line, headers, "").await;
        assert_eq!((answer.status, answer.problem()), (400, kind), "{line} {headers:?}");
    }
    let evil = house.ask("GET http://evil.example/v1/runs", &["host: evil.example"], "").await;
    assert_eq!((evil.status, evil.problem()), (403, "unknown-host"));
    let absolute = house.ask("GET http://localhost/v1/runs", &["host: localhost"], "").await;
    assert_eq!(absolute.status, 200, "{absolute:?}");
}

#[tokio::test]
async fn a_page_of_a_foreign_origin_can_do_nothing_at_all() {
    let house = house().await;
    let upgrade = ["connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13"];
    for origin in [
        "null",
        "https://evil.example",
        "http://localhost:3000",
        "https://app.example.evil.example",
        "https://app.example:8443",
        "http://app.example",
        "file://",
        "",
    ] {
        for line in ["GET /v1/runs", "POST /v1/runs", "POST /v1/cancel", "GET /v1/runs/r/events", "OPTIONS /v1/runs"] {
            let origin = format!("origin: {origin}");
            let preflight = "access-control-request-method: POST";
            let body = if line.starts_with("POST") { CREATE } else { "" };
            let own = ["host: localhost:8000", &origin, preflight];
            for headers in [own.to_vec(), [&own[..], &upgrade[..]].concat()] {
                let answer = house.ask(line, &headers, body).await;
                assert_eq!((answer.status, answer.problem()), (403, "foreign-origin"), "{origin} {line}");
                assert_eq!(answer.header("access-control-allow-origin"), None);
            }
        }
    }
    assert!(house.runtime.runs().is_empty());
}

#[tokio::test]
async fn same_origin_pages_and_programs_may_call() {
    let house = house().await;
    for headers in [
        &["host: localhost:8000"][..],
        &["host: localhost:8000", "origin: http://localhost:8000"][..],
        &["host: LOCALHOST:8000", "origin: http://localhost:8000"][..],
        &["host: [::1]:8000", "origin: http://[::1]:8000"][..],
        &["host: andon.example", "origin: https://andon.example"][..],
        &["host: localhost:8000", "sec-fetch-site: same-origin"][..],
        &["host: localhost:8000", "sec-fetch-site: none", "sec-fetch-mode: navigate"][..],
        &["host: localhost:8000", "sec-fetch-site: cross-site", "sec-fetch-mode: navigate"][..],
    ] {
        let answer = house.ask("GET /v1/runs", headers, "").await;
        assert_eq!(answer.status, 200, "{headers:?} {answer:?}");
    }
    // An image in a foreign page: browsers send no origin with it.
    let image = ["host: localhost:8000", "sec-fetch-site: cross-site", "sec-fetch-mode: no-cors"];
    let answer = house.ask("GET /v1/runs", &image, "").await;
    assert_eq!((answer.status, answer.problem()), (403, "foreign-origin"));
    // A form in a foreign page: not every browser sends an origin with it.
    for line in
        ["POST /v1/runs", "POST /v1/cancel", "PUT /v1/line", "POST /run", "POST /apps/shop/users/ada/sessions/s"]
    {
        let form = ["host: localhost:8000", "sec-fetch-site: cross-site", "sec-fetch-mode: navigate"];
        let answer = house.ask(line, &form, CREATE).await;
        assert_eq!(answer.status, 403, "{line}: {answer:?}");
    }
    assert!(house.runtime.runs().is_empty());
}

#[tokio::test]
async fn pages_of_a_named_origin_are_told_that_they_may_call_and_what_went_wrong() {
    let house = house().await;
    let named = ["host: localhost:8000", "origin: https://app.example"];
    let preflight = [
        &named[..],
        &["access-control-request-method: PUT", "access-control-request-headers: content-type,last-event-id"],
    ]
    .concat();
    let asked = house.ask("OPTIONS /v1/line", &preflight, "").await;
    assert_eq!(asked.status, 200);
    assert_eq!(asked.header("access-control-allow-origin"), Some("https://app.example"));
    let allowed = asked.header("access-control-allow-methods").unwrap().to_owned();
    assert!(allowed.contains("PUT") && !allowed.contains('*'), "{allowed}");
    assert_eq!(asked.header("access-control-allow-private-network"), None);
    for (line, body, status) in [
        ("POST /v1/runs", CREATE, 201),
        ("GET /v1/runs/none", "", 404),
        ("POST /v1/runs", "{", 400),
        ("DELETE /v1/runs", "", 405),
        ("GET /nowhere", "", 404),
    ] {
        let answer = house.ask(line, &named, body).await;
        assert_eq!(answer.status, status, "{line} {answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"), "{line}");
    }
}

#[tokio::test]
async fn what_a_form_could_send_is_not_taken_for_json() {
    let house = house().await;
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp", ""] {
        for path in ["/v1/runs", "/v1/cancel", "/v1/runs/r/cancel"] {
            let request = format!(
                "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{CREATE}",
                CREATE.len()
            );
            let answer = house.raw(request).await.unwrap();
            assert_eq!((answer.status, answer.problem()), (415, "not-json"), "{kind} {path}");
        }
    }
    assert!(house.runtime.runs().is_empty());
}

#[tokio::test]
async fn an_address_that_others_can_reach_is_not_served() {
    let house = house().await;
    for address in ["0.0.0.0:0", "[::]:0"] {
        let listener = TcpListener::bind(address).await.unwrap();
        let refused = house.server.serve(listener).unwrap_err();
        assert!(matches!(refused, ServeError::NotLoopback(_)), "{address}");
        assert!(refused.to_string().contains("127.0.0.1"), "{refused}");
    }
    for address in ["127.0.0.1:0", "127.0.0.2:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
        // A machine may lack IPv6.
        if let Ok(listener) = TcpListener::bind(address).await {
            assert!(house.server.serve(listener).is_ok(), "{address}");
        }
    }
}
