//! Bad input, refused in ADK's words: nothing is created, nothing is run, nothing is lost.

use andon_testkit::ScriptedModel;
use axum::http::Request;
use tower::ServiceExt as _;

use super::*;
use crate::inside::answered;

/// A server, and its model, which must not be called.
async fn shop() -> (Inside, ScriptedModel) {
    let model = ScriptedModel::new([]);
    (dialect(andon_runtime::Agent::builder().model(model.clone())).await, model)
}

async fn refused(inside: &Inside, body: impl Into<Body>) -> Vec<(StatusCode, Value)> {
    let bytes = http_body_util::BodyExt::collect(body.into()).await.unwrap().to_bytes();
    let mut all = Vec::new();
    for path in ["/run", "/run_sse"] {
        let request = Request::post(path).header("host", "localhost").header("content-type", "application/json");
        let request = request.body(Body::from(bytes.clone())).unwrap();
        let response = inside
            .server
            .mount("/", |_| Some(andon_server::Principal::local()))
            .router()
            .unwrap()
            .oneshot(request)
            .await
            .unwrap();
        assert_eq!(response.headers()["content-type"], "application/json");
        all.push(answered(response).await);
    }
    all
}

fn without(name: &str) -> Value {
    let mut body = ask("s", "go");
    body.as_object_mut().unwrap().remove(name);
    body
}

fn one(kind: &str, loc: Value, msg: &str, input: &Value) -> Value {
    json!({"detail": [{"type": kind, "loc": loc, "msg": msg, "input": input}]})
}

#[tokio::test(start_paused = true)]
#[expect(clippy::too_many_lines, reason = "a list of requests and their answers")]
async fn invalid_fields_get_adk_style_validation_errors() {
    let (inside, model) = shop().await;
    let missing = ["userId", "sessionId", "newMessage"].map(|name| {
        let body = without(name);
        (body.clone(), one("missing", json!(["body", name]), "Field required", &body))
    });
    let of = |field: &str, value: Value| with(ask("s", "go"), json!({field: value}));
    let parts = |parts: Value| of("newMessage", json!({"parts": parts}));
    let object = "Input should be a valid dictionary or object to extract fields from";
    let wrong = [
        (
            of("userId", json!(5)),
            one("string_type", json!(["body", "userId"]), "Input should be a valid string", &json!(5)),
        ),
        (
            of("appName", json!([])),
            one("string_type", json!(["body", "appName"]), "Input should be a valid string", &json!([])),
        ),
        (
            of("streaming", json!("perhaps")),
            one(
                "bool_parsing",
                json!(["body", "streaming"]),
                "Input should be a valid boolean, unable to interpret input",
                &json!("perhaps"),
            ),
        ),
        (
            of("stateDelta", json!(1)),
            one("dict_type", json!(["body", "stateDelta"]), "Input should be a valid dictionary", &json!(1)),
        ),
        (
            of("newMessage", json!("hi")),
            one("model_attributes_type", json!(["body", "newMessage"]), object, &json!("hi")),
        ),
        (
            parts(json!("hi")),
            one("list_type", json!(["body", "newMessage", "parts"]), "Input should be a valid list", &json!("hi")),
        ),
        (
            parts(json!(["hi"])),
            one("model_attributes_type", json!(["body", "newMessage", "parts", 0]), object, &json!("hi")),
        ),
        (
            parts(json!([{"text": 1}])),
            one(
                "string_type",
                json!(["body", "newMessage", "parts", 0, "text"]),
                "Input should be a valid string",
                &json!(1),
            ),
        ),
        (
            parts(json!([{"txt": "hi"}])),
            one(
                "extra_forbidden",
                json!(["body", "newMessage", "parts", 0, "txt"]),
                "Extra inputs are not permitted",
                &json!("hi"),
            ),
        ),
        (json!([]), one("model_attributes_type", json!(["body"]), object, &json!([]))),
    ];
    for (body, expected) in missing.into_iter().chain(wrong) {
        for told in refused(&inside, body.to_string()).await {
            assert_eq!(told, (StatusCode::UNPROCESSABLE_ENTITY, expected.clone()), "{body}");
        }
    }
    let both = json!({"appName": "shop", "newMessage": {"parts": [{"text": "go"}]}});
    for (_, told) in refused(&inside, both.to_string()).await {
        assert_eq!(told["detail"].as_array().unwrap().len(), 2, "all that is wrong is told at once");
    }
    assert_eq!((model.calls(), stored(&inside, "s").await), (0, vec![]));
}

#[tokio::test(start_paused = true)]
async fn invalid_json_is_reported_with_its_position_and_large_bodies_are_refused() {
    let (inside, model) = shop().await;
    for told in refused(&inside, "{\"appName\":x").await {
        let error = json!({"type": "json_invalid", "loc": ["body"], "msg": "JSON decode error", "input": {}, "ctx": {"error": "expected value at line 1 column 12"}});
        assert_eq!(told, (StatusCode::UNPROCESSABLE_ENTITY, json!({"detail": [error]})));
    }
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let large = format!("{{\"a\": \"{}\"}}", "x".repeat(2 << 20));
    let cases = [
        (deep.into_bytes(), StatusCode::BAD_REQUEST),
        (large.into_bytes(), StatusCode::PAYLOAD_TOO_LARGE),
        (vec![b'"', 0xff, b'"'], StatusCode::BAD_REQUEST),
    ];
    for (body, expected) in cases {
        for (status, told) in refused(&inside, body.clone()).await {
            assert_eq!((status, told["detail"].is_string()), (expected, true), "{told}");
        }
    }
    let request = Request::post("/run").header("host", "localhost").header("content-type", "text/plain");
    let response = inside
        .server
        .mount("/", |_| Some(andon_server::Principal::local()))
        .router()
        .unwrap()
        .oneshot(request.body(Body::from("{}")).unwrap())
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(model.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn unsupported_requests_are_refused_and_run_nothing() {
    let (inside, model) = shop().await;
    let parts = |parts: Value| with(ask("s", "go"), json!({"newMessage": {"parts": parts}}));
    for (body, expected, words) in [
        // C12: nothing is run twice.
        (with(ask("s", "go"), json!({"invocationId": "e-1"})), StatusCode::BAD_REQUEST, "no tool runs twice"),
        (parts(json!([])), StatusCode::BAD_REQUEST, "it is empty"),
        (parts(json!([{"text": "  "}])), StatusCode::BAD_REQUEST, "it is empty"),
        (
            parts(json!([{"inlineData": {"mimeType": "audio/wav", "data": "aGk="}}])),
            StatusCode::BAD_REQUEST,
            "audio/wav",
        ),
        (
            parts(json!([{"fileData": {"mimeType": "application/pdf", "fileUri": "https://example.com/a.pdf"}}])),
            StatusCode::BAD_REQUEST,
            "`application/pdf` is not an image type",
        ),
        (
            parts(json!([{"fileData": {"mimeType": "image/png", "fileUri": "file:///etc/passwd"}}])),
            StatusCode::BAD_REQUEST,
            "https://",
        ),
        (parts(json!([{"functionCall": {"name": "pay", "args": {}}}])), StatusCode::BAD_REQUEST, "only text"),
        (
            parts(json!([{"functionResponse": {"id": "c1", "name": "pay", "response": {}}}])),
            StatusCode::BAD_REQUEST,
            "tools run on this server",
        ),
        (
            parts(json!([{"functionResponse": {"id": "c1", "name": "adk_request_confirmation", "response": {}}}])),
            StatusCode::BAD_REQUEST,
            "confirmed",
        ),
        (
            parts(
                json!([{"functionResponse": {"id": "c1", "name": "adk_request_confirmation", "response": {"confirmed": true}}}]),
            ),
            StatusCode::CONFLICT,
            "waits for this confirmation",
        ),
        (ask("a\u{0}b", "go"), StatusCode::BAD_REQUEST, "session"),
        (ask(&"s".repeat(300), "go"), StatusCode::BAD_REQUEST, "session"),
        (ask("s:cancel", "go"), StatusCode::NOT_FOUND, "Session not found"),
        (with(ask("s", "go"), json!({"userId": "eve"})), StatusCode::NOT_FOUND, "Session not found: s"),
    ] {
        for (status, told) in refused(&inside, body.to_string()).await {
            let detail = told["detail"].as_str().unwrap_or_default();
            assert_eq!((status, detail.contains(words)), (expected, true), "{body} {told}");
        }
    }
    assert_eq!((model.calls(), stored(&inside, "s").await), (0, vec![]));
    let (_, sessions) = inside.get(&format!("/apps/shop/users/{USER}/sessions")).await;
    assert_eq!(sessions.as_array().unwrap().len(), 1, "{sessions}");
}

#[tokio::test(start_paused = true)]
async fn a_held_line_lets_nothing_in_and_a_cancel_through() {
    let inside = dialect(crate::house::agent([crate::house::endless()])).await;
    let mut running = Stream::open(&inside, stream("s", "go")).await;
    running.until("Once").await;
    assert_eq!(inside.put("/v1/line", json!({"state": "held"})).await.0, StatusCode::OK);
    let (status, told) = inside.post("/run", ask("s", "go")).await;
    assert_eq!((status, told["detail"].as_str().unwrap().contains("held")), (StatusCode::SERVICE_UNAVAILABLE, true));
    assert_eq!(cancel(&inside, "s").await.0, StatusCode::OK);
}
