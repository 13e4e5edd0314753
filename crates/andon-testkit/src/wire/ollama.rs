//! Ollama's own API, `/api/chat`.

use serde_json::Value;

use super::rules::{check_name, check_object, check_text, check_tools, list, word};
use super::violation::Violations;

/// Checks a body against the rules of the strictest server.
pub(super) fn check(body: &Value, violations: &mut Violations) {
    let messages = list(body, "messages");
    violations.require(!messages.is_empty(), "messages", "there is no message");
    // The tools whose results are still to come, in the order of the calls.
    let mut open: Vec<&str> = Vec::new();
    let mut before = "";
    for (place, message) in messages.iter().enumerate() {
        let (path, role) = (format!("messages[{place}]"), word(message, "role"));
        if role != "tool" {
            violations.require(open.is_empty(), &path, "a call before this message has no result");
            open.clear();
        }
        check_message(&path, message, &mut open, violations);
        match role {
            "system" => violations.require(place == 0, &path, "a system message comes first or not at all"),
            "user" => violations.require(before != "user", &path, "there are two user messages in a row"),
            "assistant" => {
                let follows = matches!(before, "user" | "tool");
                violations.require(follows, &path, "an assistant message follows a user or tool message");
            }
            "tool" => {}
            other => violations.add(format!("{path}.role"), format!("there is no role `{other}`")),
        }
        before = role;
    }
    violations.require(open.is_empty(), "messages", "a call at the end has no result");
    violations.require(before != "assistant", "messages", "the conversation ends with a user or tool message");
    check_tools("tools", list(body, "tools"), "function", Some("parameters"), violations);
}

fn check_message<'a>(path: &str, message: &'a Value, open: &mut Vec<&'a str>, violations: &mut Violations) {
    let (calls, images) = (list(message, "tool_calls"), list(message, "images"));
    // The server wants a string here, which may be empty only beside calls or images.
    match message.get("content").and_then(Value::as_str) {
        Some("") if !calls.is_empty() || !images.is_empty() => {}
        _ => check_text(&format!("{path}.content"), message.get("content"), violations),
    }
    for (place, image) in images.iter().enumerate() {
        let path = format!("{path}.images[{place}]");
        let is_base64 = |text: &str| !text.is_empty() && !text.contains(':');
        violations.require(image.as_str().is_some_and(is_base64), &path, "an image is base64, never an address");
    }
    for (place, call) in calls.iter().enumerate() {
        let path = format!("{path}.tool_calls[{place}].function");
        let function = call.get("function").unwrap_or(&Value::Null);
        check_name(&format!("{path}.name"), word(function, "name"), violations);
        check_object(&format!("{path}.arguments"), function.get("arguments"), violations);
        violations.require(word(message, "role") == "assistant", &path, "only the assistant calls tools");
        open.push(word(function, "name"));
    }
    if word(message, "role") == "tool" {
        let name = word(message, "tool_name");
        let is_next = open.first() == Some(&name);
        violations.require(is_next, &format!("{path}.tool_name"), "results come in the order of their calls");
        open.drain(..open.len().min(1));
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
            "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Look.", "images": ["AAAA"]},
                {"role": "assistant", "content": "", "tool_calls": [
                    {"function": {"name": "look", "arguments": {}}},
                    {"function": {"name": "ask", "arguments": {}}},
                ]},
                {"role": "tool", "tool_name": "look", "content": "seen"},
                {"role": "tool", "tool_name": "ask", "content": "told"},
                {"role": "user", "content": "Go on."},
            ],
        })
    }

    #[test]
    fn every_broken_rule_is_refused_with_its_place() {
        let wrong: Vec<Wrong> = vec![
            ("messages[1]", "system message comes first", |body| body["messages"].as_array_mut().unwrap().swap(0, 1)),
            ("messages[2]", "two user messages", |body| body["messages"][2] = json!({"role": "user", "content": "A"})),
            ("messages[1]", "follows", |body| drop(body["messages"].as_array_mut().unwrap().remove(1))),
            ("messages[1].images[0]", "base64", |body| body["messages"][1]["images"][0] = json!("https://a/b")),
            ("messages[3].tool_name", "order", |body| body["messages"].as_array_mut().unwrap().swap(3, 4)),
            ("messages[4]", "no result", |body| drop(body["messages"].as_array_mut().unwrap().remove(4))),
            ("messages", "at the end", |body| body["messages"].as_array_mut().unwrap().truncate(4)),
        ];
        let values = [
            ("messages", "no message", json!([])),
            ("messages[1].role", "no role `bot`", json!("bot")),
            ("messages[1].content", "string", json!([])),
            ("messages[5].content", "blank", json!("")),
            ("messages[2].tool_calls[0].function.arguments", "object", json!("{}")),
            ("messages[2].tool_calls[1].function.name", "name", json!("a b")),
            ("tools[0].function.parameters", "object", json!(1)),
        ];
        assert_each_is_refused(Provider::Ollama, &good(), &wrong);
        assert_each_value_is_refused(Provider::Ollama, &good(), &values);
    }
}
