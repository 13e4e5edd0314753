//! Anthropic's Messages API.

use serde_json::Value;

use super::rules::{
    Mention, Turn, check_cache_marks, check_id, check_name, check_object, check_signature, check_text, check_tools,
    check_turns, list, word,
};
use super::violation::Violations;

const MAX_ID: usize = 64;
const OWN: &str = "anthropic";

/// Checks a body against the rules of the strictest server.
pub(super) fn check(body: &Value, violations: &mut Violations) {
    check_turns(body, check_message, violations);
    check_last(list(body, "messages"), violations);
    match body.get("system") {
        None => {}
        Some(Value::Array(blocks)) => {
            for (place, block) in blocks.iter().enumerate() {
                check_text(&format!("system[{place}].text"), block.get("text"), violations);
            }
        }
        system => check_text("system", system, violations),
    }
    check_tools("tools", list(body, "tools"), "", Some("input_schema"), violations);
    check_cache_marks(body, "cache_control", violations);
    check_limits(body, violations);
}

fn check_message(path: &str, message: &Value, violations: &mut Violations) -> Turn {
    let mut turn = Turn::default();
    if let Some(Value::String(_)) = message.get("content") {
        check_text(path, message.get("content"), violations);
        return turn;
    }
    let (role, blocks) = (word(message, "role"), list(message, "content"));
    violations.require(!blocks.is_empty(), path, "a message has at least one block");
    let mut words_came = false;
    for (place, block) in blocks.iter().enumerate() {
        let path = format!("{path}[{place}]");
        let kind = word(block, "type");
        if kind == "tool_result" {
            violations.require(!words_came, &path, "tool_result blocks come before all others in their message");
        } else {
            words_came = true;
        }
        check_block(&path, block, role, &mut turn, violations);
    }
    check_thinking_place(path, blocks, violations);
    turn
}

fn check_block(path: &str, block: &Value, role: &str, turn: &mut Turn, violations: &mut Violations) {
    match (word(block, "type"), role) {
        ("text", _) => check_text(&format!("{path}.text"), block.get("text"), violations),
        ("image" | "document", "user") => check_object(&format!("{path}.source"), block.get("source"), violations),
        ("thinking", "assistant") => {
            check_signature(&format!("{path}.signature"), word(block, "signature"), OWN, violations);
        }
        ("redacted_thinking", "assistant") => {
            check_signature(&format!("{path}.data"), word(block, "data"), OWN, violations);
        }
        ("tool_use", "assistant") => {
            let id = word(block, "id");
            check_id(&format!("{path}.id"), id, MAX_ID, violations);
            check_name(&format!("{path}.name"), word(block, "name"), violations);
            check_object(&format!("{path}.input"), block.get("input"), violations);
            turn.calls.push(Mention { path: path.to_owned(), id: id.to_owned() });
        }
        ("tool_result", "user") => {
            turn.results.push(Mention { path: path.to_owned(), id: word(block, "tool_use_id").to_owned() });
            for (place, content) in list(block, "content").iter().enumerate() {
                if word(content, "type") == "text" {
                    check_text(&format!("{path}.content[{place}].text"), content.get("text"), violations);
                }
            }
        }
        (kind, role) => violations.add(path, format!("a message of `{role}` has no block of type `{kind}`")),
    }
}

/// Thoughts may be anywhere in an answer but last.
fn check_thinking_place(path: &str, blocks: &[Value], violations: &mut Violations) {
    let is_thought = |block: &Value| matches!(word(block, "type"), "thinking" | "redacted_thinking");
    let last = blocks.last().is_some_and(is_thought);
    let place = format!("{path}[{}]", blocks.len().saturating_sub(1));
    violations.require(!last, &place, "the last block of a message must not be thinking");
}

/// An answer that the model continues must not end with a space.
fn check_last(messages: &[Value], violations: &mut Violations) {
    let Some(last) = messages.last().filter(|last| word(last, "role") == "assistant") else { return };
    let text = list(last, "content").last().map_or_else(|| word(last, "content"), |block| word(block, "text"));
    let path = format!("messages[{}].content", messages.len() - 1);
    violations.require(text.trim_end() == text, &path, "the last assistant text must not end with whitespace");
}

/// An answer has a limit, and thinking leaves room for it. For a model with a budget, an answer whose results follow must open
/// with a thought; a model that decides by itself needs none.
fn check_limits(body: &Value, violations: &mut Violations) {
    let max = body.get("max_tokens").and_then(Value::as_u64).unwrap_or(0);
    violations.require(max > 0, "max_tokens", "an answer has a limit");
    let Some(thinking) = body.get("thinking") else { return };
    if let Some(budget) = thinking.get("budget_tokens").and_then(Value::as_u64) {
        violations.require(
            (1024..max).contains(&budget),
            "thinking.budget_tokens",
            "at least 1024 and under max_tokens",
        );
    }
    let model = word(body, "model");
    let is_off = word(thinking, "type") == "disabled";
    let always =
        ["opus-5-5", "fable", "mythos"].iter().any(|family| model.contains(family)) || model.ends_with("sonnet-5-5");
    violations.require(!(is_off && always), "thinking.type", "a model that always thinks cannot be told not to");
    violations.require(
        is_off || body.get("temperature").is_none(),
        "temperature",
        "a model that thinks takes no temperature",
    );
    if word(thinking, "type") != "enabled" {
        return;
    }
    let [.., answer, last] = list(body, "messages") else { return };
    let first = |message: &Value| list(message, "content").first().map(|block| word(block, "type").to_owned());
    if first(last).as_deref() == Some("tool_result") {
        let thought = first(answer).is_some_and(|kind| matches!(kind.as_str(), "thinking" | "redacted_thinking"));
        violations.require(thought, "thinking", "an answer whose results follow opens with a thought");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::Provider;
    use crate::wire::rules::tests::assert_each_value_is_refused;
    use crate::wire::tests::{Wrong, assert_each_is_refused};

    fn good() -> Value {
        json!({
            "system": "Be brief.",
            "max_tokens": 4096,
            "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Look."}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "", "signature": "seal"},
                    {"type": "tool_use", "id": "a", "name": "look", "input": {}},
                    {"type": "tool_use", "id": "b", "name": "look", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "seen"}]},
                    {"type": "tool_result", "tool_use_id": "b", "is_error": true, "content": "seen"},
                    {"type": "text", "text": "Go on."},
                ]},
                {"role": "assistant", "content": "It is"},
            ],
        })
    }

    #[test]
    fn every_broken_rule_of_order_is_refused_with_its_place() {
        let wrong: Vec<Wrong> = vec![
            ("messages", "no message", |body| body["messages"] = json!([])),
            ("messages[0].role", "first message", |body| drop(body["messages"].as_array_mut().unwrap().remove(0))),
            ("messages[0].role", "the role is", |body| body["messages"][0]["role"] = json!("tool")),
            ("messages[1].role", "alternate", |body| body["messages"][1] = body["messages"][0].clone()),
            ("messages[1].content[2]", "`b` has no result", |body| {
                body["messages"][2]["content"].as_array_mut().unwrap().remove(1);
            }),
            ("messages[1].content[1]", "`a` has 2 results", |body| {
                body["messages"][2]["content"][1]["tool_use_id"] = json!("a");
            }),
            ("messages[2].content[0]", "answers a call", |body| {
                body["messages"][2]["content"][0]["tool_use_id"] = json!("c");
            }),
            ("messages[1].content[2]", "unique", |body| body["messages"][1]["content"][2]["id"] = json!("a")),
            ("messages[2].content[1]", "before all others", |body| {
                body["messages"][2]["content"].as_array_mut().unwrap().swap(1, 2);
                body["messages"][2]["content"].as_array_mut().unwrap().swap(0, 1);
            }),
            ("messages[3].content[0]", "must not be thinking", |body| {
                body["messages"][3]["content"] = json!([{"type": "thinking", "thinking": "hm", "signature": "s"}]);
            }),
            ("messages[3].content", "whitespace", |body| body["messages"][3]["content"] = json!("It is ")),
        ];
        assert_each_is_refused(Provider::Anthropic, &good(), &wrong);
    }

    #[test]
    fn every_broken_rule_of_caching_and_thinking_is_refused_with_its_place() {
        let wrong: Vec<Wrong> = vec![
            ("max_tokens", "limit", |body| body["max_tokens"] = json!(null)),
            ("cache_control", "at most four", |body| {
                let mark = json!({"type": "ephemeral"});
                body["tools"][0]["cache_control"] = mark.clone();
                body["messages"][0]["content"][0]["cache_control"] = mark.clone();
                for place in 0..3 {
                    body["messages"][2]["content"][place]["cache_control"] = mark.clone();
                }
            }),
            ("messages[1].content[0].signature", "only to its provider", |body| {
                body["messages"][1]["content"][0]["signature"] = json!("signature-of-gemini");
            }),
            ("thinking.budget_tokens", "at least 1024", |body| body["thinking"]["budget_tokens"] = json!(4096)),
            ("thinking.type", "always thinks", |body| {
                body["model"] = json!("claude-opus-5-5");
                body["thinking"] = json!({"type": "disabled"});
            }),
            ("temperature", "no temperature", |body| {
                body["thinking"] = json!({"type": "adaptive"});
                body["temperature"] = json!(0.5);
            }),
            ("thinking", "opens with a thought", |body| {
                body["thinking"] = json!({"type": "enabled", "budget_tokens": 2_000});
                body["messages"].as_array_mut().unwrap().pop();
                body["messages"][1]["content"].as_array_mut().unwrap().remove(0);
            }),
        ];
        assert_each_is_refused(Provider::Anthropic, &good(), &wrong);
    }

    #[test]
    fn every_broken_rule_of_a_block_is_refused_with_its_place() {
        let wrong: Vec<Wrong> = vec![
            ("messages[0].content[0]", "no block of type `tool_use`", |body| {
                body["messages"][0]["content"][0] = body["messages"][1]["content"][1].clone();
            }),
            ("messages[1].content[0].signature", "needs its signature", |body| {
                body["messages"][1]["content"][0].as_object_mut().unwrap().remove("signature");
            }),
            ("tools[1].name", "unique", |body| body["tools"][1] = body["tools"][0].clone()),
        ];
        let values = [
            ("messages[0].content", "at least one block", json!([])),
            ("messages[0].content[0].text", "blank", json!(" \n")),
            ("messages[3].content", "blank", json!("")),
            ("messages[1].content[1].id", "letters", json!("a.b")),
            ("messages[1].content[1].name", "name", json!("a b")),
            ("messages[1].content[1].input", "object", json!("{}")),
            ("messages[2].content[0].content[0].text", "blank", json!("")),
            ("system", "blank", json!("")),
            ("tools[0].name", "name", json!("a".repeat(65))),
            ("tools[0].input_schema", "object", json!(null)),
        ];
        let mut good = good();
        good["tools"] = json!([good["tools"][0], {"name": "other", "input_schema": {"type": "object"}}]);
        assert_each_is_refused(Provider::Anthropic, &good, &wrong);
        assert_each_value_is_refused(Provider::Anthropic, &good, &values);
    }
}
