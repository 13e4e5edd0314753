//! OpenAI's Chat Completions, as other servers speak it.

use std::time::Duration;

use andon_models::decode::openai_chat::OpenAiChat;

use crate::play::*;

fn choice(choice: Value) -> Sent {
    ("", json!({"choices": [choice]}))
}

fn call(index: u64, id: &str, name: &str, arguments: &str) -> Sent {
    let call = json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}});
    choice(json!({"delta": {"tool_calls": [call]}}))
}

fn finish(reason: &str) -> Sent {
    choice(json!({"delta": {}, "finish_reason": reason}))
}

fn begun(name: &str) -> Piece {
    Piece::Call { id: String::new(), name: name.into() }
}

fn input(index: usize, json: &str) -> Piece {
    Piece::CallInput { index, json: json.into() }
}

#[test]
fn two_calls_without_ids_and_with_the_same_index_are_two_calls() {
    let sent =
        [call(0, "", "a", "{\"x\":"), call(0, "", "a", "1}"), call(0, "", "b", "{\"y\":2}"), finish("tool_calls")];
    let expected = vec![
        begun("a"),
        input(0, "{\"x\":"),
        input(0, "1}"),
        Piece::CallEnd { index: 0 },
        begun("b"),
        input(1, "{\"y\":2}"),
        Piece::CallEnd { index: 1 },
        Piece::End(ModelStop::ToolUse),
    ];
    assert_eq!(words(&pieces(OpenAiChat::default(), &sent)), expected);
}

#[test]
fn a_part_that_names_its_call_by_id_goes_to_it_whatever_its_index() {
    let sent = [
        call(0, "a", "look", "{"),
        call(0, "b", "go", "{"),
        call(0, "a", "", "}"),
        call(0, "b", "", "}"),
        finish("stop"),
    ];
    let inputs: Vec<Piece> = pieces(OpenAiChat::default(), &sent)
        .into_iter()
        .filter(|piece| matches!(piece, Piece::CallInput { .. }))
        .collect();
    assert_eq!(inputs, [input(0, "{"), input(1, "{"), input(0, "}"), input(1, "}")]);
}

#[test]
fn after_its_end_a_call_gets_nothing() {
    let sent = [
        call(0, "", "a", "{}"),
        call(1, "", "b", "{}"),
        call(0, "", "", " "),
        call(0, "", "", "{}"),
        finish("tool_calls"),
    ];
    let all = pieces(OpenAiChat::default(), &sent);
    let end = all.iter().position(|piece| *piece == Piece::CallEnd { index: 0 }).unwrap();
    assert!(!all[end..].iter().any(|piece| matches!(piece, Piece::CallInput { index: 0, .. })), "{all:?}");
}

/// The CPU time of this thread, so that other load on the machine does not count.
fn worked() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(spent.tv_sec).unwrap(), u32::try_from(spent.tv_nsec).unwrap())
}

#[test]
fn a_frame_with_many_calls_does_not_hold_the_thread() {
    let calls: Vec<Value> = (0..1024).map(|index| json!({"index": index, "function": {"name": "a"}})).collect();
    let before = worked();
    let sent = [choice(json!({"delta": {"tool_calls": calls}})), finish("tool_calls")];
    assert_eq!(stop_of(OpenAiChat::default(), &sent), Some(ModelStop::ToolUse));
    assert!(worked() - before < Duration::from_secs(1), "{:?}", worked() - before);
    let parts: Vec<Value> =
        (0..1024).map(|_| json!({"index": 0, "function": {"name": "a", "arguments": "[".repeat(4096)}})).collect();
    let before = worked();
    assert!(play(OpenAiChat::default(), &[choice(json!({"delta": {"tool_calls": parts}}))]).1.is_err(), "it broke off");
    assert!(worked() - before < Duration::from_secs(2), "{:?}", worked() - before);
}

#[test]
fn a_message_instead_of_a_delta_is_read() {
    let said = |text: &str| choice(json!({"message": {"role": "assistant", "content": text}}));
    let spoken = |sent: &[Sent]| words(&pieces(OpenAiChat::default(), sent));
    let expected = vec![Piece::Text("One ".into()), Piece::Text("two.".into()), Piece::End(ModelStop::EndTurn)];
    assert_eq!(spoken(&[said("One "), said("two."), finish("stop")]), expected);
    // One that repeats the deltas' text adds nothing.
    let delta = |text: &str| choice(json!({"delta": {"content": text}}));
    assert_eq!(spoken(&[delta("One "), delta("two."), said("One two."), finish("stop")]), expected);
}

#[test]
fn a_function_call_in_the_old_format_is_a_call() {
    let part = |part: Value| choice(json!({"delta": {"function_call": part}}));
    let sent = [
        part(json!({"name": "look", "arguments": ""})),
        part(json!({"arguments": "{\"a\":"})),
        part(json!({"arguments": "1}"})),
        finish("function_call"),
    ];
    let expected = vec![
        begun("look"),
        input(0, "{\"a\":"),
        input(0, "1}"),
        Piece::CallEnd { index: 0 },
        Piece::End(ModelStop::ToolUse),
    ];
    assert_eq!(words(&pieces(OpenAiChat::default(), &sent)), expected);
}

#[test]
fn an_end_for_calls_of_which_none_can_be_used_is_an_error_that_says_so() {
    for sent in
        [vec![finish("tool_calls")], vec![call(0, "a", "", "{}"), finish("tool_calls")], vec![finish("function_call")]]
    {
        let error = play(OpenAiChat::default(), &sent).1.unwrap_err();
        assert!(is_retryable(&error) && error.message.contains("no usable call"), "{error:?}");
    }
}

#[test]
fn a_chunk_of_many_choices_is_refused_before_it_takes_memory() {
    let error = play(OpenAiChat::default(), &[("", json!({"choices": vec![json!({}); 100_000]}))]).1.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Fatal);
    assert!(error.message.contains("more than 16 entries"), "{error}");
}
