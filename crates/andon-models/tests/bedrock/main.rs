//! Bedrock through its SDK, against a server that speaks its framing.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::disallowed_methods)]

mod server;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use andon_models::bedrock::Bedrock;
use andon_models::settings::Settings;
use andon_runtime::core::usage::{Pending, Provenance};
use andon_runtime::{Answer, Message, Model, ModelErrorKind, ModelRequest, ModelStop, Part, Piece, RunId, Usage};
use aws_sdk_bedrockruntime::config::{BehaviorVersion, Builder, Credentials, Region};
use serde_json::{Value, json};
use server::{Script, Server};

/// Permits to drain are shared by the process: tests that need them take turns.
static DRAINING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

const MODEL: &str = "anthropic.claude-sonnet-4-5-20250929-v1:0";

fn model(server: &Server) -> Bedrock {
    let config = Builder::new()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-north-1"))
        .credentials_provider(Credentials::new("AKIDEXAMPLE", "canary-secret", None, None, "test"))
        .endpoint_url(server.address());
    Bedrock::new(MODEL, Settings::default()).with_config(config)
}

fn request() -> ModelRequest {
    ModelRequest::new(RunId::new("run-1").unwrap(), 1, vec![Arc::new(Message::user("Count."))])
        .instructions("Be brief.")
}

async fn next(answer: &mut dyn Answer) -> Option<Result<Piece, andon_runtime::ModelError>> {
    std::future::poll_fn(|cx| answer.poll_piece(cx)).await
}

/// The error of a call that fails at once, and what it reports as used.
async fn failure(model: &Bedrock) -> (andon_runtime::ModelError, Usage) {
    let mut answer = model.call(request());
    assert_eq!(answer.usage_so_far(), Usage::NONE, "nothing is asked before it is polled");
    let error = next(&mut *answer).await.unwrap().unwrap_err();
    (error, answer.usage_so_far())
}

async fn all(answer: &mut dyn Answer) -> Vec<Piece> {
    let mut pieces = Vec::new();
    while let Some(piece) = next(answer).await {
        pieces.push(piece.unwrap());
    }
    pieces
}

fn text(text: &str) -> (&'static str, Value) {
    ("contentBlockDelta", json!({"contentBlockIndex": 0, "delta": {"text": text}}))
}

fn ending() -> Vec<(&'static str, Value)> {
    let usage = json!({"inputTokens": 9, "outputTokens": 40, "totalTokens": 49});
    vec![
        ("contentBlockStop", json!({"contentBlockIndex": 0})),
        ("messageStop", json!({"stopReason": "end_turn"})),
        ("metadata", json!({"usage": usage, "metrics": {"latencyMs": 5}})),
    ]
}

#[tokio::test]
async fn an_answer_is_read_whole_and_what_is_sent_is_what_was_rendered() {
    let start = [("messageStart", json!({"role": "assistant"})), text("One, "), text("two.")];
    let server = Server::start(Script::Stream(vec![start.into_iter().chain(ending()).collect()])).await;
    let mut answer = model(&server).call(request());
    let pieces = all(&mut *answer).await;
    assert_eq!(pieces[..2], [Piece::Text("One, ".into()), Piece::Text("two.".into())]);
    assert_eq!(pieces.last(), Some(&Piece::End(ModelStop::EndTurn)));
    let usage = answer.usage_so_far();
    assert_eq!((usage.input.value, usage.output.value), (Some(9), Some(40)));
    assert_eq!(usage.output.provenance, Provenance::Reported);
    let (head, body) = server.request();
    assert!(head.starts_with("POST /model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream "), "{head}");
    let expected = json!({
        "inferenceConfig": {"maxTokens": 32_000},
        "system": [{"text": "Be brief."}],
        "messages": [{"role": "user", "content": [{"text": "Count."}]}],
    });
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), expected);
    assert!(head.to_lowercase().contains("authorization: aws4-hmac-sha256"), "{head}");
}

#[tokio::test]
async fn a_cut_answer_is_drained_and_its_bill_and_its_undelivered_words_are_reported() {
    let _turn = DRAINING.lock().await;
    let call = [
        (
            "contentBlockStart",
            json!({"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "t", "name": "look"}}}),
        ),
        ("contentBlockDelta", json!({"contentBlockIndex": 1, "delta": {"toolUse": {"input": "{\"a\":1}"}}})),
    ];
    let rest: Vec<_> = [text("two, "), text("three.")].into_iter().chain(call).chain(ending()).collect();
    let server = Server::start(Script::Stream(vec![vec![text("One, ")], rest])).await;
    let mut answer = model(&server).call(request());
    assert_eq!(next(&mut *answer).await.unwrap().unwrap(), Piece::Text("One, ".into()));
    assert_eq!(answer.usage_so_far().output.value, None, "nothing is known, and that is not zero");
    let afterwards = answer.cut().unwrap();
    assert_eq!(afterwards.what, Pending::Draining);
    assert!(afterwards.within > Duration::from_secs(60));
    // The rest is sent only now: the connection lives on.
    server.go_on();
    let learned = afterwards.work.await;
    assert_eq!(learned.used.billed.output.value, Some(40));
    assert_eq!(learned.used.billed.output.provenance, Provenance::Reported);
    assert_eq!(learned.used.delivered.input.value, Some(9));
    assert_eq!(learned.used.delivered.output.value, None);
    assert_eq!(learned.undelivered[0], Part::text("two, three."));
    let Part::ToolCall(call) = &learned.undelivered[1] else { unreachable!("{learned:?}") };
    assert_eq!((call.name.as_str(), call.arguments.as_str()), ("look", "{\"a\":1}"));
}

#[tokio::test]
async fn an_answer_that_was_never_asked_for_or_is_whole_leaves_nothing_to_learn() {
    let server = Server::start(Script::Stream(vec![ending()])).await;
    assert!(model(&server).call(request()).cut().is_none());
    let mut answer = model(&server).call(request());
    all(&mut *answer).await;
    assert!(answer.cut().is_none());
}

#[tokio::test]
async fn more_than_eight_are_not_drained_at_once_and_too_much_text_is_closed() {
    let _turn = DRAINING.lock().await;
    let server = Server::start(Script::Stream(vec![vec![text("One, ")], vec![text(&"x".repeat(1 << 21))]])).await;
    let model = model(&server);
    let mut drained = Vec::new();
    for _ in 0..9 {
        let mut answer = model.call(request());
        next(&mut *answer).await.unwrap().unwrap();
        drained.push(answer.cut());
    }
    let places = drained.iter().filter(|drained| drained.is_some()).count();
    assert_eq!(places, 8);
    assert!(drained.last().unwrap().is_none());
    server.go_on();
    let learned = drained.remove(0).unwrap().work.await;
    assert_eq!(learned.used, andon_runtime::Used::UNKNOWN, "over the cap nothing is known");
}

#[tokio::test]
async fn a_dropped_answer_closes_its_connection() {
    let server = Server::start(Script::Stream(vec![vec![text("One, ")], vec![text("never")]])).await;
    let mut answer = model(&server).call(request());
    next(&mut *answer).await.unwrap().unwrap();
    drop(answer);
    server.closed().await;
}

#[tokio::test]
async fn throttling_may_pass_and_a_refused_key_will_not_and_neither_names_a_secret() {
    let refused = |status, code| Script::Refuse { status, code, message: "Not now." };
    let server = Server::start(refused(429, "ThrottlingException")).await;
    let (error, usage) = failure(&model(&server)).await;
    assert_eq!((error.kind, usage), (ModelErrorKind::Retryable { after: None }, Usage::NONE));
    assert_eq!(server.requests(), 1, "the SDK tries nothing again");
    let server = Server::start(refused(500, "InternalServerException")).await;
    let (error, usage) = failure(&model(&server)).await;
    assert_eq!((error.kind, usage), (ModelErrorKind::Retryable { after: None }, Usage::UNKNOWN));
    let server = Server::start(refused(403, "AccessDeniedException")).await;
    let (error, usage) = failure(&model(&server)).await;
    assert_eq!((&error.kind, usage), (&ModelErrorKind::Fatal, Usage::NONE));
    assert!(!format!("{error:?}").contains("canary"));
}

#[tokio::test]
async fn missing_credentials_name_the_variables_to_set() {
    let server = Server::start(Script::Stream(vec![ending()])).await;
    let config = Builder::new()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-north-1"))
        .endpoint_url(server.address());
    let model = Bedrock::new(MODEL, Settings::default()).with_config(config);
    let (error, usage) = failure(&model).await;
    assert_eq!((&error.kind, usage), (&ModelErrorKind::Fatal, Usage::NONE));
    assert!(error.message.contains("AWS_ACCESS_KEY_ID"), "{error}");
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn an_error_in_the_stream_may_pass_and_a_refused_connection_too() {
    let server = Server::start(Script::Break { words: "One, ", code: "throttlingException" }).await;
    let mut answer = model(&server).call(request());
    next(&mut *answer).await.unwrap().unwrap();
    let error = next(&mut *answer).await.unwrap().unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Retryable { after: None }, "{error}");
    let gone = Server::gone().await;
    let (error, usage) = failure(&model(&gone)).await;
    assert_eq!(error.kind, ModelErrorKind::Retryable { after: None }, "{error}");
    assert_eq!(usage, Usage::NONE, "a provider that was never reached has used nothing");
}

#[tokio::test]
async fn a_connection_that_is_lost_before_headers_is_not_taken_for_missing_credentials_and_may_have_begun_the_work() {
    let server = Server::start(Script::HangUp).await;
    let (error, usage) = failure(&model(&server)).await;
    assert_eq!(error.kind, ModelErrorKind::Retryable { after: None }, "{error}");
    assert_eq!(usage, Usage::UNKNOWN);
}

#[tokio::test]
async fn nothing_happens_before_the_answer_is_polled() {
    let server = Server::start(Script::Stream(vec![ending()])).await;
    let mut answer = model(&server).call(request());
    tokio::task::yield_now().await;
    assert_eq!(server.requests(), 0);
    assert!(matches!(answer.poll_piece(&mut Context::from_waker(Waker::noop())), Poll::Pending));
}

#[tokio::test]
async fn what_is_shown_is_what_is_sent_without_a_secret() {
    let server = Server::start(Script::Stream(vec![ending()])).await;
    let model = model(&server);
    let shown = model.rendering(&request()).unwrap();
    all(&mut *model.call(request())).await;
    let sent: Value = serde_json::from_str(&server.request().1).unwrap();
    assert_eq!((&*shown.form, &shown.body), ("bedrock", &sent));
    assert!(!shown.body.to_string().contains("canary"));
}

#[tokio::test]
async fn it_is_found_by_its_name_and_has_a_meter() {
    let model = andon_models::by_name("bedrock/amazon.nova-pro-v1:0").unwrap();
    assert_eq!(model.name(), "bedrock/amazon.nova-pro-v1:0");
    assert!(model.meter().is_some());
}
