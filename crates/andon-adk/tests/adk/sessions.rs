//! Sessions, artifacts and the page's calls in ADK's dialect.

use axum::http::Request;
use tower::ServiceExt as _;

use super::*;
use crate::house::Answered;

const S: &str = "/apps/shop/users/ada/sessions";

fn shop() -> AgentBuilder {
    let schema = json!({"type": "object", "properties": {}});
    agent([vec![Act::text("Hello."), Act::end()]]).instructions("Be kind.").tool(FnTool::new(
        "look",
        "Looks.",
        schema,
        |_| async { Ok("seen".into()) },
    ))
}

async fn inside() -> Inside {
    Inside::new(shop()).await
}

impl Inside {
    async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Answered {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        crate::inside::answered(self.send(method, path, None, body).await).await
    }

    async fn raw(&self, method: &str, path: &str, kind: &str, body: &str) -> Answered {
        let request =
            Request::builder().method(method).uri(path).header("host", "localhost").header("content-type", kind);
        let response = self
            .server
            .mount("/", |_| Some(andon_server::Principal::local()))
            .router()
            .unwrap()
            .oneshot(request.body(Body::from(body.to_owned())).unwrap())
            .await
            .unwrap();
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn ok(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let (status, body) = self.call(method, path, body).await;
        assert_eq!(status, StatusCode::OK, "{method} {path}: {body}");
        body
    }
}

/// The fields of a value, in order.
fn fields(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

/// W01, W02.
#[tokio::test(start_paused = true)]
async fn lists_have_adks_format() {
    let inside = inside().await;
    assert_eq!(inside.ok("GET", "/health", None).await, json!({"status": "ok"}));
    let version = inside.ok("GET", "/version", None).await;
    assert_eq!(
        (fields(&version), version["language"].as_str()),
        (vec!["language", "language_version", "version"], Some("rust"))
    );
    assert_eq!(inside.ok("GET", "/list-apps?relative_path=./", None).await, json!(["shop"]));
    let detailed = inside.ok("GET", "/list-apps?detailed=true", None).await;
    let expected = ["agents", "description", "isComputerUse", "language", "name", "rootAgentName"];
    assert_eq!(fields(&detailed["apps"][0]), expected);
    let info = inside.ok("GET", "/apps/shop/app-info", None).await;
    assert_eq!(info["agents"]["shop"]["instruction"], "Be kind.");
    assert_eq!(info["agents"]["shop"]["tools"][0]["functionDeclarations"][0]["name"], "look");
    let (status, unknown) = inside.call("GET", "/apps/nope/app-info", None).await;
    assert_eq!((status, fields(&unknown)), (StatusCode::NOT_FOUND, vec!["detail"]));
}

/// W03.
#[tokio::test(start_paused = true)]
async fn a_session_is_begun_with_or_without_a_body_and_once() {
    let inside = inside().await;
    let shape = ["appName", "events", "id", "lastUpdateTime", "state", "userId"];
    for body in [None, Some(Value::Null), Some(json!({}))] {
        let begun = inside.ok("POST", S, body).await;
        assert_eq!((fields(&begun), begun["events"].clone()), (shape.to_vec(), json!([])));
    }
    let begun =
        inside.ok("POST", S, Some(json!({"sessionId": "s1", "state": {"k": 1, "app:a": 3, "user:u": 2}}))).await;
    assert_eq!((&begun["id"], &begun["state"]), (&json!("s1"), &json!({"k": 1, "app:a": 3, "user:u": 2})));
    let (status, again) = inside.call("POST", S, Some(json!({"session_id": "s1"}))).await;
    assert_eq!((status, again), (StatusCode::CONFLICT, json!({"detail": "Session already exists: s1"})));
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    let old = inside.ok("POST", &format!("{S}/s2"), Some(json!({"k2": "v"}))).await;
    assert_eq!(old["state"], json!({"k2": "v", "app:a": 3, "user:u": 2}));
    assert_eq!(inside.call("POST", &format!("{S}/s2"), None).await.0, StatusCode::CONFLICT);
    let listed = inside.ok("GET", S, None).await;
    assert_eq!(listed.as_array().unwrap().len(), 5);
    assert_eq!(listed.as_array().unwrap().last().unwrap()["id"], "s2");
}

/// No session may have a name that a path would read as a cancel.
#[tokio::test(start_paused = true)]
async fn no_session_is_named_like_a_cancel() {
    let inside = inside().await;
    let (status, _) = inside.call("POST", S, Some(json!({"sessionId": "s1:cancel"}))).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    for path in ["s1:cancel", "s1%3Acancel"] {
        assert_eq!(inside.call("POST", &format!("{S}/{path}"), None).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(inside.ok("GET", S, None).await, json!([]));
}

fn event(author: &str, run: &str, part: Value) -> Value {
    let role = if author == "user" { "user" } else { "model" };
    json!({"author": author, "invocationId": run, "content": {"role": role, "parts": [part]}})
}

/// W04: the conversation continues.
#[tokio::test(start_paused = true)]
async fn an_imported_conversation_continues() {
    let inside = inside().await;
    let call = json!({"functionCall": {"id": "c1", "name": "look", "args": {"at": "it"}}});
    let result = json!({"functionResponse": {"id": "c1", "name": "look", "response": {"seen": 1}}});
    let events = json!([
        event("user", "i1", json!({"text": "Look."})),
        event("shop", "i1", call),
        event("shop", "i1", result),
        event("shop", "i1", json!({"text": "I have."})),
        event("user", "i2", json!({"text": "And?"})),
        {"author": "shop", "invocationId": "i2", "errorCode": "INVOCATION_ABORTED", "errorMessage": "Invocation was aborted by client."},
    ]);
    let begun = inside.ok("POST", S, Some(json!({"sessionId": "s", "events": events}))).await;
    let told = begun["events"].as_array().unwrap();
    assert_eq!(told.len(), 6, "{begun:#}");
    assert_eq!(told[2]["content"]["parts"][0]["functionResponse"]["response"], json!({"seen": 1}));
    assert_eq!(told[3]["content"]["parts"][0]["text"], "I have.");
    assert_eq!(told[5]["errorCode"], "INVOCATION_ABORTED");
    assert_eq!(told[0]["invocationId"], told[3]["invocationId"]);
    assert_ne!(told[0]["invocationId"], told[4]["invocationId"]);
    let order = json!({"appName": "shop", "userId": "ada", "sessionId": "s", "newMessage": {"role": "user", "parts": [{"text": "Go on."}]}});
    let answer = inside.ok("POST", "/run", Some(order)).await;
    assert_eq!(answer[0]["content"]["parts"][0]["text"], "Hello.");
    assert_eq!(inside.ok("GET", &format!("{S}/s"), None).await["events"].as_array().unwrap().len(), 8);
}

/// It ends where its events end: nobody was interrupted, and no process died.
#[tokio::test(start_paused = true)]
async fn a_conversation_that_does_not_end_with_an_answer_is_not_said_to_be_interrupted() {
    let inside = inside().await;
    let call = json!({"functionCall": {"id": "c1", "name": "look", "args": {}}});
    let unanswered = vec![event("user", "i", json!({"text": "Look."}))];
    let open = vec![event("user", "i", json!({"text": "Look."})), event("shop", "i", call)];
    for (name, events, shown) in [("unanswered", unanswered, 1), ("open", open, 3)] {
        let begun = inside.ok("POST", S, Some(json!({"sessionId": name, "events": events}))).await;
        let told = begun["events"].as_array().unwrap();
        assert_eq!(told.len(), shown, "{begun:#}");
        assert!(told.iter().all(|event| event.get("errorCode").is_none() && event.get("interrupted").is_none()));
        let message = json!({"role": "user", "parts": [{"text": "Go on."}]});
        let order = json!({"appName": "shop", "userId": "ada", "sessionId": name, "newMessage": message});
        if name == "open" {
            let response = &told[2]["content"]["parts"][0]["functionResponse"]["response"];
            assert_eq!(response, &json!({"error": "No result is known."}));
            continue;
        }
        assert_eq!(inside.ok("POST", "/run", Some(order)).await[0]["content"]["parts"][0]["text"], "Hello.");
    }
}

/// The same order as in streams and in ADK's own responses.
#[tokio::test(start_paused = true)]
async fn a_session_and_its_events_have_their_fields_in_adks_order() {
    let inside = inside().await;
    inside.ok("POST", S, Some(json!({"sessionId": "s"}))).await;
    let message = json!({"role": "user", "parts": [{"text": "Hi."}]});
    let order = json!({"appName": "shop", "userId": "ada", "sessionId": "s", "newMessage": message});
    inside.ok("POST", "/run", Some(order)).await;
    inside.ok("PATCH", &format!("{S}/s"), Some(json!({"stateDelta": {"k": 1}}))).await;
    let shown = inside.send(Method::GET, &format!("{S}/s"), None, None).await;
    let shown = shown.into_body().collect().await.unwrap().to_bytes();
    let shown = std::str::from_utf8(&shown).unwrap();
    assert!(shown.starts_with(r#"{"id":"s","appName":"shop","userId":"ada","state":{"k":1},"events":[{"content":{"#));
    let places = |names: &[&str]| names.iter().map(|name| shown.rfind(name).expect(name)).collect::<Vec<_>>();
    // The last event is the change to the state.
    let last =
        ["invocationId", "author", "actions", "stateDelta", "artifactDelta", "nodeInfo", "timestamp", "lastUpdateTime"];
    assert!(places(&last).is_sorted(), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_makes_no_sense_begins_nothing() {
    let inside = inside().await;
    let user = event("user", "i", json!({"text": "Look."}));
    let call = |name: &str| event("shop", "i", json!({"functionCall": {"id": "c1", "name": name, "args": {}}}));
    let result = event("shop", "i", json!({"functionResponse": {"id": "c1", "name": "look", "response": {}}}));
    let with = |more: Value| {
        let mut event = user.clone();
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    for (events, status) in [
        (json!([with(json!({"actions": {"stateDelta": {"a": 1}}}))]), 400),
        (json!([with(json!({"actions": {"escalate": true}}))]), 400),
        (json!([with(json!({"longRunningToolIds": ["c"]}))]), 400),
        (json!([user, call("adk_request_confirmation")]), 400),
        (json!([user, result]), 400),
        (json!([user, call("look"), result, result]), 400),
        (json!([user, call("look"), result, call("look")]), 400),
        (json!([event("shop", "i", json!({"text": "First!"}))]), 400),
        (json!([event("user", "i", json!({"functionCall": {"name": "look"}}))]), 400),
        (json!([event("user", "i", json!({"executableCode": {}}))]), 400),
        (json!([event("user", "i", json!({"inlineData": {"mimeType": "application/pdf", "data": "aGk="}}))]), 400),
        (json!([event("user", "i", json!({"inlineData": {"mimeType": "image/png;x", "data": "aGk="}}))]), 400),
        (json!([event("user", "i", json!({"text": 5}))]), 422),
        (json!([5]), 422),
        (json!({}), 422),
    ] {
        let body = json!({"sessionId": "s", "events": events});
        let (answered, body) = inside.call("POST", S, Some(body.clone())).await;
        assert_eq!((answered.as_u16(), fields(&body)), (status, vec!["detail"]), "{events} {body}");
    }
    assert_eq!(inside.ok("GET", S, None).await, json!([]));
}

/// W05, W06.
#[tokio::test(start_paused = true)]
async fn missing_sessions_are_not_found_and_deleting_one_is_not_an_error() {
    let inside = inside().await;
    for (method, body) in [("GET", None), ("PATCH", Some(json!({"stateDelta": {}})))] {
        let answer = inside.call(method, &format!("{S}/none"), body).await;
        assert_eq!(answer, (StatusCode::NOT_FOUND, json!({"detail": "Session not found"})), "{method}");
    }
    assert_eq!(inside.call("DELETE", &format!("{S}/none"), None).await, (StatusCode::OK, Value::Null));
    assert_eq!(inside.ok("GET", S, None).await, json!([]));
}

/// Deleting a session stops its runs first and deletes them with it.
#[tokio::test(start_paused = true)]
async fn a_session_is_deleted_while_it_runs() {
    let inside = Inside::new(agent([endless()])).await;
    let (status, run) = inside
        .call(
            "POST",
            "/v1/runs",
            Some(json!({"app": "shop", "user": "ada", "session": "s", "input": "Go.", "run_id": "r"})),
        )
        .await;
    assert_eq!(status, StatusCode::CREATED, "{run}");
    assert_eq!(inside.ok("DELETE", &format!("{S}/s"), None).await, Value::Null);
    assert!(inside.runtime.runs().is_empty());
    assert_eq!(inside.call("GET", &format!("{S}/s"), None).await.0, StatusCode::NOT_FOUND);
}

/// W07, W08.
#[tokio::test(start_paused = true)]
async fn a_change_of_state_is_told_as_an_event_and_reaches_as_far_as_its_key_says() {
    let inside = inside().await;
    inside.ok("POST", S, Some(json!({"sessionId": "a", "state": {"k": 1, "temp:t": 1}}))).await;
    inside.ok("POST", S, Some(json!({"sessionId": "b"}))).await;
    let delta = json!({"k": null, "p": {"q": 1}, "app:x": 1, "user:y": 2, "temp:z": 3});
    let changed = inside.ok("PATCH", &format!("{S}/a"), Some(json!({"state_delta": delta}))).await;
    let lasting = json!({"k": null, "p": {"q": 1}, "app:x": 1, "user:y": 2});
    assert_eq!(changed["state"], lasting);
    let event = &changed["events"][0];
    assert_eq!(fields(event), ["actions", "author", "id", "invocationId", "nodeInfo", "timestamp"]);
    assert_eq!((&event["author"], &event["actions"]["stateDelta"]), (&json!("user"), &lasting));
    assert!(event["invocationId"].as_str().unwrap().starts_with("p-"));
    assert_eq!(changed["lastUpdateTime"], event["timestamp"]);
    assert_eq!(inside.ok("GET", &format!("{S}/b"), None).await["state"], json!({"app:x": 1, "user:y": 2}));
    inside.ok("POST", "/apps/shop/users/bob/sessions/c", None).await;
    assert_eq!(inside.ok("GET", "/apps/shop/users/bob/sessions/c", None).await["state"], json!({"app:x": 1}));
    assert_eq!(inside.ok("GET", &format!("{S}/a"), None).await, changed);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_state_stands_between_the_runs_that_it_stood_between() {
    let inside = inside().await;
    inside.ok("POST", S, Some(json!({"sessionId": "a"}))).await;
    let run =
        || json!({"appName": "shop", "userId": "ada", "sessionId": "a", "newMessage": {"parts": [{"text": "Hi."}]}});
    inside.ok("POST", "/run", Some(run())).await;
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    inside.ok("PATCH", &format!("{S}/a"), Some(json!({"stateDelta": {"k": 1}}))).await;
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    inside.ok("POST", "/run", Some(run())).await;
    let session = inside.ok("GET", &format!("{S}/a"), None).await;
    let begin = |event: &Value| event["invocationId"].as_str().unwrap()[..2].to_owned();
    let order: Vec<String> = session["events"].as_array().unwrap().iter().map(begin).collect();
    assert_eq!(order, ["e-", "e-", "p-", "e-", "e-"]);
}

/// W18.
#[tokio::test(start_paused = true)]
async fn artifacts_have_versions_and_stay_where_they_belong() {
    let inside = inside().await;
    let a = format!("{S}/a/artifacts");
    let text = |name: &str, text: &str| Some(json!({"filename": name, "artifact": {"text": text}}));
    assert_eq!(inside.call("POST", &a, text("n.txt", "x")).await.0, StatusCode::NOT_FOUND);
    inside.ok("POST", S, Some(json!({"sessionId": "a"}))).await;
    inside.ok("POST", S, Some(json!({"sessionId": "b"}))).await;
    let saved = inside.ok("POST", &a, text("p/n.txt", "one")).await;
    assert_eq!((&saved["version"], &saved["mimeType"]), (&json!(0), &json!("text/plain")));
    let image = json!({"filename": "p/n.txt", "artifact": {"inline_data": {"mime_type": "image/png", "data": "aGVsbG8="}}, "customMetadata": {"k": 1}});
    let saved = inside.ok("POST", &a, Some(image)).await;
    assert_eq!((&saved["version"], &saved["customMetadata"]), (&json!(1), &json!({"k": 1})));
    inside.ok("POST", &a, text("user:own", "mine")).await;
    assert_eq!(inside.ok("GET", &a, None).await, json!(["p/n.txt", "user:own"]));
    assert_eq!(inside.ok("GET", &format!("{S}/b/artifacts"), None).await, json!(["user:own"]));
    assert_eq!(inside.ok("GET", "/apps/shop/users/bob/sessions/b/artifacts", None).await, json!([]));
    let at = |rest: &str| format!("{a}/p/n.txt{rest}");
    let shown = json!({"inlineData": {"mimeType": "image/png", "data": "aGVsbG8="}});
    for (path, expected) in [
        ("", &shown),
        ("?version=0", &json!({"text": "one"})),
        ("/versions", &json!([0, 1])),
        ("/versions/0", &json!({"text": "one"})),
        ("/versions/latest", &shown),
    ] {
        assert_eq!(inside.ok("GET", &at(path), None).await, *expected, "{path}");
    }
    assert_eq!(inside.ok("GET", &at("/versions/latest/metadata"), None).await, saved);
    assert_eq!(inside.ok("GET", &at("/versions/metadata"), None).await[1], saved);
    for (path, status) in
        [("/versions/7", 404), ("/versions/x", 422), ("?version=x", 422), ("/versions/7/metadata", 404)]
    {
        assert_eq!(inside.call("GET", &at(path), None).await.0.as_u16(), status, "{path}");
    }
    assert_eq!(inside.ok("DELETE", &at(""), None).await, Value::Null);
    assert_eq!(inside.ok("GET", &a, None).await, json!(["user:own"]));
    inside.ok("DELETE", &format!("{S}/a"), None).await;
    assert_eq!(inside.ok("GET", &format!("{S}/b/artifacts/user:own"), None).await, json!({"text": "mine"}));
}

/// Metadata is read without content, and a request for one version reads only that one.
#[tokio::test(start_paused = true)]
async fn listing_artifacts_does_not_read_them() {
    let inside = inside().await;
    inside.ok("POST", S, Some(json!({"sessionId": "a"}))).await;
    let (path, long) = (format!("{S}/a/artifacts"), "x".repeat(100_000));
    for name in ["n", "user:n"] {
        inside.ok("POST", &path, Some(json!({"filename": name, "artifact": {"text": long}}))).await;
    }
    let key = andon_runtime::SessionKey::new("shop", "ada", "a").unwrap();
    let known = inside.runtime.kept(&key, "adk.artifact").await.unwrap();
    let shared = inside.runtime.shelf().kept("adk.artifact/local/shop/ada").await.unwrap();
    assert_eq!((known.len(), shared.len()), (1, 1));
    assert!(known[0].value.to_string().len() < 500 && shared[0].1.to_string().len() < 500, "{known:?} {shared:?}");
    for name in ["n", "user:n"] {
        assert_eq!(inside.ok("GET", &format!("{path}/{name}"), None).await["text"], json!(long));
        assert_eq!(inside.ok("DELETE", &format!("{path}/{name}"), None).await, Value::Null);
    }
    // Nothing is left of what was deleted.
    let session = inside.runtime.copy_session(&key).await.unwrap().unwrap();
    assert_eq!(session.kept.len(), 0, "{:?}", session.kept);
    assert!(inside.runtime.shelf().kept("adk.artifact.part/local/shop/ada/user:n@00000000").await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn artifacts_of_a_session_and_of_a_user_have_a_size_limit() {
    let inside = inside().await;
    for session in ["a", "b"] {
        inside.ok("POST", S, Some(json!({"sessionId": session}))).await;
    }
    let long = "x".repeat(1_000_000);
    let save = async |session: &str, name: &str| {
        let body = json!({"filename": name, "artifact": {"text": long}});
        inside.call("POST", &format!("{S}/{session}/artifacts"), Some(body)).await
    };
    for name in ["n", "user:n"] {
        let mut saved = 0;
        let told = loop {
            let (status, told) = save("a", name).await;
            if status != StatusCode::OK {
                break told;
            }
            saved += 1;
        };
        assert_eq!(saved, 33, "of a million bytes each");
        assert!(told["detail"].as_str().unwrap().contains("33554432 bytes"), "{told}");
    }
    assert_eq!(save("b", "n").await.0, StatusCode::OK, "another session has room");
    assert_eq!(save("b", "user:n").await.0, StatusCode::BAD_REQUEST, "the user has none, wherever it is");
    inside.ok("DELETE", &format!("{S}/a/artifacts/n"), None).await;
    assert_eq!(save("a", "n").await.0, StatusCode::OK);
}

/// On disk, where reads take time: in memory nothing ever comes between.
#[tokio::test]
async fn artifacts_saved_at_one_time_have_versions_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let journal = std::sync::Arc::new(andon_store::SqliteJournal::open(folder.path().join("db")).unwrap());
    let inside = Inside::build(journal, andon_server::Options::default(), shop()).await;
    inside.ok("POST", S, Some(json!({"sessionId": "a"}))).await;
    let path = format!("{S}/a/artifacts");
    let save = || inside.ok("POST", &path, Some(json!({"filename": "n", "artifact": {"text": "x"}})));
    let (a, b, c) = tokio::join!(save(), save(), save());
    let mut versions: Vec<u64> = [a, b, c].iter().map(|saved| saved["version"].as_u64().unwrap()).collect();
    versions.sort_unstable();
    assert_eq!(versions, [0, 1, 2]);
}

/// W19.
#[tokio::test(start_paused = true)]
async fn the_spans_of_a_session_are_listed_with_ids_that_pages_can_read() {
    let inside = inside().await;
    inside.ok("POST", S, Some(json!({"sessionId": "a"}))).await;
    let order =
        json!({"appName": "shop", "userId": "ada", "sessionId": "a", "newMessage": {"parts": [{"text": "Hi."}]}});
    let answer = inside.ok("POST", "/run", Some(order)).await;
    let spans = inside.ok("GET", "/dev/apps/shop/debug/trace/session/a", None).await;
    let spans = spans.as_array().unwrap();
    assert_eq!(spans.len(), 2, "{spans:#?}");
    for span in spans {
        assert!(span["trace_id"].is_string() && span["span_id"].is_string() && span["start_time"].is_u64(), "{span}");
        assert_eq!(span["attributes"]["gen_ai.conversation.id"], "a");
    }
    let call = &spans[0]["attributes"];
    assert_eq!(
        (&call["gen_ai.operation.name"], &call["gcp.vertex.agent.event_id"]),
        (&json!("generate_content"), &answer[0]["id"])
    );
    assert_eq!(call["gcp.vertex.agent.invocation_id"], answer[0]["invocationId"]);
    let event = answer[0]["id"].as_str().unwrap();
    let one = inside.ok("GET", &format!("/dev/apps/shop/debug/trace/{event}"), None).await;
    assert!(one["gcp.vertex.agent.llm_response"].as_str().unwrap().contains("Hello."));
    assert!(one["gcp.vertex.agent.llm_request"].as_str().unwrap().contains("Hi."));
    assert_eq!(
        inside.call("GET", "/dev/apps/shop/debug/trace/none", None).await,
        (StatusCode::NOT_FOUND, json!({"detail": "Trace not found"}))
    );
    assert_eq!(inside.ok("GET", "/dev/apps/shop/debug/trace/session/none", None).await, json!([]));
}

#[tokio::test(start_paused = true)]
async fn the_page_is_never_asked_for_a_consent() {
    let inside = inside().await;
    assert_eq!(inside.ok("GET", "/dev-ui/assets/config/runtime-config.json", None).await["telemetry"], false);
    assert_eq!(inside.ok("GET", "/config/telemetry", None).await, json!({"telemetry": false}));
    assert_eq!(
        inside.call("POST", "/config/telemetry", Some(json!({"telemetry": true}))).await.0,
        StatusCode::BAD_REQUEST
    );
    for path in ["eval_sets", "eval_results", "tests"] {
        assert_eq!(inside.ok("GET", &format!("/dev/apps/shop/{path}"), None).await, json!([]), "{path}");
    }
    assert_eq!(inside.ok("GET", "/dev/apps/shop/build_graph", None).await["root_agent"]["tools"][0]["name"], "look");
    assert!(inside.ok("GET", "/dev/apps/shop/build_graph_image?dark_mode=true", None).await[""]["dotSrc"].is_string());
    assert_eq!(
        inside.call("POST", "/dev/apps/shop/builder/save", Some(json!({}))).await.0,
        StatusCode::NOT_IMPLEMENTED
    );
    assert_eq!(inside.call("GET", "/dev-ui/", None).await.0, StatusCode::NOT_FOUND);
    assert_eq!(inside.send(Method::GET, "/", None, None).await.headers()["location"], "ui/");
    let memory = inside.call("PATCH", "/apps/shop/users/ada/memory", Some(json!({"sessionId": "a"}))).await;
    assert_eq!(memory, (StatusCode::BAD_REQUEST, json!({"detail": "Memory service is not configured."})));
}

/// Bad input is refused in the form of ADK's validation errors, and no session is created.
#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_refused_with_its_place() {
    let inside = inside().await;
    inside.ok("POST", S, Some(json!({"sessionId": "a"}))).await;
    let json = "application/json";
    let one = format!("{S}/a");
    let artifacts = format!("{S}/a/artifacts");
    for (method, path, body, kind, place) in [
        ("PATCH", &one, "{}", "missing", json!(["body", "stateDelta"])),
        ("PATCH", &one, "", "missing", json!(["body"])),
        ("PATCH", &one, "[]", "model_attributes_type", json!(["body"])),
        ("PATCH", &one, r#"{"stateDelta": 5}"#, "dict_type", json!(["body", "stateDelta"])),
        ("POST", &S.to_owned(), r#"{"sessionId": 5}"#, "string_type", json!(["body", "sessionId"])),
        ("POST", &S.to_owned(), r#"{"state": []}"#, "dict_type", json!(["body", "state"])),
        ("POST", &artifacts, r#"{"artifact": {}}"#, "missing", json!(["body", "filename"])),
        ("POST", &artifacts, r#"{"filename": "x"}"#, "missing", json!(["body", "artifact"])),
    ] {
        let (status, told) = inside.raw(method, path, json, body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body} {told}");
        assert_eq!((&told["detail"][0]["type"], &told["detail"][0]["loc"]), (&json!(kind), &place), "{body}");
    }
    let (status, told) = inside.raw("PATCH", &one, json, "{").await;
    assert_eq!((status.as_u16(), &told["detail"][0]["type"]), (422, &json!("json_invalid")));
    let deep = format!("{{\"stateDelta\": {}1{}}}", "[".repeat(100), "]".repeat(100));
    let long = format!("{{\"stateDelta\": {{\"k\": \"{}\"}}}}", "x".repeat(2 << 20));
    for (kind, body, status) in [
        (json, &deep, 400),
        (json, &long, 413),
        ("text/plain", &r#"{"stateDelta": {}}"#.to_owned(), 415),
        ("application/x-www-form-urlencoded", &"a=b".to_owned(), 415),
    ] {
        let (answered, told) = inside.raw("PATCH", &one, kind, body).await;
        assert_eq!((answered.as_u16(), fields(&told)), (status, vec!["detail"]), "{kind}");
    }
    for body in [
        r#"{"filename": "../x", "artifact": {"text": "t"}}"#,
        r#"{"filename": "", "artifact": {"text": "t"}}"#,
        r#"{"filename": "x", "artifact": {}}"#,
        r#"{"filename": "x", "artifact": {"functionCall": {"name": "x"}}}"#,
    ] {
        assert_eq!(inside.raw("POST", &artifacts, json, body).await.0, StatusCode::BAD_REQUEST, "{body}");
    }
    let unchanged = inside.ok("GET", &one, None).await;
    assert_eq!((&unchanged["state"], &unchanged["events"]), (&json!({}), &json!([])));
    assert_eq!(inside.ok("GET", &artifacts, None).await, json!([]));
}

#[tokio::test(start_paused = true)]
async fn invalid_ids_are_refused_on_every_path() {
    let inside = inside().await;
    let long = "x".repeat(300);
    for id in ["%2E%2E", "a%2Fb", "a%00b", "a%0Ab", &long] {
        for (method, path, body) in [
            ("GET", format!("/apps/{id}/users/ada/sessions"), None),
            ("GET", format!("/apps/shop/users/{id}/sessions"), None),
            ("POST", format!("/apps/shop/users/{id}/sessions"), None),
            ("GET", format!("{S}/{id}"), None),
            ("POST", format!("{S}/{id}"), None),
            ("DELETE", format!("{S}/{id}"), None),
            ("PATCH", format!("{S}/{id}"), Some(json!({"stateDelta": {}}))),
            ("GET", format!("{S}/{id}/artifacts"), None),
            ("GET", format!("{S}/{id}/artifacts/n"), None),
        ] {
            let (status, told) = inside.call(method, &path, body).await;
            assert!(matches!(status.as_u16(), 400 | 404), "{method} {path}: {status} {told}");
            assert!(told["detail"].is_string(), "{told}");
        }
    }
    assert_eq!(inside.ok("GET", S, None).await, json!([]));
}

/// The page is served from its folder and from nowhere else.
#[tokio::test]
async fn the_page_is_served_from_its_folder() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("page");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("index.html"), "<title>page</title>").unwrap();
    std::fs::write(folder.join("main.js"), "1").unwrap();
    std::fs::write(outer.path().join("secret"), "s").unwrap();
    std::os::unix::fs::symlink(outer.path().join("secret"), folder.join("link")).unwrap();
    let inside = crate::speaking(Adk { page: Some(folder), ..Adk::default() }, shop()).await;
    for (path, kind) in
        [("/dev-ui/", "text/html; charset=utf-8"), ("/dev-ui/main.js", "text/javascript; charset=utf-8")]
    {
        let response = inside.send(Method::GET, path, None, None).await;
        assert_eq!((response.status(), &response.headers()["content-type"]), (StatusCode::OK, &kind.parse().unwrap()));
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
    }
    let front = inside.send(Method::GET, "/", None, None).await;
    assert_eq!(
        (front.status(), &front.headers()["location"]),
        (StatusCode::TEMPORARY_REDIRECT, &"dev-ui/".parse().unwrap())
    );
    for path in ["/dev-ui/link", "/dev-ui/../secret", "/dev-ui/%2E%2E/secret", "/dev-ui/..%2Fsecret", "/dev-ui/none.js"]
    {
        assert_eq!(inside.send(Method::GET, path, None, None).await.status(), StatusCode::NOT_FOUND, "{path}");
    }
    let nothing = Adk { page: Some(outer.path().join("none")), ..Adk::default() };
    let options = andon_server::Options::default();
    let server = andon_server::Server::with_dialects(&inside.runtime, options, vec![std::sync::Arc::new(nothing)]);
    let server = server.await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = server.serve(listener).unwrap_err().to_string();
    assert!(refused.contains("pip download"), "{refused}");
}
