//! Amazon Bedrock's ConverseStream, without its SDK.

use andon_models::decode::bedrock::{Bedrock, Delta, Event, Tokens, error};

use crate::play::*;

fn delta(block: i32, delta: Delta) -> Event {
    Event::Delta { block, delta }
}

/// A thought, a hidden thought, text and two calls. Only calls are announced.
fn rich() -> Vec<Event> {
    let stop = |block| Event::BlockStop { block };
    let call = |block, id: &str| Event::Call { block, id: id.into(), name: "look".into() };
    vec![
        delta(0, Delta::Thinking("Where ".into())),
        delta(0, Delta::Thinking("is it?".into())),
        delta(0, Delta::Signature("c2Vh".into())),
        delta(0, Delta::Signature("bA==".into())),
        stop(0),
        delta(1, Delta::Redacted("aGlkZGVu".into())),
        stop(1),
        delta(2, Delta::Text("Let me look.".into())),
        stop(2),
        call(3, "tooluse_1"),
        delta(3, Delta::Input("{\"at\":".into())),
        delta(3, Delta::Input("1}".into())),
        stop(3),
        call(4, "tooluse_2"),
        stop(4),
        Event::Stop("tool_use".into()),
        Event::Used(Tokens { input: Some(40), output: Some(12), cache_read: Some(5), cache_write: None }),
    ]
}

fn pieces(events: &[Event]) -> Vec<Piece> {
    let (mut decoder, mut pieces) = (Bedrock::default(), VecDeque::new());
    for event in events {
        decoder.event(event.clone(), &mut pieces).unwrap();
    }
    Vec::from(pieces)
}

#[test]
fn a_rich_answer_comes_out_whole_and_goes_back_as_it_came() {
    let expected = vec![
        Piece::Thinking("Where ".into()),
        Piece::Thinking("is it?".into()),
        Piece::ThinkingEnd { signature: Some(Signature::new("bedrock", "c2VhbA==")) },
        Piece::ThinkingEnd { signature: Some(Signature::new("bedrock", "redacted:aGlkZGVu")) },
        Piece::Text("Let me look.".into()),
        Piece::Call { id: "tooluse_1".into(), name: "look".into() },
        Piece::CallInput { index: 0, json: "{\"at\":".into() },
        Piece::CallInput { index: 0, json: "1}".into() },
        Piece::CallEnd { index: 0 },
        Piece::Call { id: "tooluse_2".into(), name: "look".into() },
        Piece::CallEnd { index: 1 },
        Piece::End(ModelStop::ToolUse),
    ];
    assert_eq!(words(&pieces(&rich())), expected);
    let expected = json!([
        {"reasoningContent": {"reasoningText": {"text": "Where is it?", "signature": "c2VhbA=="}}},
        {"reasoningContent": {"redactedContent": "aGlkZGVu"}},
        {"text": "Let me look."},
        {"toolUse": {"toolUseId": "tooluse_1", "name": "look", "input": {"at": 1}}},
        {"toolUse": {"toolUseId": "tooluse_2", "name": "look", "input": {}}},
    ]);
    assert_eq!(next_request(Provider::Bedrock, &pieces(&rich()))["messages"][1]["content"], expected);
}

#[test]
fn the_figures_are_unknown_until_they_come_and_the_answer_ends_with_them() {
    let (mut decoder, mut pieces) = (Bedrock::default(), VecDeque::new());
    for event in rich() {
        assert_eq!((numbers(decoder.usage()), decoder.is_over()), ([None; 5], false));
        decoder.event(event, &mut pieces).unwrap();
    }
    assert_eq!(numbers(decoder.usage()), [Some(40), Some(5), None, Some(12), None]);
    assert!(decoder.is_over());
}

#[test]
fn cut_anywhere_the_session_goes_on_with_every_provider() {
    for events in 0..=rich().len() {
        let history = history(&pieces(&rich()[..events]));
        assert_eq!(check_history(&history), Vec::<String>::new(), "cut after event {events}");
    }
}

#[test]
fn every_reason_to_stop_has_its_word_and_an_answer_without_figures_ends_with_the_stream() {
    let reasons = [
        ("end_turn", ModelStop::EndTurn),
        ("max_tokens", ModelStop::MaxTokens),
        ("model_context_window_exceeded", ModelStop::MaxTokens),
        ("stop_sequence", ModelStop::StopSequence),
        ("guardrail_intervened", ModelStop::Refused),
        ("content_filtered", ModelStop::Refused),
    ];
    for (reason, expected) in reasons {
        let (mut decoder, mut pieces) = (Bedrock::default(), VecDeque::new());
        decoder.event(Event::Stop(reason.into()), &mut pieces).unwrap();
        decoder.finish(&mut pieces).unwrap();
        assert_eq!(Vec::from(pieces), vec![Piece::End(expected)], "{reason}");
    }
    let mut broken = Bedrock::default();
    assert!(is_retryable(&broken.finish(&mut VecDeque::new()).unwrap_err()));
}

#[test]
fn an_error_says_whether_it_may_pass() {
    for code in
        ["ThrottlingException", "ModelNotReadyException", "ModelStreamErrorException", "InternalServerException"]
    {
        assert!(is_retryable(&error(code, "Later.")), "{code}");
    }
    assert_eq!(error("AccessDeniedException", "No.").kind, ModelErrorKind::Fatal);
    let long = error("ValidationException", "Input is too long for requested model.");
    assert_eq!(long.kind, ModelErrorKind::ContextOverflow);
}
