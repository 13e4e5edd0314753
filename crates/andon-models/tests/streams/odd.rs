//! Odd, oversized and wrong frames: every decoder treats them alike.

use andon_models::decode::anthropic::Anthropic;
use andon_models::decode::bedrock::{Bedrock, Event};
use andon_models::decode::gemini::Gemini;
use andon_models::decode::ollama::Ollama;
use andon_models::decode::openai_chat::OpenAiChat;
use andon_models::decode::openai_responses::OpenAiResponses;

use crate::play::*;

/// A decoder of each kind.
fn decoders() -> [(&'static str, Box<dyn Decode>); 5] {
    [
        ("chat", Box::new(OpenAiChat::default())),
        ("responses", Box::new(OpenAiResponses::default())),
        ("anthropic", Box::new(Anthropic::default())),
        ("gemini", Box::new(Gemini::default())),
        ("ollama", Box::new(Ollama::default())),
    ]
}

fn decoder(name: &str) -> Box<dyn Decode> {
    decoders().into_iter().find(|(of, _)| *of == name).unwrap().1
}

/// All pieces of these frames, which must decode without an error.
fn taken(decoder: &mut dyn Decode, frames: &[&str]) -> Vec<Piece> {
    let mut pieces = VecDeque::new();
    for data in frames {
        decoder.frame(Frame { event: "", data }, &mut pieces).unwrap_or_else(|error| panic!("{data}: {error}"));
    }
    pieces.into()
}

/// The error of a frame that must fail.
fn error(name: &str, frame: &Value) -> andon_runtime::ModelError {
    let mut decoder = decoder(name);
    decoder.frame(Frame { event: "", data: &frame.to_string() }, &mut VecDeque::new()).unwrap_err()
}

#[test]
fn an_odd_number_is_unknown_and_does_not_spoil_the_rest() {
    let frames = [
        (
            "chat",
            r#"{"id":7,"choices":[{"index":0.0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":12.0,"completion_tokens":-1}}"#,
        ),
        (
            "gemini",
            r#"{"responseId":7,"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokenCount":12.0,"candidatesTokenCount":-1}}"#,
        ),
        ("ollama", r#"{"model":7,"message":{"content":"a"},"prompt_eval_count":12.0,"eval_count":-1}"#),
    ];
    for (name, frame) in frames {
        let mut decoder = decoder(name);
        assert!(taken(&mut *decoder, &[frame]).contains(&Piece::Text("a".into())), "{name}");
        assert_eq!((numbers(decoder.usage())[0], numbers(decoder.usage())[3]), (Some(12), None), "{name}");
    }
    let mut anthropic = Anthropic::default();
    taken(
        &mut anthropic,
        &[r#"{"type":"message_start","message":{"id":7,"usage":{"input_tokens":12.0,"output_tokens":-1}}}"#],
    );
    assert_eq!((numbers(anthropic.usage())[0], anthropic.id()), (Some(12), Some("7")));
    let mut responses = OpenAiResponses::default();
    taken(
        &mut responses,
        &[r#"{"type":"response.created","response":{"id":7,"usage":{"input_tokens":12.0,"output_tokens":-1}}}"#],
    );
    assert_eq!((numbers(responses.usage())[0], responses.id()), (Some(12), Some("7")));
}

#[test]
fn half_a_character_and_a_duplicate_key_do_not_cost_the_answer() {
    let frames = [
        ("chat", r#"{"id":"a","id":"b","choices":[{"delta":{"content":"no","content":"so \ud83d"}}]}"#),
        ("responses", r#"{"type":"x","type":"response.output_text.delta","delta":"no","delta":"so \ud83d"}"#),
        ("gemini", r#"{"candidates":[{"content":{"parts":[{"text":"no","text":"so \ud83d"}]}}]}"#),
        ("ollama", r#"{"message":{"content":"no","content":"so \ud83d"}}"#),
    ];
    for (name, frame) in frames {
        assert_eq!(taken(&mut *decoder(name), &[frame]), [Piece::Text("so \u{fffd}".into())], "{name}");
    }
    let begin = r#"{"type":"content_block_start","index":0,"index":1,"content_block":{"type":"text","text":""}}"#;
    let delta = r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"so \ud83d"}}"#;
    assert_eq!(taken(&mut Anthropic::default(), &[begin, delta]), [Piece::Text("so \u{fffd}".into())]);
}

/// Frames of each kind with these arguments, written as they are inside a text, or as JSON.
fn calls(text: &str, json: &str) -> Vec<(&'static str, Vec<String>)> {
    let begin_block =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"sh""#;
    let item = r#"{"type":"function_call","id":"i","call_id":"a","name":"sh","arguments":"#;
    vec![
        (
            "chat",
            vec![format!(
                r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":0,"id":"a","function":{{"name":"sh","arguments":{text}}}}}]}}}}]}}"#
            )],
        ),
        (
            "responses",
            vec![
                format!(r#"{{"type":"response.output_item.added","output_index":0,"item":{item}""}}}}"#),
                format!(r#"{{"type":"response.function_call_arguments.delta","output_index":0,"delta":{text}}}"#),
            ],
        ),
        (
            "responses",
            vec![
                format!(r#"{{"type":"response.output_item.added","output_index":0,"item":{item}""}}}}"#),
                format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{item}{text}}}}}"#),
            ],
        ),
        (
            "anthropic",
            vec![
                format!(r#"{begin_block}}}}}"#),
                format!(
                    r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"input_json_delta","partial_json":{text}}}}}"#
                ),
            ],
        ),
        (
            "anthropic",
            vec![
                format!(r#"{begin_block},"input":{json}}}}}"#),
                r#"{"type":"content_block_stop","index":0}"#.to_owned(),
            ],
        ),
        (
            "gemini",
            vec![format!(
                r#"{{"candidates":[{{"content":{{"parts":[{{"functionCall":{{"name":"sh","args":{json}}}}}]}}}}]}}"#
            )],
        ),
        (
            "ollama",
            vec![format!(r#"{{"message":{{"tool_calls":[{{"function":{{"name":"sh","arguments":{json}}}}}]}}}}"#)],
        ),
    ]
}

fn arguments_of(name: &str, frames: &[String]) -> String {
    let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
    let pieces = taken(&mut *decoder(name), &frames).into_iter();
    pieces.filter_map(|piece| if let Piece::CallInput { json, .. } = piece { Some(json) } else { None }).collect()
}

#[test]
fn half_a_character_in_arguments_is_passed_on_and_becomes_no_other_character() {
    let text = r#""{\"command\":\"rm a\ud800b\"}""#;
    let (json, halved) = (r#"{"command":"rm a\ud800b"}"#, r#"{"command":"rm a\ud800b"}"#);
    for (name, frames) in calls(text, json) {
        let arguments = arguments_of(name, &frames);
        assert_eq!(arguments, halved, "{name}");
        assert!(serde_json::from_str::<Value>(&arguments).is_err(), "{name}: it would be run");
    }
    // A text that only spells such an escape stays as it is.
    let spoken = r#""{\"command\":\"echo \\\\ud800 \u00e9\"}""#;
    for (name, frames) in calls(spoken, r#"{"command":"echo \\ud800 \u00e9"}"#) {
        let arguments: Value = serde_json::from_str(&arguments_of(name, &frames)).unwrap();
        assert_eq!(arguments, json!({"command": "echo \\ud800 é"}), "{name}");
    }
}

#[test]
fn a_character_of_arguments_whose_halves_come_apart_is_whole() {
    let chunk = |more: &str| {
        format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":0,"id":"a","function":{{"name":"sh","arguments":{more}}}}}]}}}}]}}"#
        )
    };
    let frames = [chunk(r#""{\"a\":\"\ud83d""#), chunk(r#""\ude00\"}""#)];
    let arguments: Value = serde_json::from_str(&arguments_of("chat", &frames)).unwrap();
    assert_eq!(arguments, json!({"a": "😀"}));
}

#[test]
fn arguments_that_are_null_or_a_text_are_taken_as_what_they_mean() {
    let call = |arguments: &str| {
        format!(r#"{{"message":{{"tool_calls":[{{"function":{{"name":"a","arguments":{arguments}}}}}]}}}}"#)
    };
    for (sent, json) in [("null", "{}"), ("{\"x\": 1}", "{\"x\": 1}"), ("\"{\\\"x\\\":1}\"", "{\"x\":1}")] {
        let pieces = taken(&mut Ollama::default(), &[&call(sent)]);
        assert_eq!(pieces[1], Piece::CallInput { index: 0, json: json.into() }, "{sent}");
    }
}

#[test]
fn an_answer_has_at_most_1024_calls() {
    let frame = |name: &str, number: usize| match name {
        "chat" => json!({"choices": [{"delta": {"tool_calls": [{"index": number, "function": {"name": "a"}}]}}]}),
        "responses" => {
            json!({"type": "response.output_item.added", "output_index": number, "item": {"type": "function_call", "name": "a"}})
        }
        "anthropic" => {
            json!({"type": "content_block_start", "index": number, "content_block": {"type": "tool_use", "name": "a"}})
        }
        "gemini" => json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "a"}}]}}]}),
        _ => json!({"message": {"tool_calls": [{"function": {"name": "a"}}]}}),
    };
    for (name, mut decoder) in decoders() {
        let (mut pieces, mut failed) = (VecDeque::new(), None);
        for number in 0..=1024 {
            assert_eq!(failed, None, "{name}: call {number}");
            failed = decoder.frame(Frame { event: "", data: &frame(name, number).to_string() }, &mut pieces).err();
        }
        let error = failed.unwrap();
        assert!(
            error.kind == ModelErrorKind::Fatal && error.message.contains("more than 1024 calls"),
            "{name}: {error:?}"
        );
    }
    let (mut bedrock, mut pieces) = (Bedrock::default(), VecDeque::new());
    let mut call = |block| bedrock.event(Event::Call { block, id: String::new(), name: "a".into() }, &mut pieces);
    assert!((0..1024).all(|block| call(block).is_ok()));
    assert!(call(1024).is_err());
}

#[test]
fn after_an_error_there_is_no_good_end() {
    let finished = [
        ("chat", json!({"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]})),
        ("anthropic", json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})),
        ("gemini", json!({"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}]})),
        ("responses", json!({"type": "response.output_text.delta", "delta": "a"})),
        ("ollama", json!({"message": {"content": "a"}})),
    ];
    for (name, frame) in finished {
        let (mut decoder, mut pieces) = (decoder(name), VecDeque::new());
        decoder.frame(Frame { event: "", data: &frame.to_string() }, &mut pieces).unwrap();
        let error = json!({"type": "error", "error": {"type": "api_error", "message": "Oops."}}).to_string();
        assert!(decoder.frame(Frame { event: "error", data: &error }, &mut pieces).is_err(), "{name}");
        assert!(decoder.finish(&mut pieces).is_err() && decoder.lost(&mut pieces).is_err(), "{name}");
        assert!(!pieces.iter().any(|piece| matches!(piece, Piece::End(_))), "{name}");
    }
}

#[test]
fn a_conversation_that_is_too_long_is_known_by_its_words_in_every_stream() {
    for words in [
        "prompt is too long: 9 > 8",
        "input length and `max_tokens` exceed context limit: 9 > 8",
        "The input token count (9) exceeds the maximum number of tokens allowed (8).",
    ] {
        for (name, _) in decoders() {
            let problem = json!({"type": "invalid_request_error", "status": "INVALID_ARGUMENT", "message": words});
            let error = error(name, &json!({"type": "error", "error": problem}));
            assert_eq!(error.kind, ModelErrorKind::ContextOverflow, "{name}: {words}");
        }
    }
}

#[test]
fn an_error_is_known_by_its_status_and_by_its_object_where_it_has_no_name() {
    let nameless = json!({"error": {"type": "overloaded_error", "message": "Overloaded"}});
    let fatal = |code: u64| json!({"type": "error", "error": {"code": code, "message": "Not so."}});
    for (name, _) in decoders() {
        let passing = error(name, &nameless);
        assert!(is_retryable(&passing) && passing.message.contains("Overloaded"), "{name}: {passing:?}");
        let lasting = error(name, &fatal(400));
        assert!(lasting.kind == ModelErrorKind::Fatal && lasting.message.contains("Not so."), "{name}: {lasting:?}");
        assert!(is_retryable(&error(name, &fatal(503))), "{name}");
        assert!(error(name, &json!({"type": "error", "error": "No more."})).message.contains("No more."), "{name}");
    }
}
