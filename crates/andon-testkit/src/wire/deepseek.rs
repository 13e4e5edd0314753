//! DeepSeek's Chat Completions API, with a thinking model: the rules of that API, and one more.

use serde_json::Value;

use super::openai_chat;
use super::rules::{list, word};
use super::violation::Violations;

/// Checks a body against the rules of DeepSeek's own servers.
pub(super) fn check(body: &Value, violations: &mut Violations) {
    openai_chat::check(body, violations);
    let is_off = body.get("thinking").is_some_and(|thinking| word(thinking, "type") == "disabled");
    for (place, message) in list(body, "messages").iter().enumerate() {
        let path = format!("messages[{place}].reasoning_content");
        let thought = message.get("reasoning_content");
        let called = !list(message, "tool_calls").is_empty();
        violations.require(thought.is_some() || !called || is_off, &path, "calls must come back with their thought");
        let is_right = thought.is_none_or(|thought| thought.is_string() && word(message, "role") == "assistant");
        violations.require(is_right, &path, "only an assistant message has a thought, which is a text");
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
            "messages": [
                {"role": "user", "content": "Look."},
                {"role": "assistant", "content": null, "reasoning_content": "", "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                ]},
                {"role": "tool", "tool_call_id": "a", "content": "seen"},
                {"role": "user", "content": "Go on."},
            ],
        })
    }

    #[test]
    fn every_broken_rule_is_refused_with_its_place() {
        let wrong: Vec<Wrong> = vec![("messages[1].reasoning_content", "come back", |body| {
            body["messages"][1].as_object_mut().unwrap().remove("reasoning_content");
        })];
        let values = [
            ("messages", "no message", json!([])),
            ("messages[1].reasoning_content", "is a text", json!(null)),
            ("messages[0].reasoning_content", "only an assistant", json!("Hm.")),
        ];
        assert_each_is_refused(Provider::DeepSeek, &good(), &wrong);
        assert_each_value_is_refused(Provider::DeepSeek, &good(), &values);
        let mut off = good();
        off["messages"][1].as_object_mut().unwrap().remove("reasoning_content");
        off["thinking"] = json!({"type": "disabled"});
        assert_eq!(Provider::DeepSeek.validate(&off), Ok(()));
    }
}
