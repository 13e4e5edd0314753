//! OpenAI's Chat Completions API, and the many servers that speak it.

use std::collections::HashSet;

use serde_json::Value;

use super::rules::{check_arguments, check_id, check_name, check_text, check_tools, list, word};
use super::violation::Violations;

const MAX_ID: usize = 40;

/// Checks a body against the rules of the strictest server.
pub(super) fn check(body: &Value, violations: &mut Violations) {
    let mut scan = Scan { violations, open: Vec::new(), seen: HashSet::new(), before: None };
    let messages = list(body, "messages");
    scan.violations.require(!messages.is_empty(), "messages", "there is no message");
    for (place, message) in messages.iter().enumerate() {
        scan.message(place, message);
    }
    scan.close_calls("the end of the conversation");
    let ends_with_answer = scan.before == Some("assistant");
    scan.violations.require(!ends_with_answer, "messages", "the conversation ends with a user or tool message");
    let violations = scan.violations;
    check_tools("tools", list(body, "tools"), "function", Some("parameters"), violations);
    check_effort(body, violations);
}

/// OpenAI's models from 5.2 on accept tools here only if they are told not to reason.
fn check_effort(body: &Value, violations: &mut Violations) {
    let minor = word(body, "model").strip_prefix("gpt-5.").and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
    if minor.is_some_and(|minor| minor >= 2) && !list(body, "tools").is_empty() {
        let is_off = word(body, "reasoning_effort") == "none";
        violations.require(is_off, "reasoning_effort", "a request with tools must tell the model not to reason");
    }
}

/// A walk through the messages that knows which calls wait for their result.
struct Scan<'a> {
    violations: &'a mut Violations,
    /// Calls without a result yet: their paths and ids.
    open: Vec<(String, &'a str)>,
    seen: HashSet<&'a str>,
    /// The previous role, not counting the system's.
    before: Option<&'a str>,
}

impl<'a> Scan<'a> {
    fn message(&mut self, place: usize, message: &'a Value) {
        let (path, role) = (format!("messages[{place}]"), word(message, "role"));
        if role != "tool" {
            self.close_calls(&path);
        }
        match role {
            "system" | "developer" => {
                self.violations.require(place == 0, &path, "a system message comes first or not at all");
                check_text(&format!("{path}.content"), message.get("content"), self.violations);
                return;
            }
            "user" => self.user(&path, message),
            "assistant" => self.assistant(&path, message),
            "tool" => self.tool(&path, message),
            other => self.violations.add(format!("{path}.role"), format!("there is no role `{other}`")),
        }
        self.before = Some(role);
    }

    fn user(&mut self, path: &str, message: &Value) {
        self.violations.require(self.before != Some("user"), path, "there are two user messages in a row");
        match message.get("content") {
            Some(Value::Array(parts)) => {
                self.violations.require(!parts.is_empty(), &format!("{path}.content"), "content must not be empty");
                for (place, part) in parts.iter().enumerate().filter(|(_, part)| word(part, "type") == "text") {
                    let path = format!("{path}.content[{place}].text");
                    check_text(&path, part.get("text"), self.violations);
                }
            }
            content => check_text(&format!("{path}.content"), content, self.violations),
        }
    }

    fn assistant(&mut self, path: &str, message: &'a Value) {
        let follows = matches!(self.before, Some("user" | "tool"));
        self.violations.require(follows, path, "an assistant message follows a user or tool message");
        let calls = list(message, "tool_calls");
        match message.get("content") {
            None | Some(Value::Null) => {
                let rule = "an assistant message without content needs tool_calls";
                self.violations.require(!calls.is_empty(), &format!("{path}.content"), rule);
            }
            content => check_text(&format!("{path}.content"), content, self.violations),
        }
        let empty = message.get("tool_calls").is_some() && calls.is_empty();
        self.violations.require(!empty, &format!("{path}.tool_calls"), "tool_calls must not be empty");
        for (place, call) in calls.iter().enumerate() {
            let path = format!("{path}.tool_calls[{place}]");
            let (id, function) = (word(call, "id"), call.get("function").unwrap_or(&Value::Null));
            check_id(&format!("{path}.id"), id, MAX_ID, self.violations);
            check_name(&format!("{path}.function.name"), word(function, "name"), self.violations);
            check_arguments(&format!("{path}.function.arguments"), function.get("arguments"), self.violations);
            let is_function = word(call, "type") == "function";
            self.violations.require(is_function, &format!("{path}.type"), "a call's type is `function`");
            self.violations.require(self.seen.insert(id), &path, "a call's id is unique in the conversation");
            self.open.push((path, id));
        }
    }

    fn tool(&mut self, path: &str, message: &Value) {
        let id = word(message, "tool_call_id");
        match self.open.iter().position(|(_, open)| *open == id) {
            Some(place) => drop(self.open.remove(place)),
            None => self.violations.add(path, format!("no call `{id}` waits for a result here")),
        }
        let content = message.get("content");
        let is_content = content.is_some_and(|content| content.is_string() || content.is_array());
        self.violations.require(is_content, &format!("{path}.content"), "content must be a string or parts");
    }

    fn close_calls(&mut self, before: &str) {
        for (path, id) in self.open.drain(..) {
            self.violations.add(path, format!("call `{id}` has no tool message before {before}"));
        }
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
            "tools": [
                {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}},
                {"type": "function", "function": {"name": "ask", "parameters": {"type": "object"}}},
            ],
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Look."},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                    {"id": "b", "type": "function", "function": {"name": "ask", "arguments": "{}"}},
                ]},
                {"role": "tool", "tool_call_id": "b", "content": ""},
                {"role": "tool", "tool_call_id": "a", "content": "seen"},
                {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
            ],
        })
    }

    #[test]
    fn every_broken_rule_of_order_is_refused_with_its_place() {
        let wrong: Vec<Wrong> = vec![
            ("messages", "no message", |body| body["messages"] = json!([])),
            ("messages[1]", "a system message comes first", |body| body["messages"][1] = body["messages"][0].clone()),
            ("messages[1]", "follows a user", |body| drop(body["messages"].as_array_mut().unwrap().remove(1))),
            ("messages[2]", "in a row", |body| body["messages"][2] = body["messages"][1].clone()),
            ("messages[5].role", "no role `human`", |body| body["messages"][5]["role"] = json!("human")),
            ("messages", "ends with a user or tool", |body| {
                body["messages"][5] = json!({"role": "assistant", "content": "So."});
            }),
            ("messages[2].tool_calls[1]", "`b` has no tool message before messages[4]", |body| {
                body["messages"].as_array_mut().unwrap().remove(3);
            }),
            ("messages[2].tool_calls[0]", "before messages[4]", |body| {
                body["messages"].as_array_mut().unwrap().swap(4, 5);
            }),
            ("messages[2].tool_calls[0]", "before the end", |body| {
                body["messages"].as_array_mut().unwrap().truncate(4);
            }),
            ("messages[4]", "no call `b` waits", |body| body["messages"][4]["tool_call_id"] = json!("b")),
            ("messages[5]", "no call `a` waits", |body| body["messages"][5] = body["messages"][4].clone()),
            ("messages[2].tool_calls[1]", "unique", |body| body["messages"][2]["tool_calls"][1]["id"] = json!("a")),
        ];
        assert_each_is_refused(Provider::OpenAiChat, &good(), &wrong);
    }

    #[test]
    fn every_broken_rule_of_a_message_is_refused_with_its_place() {
        let wrong: Vec<Wrong> = vec![
            ("messages[2].content", "needs tool_calls", |body| {
                body["messages"][2] = json!({"role": "assistant", "content": null});
            }),
            ("messages[2].tool_calls", "empty", |body| {
                body["messages"][2] = json!({"role": "assistant", "content": "So.", "tool_calls": []});
            }),
            ("reasoning_effort", "not to reason", |body| body["model"] = json!("gpt-5.6-terra")),
            ("tools[1].function.name", "unique", |body| body["tools"][1] = body["tools"][0].clone()),
        ];
        let values = [
            ("messages[0].content", "blank", json!("")),
            ("messages[1].content", "blank", json!(" ")),
            ("messages[5].content", "empty", json!([])),
            ("messages[5].content[0].text", "blank", json!("")),
            ("messages[2].tool_calls[0].id", "1 to 40", json!("a".repeat(41))),
            ("messages[2].tool_calls[0].type", "function", json!("tool")),
            ("messages[2].tool_calls[0].function.name", "name", json!("")),
            ("messages[2].tool_calls[0].function.arguments", "string", json!({})),
            ("messages[2].tool_calls[0].function.arguments", "JSON object", json!("{\"a\":")),
            ("messages[3].content", "string or parts", json!(null)),
            ("tools[0].function.parameters", "object", json!(1)),
        ];
        assert_each_is_refused(Provider::OpenAiChat, &good(), &wrong);
        assert_each_value_is_refused(Provider::OpenAiChat, &good(), &values);
    }
}
