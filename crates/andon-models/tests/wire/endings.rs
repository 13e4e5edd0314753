//! How a stream ends, and what its last bytes say.

use andon_runtime::ModelStop;

use crate::common::*;

#[tokio::test]
async fn an_error_in_a_last_frame_without_an_empty_line_is_reported() {
    let error = json!({"type": "invalid_request_error", "status": "INVALID_ARGUMENT", "code": "invalid_request_error", "message": "tools are not supported"});
    let data = &json!({"type": "error", "error": error}).to_string();
    over_both(async |protocol, provider| {
        for dialect in Dialect::ALL {
            let model = model_of(&provider, protocol, builder(dialect));
            let last = if dialect == Dialect::Ollama { data.clone() } else { format!("data: {data}\n") };
            provider.answer(Script::stream(dialect).bytes(last).end());
            let error = all(&mut call(&model)).await.1.unwrap();
            assert!(error.message.contains("tools are not supported"), "{dialect:?}: {error:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_gemini_stream_that_is_reset_is_not_a_whole_answer() {
    over_both(async |protocol, provider| {
        let model = model_of(&provider, protocol, builder(Dialect::Gemini));
        // Models that give a reason to finish in every frame.
        let frame = json!({"candidates": [{"content": {"parts": [{"text": "One "}]}, "finishReason": "STOP"}]});
        provider.answer(Script::stream(Dialect::Gemini).bytes(format!("data: {frame}\n\n")).reset());
        let (pieces, error) = all(&mut call(&model)).await;
        assert!(error.is_some() && !pieces.contains(&Piece::End(ModelStop::EndTurn)), "{pieces:?}");
        provider.answer(Script::stream(Dialect::Gemini).bytes(format!("data: {frame}\n\n")).end());
        assert_eq!(all(&mut call(&model)).await.0.last(), Some(&Piece::End(ModelStop::EndTurn)));
    })
    .await;
}
