//! Amazon Bedrock's Converse API.

use serde_json::Value;

use super::rules::{
    Mention, Turn, check_cache_marks, check_id, check_name, check_object, check_signature, check_text, check_tools,
    check_turns, list, word,
};
use super::violation::Violations;

const MAX_ID: usize = 64;

/// Checks a body against the rules of the strictest server.
pub(super) fn check(body: &Value, violations: &mut Violations) {
    let turns = check_turns(body, check_message, violations);
    let ends_with_user = list(body, "messages").last().is_none_or(|last| word(last, "role") == "user");
    violations.require(ends_with_user, "messages", "the conversation ends with a user message");
    check_cache_marks(body, "cachePoint", violations);
    let system = list(body, "system").iter().enumerate().filter(|(_, block)| block.get("cachePoint").is_none());
    for (place, block) in system {
        check_text(&format!("system[{place}].text"), block.get("text"), violations);
    }
    check_tool_config(body, &turns, violations);
    check_thinking(body, violations);
}

fn check_message(path: &str, message: &Value, violations: &mut Violations) -> Turn {
    let (role, blocks, mut turn) = (word(message, "role"), list(message, "content"), Turn::default());
    violations.require(!blocks.is_empty(), path, "a message has at least one block");
    for (place, block) in blocks.iter().enumerate() {
        check_block(&format!("{path}[{place}]"), block, role, &mut turn, violations);
    }
    let is_thought = |block: &Value| block.get("reasoningContent").is_some();
    let last = blocks.last().is_some_and(is_thought);
    let place = format!("{path}[{}]", blocks.len().saturating_sub(1));
    violations.require(!last, &place, "the last block of a message must not be reasoning");
    turn
}

/// As at Anthropic: for a model with a budget, an answer whose results follow must open with a thought.
fn check_thinking(body: &Value, violations: &mut Violations) {
    let thinking = body.get("additionalModelRequestFields").and_then(|fields| fields.get("thinking"));
    let has_budget = thinking.is_some_and(|thinking| word(thinking, "type") == "enabled");
    let [.., answer, last] = list(body, "messages") else { return };
    let opens =
        |message: &Value, kind: &str| list(message, "content").first().is_some_and(|block| block.get(kind).is_some());
    if has_budget && opens(last, "toolResult") {
        let path = "additionalModelRequestFields.thinking";
        let rule = "an answer whose results follow opens with a thought";
        violations.require(opens(answer, "reasoningContent"), path, rule);
    }
}

fn check_block(path: &str, block: &Value, role: &str, turn: &mut Turn, violations: &mut Violations) {
    let Some((kind, inner)) = block.as_object().filter(|block| block.len() == 1).and_then(|block| block.iter().next())
    else {
        return violations.add(path, "a block has exactly one kind of content");
    };
    match (kind.as_str(), role) {
        ("text", _) => check_text(&format!("{path}.text"), Some(inner), violations),
        ("image" | "document" | "video", "user") => check_object(&format!("{path}.{kind}"), Some(inner), violations),
        ("cachePoint", _) => {}
        ("reasoningContent", "assistant") => check_reasoning(path, inner, violations),
        ("toolUse", "assistant") => {
            let id = word(inner, "toolUseId");
            check_id(&format!("{path}.toolUse.toolUseId"), id, MAX_ID, violations);
            check_name(&format!("{path}.toolUse.name"), word(inner, "name"), violations);
            check_object(&format!("{path}.toolUse.input"), inner.get("input"), violations);
            turn.calls.push(Mention { path: path.to_owned(), id: id.to_owned() });
        }
        ("toolResult", "user") => {
            turn.results.push(Mention { path: path.to_owned(), id: word(inner, "toolUseId").to_owned() });
            check_result(&format!("{path}.toolResult"), inner, violations);
        }
        (kind, role) => violations.add(path, format!("a message of `{role}` has no block of kind `{kind}`")),
    }
}

fn check_reasoning(path: &str, reasoning: &Value, violations: &mut Violations) {
    if reasoning.get("redactedContent").is_some() {
        let path = format!("{path}.reasoningContent.redactedContent");
        return check_signature(&path, word(reasoning, "redactedContent"), "bedrock", violations);
    }
    let signature = reasoning.get("reasoningText").map_or("", |text| word(text, "signature"));
    let path = format!("{path}.reasoningContent.reasoningText.signature");
    check_signature(&path, signature, "bedrock", violations);
}

fn check_result(path: &str, result: &Value, violations: &mut Violations) {
    let content = list(result, "content");
    violations.require(!content.is_empty(), &format!("{path}.content"), "a result must not be empty");
    if let Some(status) = result.get("status") {
        let known = matches!(status.as_str(), Some("success" | "error"));
        violations.require(known, &format!("{path}.status"), "the status is `success` or `error`");
    }
    for (place, json) in content.iter().enumerate().filter_map(|(place, part)| Some((place, part.get("json")?))) {
        check_object(&format!("{path}.content[{place}].json"), Some(json), violations);
    }
}

fn check_tool_config(body: &Value, turns: &[Turn], violations: &mut Violations) {
    let uses_tools = turns.iter().any(|turn| !turn.calls.is_empty() || !turn.results.is_empty());
    let config = body.get("toolConfig");
    let tools = config.map_or(&[][..], |config| list(config, "tools"));
    if config.is_some() || uses_tools {
        violations.require(!tools.is_empty(), "toolConfig", "tools must be configured if there are calls or results");
    }
    check_tools("toolConfig.tools", tools, "toolSpec", Some("inputSchema.json"), violations);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::Provider;
    use crate::wire::rules::tests::assert_each_value_is_refused;
    use crate::wire::tests::{Wrong, assert_each_is_refused};

    fn good() -> Value {
        let schema = json!({"json": {"type": "object"}});
        json!({
            "system": [{"text": "Be brief."}],
            "toolConfig": {"tools": [
                {"toolSpec": {"name": "look", "inputSchema": schema}},
                {"toolSpec": {"name": "other", "inputSchema": schema}},
            ]},
            "messages": [
                {"role": "user", "content": [{"text": "Look."}]},
                {"role": "assistant", "content": [
                    {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "seal"}}},
                    {"toolUse": {"toolUseId": "a", "name": "look", "input": {}}},
                    {"toolUse": {"toolUseId": "b", "name": "look", "input": {}}},
                ]},
                {"role": "user", "content": [
                    {"toolResult": {"toolUseId": "a", "status": "success", "content": [{"text": "seen"}]}},
                    {"toolResult": {"toolUseId": "b", "status": "error", "content": [{"json": {}}]}},
                    {"text": "Go on."},
                ]},
            ],
        })
    }

    #[test]
    fn every_broken_rule_of_order_is_refused_with_its_place() {
        let wrong: Vec<Wrong> = vec![
            ("messages", "no message", |body| body["messages"] = json!([])),
            ("messages[0].role", "first message", |body| drop(body["messages"].as_array_mut().unwrap().remove(0))),
            ("messages[1].role", "alternate", |body| body["messages"][1] = body["messages"][0].clone()),
            ("messages[0].role", "the role is", |body| body["messages"][0]["role"] = json!("tool")),
            ("messages", "ends with a user", |body| drop(body["messages"].as_array_mut().unwrap().pop())),
            ("messages[1].content[2]", "`b` has no result", |body| {
                body["messages"][2]["content"].as_array_mut().unwrap().remove(1);
            }),
            ("messages[1].content[1]", "`a` has 2 results", |body| {
                body["messages"][2]["content"][1]["toolResult"]["toolUseId"] = json!("a");
            }),
            ("messages[2].content[0]", "answers a call", |body| {
                body["messages"][2]["content"][0]["toolResult"]["toolUseId"] = json!("c");
            }),
            ("messages[1].content[2]", "unique", |body| {
                body["messages"][1]["content"][2]["toolUse"]["toolUseId"] = json!("a");
            }),
            ("additionalModelRequestFields.thinking", "opens with a thought", |body| {
                let thinking = json!({"type": "enabled", "budget_tokens": 2_000});
                body["additionalModelRequestFields"] = json!({"thinking": thinking});
                body["messages"][1]["content"].as_array_mut().unwrap().swap(0, 1);
            }),
            ("messages[1].content[2]", "must not be reasoning", |body| {
                body["messages"][1]["content"].as_array_mut().unwrap().swap(0, 2);
            }),
            ("toolConfig", "must be configured", |body| drop(body.as_object_mut().unwrap().remove("toolConfig"))),
        ];
        assert_each_is_refused(Provider::Bedrock, &good(), &wrong);
    }

    #[test]
    fn every_broken_rule_of_a_block_is_refused_with_its_place() {
        let wrong: Vec<Wrong> = vec![
            ("messages[0].content[0]", "exactly one kind", |body| body["messages"][0]["content"][0] = json!({})),
            ("messages[0].content[0]", "no block of kind `toolUse`", |body| {
                body["messages"][0]["content"][0] = body["messages"][1]["content"][1].clone();
            }),
            ("messages[1].content[0].reasoningContent.reasoningText.signature", "only to its provider", |body| {
                let reasoning = &mut body["messages"][1]["content"][0]["reasoningContent"];
                reasoning["reasoningText"]["signature"] = json!("signature-of-anthropic");
            }),
            ("cachePoint", "at most four", |body| {
                let point = json!({"cachePoint": {"type": "default"}});
                body["system"].as_array_mut().unwrap().extend([&point; 5].map(Clone::clone));
            }),
            ("messages[1].content[0].reasoningContent.reasoningText.signature", "needs its signature", |body| {
                body["messages"][1]["content"][0] = json!({"reasoningContent": {"reasoningText": {"text": "hm"}}});
            }),
            ("toolConfig.tools[0].toolSpec.inputSchema.json", "object", |body| {
                body["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"] = json!({});
            }),
        ];
        let values = [
            ("messages[0].content", "at least one block", json!([])),
            ("messages[0].content[0].text", "blank", json!(" ")),
            ("messages[1].content[1].toolUse.toolUseId", "letters", json!("a".repeat(65))),
            ("messages[1].content[1].toolUse.name", "name", json!("a.b")),
            ("messages[1].content[1].toolUse.input", "object", json!([])),
            ("messages[2].content[0].toolResult.content", "empty", json!([])),
            ("messages[2].content[0].toolResult.status", "status", json!("cut")),
            ("messages[2].content[1].toolResult.content[0].json", "object", json!([])),
            ("system[0].text", "blank", json!("")),
            ("toolConfig.tools[1].toolSpec.name", "unique", json!("look")),
        ];
        assert_each_is_refused(Provider::Bedrock, &good(), &wrong);
        assert_each_value_is_refused(Provider::Bedrock, &good(), &values);
    }
}
