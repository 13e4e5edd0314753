//! Google's Gemini API.

use andon_models::decode::gemini::Gemini;

use crate::play::*;

fn chunk(parts: Value, usage: Value) -> Sent {
    let candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    let version = "gemini-3-pro-preview-11-2025";
    ("", json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": version, "responseId": "r1"}))
}

fn finished(mut sent: Sent, reason: &str) -> Sent {
    sent.1["candidates"][0]["finishReason"] = json!(reason);
    sent
}

/// Thoughts, text, and two calls at once, of which the first is sealed.
fn rich() -> Vec<Sent> {
    let calls = json!([
        {"functionCall": {"name": "look", "args": {"at": 1}}, "thoughtSignature": "c2VhbA=="},
        {"functionCall": {"name": "look"}},
    ]);
    vec![
        chunk(
            json!([{"text": "Where ", "thought": true}]),
            json!({"promptTokenCount": 169, "thoughtsTokenCount": 68, "cachedContentTokenCount": 100}),
        ),
        chunk(
            json!([{"text": "is it?", "thought": true}]),
            json!({"promptTokenCount": 169, "thoughtsTokenCount": 298}),
        ),
        chunk(
            json!([{"text": "Let me look."}]),
            json!({"promptTokenCount": 169, "thoughtsTokenCount": 298, "candidatesTokenCount": 4}),
        ),
        chunk(calls, json!({"trafficType": "ON_DEMAND"})),
        finished(
            chunk(
                json!([{"text": ""}]),
                json!({"promptTokenCount": 120, "thoughtsTokenCount": 298, "candidatesTokenCount": 31}),
            ),
            "STOP",
        ),
    ]
}

#[test]
fn a_rich_answer_comes_out_whole() {
    let expected = vec![
        Piece::Thinking("Where ".into()),
        Piece::Thinking("is it?".into()),
        Piece::ThinkingEnd { signature: None },
        Piece::Text("Let me look.".into()),
        Piece::ThinkingEnd { signature: Some(Signature::new("gemini", "c2VhbA==")) },
        Piece::Call { id: String::new(), name: "look".into() },
        Piece::CallInput { index: 0, json: "{\"at\":1}".into() },
        Piece::CallEnd { index: 0 },
        Piece::Call { id: String::new(), name: "look".into() },
        Piece::CallEnd { index: 1 },
        Piece::End(ModelStop::ToolUse),
    ];
    assert_eq!(words(&pieces(Gemini::default(), &rich())), expected);
    assert_the_same_byte_by_byte::<Gemini>(&rich());
}

#[test]
fn usage_is_right_after_every_frame() {
    let (said, result, decoder) = play(Gemini::default(), &rich());
    result.unwrap();
    let expected = [
        [Some(69), Some(100), None, Some(68), Some(68)],
        [Some(69), Some(100), None, Some(298), Some(298)],
        [Some(69), Some(100), None, Some(302), Some(298)],
        // Vertex says nothing in between: what is known stays.
        [Some(69), Some(100), None, Some(302), Some(298)],
        // Corrected downwards.
        [Some(20), Some(100), None, Some(329), Some(298)],
        [Some(20), Some(100), None, Some(329), Some(298)],
    ];
    assert_eq!(said.iter().map(|said| numbers(said.usage)).collect::<Vec<_>>(), expected);
    let provenances = said.iter().map(|said| said.usage.output.provenance);
    let running = [Provenance::ReportedRunning; 5];
    assert_eq!(provenances.collect::<Vec<_>>(), [&running[..], &[Provenance::Reported]].concat());
    assert_eq!((decoder.model(), decoder.id()), (Some("gemini-3-pro-preview-11-2025"), Some("r1")));
}

#[test]
fn an_empty_report_changes_nothing() {
    let (said, ..) = play(Gemini::default(), &[chunk(json!([{"text": "So"}]), json!({}))]);
    assert_eq!(numbers(said[0].usage), [None; 5]);
    assert_eq!(said[0].pieces, vec![Piece::Text("So".into())]);
}

#[test]
fn cut_anywhere_the_session_goes_on_with_every_provider() {
    assert_goes_on_wherever_it_is_cut(Gemini::default(), &rich());
}

#[test]
fn a_seal_goes_back_on_the_part_that_it_came_on() {
    let body = next_request(Provider::Gemini, &pieces(Gemini::default(), &rich()));
    let expected = json!([
        {"text": "Let me look."},
        {"functionCall": {"name": "look", "args": {"at": 1}}, "thoughtSignature": "c2VhbA=="},
        {"functionCall": {"name": "look", "args": {}}},
    ]);
    assert_eq!(body["contents"][1]["parts"], expected);
    let sealed_words = [
        chunk(json!([{"text": "It "}]), json!({})),
        finished(chunk(json!([{"text": "is so.", "thoughtSignature": "eA=="}]), json!({})), "STOP"),
    ];
    let body = next_request(Provider::Gemini, &pieces(Gemini::default(), &sealed_words));
    assert_eq!(body["contents"][1]["parts"], json!([{"text": "It "}, {"text": "is so.", "thoughtSignature": "eA=="}]));
}

#[test]
fn every_reason_to_finish_has_its_word() {
    let reasons = [
        ("STOP", ModelStop::EndTurn),
        ("MAX_TOKENS", ModelStop::MaxTokens),
        ("SAFETY", ModelStop::Refused),
        ("RECITATION", ModelStop::Refused),
        ("PROHIBITED_CONTENT", ModelStop::Refused),
        ("INVENTED", ModelStop::EndTurn),
    ];
    for (reason, expected) in reasons {
        let sent = [finished(chunk(json!([{"text": "So"}]), json!({})), reason)];
        assert_eq!(stop_of(Gemini::default(), &sent), Some(expected), "{reason}");
    }
    let blocked = ("", json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}}));
    assert_eq!(stop_of(Gemini::default(), &[blocked]), Some(ModelStop::Refused));
}

#[test]
fn an_older_model_that_gives_a_reason_in_every_frame_is_read_to_its_end() {
    let sent = ["One ", "two."].map(|text| finished(chunk(json!([{"text": text}]), json!({})), "STOP"));
    let expected = vec![Piece::Text("One ".into()), Piece::Text("two.".into()), Piece::End(ModelStop::EndTurn)];
    assert_eq!(words(&pieces(Gemini::default(), &sent)), expected);
}

#[test]
fn a_stream_without_a_reason_broke_off_and_a_call_that_was_given_up_may_be_tried_again() {
    let (_, result, _) = play(Gemini::default(), &[chunk(json!([{"text": "So"}]), json!({}))]);
    assert!(is_retryable(&result.unwrap_err()));
    let (_, result, _) = play(Gemini::default(), &[finished(chunk(json!([]), json!({})), "MALFORMED_FUNCTION_CALL")]);
    assert!(is_retryable(&result.unwrap_err()));
}

#[test]
fn an_error_in_the_stream_says_whether_it_may_pass() {
    let error = |status: &str, message: &str| -> Sent {
        ("", json!({"error": {"code": 400, "status": status, "message": message}}))
    };
    for status in ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL"] {
        let (_, result, _) = play(Gemini::default(), &[error(status, "Later.")]);
        assert!(is_retryable(&result.unwrap_err()), "{status}");
    }
    let (_, result, _) = play(Gemini::default(), &[error("PERMISSION_DENIED", "No.")]);
    assert_eq!(result.unwrap_err().kind, ModelErrorKind::Fatal);
    let long =
        error("INVALID_ARGUMENT", "The input token count (2000000) exceeds the maximum number of tokens allowed");
    let (_, result, _) = play(Gemini::default(), &[long]);
    assert_eq!(result.unwrap_err().kind, ModelErrorKind::ContextOverflow);
}

#[test]
fn a_call_that_is_marked_as_a_thought_is_a_call() {
    let call = json!([{"functionCall": {"name": "look"}, "thought": true, "thoughtSignature": "eA=="}]);
    let sent = [chunk(json!([{"text": "Hm", "thought": true}]), json!({})), finished(chunk(call, json!({})), "STOP")];
    let expected = vec![
        Piece::Thinking("Hm".into()),
        Piece::ThinkingEnd { signature: Some(Signature::new("gemini", "eA==")) },
        Piece::Call { id: String::new(), name: "look".into() },
        Piece::CallEnd { index: 0 },
        Piece::End(ModelStop::ToolUse),
    ];
    assert_eq!(words(&pieces(Gemini::default(), &sent)), expected);
}

#[test]
fn where_every_frame_has_a_reason_to_finish_a_lost_connection_leaves_no_whole_answer() {
    let lost = |sent: &[Sent]| {
        let (mut decoder, mut pieces) = (Gemini::default(), std::collections::VecDeque::new());
        for (event, data) in sent {
            decoder.frame(andon_models::decode::Frame { event, data: &data.to_string() }, &mut pieces).unwrap();
        }
        decoder.lost(&mut pieces)
    };
    let said = || chunk(json!([{"text": "One "}]), json!({}));
    assert!(lost(&[finished(said(), "STOP")]).is_err());
    assert!(lost(&[finished(said(), "STOP"), finished(said(), "STOP")]).is_err());
    // A model that gave none at first has marked this frame as the last.
    assert_eq!(lost(&[said(), finished(said(), "STOP")]), Ok(()));
    assert!(lost(&[said()]).is_err());
}
