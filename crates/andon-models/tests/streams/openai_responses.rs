//! OpenAI's Responses API.

use andon_models::decode::openai_responses::OpenAiResponses;

use crate::play::*;

fn event(kind: &'static str, more: Value) -> Sent {
    let mut data = more;
    data["type"] = json!(kind);
    (kind, data)
}

fn response(kind: &'static str, more: Value) -> Sent {
    let mut response = json!({"id": "resp_1", "model": "gpt-5.2-2026-01-15", "usage": null, "error": null, "incomplete_details": null});
    for (field, value) in more.as_object().unwrap() {
        response[field] = value.clone();
    }
    event(kind, json!({"response": response}))
}

fn added(place: u64, item: Value) -> Sent {
    event("response.output_item.added", json!({"output_index": place, "item": item}))
}

fn done(place: u64, item: Value) -> Sent {
    event("response.output_item.done", json!({"output_index": place, "item": item}))
}

fn delta(kind: &'static str, place: u64, delta: &str) -> Sent {
    event(kind, json!({"output_index": place, "delta": delta}))
}

fn usage() -> Value {
    json!({
        "input_tokens": 130, "input_tokens_details": {"cached_tokens": 30},
        "output_tokens": 77, "output_tokens_details": {"reasoning_tokens": 50}, "total_tokens": 207,
    })
}

/// A thought in two paragraphs, text, a search by the provider, and two calls.
fn rich() -> Vec<Sent> {
    let summary = json!([{"type": "summary_text", "text": "Where?"}, {"type": "summary_text", "text": "There."}]);
    vec![
        response("response.created", json!({})),
        response("response.in_progress", json!({})),
        added(0, json!({"type": "reasoning", "id": "rs_1", "summary": []})),
        event("response.reasoning_summary_part.added", json!({"output_index": 0, "summary_index": 0})),
        delta("response.reasoning_summary_text.delta", 0, "Where?"),
        event("response.reasoning_summary_part.added", json!({"output_index": 0, "summary_index": 1})),
        delta("response.reasoning_summary_text.delta", 0, "There."),
        done(0, json!({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "gAAA"})),
        added(1, json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []})),
        event("response.content_part.added", json!({"output_index": 1, "part": {"type": "output_text", "text": ""}})),
        delta("response.output_text.delta", 1, "Let me "),
        delta("response.output_text.delta", 1, "look."),
        event("response.output_text.done", json!({"output_index": 1, "text": "Let me look."})),
        done(1, json!({"type": "message", "content": [{"type": "output_text", "text": "Let me look."}]})),
        added(2, json!({"type": "tool_search_call", "id": "ts_1", "arguments": {"query": "x"}})),
        done(2, json!({"type": "tool_search_call", "id": "ts_1", "arguments": {"query": "x"}})),
        added(3, json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": ""})),
        delta("response.function_call_arguments.delta", 3, "{\"at\":"),
        delta("response.function_call_arguments.delta", 3, "1}"),
        event("response.function_call_arguments.done", json!({"output_index": 3, "arguments": "{\"at\":1}"})),
        done(3, json!({"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{\"at\":1}"})),
        added(4, json!({"type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "look", "arguments": ""})),
        event("response.function_call_arguments.done", json!({"output_index": 4, "arguments": "{}"})),
        done(4, json!({"type": "function_call", "call_id": "call_2", "name": "look", "arguments": "{}"})),
        event("response.invented", json!({"delta": {"not": "a string"}})),
        response("response.completed", json!({"usage": usage()})),
    ]
}

#[test]
fn a_rich_answer_comes_out_whole() {
    let expected = vec![
        Piece::Thinking("Where?".into()),
        Piece::Thinking("\n\n".into()),
        Piece::Thinking("There.".into()),
        Piece::ThinkingEnd { signature: Some(Signature::new("openai-responses", "rs_1:gAAA")) },
        Piece::Text("Let me ".into()),
        Piece::Text("look.".into()),
        Piece::Call { id: "call_1".into(), name: "look".into() },
        Piece::CallInput { index: 0, json: "{\"at\":".into() },
        Piece::CallInput { index: 0, json: "1}".into() },
        Piece::CallEnd { index: 0 },
        Piece::Call { id: "call_2".into(), name: "look".into() },
        Piece::CallInput { index: 1, json: "{}".into() },
        Piece::CallEnd { index: 1 },
        Piece::End(ModelStop::ToolUse),
    ];
    assert_eq!(words(&pieces(OpenAiResponses::default(), &rich())), expected);
    assert_the_same_byte_by_byte::<OpenAiResponses>(&rich());
}

#[test]
fn usage_is_unknown_until_the_last_event() {
    let (said, result, decoder) = play(OpenAiResponses::default(), &rich());
    result.unwrap();
    let (before, after) = said.split_at(rich().len() - 1);
    assert!(before.iter().all(|said| numbers(said.usage) == [None; 5]));
    for said in after {
        assert_eq!(numbers(said.usage), [Some(100), Some(30), None, Some(77), Some(50)]);
        assert_eq!(said.usage.output.provenance, Provenance::Reported);
    }
    assert_eq!((decoder.model(), decoder.id()), (Some("gpt-5.2-2026-01-15"), Some("resp_1")));
}

#[test]
fn cut_anywhere_the_session_goes_on_with_every_provider() {
    assert_goes_on_wherever_it_is_cut(OpenAiResponses::default(), &rich());
}

#[test]
fn reasoning_goes_back_with_its_id_and_its_encrypted_content() {
    let body = next_request(Provider::OpenAiResponses, &pieces(OpenAiResponses::default(), &rich()));
    let expected = json!({
        "type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA",
        "summary": [{"type": "summary_text", "text": "Where?\n\nThere."}],
    });
    assert_eq!(body["input"][1], expected);
    assert_eq!(body["input"][2]["content"][0]["text"], "Let me look.");
    assert_eq!(body["input"][3]["call_id"], "call_1");
}

#[test]
fn a_server_that_sends_only_whole_items_is_understood() {
    let summary = json!([{"type": "summary_text", "text": "Hm."}]);
    let sent = [
        done(0, json!({"type": "reasoning", "id": "rs_1", "summary": summary})),
        done(1, json!({"type": "message", "content": [{"type": "output_text", "text": "So."}]})),
        done(2, json!({"type": "function_call", "call_id": "c", "name": "look", "arguments": "{\"a\":1}"})),
        response("response.completed", json!({})),
    ];
    let expected = vec![
        Piece::Thinking("Hm.".into()),
        Piece::ThinkingEnd { signature: None },
        Piece::Text("So.".into()),
        Piece::Call { id: "c".into(), name: "look".into() },
        Piece::CallInput { index: 0, json: "{\"a\":1}".into() },
        Piece::CallEnd { index: 0 },
        Piece::End(ModelStop::ToolUse),
    ];
    assert_eq!(words(&pieces(OpenAiResponses::default(), &sent)), expected);
}

#[test]
fn every_end_has_its_word() {
    let incomplete = |reason: &str| response("response.incomplete", json!({"incomplete_details": {"reason": reason}}));
    let ends = [
        (vec![response("response.completed", json!({}))], ModelStop::EndTurn),
        (vec![incomplete("max_output_tokens")], ModelStop::MaxTokens),
        (vec![incomplete("content_filter")], ModelStop::Refused),
        (
            vec![delta("response.refusal.delta", 0, "No."), response("response.completed", json!({}))],
            ModelStop::Refused,
        ),
    ];
    for (sent, expected) in ends {
        assert_eq!(stop_of(OpenAiResponses::default(), &sent), Some(expected), "{sent:?}");
    }
}

#[test]
fn a_failure_says_whether_it_may_pass_and_its_figures_are_kept() {
    let failed = |code: &str| {
        response("response.failed", json!({"error": {"code": code, "message": "It failed."}, "usage": usage()}))
    };
    for code in ["server_error", "rate_limit_exceeded", "invented"] {
        let (said, result, _) = play(OpenAiResponses::default(), &[failed(code)]);
        assert!(is_retryable(&result.unwrap_err()), "{code}");
        assert_eq!(numbers(said[0].usage)[3], Some(77));
    }
    for (code, kind) in
        [("invalid_prompt", ModelErrorKind::Fatal), ("context_length_exceeded", ModelErrorKind::ContextOverflow)]
    {
        let (_, result, _) = play(OpenAiResponses::default(), &[failed(code)]);
        assert_eq!(result.unwrap_err().kind, kind, "{code}");
    }
    let flat = event("error", json!({"code": "server_error", "message": "Oops.", "param": null}));
    let (_, result, _) = play(OpenAiResponses::default(), &[flat]);
    assert!(is_retryable(&result.unwrap_err()));
    let (_, result, _) = play(OpenAiResponses::default(), &[response("response.created", json!({}))]);
    assert!(is_retryable(&result.unwrap_err()), "it broke off");
}

#[test]
fn cached_tokens_are_not_counted_twice_when_a_later_report_leaves_them_out() {
    let first = json!({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 80}, "output_tokens": 1});
    let last = json!({"input_tokens": 100, "input_tokens_details": null, "output_tokens": 9});
    let sent = [
        response("response.in_progress", json!({"usage": first})),
        response("response.completed", json!({"usage": last})),
    ];
    let (_, _, decoder) = play(OpenAiResponses::default(), &sent);
    assert_eq!(numbers(decoder.usage()), [Some(20), Some(80), None, Some(9), None]);
}

#[test]
fn what_only_the_last_event_says_is_said() {
    let message = json!({"type": "message", "content": [{"type": "output_text", "text": "So."}]});
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "look", "arguments": "{\"a\":1}"});
    let sent = [response("response.completed", json!({"output": [message, call("c"), call(""), call("")]}))];
    let all = words(&pieces(OpenAiResponses::default(), &sent));
    assert_eq!(all[..2], [Piece::Text("So.".into()), Piece::Call { id: "c".into(), name: "look".into() }]);
    assert_eq!(all.iter().filter(|piece| matches!(piece, Piece::CallEnd { .. })).count(), 3);
    assert_eq!(all.last(), Some(&Piece::End(ModelStop::ToolUse)));
    // What was said is not repeated, even for a server that gives no indexes.
    let sent = [
        ("", json!({"type": "response.output_text.delta", "delta": "So."})),
        ("", json!({"type": "response.output_item.done", "item": message})),
        ("", json!({"type": "response.output_item.done", "item": call("c")})),
        response("response.completed", json!({"output": [message, call("c")]})),
    ];
    let told_once = vec![
        Piece::Text("So.".into()),
        Piece::Call { id: "c".into(), name: "look".into() },
        Piece::CallInput { index: 0, json: "{\"a\":1}".into() },
        Piece::CallEnd { index: 0 },
        Piece::End(ModelStop::ToolUse),
    ];
    assert_eq!(words(&pieces(OpenAiResponses::default(), &sent)), told_once);
}

#[test]
fn a_whole_answer_ends_its_calls_and_one_that_was_cut_does_not() {
    let call = || added(0, json!({"type": "function_call", "call_id": "c", "name": "look", "arguments": ""}));
    let more = || delta("response.function_call_arguments.delta", 0, "{}");
    let ends = |last: Sent| {
        let all = pieces(OpenAiResponses::default(), &[call(), more(), last]);
        (all.contains(&Piece::CallEnd { index: 0 }), all.last().cloned())
    };
    let completed = ends(response("response.completed", json!({})));
    assert_eq!(completed, (true, Some(Piece::End(ModelStop::ToolUse))));
    let incomplete = ends(response("response.incomplete", json!({})));
    assert_eq!(incomplete, (false, Some(Piece::End(ModelStop::MaxTokens))));
}
