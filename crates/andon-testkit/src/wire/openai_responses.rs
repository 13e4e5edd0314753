//! OpenAI's Responses API, without state on the server: the whole conversation is in `input`.

use std::collections::HashSet;

use serde_json::Value;

use super::rules::{check_arguments, check_id, check_name, check_signature, check_text, check_tools, list, word};
use super::violation::Violations;

const MAX_ID: usize = 64;

/// Checks a body against the rules of the strictest server.
pub(super) fn check(body: &Value, violations: &mut Violations) {
    let mut scan = Scan { violations, open: Vec::new(), seen: HashSet::new(), reasoning: None };
    let input = list(body, "input");
    scan.violations.require(!input.is_empty(), "input", "there is no item");
    let begins_with_user = input.first().is_none_or(|first| word(first, "role") == "user");
    scan.violations.require(begins_with_user, "input[0]", "the first item is a user message");
    for (place, item) in input.iter().enumerate() {
        scan.item(&format!("input[{place}]"), item);
    }
    scan.close_calls("the end of the input");
    scan.close_reasoning();
    let violations = scan.violations;
    let stateless = body.get("store") == Some(&Value::Bool(false));
    violations.require(stateless, "store", "`store` must be false: nothing is kept on the server");
    if let Some(instructions) = body.get("instructions") {
        check_text("instructions", Some(instructions), violations);
    }
    check_tools("tools", list(body, "tools"), "", Some("parameters"), violations);
}

/// A walk through the items that knows which calls wait for their output.
struct Scan<'a> {
    violations: &'a mut Violations,
    /// Calls without an output yet: their paths and ids.
    open: Vec<(String, &'a str)>,
    seen: HashSet<&'a str>,
    /// Reasoning that waits for the item that it belongs to.
    reasoning: Option<String>,
}

impl<'a> Scan<'a> {
    fn item(&mut self, path: &str, item: &'a Value) {
        match (word(item, "type"), word(item, "role")) {
            ("message" | "", "assistant") => {
                self.reasoning = None;
                self.close_calls(path);
                self.content(path, item, "output_text");
            }
            ("message" | "", "user" | "system" | "developer") => {
                self.close_reasoning();
                self.close_calls(path);
                self.content(path, item, "input_text");
            }
            ("function_call", _) => self.call(path, item),
            ("function_call_output", _) => self.output(path, item),
            ("reasoning", _) => self.reasoning(path, item),
            (kind, role) => self.violations.add(path, format!("there is no item of type `{kind}` and role `{role}`")),
        }
    }

    fn content(&mut self, path: &str, item: &Value, text_type: &str) {
        let path = format!("{path}.content");
        let Some(Value::Array(parts)) = item.get("content") else {
            return check_text(&path, item.get("content"), self.violations);
        };
        self.violations.require(!parts.is_empty(), &path, "content must not be empty");
        for (place, part) in parts.iter().enumerate() {
            let path = format!("{path}[{place}]");
            match word(part, "type") {
                kind if kind == text_type => {
                    check_text(&format!("{path}.text"), part.get("text"), self.violations);
                }
                "input_image" | "input_file" if text_type == "input_text" => {}
                kind => self.violations.add(path, format!("content here is `{text_type}`, not `{kind}`")),
            }
        }
    }

    fn call(&mut self, path: &str, item: &'a Value) {
        self.reasoning = None;
        let id = word(item, "call_id");
        check_id(&format!("{path}.call_id"), id, MAX_ID, self.violations);
        check_name(&format!("{path}.name"), word(item, "name"), self.violations);
        check_arguments(&format!("{path}.arguments"), item.get("arguments"), self.violations);
        self.violations.require(self.seen.insert(id), path, "a call's id is unique in the conversation");
        self.open.push((path.to_owned(), id));
    }

    fn output(&mut self, path: &str, item: &Value) {
        self.close_reasoning();
        let id = word(item, "call_id");
        match self.open.iter().position(|(_, open)| *open == id) {
            Some(place) => drop(self.open.remove(place)),
            None => self.violations.add(path, format!("no function_call `{id}` waits for an output here")),
        }
        let output = item.get("output").is_some_and(|output| output.is_string() || output.is_array());
        self.violations.require(output, &format!("{path}.output"), "output must be a string or parts");
    }

    fn reasoning(&mut self, path: &str, item: &Value) {
        let encrypted = word(item, "encrypted_content");
        check_signature(&format!("{path}.encrypted_content"), encrypted, "openai-responses", self.violations);
        let named = !word(item, "id").is_empty();
        self.violations.require(named, &format!("{path}.id"), "reasoning has its original id");
        let summary = item.get("summary").is_some_and(Value::is_array);
        self.violations.require(summary, &format!("{path}.summary"), "reasoning has a summary, which may be empty");
        self.reasoning = Some(path.to_owned());
    }

    fn close_calls(&mut self, before: &str) {
        for (path, id) in self.open.drain(..) {
            self.violations.add(path, format!("function_call `{id}` has no output before {before}"));
        }
    }

    fn close_reasoning(&mut self) {
        if let Some(path) = self.reasoning.take() {
            self.violations.add(path, "an answer or a call must follow reasoning");
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
            "instructions": "Be brief.",
            "store": false,
            "tools": [
                {"type": "function", "name": "look", "parameters": {"type": "object"}},
                {"type": "function", "name": "ask", "parameters": {"type": "object"}},
            ],
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look."}]},
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "seal"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
                {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
                {"type": "function_call", "call_id": "b", "name": "ask", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "b", "output": ""},
                {"type": "function_call_output", "call_id": "a", "output": "seen"},
                {"role": "user", "content": "Go on."},
            ],
        })
    }

    #[test]
    fn every_broken_rule_of_order_is_refused_with_its_place() {
        let wrong: Vec<Wrong> = vec![
            ("input", "no item", |body| body["input"] = json!([])),
            ("input[0]", "user message", |body| drop(body["input"].as_array_mut().unwrap().remove(0))),
            ("input[1]", "must follow", |body| {
                body["input"].as_array_mut().unwrap().drain(2..7);
            }),
            ("input[3]", "`a` has no output before input[6]", |body| {
                body["input"].as_array_mut().unwrap().remove(6);
            }),
            ("input[3]", "before input[6]", |body| body["input"].as_array_mut().unwrap().swap(6, 7)),
            ("input[3]", "before input[4]", |body| {
                body["input"].as_array_mut().unwrap().insert(4, json!({"role": "assistant", "content": "So."}))
            }),
            ("input[4]", "before the end", |body| body["input"].as_array_mut().unwrap().truncate(5)),
            ("input[6]", "no function_call `b` waits", |body| body["input"][6]["call_id"] = json!("b")),
            ("input[4]", "unique", |body| body["input"][4]["call_id"] = json!("a")),
            ("input[7]", "no item of type `item_reference`", |body| {
                body["input"][7] = json!({"type": "item_reference"});
            }),
        ];
        assert_each_is_refused(Provider::OpenAiResponses, &good(), &wrong);
    }

    #[test]
    fn every_broken_rule_of_an_item_is_refused_with_its_place() {
        let wrong: Vec<Wrong> = vec![
            ("input[2].content[0]", "`output_text`, not `input_text`", |body| {
                body["input"][2]["content"][0]["type"] = json!("input_text");
            }),
            ("tools[1].name", "unique", |body| body["tools"][1] = body["tools"][0].clone()),
        ];
        let values = [
            ("input[0].content", "empty", json!([])),
            ("input[0].content[0].text", "blank", json!("")),
            ("input[7].content", "blank", json!("")),
            ("input[1].encrypted_content", "needs its signature", json!(null)),
            ("input[1].encrypted_content", "only to its provider", json!("signature-of-anthropic")),
            ("input[1].id", "id", json!("")),
            ("store", "server", json!(true)),
            ("input[1].summary", "summary", json!(null)),
            ("input[3].call_id", "1 to 64", json!("a".repeat(65))),
            ("input[3].name", "name", json!("a b")),
            ("input[3].arguments", "JSON object", json!("[]")),
            ("input[5].output", "string", json!(null)),
            ("instructions", "blank", json!("")),
            ("tools[0].parameters", "object", json!(null)),
        ];
        assert_each_is_refused(Provider::OpenAiResponses, &good(), &wrong);
        assert_each_value_is_refused(Provider::OpenAiResponses, &good(), &values);
    }
}
