//! The frames are what each provider sends.

use serde_json::Value;

use super::*;
use crate::provider::reply::{Tokens, UsageWhen};

const TOKENS: Tokens = Tokens { input: 100, cache_read: 20, cache_write: 3, output: 40, reasoning: 10 };

fn reply() -> Reply {
    let reply = Reply::text(["Let me ", "see."]).thinking(["Hm, ", "so."], Some("c2VhbA=="));
    let reply = reply.call("call-1", "look", [r#"{"at""#, r#": 1}"#]).call("call-2", "look", ["{}"]);
    reply.usage(TOKENS)
}

/// The event's name and its data.
fn open(dialect: Dialect, frame: &Frame) -> (String, String) {
    let text = String::from_utf8(frame.bytes().to_vec()).unwrap();
    let body = match dialect {
        Dialect::Gemini => text.strip_suffix("\r\n\r\n").unwrap(),
        Dialect::Ollama => text.strip_suffix('\n').unwrap(),
        _ => text.strip_suffix("\n\n").unwrap(),
    };
    let (name, data) = match dialect {
        Dialect::Anthropic | Dialect::OpenAiResponses => {
            body.strip_prefix("event: ").and_then(|body| body.split_once("\ndata: ")).unwrap()
        }
        Dialect::OpenAiChat | Dialect::Gemini => ("", body.strip_prefix("data: ").unwrap()),
        Dialect::Ollama => ("", body),
    };
    assert!(!data.contains(['\n', '\r']), "{data}");
    (name.to_owned(), data.to_owned())
}

/// Every document of a stream.
fn documents(dialect: Dialect, reply: &Reply) -> Vec<Value> {
    let mut frames = dialect.frames(reply);
    if dialect == Dialect::OpenAiChat {
        assert_eq!(frames.pop().unwrap().bytes(), "data: [DONE]\n\n");
    }
    let parse = |frame: &Frame| {
        let (name, data) = open(dialect, frame);
        let data: Value = serde_json::from_str(&data).unwrap();
        assert!(name.is_empty() || data["type"] == name, "{data}");
        data
    };
    frames.iter().map(parse).collect()
}

/// Every usage report, in order: all input, and output. What is left out counts as zero.
fn usage_reports(dialect: Dialect, when: UsageWhen) -> Vec<(u64, u64)> {
    let number = |value: &Value, names: &[&str]| names.iter().filter_map(|name| value[name].as_u64()).sum::<u64>();
    let figures = |data: Value| {
        let usage = match dialect {
            Dialect::Anthropic => data.get("usage").or_else(|| data.pointer("/message/usage")),
            Dialect::OpenAiChat => data.get("usage"),
            Dialect::OpenAiResponses => data.pointer("/response/usage"),
            Dialect::Gemini => data.get("usageMetadata"),
            Dialect::Ollama => Some(&data).filter(|data| data.get("eval_count").is_some()),
        };
        let usage = usage.filter(|usage| usage.is_object() && usage.get("trafficType").is_none())?;
        let input = match dialect {
            Dialect::Anthropic => &["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"][..],
            Dialect::OpenAiChat => &["prompt_tokens"],
            Dialect::OpenAiResponses => &["input_tokens"],
            Dialect::Gemini => &["promptTokenCount"],
            Dialect::Ollama => &["prompt_eval_count"],
        };
        let output = match dialect {
            Dialect::Anthropic | Dialect::OpenAiResponses => &["output_tokens"][..],
            Dialect::OpenAiChat => &["completion_tokens"],
            Dialect::Gemini => &["candidatesTokenCount", "thoughtsTokenCount"],
            Dialect::Ollama => &["eval_count"],
        };
        Some((number(usage, input), number(usage, output)))
    };
    let all = documents(dialect, &reply().usage_when(when));
    let mut told: Vec<(u64, u64)> = all.into_iter().filter_map(figures).collect();
    if when == UsageWhen::Running {
        told.dedup();
    }
    told
}

#[test]
fn every_dialect_says_the_whole_answer_in_its_order() {
    for dialect in Dialect::ALL {
        let said: String = dialect.frames(&reply()).iter().map(Frame::said).collect();
        assert_eq!(said, "Hm, so.Let me see.{\"at\": 1}{}", "{dialect:?}");
        let body = dialect.body(&reply());
        assert_eq!(body.len(), dialect.frames(&reply()).iter().map(|frame| frame.bytes().len()).sum::<usize>());
    }
}

#[test]
fn usage_is_told_when_it_is_wanted() {
    use UsageWhen::{AsUsual, CorrectedDown, Early, Late, Never, Running, Twice};
    let (all, none) = ((123, 40), Vec::new());
    let running = [5, 11, 17, 22, 28, 34, 40].map(|output| (123, output));
    for dialect in Dialect::ALL {
        assert_eq!(usage_reports(dialect, Never), none, "{dialect:?}");
        let early = usage_reports(dialect, Early);
        assert!(!early.is_empty() && early.iter().all(|told| *told == all), "{dialect:?} {early:?}");
        let twice = usage_reports(dialect, Twice);
        assert_eq!(twice, [all, all], "{dialect:?}");
        let corrected = usage_reports(dialect, CorrectedDown);
        assert_eq!((corrected[0].0, corrected[corrected.len() - 1]), (233, all), "{dialect:?} {corrected:?}");
        let so_far = usage_reports(dialect, Running);
        assert_eq!(so_far[so_far.len() - 1], all);
        assert!(so_far.windows(2).all(|pair| pair[0] <= pair[1] && pair[0].0 == 123), "{dialect:?} {so_far:?}");
        assert!(so_far.len() >= 6, "{dialect:?} {so_far:?}");
    }
    assert_eq!(
        usage_reports(Dialect::Gemini, AsUsual),
        [running[0], running[1], running[2], running[3], running[5], running[6]]
    );
    assert_eq!(usage_reports(Dialect::Anthropic, AsUsual), [(123, 1), (0, 40)]);
    assert_eq!(usage_reports(Dialect::Anthropic, Late), [(0, 0), all]);
    for dialect in [Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::Ollama] {
        assert_eq!(usage_reports(dialect, AsUsual), [all]);
        assert_eq!(usage_reports(dialect, Late), [all]);
    }
    assert_eq!(usage_reports(Dialect::Gemini, Late), [all]);
    let silent = Reply { usage: None, ..reply() };
    for dialect in Dialect::ALL {
        let body = String::from_utf8(dialect.body(&silent).to_vec()).unwrap();
        assert!(!body.contains("output_tokens") && !body.contains("eval_count"), "{body}");
    }
}

#[test]
fn anthropic_opens_and_closes_each_block_and_pings_once() {
    let names: Vec<String> =
        Dialect::Anthropic.frames(&reply()).iter().map(|frame| open(Dialect::Anthropic, frame).0).collect();
    let block = |deltas: usize| {
        let deltas = std::iter::repeat_n("content_block_delta", deltas);
        ["content_block_start"].into_iter().chain(deltas).chain(["content_block_stop"])
    };
    let mut expected: Vec<&str> = vec!["message_start"];
    // Two pieces of thinking and the signature; two of text; the empty fragment and two; the empty fragment and one.
    expected.extend(block(3).chain(block(2)).chain(block(3)).chain(block(2)));
    expected.insert(2, "ping");
    expected.extend(["message_delta", "message_stop"]);
    assert_eq!(names, expected);
    let all = documents(Dialect::Anthropic, &reply());
    assert!(all.iter().any(|data| data["delta"]["signature"] == "c2VhbA=="));
    assert_eq!(all[all.len() - 2]["delta"]["stop_reason"], "tool_use");
}

#[test]
fn chat_begins_with_the_role_and_numbers_its_calls() {
    let all = documents(Dialect::OpenAiChat, &reply());
    assert_eq!(all[0]["choices"][0]["delta"]["role"], "assistant");
    let calls: Vec<&Value> = all.iter().filter_map(|data| data.pointer("/choices/0/delta/tool_calls/0")).collect();
    assert_eq!(calls.iter().map(|call| call["index"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 0, 0, 1, 1]);
    assert_eq!((&calls[0]["id"], &calls[0]["function"]["name"]), (&json!("call-1"), &json!("look")));
    assert_eq!(all[all.len() - 2]["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(all[all.len() - 1]["choices"], json!([]));
}

#[test]
fn responses_are_numbered_and_end_with_all_that_was_said() {
    let all = documents(Dialect::OpenAiResponses, &reply());
    for (number, data) in all.iter().enumerate() {
        assert_eq!(data["sequence_number"], number);
    }
    let last = &all[all.len() - 1];
    assert_eq!(last["type"], "response.completed");
    let output = last["response"]["output"].as_array().unwrap();
    let kinds: Vec<&str> = output.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call", "function_call"]);
    assert_eq!(output[0]["encrypted_content"], "c2VhbA==");
    assert_eq!(output[1]["content"][0]["text"], "Let me see.");
    assert_eq!(output[2]["arguments"], "{\"at\": 1}");
    let cut = documents(Dialect::OpenAiResponses, &Reply::text(["So"]).stop(super::super::ModelStop::MaxTokens));
    let last = &cut[cut.len() - 1];
    assert_eq!((&last["type"], &last["response"]["status"]), (&json!("response.incomplete"), &json!("incomplete")));
    assert_eq!(last["response"]["incomplete_details"]["reason"], "max_output_tokens");
}

#[test]
fn gemini_signs_the_part_after_its_thoughts_and_says_why_it_stops_in_the_last() {
    let all = documents(Dialect::Gemini, &reply());
    assert_eq!(all.len(), 6);
    let part = |number: usize| &all[number]["candidates"][0]["content"]["parts"][0];
    assert_eq!((&part(1)["thought"], &part(2)["thoughtSignature"]), (&json!(true), &json!("c2VhbA==")));
    assert_eq!(part(4)["functionCall"], json!({"id": "call-1", "name": "look", "args": {"at": 1}}));
    let reasons: Vec<&Value> = all.iter().map(|data| &data["candidates"][0]["finishReason"]).collect();
    assert_eq!(reasons[..5], [&Value::Null; 5]);
    assert_eq!(reasons[5], "STOP");
}

#[test]
fn ollama_is_done_once_in_its_last_line() {
    let all = documents(Dialect::Ollama, &reply().stop(super::super::ModelStop::MaxTokens));
    let done: Vec<bool> = all.iter().map(|data| data["done"].as_bool().unwrap()).collect();
    assert_eq!(done, [false, false, false, false, false, false, true]);
    assert_eq!(all[0]["message"]["thinking"], "Hm, ");
    assert_eq!(all[4]["message"]["tool_calls"][0]["function"]["arguments"], json!({"at": 1}));
    assert_eq!(all[6]["done_reason"], "length");
}

#[test]
fn a_broken_frame_is_framed_well_but_is_not_json_and_an_error_is_json() {
    for dialect in Dialect::ALL {
        let (_, data) = open(dialect, &dialect.broken_frame());
        assert!(serde_json::from_str::<Value>(&data).is_err());
        for refusal in Refusal::ALL {
            let frames = dialect.error_frames(refusal);
            assert_eq!(frames.len(), if dialect == Dialect::OpenAiResponses { 3 } else { 1 });
            for frame in frames {
                let (_, data) = open(dialect, &frame);
                assert!(data.contains(refusal.message()), "{data}");
                assert!(serde_json::from_str::<Value>(&data).unwrap().is_object());
            }
        }
        assert_eq!(dialect.text_frame(5).said(), "aaaaa");
    }
}
