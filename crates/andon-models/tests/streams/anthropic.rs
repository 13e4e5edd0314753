//! Anthropic's Messages API.

use andon_models::decode::anthropic::Anthropic;

use crate::play::*;

fn begin(input: u64) -> Sent {
    let usage = json!({
        "input_tokens": input, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 7, "output_tokens": 3,
    });
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-20260901", "content": [], "usage": usage});
    ("message_start", json!({"type": "message_start", "message": message}))
}

fn block(index: u64, block: serde_json::Value) -> Sent {
    ("content_block_start", json!({"type": "content_block_start", "index": index, "content_block": block}))
}

fn delta(index: u64, delta: serde_json::Value) -> Sent {
    ("content_block_delta", json!({"type": "content_block_delta", "index": index, "delta": delta}))
}

fn stop(index: u64) -> Sent {
    ("content_block_stop", json!({"type": "content_block_stop", "index": index}))
}

fn end(reason: &str, usage: serde_json::Value) -> Vec<Sent> {
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    vec![
        ("message_delta", json!({"type": "message_delta", "delta": delta, "usage": usage})),
        ("message_stop", json!({"type": "message_stop"})),
    ]
}

/// A thought, a hidden thought, text, a search by the provider, and two calls.
fn rich() -> Vec<Sent> {
    let mut sent = vec![
        begin(400),
        ("ping", json!({"type": "ping"})),
        block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "Where "})),
        delta(0, json!({"type": "thinking_delta", "thinking": "is it?"})),
        delta(0, json!({"type": "signature_delta", "signature": "c2Vh"})),
        delta(0, json!({"type": "signature_delta", "signature": "bA=="})),
        stop(0),
        block(1, json!({"type": "redacted_thinking", "data": "aGlkZGVu"})),
        stop(1),
        block(2, json!({"type": "text", "text": ""})),
        delta(2, json!({"type": "text_delta", "text": "Let me "})),
        delta(2, json!({"type": "text_delta", "text": "lööK."})),
        stop(2),
        block(3, json!({"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}})),
        delta(3, json!({"type": "input_json_delta", "partial_json": "{\"query\":\"x\"}"})),
        stop(3),
        block(
            4,
            json!({"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"url": "https://example.com"}]}),
        ),
        stop(4),
        block(5, json!({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}})),
        delta(5, json!({"type": "input_json_delta", "partial_json": ""})),
        delta(5, json!({"type": "input_json_delta", "partial_json": "{\"at\": "})),
        delta(5, json!({"type": "input_json_delta", "partial_json": "1}"})),
        stop(5),
        ("invented_event", json!({"type": "invented_event", "delta": 7})),
        block(6, json!({"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}})),
        stop(6),
    ];
    sent.extend(end("tool_use", json!({"input_tokens": 2_000, "output_tokens": 89})));
    sent
}

#[test]
fn a_rich_answer_comes_out_whole() {
    let expected = vec![
        Piece::Thinking("Where ".into()),
        Piece::Thinking("is it?".into()),
        Piece::ThinkingEnd { signature: Some(Signature::new("anthropic", "c2VhbA==")) },
        Piece::ThinkingEnd { signature: Some(Signature::new("anthropic", "redacted:aGlkZGVu")) },
        Piece::Text("Let me ".into()),
        Piece::Text("lööK.".into()),
        Piece::Call { id: "toolu_1".into(), name: "look".into() },
        Piece::CallInput { index: 0, json: "{\"at\": ".into() },
        Piece::CallInput { index: 0, json: "1}".into() },
        Piece::CallEnd { index: 0 },
        Piece::Call { id: "toolu_2".into(), name: "look".into() },
        Piece::CallEnd { index: 1 },
        Piece::End(ModelStop::ToolUse),
    ];
    assert_eq!(words(&pieces(Anthropic::default(), &rich())), expected);
    assert_the_same_byte_by_byte::<Anthropic>(&rich());
}

#[test]
fn usage_is_right_after_every_frame() {
    let (said, result, decoder) = play(Anthropic::default(), &rich());
    result.unwrap();
    let last = said.len() - 1;
    for (frame, said) in said.iter().enumerate() {
        let expected = match frame {
            // The first event's output of 3 tokens does not count.
            frame if frame < last - 2 => [Some(400), Some(30), Some(7), None, None],
            _ => [Some(2_000), Some(30), Some(7), Some(89), None],
        };
        assert_eq!(numbers(said.usage), expected, "frame {frame}");
        let provenance = if frame < last - 1 { Provenance::ReportedRunning } else { Provenance::Reported };
        assert_eq!(said.usage.input.provenance, provenance, "frame {frame}");
    }
    assert_eq!((decoder.model(), decoder.id()), (Some("claude-sonnet-5-20260901"), Some("msg_1")));
}

#[test]
fn null_overwrites_nothing_and_what_was_never_said_is_unknown() {
    let start =
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 9, "cache_read_input_tokens": null}}});
    let mut sent = vec![("message_start", start)];
    sent.extend(end("end_turn", json!({"input_tokens": null, "output_tokens": 4})));
    let (said, ..) = play(Anthropic::default(), &sent);
    assert_eq!(numbers(said.last().unwrap().usage), [Some(9), None, None, Some(4), None]);
}

#[test]
fn cut_anywhere_the_session_goes_on_with_every_provider() {
    assert_goes_on_wherever_it_is_cut(Anthropic::default(), &rich());
}

#[test]
fn thoughts_go_back_as_they_came() {
    let body = next_request(Provider::Anthropic, &pieces(Anthropic::default(), &rich()));
    let expected = json!([
        {"type": "thinking", "thinking": "Where is it?", "signature": "c2VhbA=="},
        {"type": "redacted_thinking", "data": "aGlkZGVu"},
        {"type": "text", "text": "Let me lööK."},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": 1}},
        {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}},
    ]);
    assert_eq!(body["messages"][1]["content"], expected);
    assert_eq!(body["thinking"]["type"], "adaptive");
}

#[test]
fn arguments_that_come_with_the_beginning_are_taken() {
    let mut sent = vec![
        begin(1),
        block(0, json!({"type": "tool_use", "id": "a", "name": "look", "input": {"a": 2, "b": 1}})),
        stop(0),
    ];
    sent.extend(end("tool_use", json!({"output_tokens": 1})));
    let parts = parts(&pieces(Anthropic::default(), &sent));
    let [Part::ToolCall(call)] = parts.as_slice() else { unreachable!("{parts:?}") };
    assert_eq!(call.arguments, "{\"a\":2,\"b\":1}");
}

#[test]
fn every_reason_to_stop_has_its_word() {
    let reasons = [
        ("end_turn", ModelStop::EndTurn),
        ("pause_turn", ModelStop::EndTurn),
        ("stop_sequence", ModelStop::StopSequence),
        ("max_tokens", ModelStop::MaxTokens),
        ("model_context_window_exceeded", ModelStop::MaxTokens),
        ("refusal", ModelStop::Refused),
        ("tool_use", ModelStop::ToolUse),
    ];
    for (reason, expected) in reasons {
        let mut sent = vec![begin(1)];
        sent.extend(end(reason, json!({"output_tokens": 1})));
        assert_eq!(stop_of(Anthropic::default(), &sent), Some(expected), "{reason}");
    }
}

#[test]
fn an_answer_without_its_closing_event_is_whole_if_the_model_gave_a_reason_and_broken_if_not() {
    let mut sent = vec![begin(1), block(0, json!({"type": "text", "text": "So."})), stop(0)];
    let (_, result, _) = play(Anthropic::default(), &sent);
    assert!(is_retryable(&result.unwrap_err()));
    sent.push(end("end_turn", json!({"output_tokens": 2})).remove(0));
    assert_eq!(stop_of(Anthropic::default(), &sent), Some(ModelStop::EndTurn));
}

#[test]
fn an_error_in_the_stream_says_whether_it_may_pass_and_the_figures_stay() {
    let error = |kind: &str, message: &str| -> Sent {
        ("error", json!({"type": "error", "error": {"type": kind, "message": message}}))
    };
    for kind in ["overloaded_error", "rate_limit_error", "api_error", "timeout_error", "invented_error"] {
        let (said, result, decoder) = play(Anthropic::default(), &[begin(5), error(kind, "Not now.")]);
        assert!(is_retryable(&result.unwrap_err()), "{kind}");
        assert_eq!(numbers(said.last().unwrap().usage)[0], Some(5));
        assert_eq!(numbers(decoder.usage())[3], None);
    }
    let (_, result, _) = play(Anthropic::default(), &[error("authentication_error", "invalid x-api-key")]);
    assert_eq!(result.unwrap_err().kind, ModelErrorKind::Fatal);
    let long = error("invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum");
    let (_, result, _) = play(Anthropic::default(), &[long]);
    assert_eq!(result.unwrap_err().kind, ModelErrorKind::ContextOverflow);
}

#[test]
fn what_cannot_be_read_is_an_error_that_does_not_repeat_it() {
    let (_, result, _) = play(Anthropic::default(), &[("content_block_delta", json!("sk-canary"))]);
    let error = result.unwrap_err();
    assert!(is_retryable(&error) && !error.message.contains("canary"), "{error}");
}
