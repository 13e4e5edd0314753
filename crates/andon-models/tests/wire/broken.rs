//! Answers that break: nothing is lost of what came, and what is said about usage is true.

use andon_runtime::{ModelError, ModelErrorKind, Piece, Usage};
use andon_testkit::provider::{BadProvider, Dialect, Frame, Protocol, Refusal, Reply, Script};

use crate::common::{all, builder, call, model_of, over_both, text};

fn is_retryable(error: Option<&ModelError>) -> bool {
    matches!(error, Some(ModelError { kind: ModelErrorKind::Retryable { .. }, .. }))
}

/// All frames of an answer but its last three, so that its end is not among them.
fn beginning(dialect: Dialect) -> Vec<Frame> {
    let mut frames = dialect.frames(&Reply::text(["One ", "two ", "three ", "four ", "five ", "six ", "seven"]));
    frames.truncate(frames.len() - 4);
    frames
}

#[tokio::test]
async fn a_stream_that_ends_early_is_cut_or_reset_is_retryable_and_keeps_what_came() {
    over_both(async |protocol, provider| {
        for dialect in Dialect::ALL {
            let model = model_of(&provider, protocol, builder(dialect));
            let begun = || Script::stream(dialect).frames(beginning(dialect));
            let half = &dialect.text_frame(20);
            for script in
                [begun().end(), begun().cut(), begun().reset(), begun().half(half).end(), begun().half(half).cut()]
            {
                provider.answer(script);
                let mut answer = call(&model);
                let (pieces, error) = all(&mut answer).await;
                assert!(text(&pieces).starts_with("One two "), "{dialect:?} {pieces:?}");
                assert!(is_retryable(error.as_ref()), "{dialect:?} {error:?}");
                assert!(!pieces.iter().any(|piece| matches!(piece, Piece::End(_))));
                assert_ne!(answer.usage_so_far(), Usage::NONE);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_is_lost_before_headers_may_have_begun_the_work() {
    over_both(async |protocol, provider| {
        let model = model_of(&provider, protocol, builder(Dialect::OpenAiChat));
        for script in [
            Script::stream(Dialect::OpenAiChat).cut_before_headers(),
            Script::stream(Dialect::OpenAiChat).reset_before_headers(),
        ] {
            provider.answer(script);
            let mut answer = call(&model);
            let (pieces, error) = all(&mut answer).await;
            assert_eq!(pieces, []);
            assert!(is_retryable(error.as_ref()), "{error:?}");
            assert_eq!(answer.usage_so_far(), Usage::UNKNOWN);
        }
    })
    .await;
}

#[tokio::test]
async fn errors_in_mid_stream_are_reported_in_the_providers_words() {
    over_both(async |protocol, provider| {
        for dialect in Dialect::ALL {
            let model = model_of(&provider, protocol, builder(dialect));
            for refusal in [Refusal::Overloaded, Refusal::Internal] {
                provider.answer(
                    Script::stream(dialect).frames(beginning(dialect)).frames(dialect.error_frames(refusal)).end(),
                );
                let (pieces, error) = all(&mut call(&model)).await;
                assert!(text(&pieces).starts_with("One two "), "{dialect:?}");
                assert!(is_retryable(error.as_ref()), "{dialect:?} {refusal:?} {error:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn broken_json_is_an_error_and_not_a_panic() {
    over_both(async |protocol, provider| {
        for dialect in Dialect::ALL {
            let model = model_of(&provider, protocol, builder(dialect));
            provider
                .answer(Script::stream(dialect).frames(beginning(dialect)).frames([dialect.broken_frame()]).stall());
            let (pieces, error) = all(&mut call(&model)).await;
            assert!(text(&pieces).starts_with("One two "), "{dialect:?}");
            assert!(is_retryable(error.as_ref()), "{dialect:?} {error:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_answer_over_the_limit_and_a_frame_without_end_are_refused_and_closed() {
    over_both(async |protocol, provider| {
        let model = model_of(&provider, protocol, builder(Dialect::OpenAiChat));
        provider.answer(Script::stream(Dialect::OpenAiChat).flood(Dialect::OpenAiChat.text_frame(256 * 1024)));
        let mut answer = call(&model);
        let (_, error) = all(&mut answer).await;
        let error = error.unwrap();
        assert!(error.message.contains("64 MiB"), "{error}");
        assert_eq!(error.kind, ModelErrorKind::Fatal);
        provider.all_streams_closed().await;
        provider.answer(Script::stream(Dialect::OpenAiChat).bytes("data: ").flood(Frame::raw(vec![b'x'; 256 * 1024])));
        let (_, error) = all(&mut call(&model)).await;
        let error = error.unwrap();
        assert!(error.message.contains("8388608 bytes"), "{error}");
        provider.all_streams_closed().await;
    })
    .await;
}

#[tokio::test]
async fn a_server_that_only_pings_keeps_nobody_from_leaving() {
    over_both(async |protocol, provider| {
        let model = model_of(&provider, protocol, builder(Dialect::OpenAiChat));
        provider.answer(Script::stream(Dialect::OpenAiChat).flood(Frame::raw(": ping\n\n".repeat(1000))));
        let mut answer = call(&model);
        let polled = tokio::time::timeout(
            std::time::Duration::from_millis(50),
            std::future::poll_fn(|cx| answer.poll_piece(cx)),
        );
        assert!(polled.await.is_err());
        drop(answer);
        provider.all_streams_closed().await;
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_says_little_in_large_frames_is_read_whole() {
    let provider = BadProvider::start_on_thread(Protocol::Http1);
    let dialect = Dialect::OpenAiChat;
    let model = model_of(&provider, Protocol::Http1, builder(dialect));
    // As from a server that puts figures, times and names around every word: 80 MiB for a thousand of them.
    let around = "x".repeat(80 * 1024);
    let chunk = serde_json::json!({"choices": [{"delta": {"content": "word "}}], "around": around});
    let mut script = Script::stream(dialect);
    for _ in 0..1024 {
        script = script.bytes(format!("data: {chunk}\n\n"));
    }
    provider.answer(script.frames(dialect.frames(&Reply::text(["end"]))).end());
    let (pieces, error) = all(&mut call(&model)).await;
    assert_eq!(error, None);
    assert_eq!(text(&pieces).len(), 1024 * 5 + 3);
}
