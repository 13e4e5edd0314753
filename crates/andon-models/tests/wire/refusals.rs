//! Refusals: the message, what can be done, and that no usage is reported.

use andon_models::HttpModel;
use andon_runtime::{ModelError, ModelErrorKind};

use crate::common::*;

const CHAT: Dialect = Dialect::OpenAiChat;

/// The error of a call, and what it reports as used.
async fn refused(model: &HttpModel) -> (ModelError, Usage) {
    let mut answer = call(model);
    let (pieces, error) = all(&mut answer).await;
    assert_eq!(pieces, []);
    let usage = answer.usage_so_far();
    assert!(answer.cut().is_none(), "nothing follows a refusal");
    (error.expect("it fails"), usage)
}

fn is_retryable(error: &ModelError) -> bool {
    matches!(error.kind, ModelErrorKind::Retryable { .. })
}

#[tokio::test]
async fn every_providers_refusals_are_understood() {
    over_both(async |protocol, provider| {
        for dialect in Dialect::ALL {
            let model = model_of(&provider, protocol, builder(dialect));
            for refusal in Refusal::ALL {
                provider.answer(Script::refuse(dialect, refusal));
                let (error, usage) = refused(&model).await;
                let at = format!("{dialect:?} {refusal:?}: {error:?}");
                match refusal {
                    Refusal::BadRequest | Refusal::WrongKey | Refusal::UnknownModel => {
                        assert_eq!(error.kind, ModelErrorKind::Fatal, "{at}");
                    }
                    Refusal::TooLong => assert_eq!(error.kind, ModelErrorKind::ContextOverflow, "{at}"),
                    Refusal::RateLimited => {
                        assert!(matches!(error.kind, ModelErrorKind::Retryable { after: Some(_) }), "{at}");
                    }
                    Refusal::Internal | Refusal::Overloaded => assert!(is_retryable(&error), "{at}"),
                }
                let worked_on = refusal.status(dialect) >= 500;
                assert_eq!(usage, if worked_on { Usage::UNKNOWN } else { Usage::NONE }, "{at}");
            }
        }
    })
    .await;
}

async fn chat() -> (BadProvider, HttpModel) {
    let provider = BadProvider::start(Protocol::Http1).await;
    let model = model_of(&provider, Protocol::Http1, builder(CHAT));
    (provider, model)
}

#[tokio::test]
async fn a_wrong_key_names_its_variable_and_an_unknown_model_is_named() {
    let (provider, model) = chat().await;
    provider.answer(Script::refuse(CHAT, Refusal::WrongKey));
    assert!(refused(&model).await.0.message.contains("OPENAI_API_KEY"));
    provider.answer(Script::refuse(CHAT, Refusal::UnknownModel));
    assert!(refused(&model).await.0.message.contains("\"bad-model-1\""));
}

#[tokio::test]
async fn a_spent_budget_is_not_retried() {
    let (provider, model) = chat().await;
    let quota = json!({"error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}});
    provider.answer(Script::json(429, &quota));
    assert_eq!(refused(&model).await.0.kind, ModelErrorKind::Fatal);
    provider.answer(Script::json(402, &json!({"error": {"message": "Insufficient credits", "code": 402}})));
    assert_eq!(refused(&model).await.0.kind, ModelErrorKind::Fatal);
}

#[tokio::test]
async fn the_requested_wait_is_reported() {
    let (provider, model) = chat().await;
    provider.answer(Script::json(503, &json!({"error": "busy"})).header("retry-after", "7"));
    let after = Some(Duration::from_secs(7));
    assert_eq!(refused(&model).await.0.kind, ModelErrorKind::Retryable { after });
    provider.answer(Script::json(429, &json!({"error": "busy"})).header("retry-after-ms", "1500"));
    let after = Some(Duration::from_millis(1500));
    assert_eq!(refused(&model).await.0.kind, ModelErrorKind::Retryable { after });
}

#[tokio::test]
async fn a_proxys_page_is_called_one_whatever_its_status() {
    let (provider, model) = chat().await;
    for status in [200, 403, 502] {
        provider.answer(Script::html_page(status));
        let (error, _) = refused(&model).await;
        assert!(error.message.contains("proxy's page or a login page"), "{error}");
        assert!(error.message.contains("127.0.0.1:"), "{error}");
        assert_eq!(is_retryable(&error), status == 502, "{error}");
    }
    let titled = "<html><head><title>Captive portal</title>";
    provider.answer(Script::new(200).content_type("text/html").bytes(titled).end());
    assert!(refused(&model).await.0.message.contains("\"Captive portal\""));
    // A page that never ends is read only up to its limit.
    provider.answer(Script::new(403).content_type("text/html").bytes(titled.repeat(10_000)).stall());
    assert!(refused(&model).await.0.message.contains("\"Captive portal\""));
}

#[tokio::test]
async fn a_redirect_is_reported_and_not_followed() {
    let (provider, model) = chat().await;
    provider.answer(Script::new(307).header("location", "https://elsewhere.example/v1/chat/completions").end());
    let (error, usage) = refused(&model).await;
    assert_eq!((error.kind, usage), (ModelErrorKind::Fatal, Usage::NONE));
    assert!(error.message.contains("elsewhere.example"), "{error}");
    assert_eq!(provider.all_seen().len(), 1);
}

#[tokio::test]
async fn json_instead_of_a_stream_is_an_error_object_or_a_server_that_does_not_stream() {
    let (provider, model) = chat().await;
    provider.answer(Script::json(200, &json!({"error": {"message": "Try again", "type": "server_error"}})));
    let (error, _) = refused(&model).await;
    assert!(is_retryable(&error) && error.message.contains("Try again"), "{error:?}");
    provider.answer(Script::json(200, &json!({"choices": [{"message": {"content": "Hi"}}]})));
    let (error, usage) = refused(&model).await;
    assert!(error.message.contains("cannot stream"), "{error}");
    assert_eq!((error.kind, usage), (ModelErrorKind::Fatal, Usage::UNKNOWN));
}

#[tokio::test]
async fn a_refused_connection_and_a_wrong_scheme_are_told_apart() {
    let (provider, _) = chat().await;
    let closed = { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap() };
    let secure = provider.base_url().replace("http:", "https:");
    let cases = [(format!("http://{closed}"), "nothing listens"), (secure, "no secure connection")];
    for (address, words) in cases {
        never_reached(&address, words).await;
    }
}

/// A provider that was never reached has used nothing, and may be asked again.
pub(crate) async fn never_reached(address: &str, words: &str) {
    let model = builder(CHAT).base_url(address).key("k").build().unwrap();
    let (error, usage) = refused(&model).await;
    assert!(error.message.contains(words), "{address}: {error}");
    assert!(is_retryable(&error), "{error:?}");
    assert_eq!(usage, Usage::NONE);
}

#[tokio::test]
async fn an_error_object_with_a_good_status_goes_by_the_status_in_it() {
    let (provider, model) = chat().await;
    for (code, words) in [(429, "too many requests"), (502, "the provider failed"), (503, "overloaded")] {
        provider.answer(Script::json(200, &json!({"error": {"message": "Provider returned error", "code": code}})));
        let (error, _) = refused(&model).await;
        assert!(is_retryable(&error) && error.message.contains(words), "{code}: {error:?}");
    }
    for code in [200, 400, 401, 1302] {
        provider.answer(Script::json(200, &json!({"error": {"message": "Provider returned error", "code": code}})));
        assert_eq!(refused(&model).await.0.kind, ModelErrorKind::Fatal, "{code}");
    }
}
