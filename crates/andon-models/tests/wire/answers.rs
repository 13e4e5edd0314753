//! Whole answers.

use andon_runtime::{Figure, ModelStop, Piece, Usage};
use andon_testkit::provider::{ClosedHow, Dialect, Reply, Script};

use crate::common::{CANARY, all, builder, call, model_of, over_both, text};

#[tokio::test]
async fn an_answer_comes_whole_over_both_protocols_and_its_connection_is_used_again() {
    over_both(async |protocol, provider| {
        for dialect in Dialect::ALL {
            let model = model_of(&provider, protocol, builder(dialect));
            provider.always(Script::reply(dialect, &Reply::text(["Hel", "lo, ", "wörld"])));
            for _ in 0..3 {
                let mut answer = call(&model);
                let (pieces, error) = all(&mut answer).await;
                assert_eq!(error, None, "{dialect:?}");
                assert_eq!(text(&pieces), "Hello, wörld", "{dialect:?}");
                assert_eq!(pieces.last(), Some(&Piece::End(ModelStop::EndTurn)), "{dialect:?}");
                let usage = answer.usage_so_far();
                assert_eq!((usage.input, usage.output), (Figure::reported(12), Figure::reported(3)), "{dialect:?}");
                assert_eq!(answer.model(), Some("bad-model-1"));
            }
        }
        assert_eq!(provider.connections(), 1);
        for seen in provider.all_seen() {
            assert_eq!(seen.closed().await.how, ClosedHow::Whole);
            let is_canary = |name: &str| seen.header(name).is_some_and(|value| value.contains(CANARY));
            assert!(["authorization", "x-api-key", "x-goog-api-key"].into_iter().any(is_canary));
            assert_eq!(seen.query.as_deref().unwrap_or_default().find(CANARY), None);
        }
    })
    .await;
}

#[tokio::test]
async fn nothing_is_sent_before_the_answer_is_polled_and_no_usage_is_reported() {
    over_both(async |protocol, provider| {
        let model = model_of(&provider, protocol, builder(Dialect::OpenAiChat));
        let answer = call(&model);
        assert_eq!(answer.usage_so_far(), Usage::NONE);
        assert!(answer.cut().is_none());
        assert_eq!(provider.connections(), 0);
    })
    .await;
}
