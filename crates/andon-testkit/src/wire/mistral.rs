//! Mistral's Chat Completions API: the rules of that API, and two more.

use serde_json::Value;

use super::openai_chat;
use super::rules::{list, word};
use super::violation::Violations;

/// The exact length of a call's id.
const ID: usize = 9;

/// Checks a body against the rules of Mistral's own servers.
pub(super) fn check(body: &Value, violations: &mut Violations) {
    openai_chat::check(body, violations);
    let mut before = "";
    for (place, message) in list(body, "messages").iter().enumerate() {
        let (path, role) = (format!("messages[{place}]"), word(message, "role"));
        let follows = (before, role) == ("tool", "user");
        violations.require(!follows, &path, "a user message must not follow a tool message");
        for (place, call) in list(message, "tool_calls").iter().enumerate() {
            check_id(&format!("{path}.tool_calls[{place}].id"), word(call, "id"), violations);
        }
        if role == "tool" {
            check_id(&format!("{path}.tool_call_id"), word(message, "tool_call_id"), violations);
        }
        before = role;
    }
}

fn check_id(path: &str, id: &str, violations: &mut Violations) {
    let is_plain = id.len() == ID && id.chars().all(|c| c.is_ascii_alphanumeric());
    violations.require(is_plain, path, "an id has nine letters and digits");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::Provider;
    use crate::wire::tests::{Wrong, assert_each_is_refused};

    fn good() -> Value {
        json!({
            "messages": [
                {"role": "user", "content": "Look."},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "aB3456789", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                ]},
                {"role": "tool", "tool_call_id": "aB3456789", "content": "seen"},
                {"role": "assistant", "content": "So."},
                {"role": "user", "content": "Go on."},
            ],
        })
    }

    #[test]
    fn every_broken_rule_is_refused_with_its_place() {
        let wrong: Vec<Wrong> = vec![
            ("messages", "no message", |body| body["messages"] = json!([])),
            ("messages[3]", "must not follow a tool", |body| drop(body["messages"].as_array_mut().unwrap().remove(3))),
            ("messages[1].tool_calls[0].id", "nine", |body| {
                body["messages"][1]["tool_calls"][0]["id"] = json!("aB345678");
            }),
            ("messages[2].tool_call_id", "nine", |body| body["messages"][2]["tool_call_id"] = json!("aB345678_")),
        ];
        assert_each_is_refused(Provider::Mistral, &good(), &wrong);
    }
}
