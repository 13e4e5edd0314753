//! Who answered: the exact model, and the id that the provider's support asks for.

use andon_models::HttpModel;

use crate::common::*;

/// What is known of a call at its end: the model that answered, and the request's id.
async fn known(model: &HttpModel) -> (Option<String>, Option<String>) {
    let mut answer = call(model);
    all(&mut answer).await;
    (answer.model().map(str::to_owned), answer.request_id().map(str::to_owned))
}

#[tokio::test]
async fn the_id_is_that_of_the_headers_or_else_that_of_the_answer() {
    over_both(async |protocol, provider| {
        for dialect in Dialect::ALL {
            let model = model_of(&provider, protocol, builder(dialect));
            let reply = Reply::text(["So."]).model("bad-model-1-2026");
            let script = || Script::reply(dialect, &reply);
            provider.answer(script());
            let (by, id) = known(&model).await;
            assert_eq!(by.as_deref(), Some("bad-model-1-2026"), "{dialect:?}");
            // Ollama has none.
            assert_eq!(id.is_some(), dialect != Dialect::Ollama, "{dialect:?}: {id:?}");
            for header in ["x-generation-id", "request-id", "x-request-id", "apim-request-id"] {
                provider.answer(script().header(header, "req_7"));
                assert_eq!(known(&model).await.1.as_deref(), Some("req_7"), "{dialect:?}: {header}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_call_that_was_refused_or_cut_says_who_answered_as_far_as_that_is_known() {
    over_both(async |protocol, provider| {
        for dialect in Dialect::ALL {
            let model = model_of(&provider, protocol, builder(dialect));
            provider.answer(Script::refuse(dialect, Refusal::Overloaded).header("request-id", "req_8"));
            assert_eq!(known(&model).await, (None, Some("req_8".to_owned())), "{dialect:?}");
            let frames = dialect.frames(&Reply::text(["One", "two"]));
            let script = Script::stream(dialect).header("request-id", "req_9");
            provider.answer(script.frames(frames.into_iter().take(3)).cut());
            let expected = (Some("bad-model-1".to_owned()), Some("req_9".to_owned()));
            assert_eq!(known(&model).await, expected, "{dialect:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_name_or_an_id_with_the_key_in_it_is_dropped() {
    over_both(async |protocol, provider| {
        let model = model_of(&provider, protocol, builder(Dialect::OpenAiChat));
        let reply = Reply::text(["So."]).model(&format!("echo-{CANARY}"));
        provider.answer(Script::reply(Dialect::OpenAiChat, &reply).header("x-request-id", &format!("for-{CANARY}")));
        assert_eq!(known(&model).await, (None, None));
    })
    .await;
}
