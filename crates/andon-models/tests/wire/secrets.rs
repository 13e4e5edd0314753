//! A key is seen by the provider and by nobody else.

use andon_models::{Compatible, Settings};

use crate::common::*;

#[track_caller]
fn assert_clean(what: &str, text: &str) {
    assert!(!text.contains("canary"), "{what} shows the key: {text}");
}

#[tokio::test]
async fn no_error_shows_a_key_that_a_provider_echoes() {
    let provider = BadProvider::start(Protocol::Http1).await;
    let echo = format!("Incorrect API key provided: {CANARY}. See https://example.com/?key={CANARY}");
    for dialect in Dialect::ALL {
        let model = model_of(&provider, Protocol::Http1, builder(dialect));
        let html = format!("<html><title>{CANARY}</title><body>{CANARY}");
        let scripts = [
            Script::json(401, &json!({"error": {"message": echo, "type": CANARY, "code": CANARY}})),
            Script::json(400, &json!({"detail": echo})),
            Script::json(500, &json!({"error": echo})),
            Script::new(403).content_type("text/html").bytes(html).end(),
            Script::new(500).content_type("text/plain").bytes(echo.clone()).end(),
            Script::new(302).header("location", &format!("https://{CANARY}.example/")).end(),
            Script::stream(dialect).bytes(format!("data: {{\"error\": {{\"message\": \"{CANARY}\"}}}}\n\n")).end(),
            Script::stream(dialect).bytes(format!("{{\"error\": \"{CANARY}\"}}\n")).end(),
            Script::stream(dialect).bytes(format!("event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"{CANARY}\",\"message\":\"{CANARY}\"}}}}\n\n")).end(),
            Script::stream(dialect).bytes(format!("data: {CANARY} is not JSON\n\n{CANARY}\n")).end(),
            Script::refuse(dialect, Refusal::WrongKey),
        ];
        for script in scripts {
            provider.answer(script);
            let mut answer = call(&model);
            let (_, error) = all(&mut answer).await;
            let error = error.expect("it fails");
            assert_clean("the error", &format!("{error} {error:?} {error:#?}"));
        }
    }
}

#[tokio::test]
async fn no_description_shows_a_key() {
    let settings = Settings::default;
    let builders = [
        Compatible::builder("http://user:canary-password@127.0.0.1:9/v1?token=canary-token", "m").settings(settings()),
        Compatible::builder("http://127.0.0.1:9/v1?token=canary-token", "m").key(CANARY).settings(settings()),
    ];
    for builder in builders {
        let builder = builder.header("x-extra", "canary-header");
        assert_clean("the builder", &format!("{builder:?} {builder:#?}"));
        let model = builder.build().unwrap();
        assert_clean("the model", &format!("{model:?} {model:#?}"));
        let mut answer = call(&model);
        let (_, error) = all(&mut answer).await;
        let error = error.expect("nothing listens on port 9");
        assert_clean("a refused connection", &format!("{error} {error:?}"));
    }
}

#[tokio::test]
async fn a_password_in_the_address_is_sent_as_authorization_and_shown_to_nobody() {
    over_both(async |protocol, provider| {
        let address = provider.base_url().replace("http://", "http://user:canary%2Fpass@") + "/v1?token=canary-token";
        let builder = Compatible::builder(&address, "m");
        let builder = if protocol == Protocol::Http2 { builder.http2_prior_knowledge() } else { builder };
        let echo =
            "Basic dXNlcjpjYW5hcnkvcGFzcw==, dXNlcjpjYW5hcnkvcGFzcw== canary/pass canary%2Fpass ?token=canary-token";
        provider.answer(Script::json(401, &json!({"error": {"message": echo}})));
        let error = all(&mut call(&builder.clone().build().unwrap())).await.1.unwrap();
        assert_clean("the error", &error.message);
        assert!(!error.message.contains("dXNlcjpj"), "{error}");
        let seen = provider.seen(0).await;
        assert_eq!(seen.header("authorization"), Some("Basic dXNlcjpjYW5hcnkvcGFzcw=="));
        assert_eq!(seen.query.as_deref(), Some("token=canary-token"));
        // A key would be sent in the same header.
        let error = builder.key(CANARY).build().unwrap_err();
        assert!(error.to_string().contains("only one of them can be sent"), "{error}");
        assert_clean("a setup error", &format!("{error} {error:?}"));
    })
    .await;
}

#[test]
fn no_setup_error_shows_a_key() {
    for key in [format!("{CANARY}\nand a line"), format!("{CANARY}\u{7f}")] {
        let error = builder(Dialect::Anthropic).key(key).build().unwrap_err();
        assert_clean("a key that cannot be sent", &format!("{error} {error:?}"));
        assert!(error.to_string().contains("ANTHROPIC_API_KEY"));
    }
    for address in [
        "ftp://user:canary@host",
        "http://user:canary@",
        "://canary@x",
        "http://user:canary@host/#x",
        "http://h/?k=canary#x",
    ] {
        let error = builder(Dialect::Anthropic).base_url(address).key("k").build().unwrap_err();
        assert_clean("an address", &format!("{error} {error:?}"));
    }
    let error = builder(Dialect::Anthropic).key("k").header("x y", "canary").build().unwrap_err();
    assert_clean("a header", &format!("{error} {error:?}"));
}

#[test]
fn a_panic_that_shows_a_model_shows_no_key() {
    let model = builder(Dialect::Gemini).key(CANARY).build().unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| panic!("{model:?}"))).unwrap_err();
    let words = *panicked.downcast::<String>().unwrap();
    assert!(words.contains("gemini"));
    assert_clean("a panic", &words);
}

#[tokio::test]
async fn a_key_at_the_cut_of_a_long_text_is_not_shown_in_part() {
    let provider = BadProvider::start(Protocol::Http1).await;
    for dialect in Dialect::ALL {
        let model = model_of(&provider, Protocol::Http1, builder(dialect));
        for (longest, left) in [(600, 6), (600, 15), (600, CANARY.len() - 1), (120, 6), (120, 15), (120, 19)] {
            let echo = format!("{}{CANARY} and more, {}", "x".repeat(longest - left), "y".repeat(600));
            let object = json!({"type": "error", "error": {"type": "t", "message": echo}, "message": echo});
            let html = format!("<html><title>{echo}</title>");
            let scripts = [
                Script::json(400, &json!({"error": {"message": echo, "type": "t"}})),
                Script::json(400, &json!({"error": {"message": "no", "type": echo}})),
                Script::new(500).content_type("text/plain").bytes(echo.clone()).end(),
                Script::new(403).content_type("text/html").bytes(html).end(),
                // Broken off by the server, not by us.
                Script::new(500).content_type("text/plain").bytes(format!("key {}", &CANARY[..left])).cut(),
                Script::stream(dialect).bytes(format!("event: error\ndata: {object}\n\n")).end(),
                Script::stream(dialect).bytes(format!("{object}\n")).end(),
            ];
            for (number, script) in scripts.into_iter().enumerate() {
                provider.answer(script);
                let error = all(&mut call(&model)).await.1.expect("it fails");
                assert!(!error.message.contains(&CANARY[..6]), "{dialect:?} {number} {left}: {error}");
            }
        }
    }
}
