//! What a provider streams is sent back to it as it was.

use std::collections::VecDeque;

use andon_models::decode::anthropic::Anthropic;
use andon_models::decode::gemini::Gemini;
use andon_models::decode::openai_responses::OpenAiResponses;
use andon_models::decode::{Decode, Frame};
use andon_models::settings::Settings;
use andon_runtime::Piece;
use andon_testkit::wire::Provider;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use andon_runtime::core::id::CallId;
use andon_runtime::core::message::{Message, Part, ResultStatus, Role, Signature, ToolCall, ToolResult};

/// An answer of any provider: a thought with its signature, text and calls, any of which may be missing.
#[derive(Debug, Clone)]
struct Answer {
    thought: Option<(String, String)>,
    words: String,
    calls: Vec<Map<String, Value>>,
    /// How many characters a delta has.
    step: usize,
}

fn answers() -> impl Strategy<Value = Answer> {
    let thought = proptest::option::of(("[a-zå\"\\\\ ]{0,12}", "[A-Za-z0-9+/]{1,20}"));
    let arguments = vec(("[a-z]{1,3}", "[a-zé\"{}]{0,6}"), 0..3)
        .prop_map(|fields| fields.into_iter().map(|(name, value)| (name, json!(value))).collect());
    (thought, "[a-zå🎉\n]{1,20}", vec(arguments, 0..3), 1..8_usize).prop_map(|(thought, words, calls, step)| Answer {
        thought,
        words: format!("x{words}"),
        calls,
        step,
    })
}

impl Answer {
    /// A text in deltas.
    fn deltas(&self, text: &str) -> Vec<String> {
        let chars: Vec<char> = text.chars().collect();
        chars.chunks(self.step).map(|chunk| chunk.iter().collect()).collect()
    }

    fn arguments(&self, call: usize) -> String {
        Value::Object(self.calls[call].clone()).to_string()
    }

    fn anthropic(&self) -> Vec<Value> {
        let mut sent =
            vec![json!({"type": "message_start", "message": {"id": "m", "model": "c", "usage": {"input_tokens": 1}}})];
        let mut blocks: Vec<(Value, Vec<Value>)> = Vec::new();
        if let Some((thought, signature)) = &self.thought {
            let words =
                self.deltas(thought).into_iter().map(|text| json!({"type": "thinking_delta", "thinking": text}));
            let signatures =
                self.deltas(signature).into_iter().map(|text| json!({"type": "signature_delta", "signature": text}));
            blocks.push((json!({"type": "thinking", "thinking": ""}), words.chain(signatures).collect()));
        }
        let words = self.deltas(&self.words).into_iter().map(|text| json!({"type": "text_delta", "text": text}));
        blocks.push((json!({"type": "text", "text": ""}), words.collect()));
        for call in 0..self.calls.len() {
            let json = self.deltas(&self.arguments(call)).into_iter();
            let deltas = json.map(|json| json!({"type": "input_json_delta", "partial_json": json})).collect();
            let head = json!({"type": "tool_use", "id": format!("call_{call}"), "name": "look", "input": {}});
            blocks.push((head, deltas));
        }
        for (index, (block, deltas)) in blocks.into_iter().enumerate() {
            sent.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
            sent.extend(
                deltas.into_iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
            );
            sent.push(json!({"type": "content_block_stop", "index": index}));
        }
        sent.push(
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
        );
        sent.push(json!({"type": "message_stop"}));
        sent
    }

    fn gemini(&self) -> Vec<Value> {
        let chunk = |part: Value| json!({"candidates": [{"content": {"parts": [part]}}]});
        let mut sent = Vec::new();
        let mut words = self.deltas(&self.words).into_iter().map(|text| json!({"text": text})).collect::<Vec<_>>();
        if let Some((thought, signature)) = &self.thought {
            sent.extend(self.deltas(thought).into_iter().map(|text| chunk(json!({"text": text, "thought": true}))));
            words[0]["thoughtSignature"] = json!(signature);
        }
        sent.extend(words.into_iter().map(chunk));
        sent.extend(self.calls.iter().map(|args| chunk(json!({"functionCall": {"name": "look", "args": args}}))));
        sent.push(json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 1}}));
        sent
    }

    fn openai_responses(&self) -> Vec<Value> {
        let mut sent = vec![json!({"type": "response.created", "response": {"id": "r", "model": "g", "usage": null}})];
        let mut place = 0;
        if let Some((thought, signature)) = &self.thought {
            let item =
                |signed: Value| json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": signed});
            sent.push(json!({"type": "response.output_item.added", "output_index": 0, "item": item(json!(null))}));
            sent.extend(self.deltas(thought).into_iter().map(
                |text| json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": text}),
            ));
            sent.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item(json!(signature))}));
            place += 1;
        }
        sent.push(json!({"type": "response.output_item.added", "output_index": place, "item": {"type": "message"}}));
        let words = self.deltas(&self.words).into_iter();
        sent.extend(
            words.map(|text| json!({"type": "response.output_text.delta", "output_index": place, "delta": text})),
        );
        sent.push(json!({"type": "response.output_item.done", "output_index": place, "item": {"type": "message"}}));
        for call in 0..self.calls.len() {
            place += 1;
            let item = json!({"type": "function_call", "call_id": format!("call_{call}"), "name": "look"});
            sent.push(json!({"type": "response.output_item.added", "output_index": place, "item": item}));
            sent.extend(self.deltas(&self.arguments(call)).into_iter().map(
                |json| json!({"type": "response.function_call_arguments.delta", "output_index": place, "delta": json}),
            ));
            sent.push(json!({"type": "response.output_item.done", "output_index": place, "item": item}));
        }
        sent.push(
            json!({"type": "response.completed", "response": {"usage": {"input_tokens": 1, "output_tokens": 2}}}),
        );
        sent
    }

    /// What is stored if its thoughts are signed by `by`.
    fn stored(&self, by: &str, signature: impl Fn(&str) -> String) -> Vec<Part> {
        let thought = self.thought.iter().map(|(text, signed)| Part::Thinking {
            text: text.clone(),
            signature: Some(Signature::new(by, signature(signed))),
        });
        let call = |call: usize| {
            let id = CallId::new(format!("call_{call}")).unwrap();
            Part::ToolCall(ToolCall::new(id, "look", self.arguments(call)))
        };
        thought.chain([Part::text(&*self.words)]).chain((0..self.calls.len()).map(call)).collect()
    }
}

/// The parts that come out of a stream.
fn decoded(mut decoder: impl Decode, sent: &[Value]) -> Vec<Part> {
    let mut pieces = VecDeque::new();
    for data in sent {
        decoder.frame(Frame { event: "", data: &data.to_string() }, &mut pieces).unwrap();
    }
    decoder.finish(&mut pieces).unwrap();
    assert!(matches!(pieces.back(), Some(Piece::End(_))));
    let (mut parts, mut thought): (Vec<Part>, Option<String>) = (Vec::new(), None);
    for piece in pieces {
        match (piece, parts.last_mut()) {
            (Piece::Text(more), Some(Part::Text { text })) => text.push_str(&more),
            (Piece::Text(more), _) => parts.push(Part::text(more)),
            (Piece::Thinking(more), _) => thought.get_or_insert_default().push_str(&more),
            (Piece::ThinkingEnd { signature }, _) => {
                parts.push(Part::Thinking { text: thought.take().unwrap_or_default(), signature });
            }
            (Piece::Call { name, .. }, _) => {
                let calls = parts.iter().filter(|part| matches!(part, Part::ToolCall(_))).count();
                let id = CallId::new(format!("call_{calls}")).unwrap();
                parts.push(Part::ToolCall(ToolCall::new(id, name, String::new())));
            }
            (Piece::CallInput { json, .. }, Some(Part::ToolCall(call))) => call.arguments.push_str(&json),
            (Piece::CallInput { .. }, _) => unreachable!("arguments come after their call"),
            (Piece::CallEnd { .. } | Piece::Usage(_) | Piece::End(_), _) => {}
            #[cfg(not(andon_whole))]
            _ => {}
        }
    }
    parts
}

fn rendered(provider: Provider, parts: &[Part]) -> Value {
    let answer = Message::new(Role::Assistant, parts.to_vec());
    let result = |call: &ToolCall| Part::ToolResult(ToolResult::text(call.id.clone(), ResultStatus::Ok, "Seen."));
    let results: Vec<Part> = answer.calls().map(result).collect();
    let mut prompt = vec![Message::user("Look."), answer];
    if !results.is_empty() {
        prompt.push(Message::new(Role::Tool, results));
    }
    prompt.push(Message::user("Go on."));
    let settings = Settings::default();
    let body = provider.render(&provider.ask(&prompt, &[], &settings));
    // Only Bedrock wants its tools repeated; the others accept calls to tools that are gone.
    assert_eq!(provider.validate(&body), Ok(()), "{body:#}");
    body
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_of_anthropic_comes_back_as_it_was(answer in answers()) {
        let parts = decoded(Anthropic::default(), &answer.anthropic());
        prop_assert_eq!(&parts, &answer.stored("anthropic", str::to_owned));
        let content = &rendered(Provider::Anthropic, &parts)["messages"][1]["content"];
        let (thought, signature) = answer.thought.clone().unwrap_or_default();
        if answer.thought.is_some() {
            prop_assert_eq!(&content[0], &json!({"type": "thinking", "thinking": thought, "signature": signature}));
        }
        let inputs: Vec<Value> = content.as_array().unwrap().iter().filter_map(|block| block.get("input").cloned()).collect();
        prop_assert_eq!(inputs, answer.calls.iter().map(|call| json!(call)).collect::<Vec<_>>());
    }

    #[test]
    fn an_answer_of_gemini_comes_back_as_it_was(answer in answers()) {
        let parts = decoded(Gemini::default(), &answer.gemini());
        prop_assert_eq!(&parts, &answer.stored("gemini", str::to_owned));
        let parts = rendered(Provider::Gemini, &parts)["contents"][1]["parts"].clone();
        prop_assert_eq!(parts[0]["thoughtSignature"].as_str(), answer.thought.as_ref().map(|(_, signature)| signature.as_str()));
        prop_assert_eq!(parts[0]["text"].as_str(), Some(&*answer.words));
    }

    #[test]
    fn an_answer_of_openai_responses_comes_back_as_it_was(answer in answers()) {
        let parts = decoded(OpenAiResponses::default(), &answer.openai_responses());
        prop_assert_eq!(&parts, &answer.stored("openai-responses", |signature| format!("rs_1:{signature}")));
        let input = rendered(Provider::OpenAiResponses, &parts)["input"].clone();
        let reasoning = input.as_array().unwrap().iter().find(|item| item["type"] == "reasoning");
        prop_assert_eq!(
            reasoning.map(|item| (item["id"].as_str().unwrap(), item["encrypted_content"].as_str().unwrap())),
            answer.thought.as_ref().map(|(_, signature)| ("rs_1", signature.as_str()))
        );
    }
}
