//! `/run` and `/run_sse`, on the wire: W09 to W17.

use andon_runtime::{ModelError, Piece};

use super::shape::{assert_order, assert_shape, keys};
use super::*;

/// W09.
#[tokio::test(start_paused = true)]
async fn run_gives_the_answer_as_one_event_whichever_way_names_are_written() {
    let inside = dialect(agent([says(&["echo: ", "hello"]), says(&["echo: ", "snake"])])).await;
    let (status, events) = inside.post("/run", ask("s", "hello")).await;
    assert_eq!(status, StatusCode::OK, "{events}");
    let events = events.as_array().unwrap();
    assert_eq!(events.len(), 1, "no echo of the person's words, and no pieces");
    assert_shape(&events[0]);
    assert_eq!(
        keys(&events[0]),
        [
            "actions",
            "author",
            "content",
            "finishReason",
            "id",
            "invocationId",
            "nodeInfo",
            "timestamp",
            "usageMetadata"
        ]
    );
    assert_eq!(events[0]["content"], json!({"parts": [{"text": "echo: hello"}], "role": "model"}));
    assert_eq!(
        events[0]["usageMetadata"],
        json!({"candidatesTokenCount": 3, "promptTokenCount": 12, "totalTokenCount": 15})
    );
    assert_eq!((&events[0]["finishReason"], &events[0]["author"]), (&json!("STOP"), &json!("shop")));
    assert_eq!(events[0]["nodeInfo"], json!({"path": "shop@1"}));
    let snake = json!({"app_name": "shop", "user_id": USER, "session_id": "s", "never_heard_of": 1,
                       "new_message": {"parts": [{"text": "echo"}]}});
    let (status, told) = inside.post("/run", snake).await;
    assert_eq!((status, text(&told[0])), (StatusCode::OK, "echo: snake".to_owned()));
    let of_agent: Vec<Value> =
        stored(&inside, "s").await.into_iter().filter(|event| event["author"] != "user").collect();
    assert_eq!(of_agent, [events[0].clone(), told[0].clone()]);
}

/// W11.
#[tokio::test(start_paused = true)]
async fn without_streaming_there_are_no_pieces_and_the_headers_are_those_of_a_stream() {
    let inside = dialect(agent([says(&["a ", "b ", "c "])])).await;
    let response = inside.send(Method::POST, "/run_sse", None, Some(ask("s", "go"))).await;
    let headers = response.headers().clone();
    assert_eq!(headers["content-type"], "text/event-stream; charset=utf-8");
    assert_eq!(headers["cache-control"], "no-store");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body = std::str::from_utf8(&body).unwrap();
    assert_eq!(body.matches("data: ").count(), 1, "{body}");
    assert!(body.contains(r#"{"text":"a b c "}"#) && !body.contains("partial"), "{body}");
    assert_order(body);
}

/// W12.
#[tokio::test(start_paused = true)]
async fn pieces_share_the_id_of_the_answer_which_repeats_the_whole_text() {
    let inside = dialect(agent([says(&["tok0 ", "tok1 ", "tok2 "])])).await;
    let events = streamed(&inside, stream("s", "go")).await;
    assert_eq!(events.iter().map(text).collect::<Vec<_>>(), ["tok0 ", "tok1 ", "tok2 ", "tok0 tok1 tok2 "]);
    let partial: Vec<&Value> = events.iter().map(|event| &event["partial"]).collect();
    assert_eq!(partial, [&json!(true), &json!(true), &json!(true), &json!(false)]);
    for event in &events {
        assert_shape(event);
        assert_eq!((&event["id"], &event["invocationId"]), (&events[0]["id"], &events[0]["invocationId"]));
    }
    assert_eq!(
        keys(&events[0]),
        ["actions", "author", "content", "id", "invocationId", "nodeInfo", "partial", "timestamp"]
    );
    assert!(events[0]["invocationId"].as_str().unwrap().starts_with("e-"));
    assert_eq!(stored(&inside, "s").await[1..], whole(&events));
}

#[tokio::test(start_paused = true)]
async fn a_thought_is_marked_as_one_and_its_tokens_are_counted_separately() {
    let mut usage = andon_runtime::Usage::reported(10, 7);
    usage.reasoning = andon_runtime::Figure::reported(4);
    let acts = vec![
        Act::thinking("Hm. "),
        Act::signed(),
        Act::text("Yes."),
        Act::Piece(Piece::Usage(Box::new(usage))),
        Act::end(),
    ];
    let inside = dialect(agent([acts])).await;
    let events = streamed(&inside, stream("s", "go")).await;
    let last = events.last().unwrap();
    assert_eq!(last["content"]["parts"], json!([{"text": "Hm. ", "thought": true}, {"text": "Yes."}]));
    assert_eq!(
        last["usageMetadata"],
        json!({"candidatesTokenCount": 3, "promptTokenCount": 10, "thoughtsTokenCount": 4, "totalTokenCount": 17})
    );
    assert!(!last.to_string().contains("c2VhbA"), "a seal is the provider's and nobody else's");
}

/// W13.
#[tokio::test(start_paused = true)]
async fn a_call_and_its_response_are_paired_and_what_the_tool_changed_is_told() {
    let answers = [calls(&[("c1", "slow", r#"{"ms": 50}"#)]), says(&["It slept."])];
    let inside = dialect(agent(answers).tool(sleeper("slow"))).await;
    let (status, events) = inside.post("/run", ask("s", "sleep")).await;
    let events = events.as_array().unwrap();
    assert_eq!((status, events.len()), (StatusCode::OK, 3));
    assert_eq!(
        events[0]["content"],
        json!({"parts": [{"functionCall": {"id": "c1", "args": {"ms": 50}, "name": "slow"}}], "role": "model"})
    );
    assert_eq!(events[0]["longRunningToolIds"], json!([]));
    let response = json!({"id": "c1", "name": "slow", "response": {"slept": 50, "how": "async"}});
    assert_eq!(events[1]["content"], json!({"parts": [{"functionResponse": response}], "role": "user"}));
    assert_eq!(
        (&events[1]["author"], &events[1]["actions"]["stateDelta"]),
        (&json!("shop"), &json!({"last_tool": "slow"}))
    );
    assert_eq!(text(&events[2]), "It slept.");
    events.iter().for_each(assert_shape);
    let stored = stored(&inside, "s").await;
    assert_eq!(stored[1..], events[..]);
    is_valid(&stored);
}

/// W14.
#[tokio::test(start_paused = true)]
async fn the_responses_of_calls_at_one_time_are_one_event_in_the_order_of_the_calls() {
    let both = calls(&[("a", "slow", r#"{"ms": 50}"#), ("b", "slow", r#"{"ms": 10}"#)]);
    let inside = dialect(agent([both, says(&["Done."])]).tool(sleeper("slow"))).await;
    let events = streamed(&inside, stream("s", "sleep")).await;
    let responses: Vec<&Value> = events.iter().filter(|event| event.to_string().contains("functionResponse")).collect();
    assert_eq!(responses.len(), 1);
    let ids: Vec<&Value> = responses[0]["content"]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| &part["functionResponse"]["id"])
        .collect();
    assert_eq!(ids, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn invalid_arguments_are_sent_as_empty_with_the_raw_text() {
    let inside = dialect(agent([calls(&[("c1", "slow", "{\"ms\": ")]), says(&["Sorry."])]).tool(sleeper("slow"))).await;
    let (_, events) = inside.post("/run", ask("s", "sleep")).await;
    assert_eq!(events[0]["content"]["parts"][0]["functionCall"]["args"], json!({}));
    assert_eq!(events[0]["customMetadata"]["andon"]["unreadableArguments"], json!({"c1": "{\"ms\": "}));
    assert!(events[1]["content"]["parts"][0]["functionResponse"]["response"]["error"].is_string(), "{events}");
}

/// W15.
#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_is_kept_and_followed_by_an_error_and_its_details() {
    let broken = || vec![Act::text("a "), Act::text("b "), Act::Fail(ModelError::fatal("model exploded"))];
    let inside = dialect(agent([broken(), broken()])).await;
    let events = streamed(&inside, stream("s", "go")).await;
    let [.., cut, error, details] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((pieces(&events), text(cut)), ("a b ".to_owned(), "a b ".to_owned()));
    assert_eq!((&cut["interrupted"], &cut["finishReason"]), (&json!(true), &Value::Null));
    assert_eq!((&error["errorCode"], &error["errorMessage"]), (&json!("STREAM_BROKEN"), &json!("model exploded")));
    assert_eq!(details["error"], "STREAM_BROKEN: model exploded");
    assert_eq!(details["error_details"]["error_type"], "STREAM_BROKEN");
    assert_eq!(details["error_details"]["error_message"], "model exploded");
    assert!(details["error_details"]["timestamp"].is_f64());
    let response = inside.send(Method::POST, "/run", None, Some(ask("s", "go"))).await;
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "Internal Server Error");
    let stored = stored(&inside, "s").await;
    assert_eq!(stored[1..3], whole(&[cut.clone(), error.clone()]));
    assert_eq!(stored.len(), 6);
    is_valid(&stored);
}

/// W16.
#[tokio::test(start_paused = true)]
async fn a_refusal_by_the_provider_is_an_event_not_a_server_error() {
    let refused = || vec![Act::Fail(ModelError::fatal("quota"))];
    let inside = dialect(agent([refused(), refused()])).await;
    let events = streamed(&inside, stream("s", "go")).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!((&events[0]["errorCode"], &events[0]["errorMessage"]), (&json!("MODEL_ERROR"), &json!("quota")));
    assert_eq!(events[0]["nodeInfo"], json!({"path": "shop@1"}));
    let (status, events) = inside.post("/run", ask("s", "go")).await;
    assert_eq!((status, &events[0]["errorMessage"]), (StatusCode::OK, &json!("quota")));
    is_valid(&stored(&inside, "s").await);
}

/// W10, W17.
#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_refused_in_adks_words_before_anything_is_streamed() {
    let inside = dialect(agent([])).await;
    for path in ["/run", "/run_sse"] {
        for (body, status, detail) in [
            (ask("nope", "go"), StatusCode::NOT_FOUND, json!("Session not found: nope")),
            (
                with(ask("s", "go"), json!({"appName": "nope"})),
                StatusCode::NOT_FOUND,
                json!("Agent not found: 'nope'. No matching directory or module exists."),
            ),
            (
                with(ask("s", "go"), json!({"appName": null})),
                StatusCode::BAD_REQUEST,
                json!("app_name is required when ADK_DEFAULT_APP_NAME is not set"),
            ),
        ] {
            let response = inside.send(Method::POST, path, None, Some(body.clone())).await;
            assert_eq!(response.headers()["content-type"], "application/json");
            let told = crate::inside::answered(response).await;
            assert_eq!(told, (status, json!({"detail": detail})), "{path} {body}");
        }
    }
    let (status, _) = inside.get(&super::path("nope")).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "nothing was begun");
}

#[tokio::test(start_paused = true)]
async fn state_that_comes_with_a_run_is_there_when_it_begins_and_on_its_first_event() {
    let inside = dialect(agent([says(&["ok"])])).await;
    let (status, _) = inside.post("/run", with(ask("s", "go"), json!({"stateDelta": {"from_client": 1}}))).await;
    assert_eq!(status, StatusCode::OK);
    let (_, session) = inside.get(&super::path("s")).await;
    assert_eq!(session["state"]["from_client"], 1);
    assert_eq!(session["events"][0]["actions"]["stateDelta"], json!({"from_client": 1}));
    assert_eq!(session["events"][1]["actions"]["stateDelta"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn temporary_state_is_neither_sent_nor_recorded() {
    let inside = dialect(agent([says(&["ok"])])).await;
    let delta = json!({"temp:secret": 1, "own": 2, "user:u": 3});
    let (status, _) = inside.post("/run", with(ask("s", "go"), json!({"stateDelta": delta}))).await;
    assert_eq!(status, StatusCode::OK);
    let (_, session) = inside.get(&super::path("s")).await;
    assert_eq!(session["events"][0]["actions"]["stateDelta"], json!({"own": 2, "user:u": 3}));
    let run = session["events"][0]["invocationId"].as_str().unwrap();
    let facts = json!(inside.run(run).await.records()).to_string();
    assert!(facts.contains("user:u") && !facts.contains("temp:"), "{facts}");
}

#[tokio::test(start_paused = true)]
async fn an_image_goes_to_the_model_and_comes_back_as_it_was_sent() {
    let inside = dialect(agent([says(&["A cat."])])).await;
    let parts = json!([
        {"text": "What is it?"},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"file_data": {"mime_type": "image/png", "file_uri": "https://example.com/cat.png"}},
    ]);
    let (status, told) = inside.post("/run", with(ask("s", ""), json!({"newMessage": {"parts": parts}}))).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    let expected = json!([
        {"text": "What is it?"},
        {"inlineData": {"data": "aGk=", "mimeType": "image/png"}},
        {"fileData": {"fileUri": "https://example.com/cat.png", "mimeType": "image/png"}},
    ]);
    assert_eq!(stored(&inside, "s").await[0]["content"], json!({"parts": expected, "role": "user"}));
}
