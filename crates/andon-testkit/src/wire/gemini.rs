//! Google's Gemini API, `generateContent`.

use serde_json::Value;

use super::rules::{check_name, check_object, check_roles, check_signature, check_text, check_tools, list, word};
use super::violation::Violations;

/// Checks a body against the rules of the strictest server.
pub(super) fn check(body: &Value, violations: &mut Violations) {
    let contents = list(body, "contents");
    check_roles("contents", contents, ["user", "model"], violations);
    for (place, content) in contents.iter().enumerate() {
        let (path, parts) = (format!("contents[{place}].parts"), list(content, "parts"));
        violations.require(!parts.is_empty(), &path, "a turn has at least one part");
        for (place, part) in parts.iter().enumerate() {
            check_part(&format!("{path}[{place}]"), part, word(content, "role"), violations);
        }
        let next = contents.get(place + 1).map_or(&[][..], |next| list(next, "parts"));
        check_responses(&path, parts, next, violations);
        check_first_call(&path, parts, violations);
    }
    check_first(contents, violations);
    let ends_with_user = contents.last().is_none_or(|last| word(last, "role") == "user");
    violations.require(ends_with_user, "contents", "the conversation ends with a turn of `user`");
    let system = body.get("systemInstruction").map_or(&[][..], |system| list(system, "parts"));
    for (place, part) in system.iter().enumerate() {
        check_text(&format!("systemInstruction.parts[{place}].text"), part.get("text"), violations);
    }
    for (place, tool) in list(body, "tools").iter().enumerate() {
        let path = format!("tools[{place}].functionDeclarations");
        check_tools(&path, list(tool, "functionDeclarations"), "", None, violations);
    }
}

fn check_part(path: &str, part: &Value, role: &str, violations: &mut Violations) {
    const KINDS: [&str; 5] = ["text", "inlineData", "fileData", "functionCall", "functionResponse"];
    let kinds: Vec<&str> = KINDS.into_iter().filter(|kind| part.get(kind).is_some()).collect();
    let [kind] = kinds.as_slice() else {
        return violations.add(path, "a part has exactly one kind of content");
    };
    if let Some(signature) = part.get("thoughtSignature") {
        let path = format!("{path}.thoughtSignature");
        check_signature(&path, signature.as_str().unwrap_or_default(), "gemini", violations);
        violations.require(role == "model", &path, "only the model's parts have a signature");
    }
    let inner = part.get(kind).unwrap_or(&Value::Null);
    match (*kind, role) {
        ("text", _) if part.get("thought") == Some(&Value::Bool(true)) => {
            violations.add(path, "a thought's words are not sent back");
        }
        ("text", _) => check_text(&format!("{path}.text"), Some(inner), violations),
        ("functionCall", "model") => {
            check_function_name(&format!("{path}.functionCall.name"), word(inner, "name"), violations);
            check_object(&format!("{path}.functionCall.args"), inner.get("args"), violations);
        }
        ("functionResponse", "user") => {
            check_function_name(&format!("{path}.functionResponse.name"), word(inner, "name"), violations);
            check_object(&format!("{path}.functionResponse.response"), inner.get("response"), violations);
        }
        ("inlineData" | "fileData", _) => check_object(&format!("{path}.{kind}"), Some(inner), violations),
        (kind, role) => violations.add(path, format!("a turn of `{role}` has no part of kind `{kind}`")),
    }
}

fn check_function_name(path: &str, name: &str, violations: &mut Violations) {
    check_name(path, name, violations);
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    violations.require(begins_well, path, "a function's name begins with a letter or `_`");
}

fn names_of<'a>(parts: &'a [Value], kind: &str) -> Vec<&'a str> {
    parts.iter().filter_map(|part| part.get(kind)).map(|inner| word(inner, "name")).collect()
}

/// The third generation wants a signature on the first call of a step.
fn check_first_call(path: &str, parts: &[Value], violations: &mut Violations) {
    let first = parts.iter().enumerate().find(|(_, part)| part.get("functionCall").is_some());
    if let Some((place, call)) = first {
        let is_signed = !word(call, "thoughtSignature").is_empty();
        violations.require(is_signed, &format!("{path}[{place}]"), "the first call of a step has a thoughtSignature");
    }
}

/// The turn after a turn with calls answers each of them, in the same order; any other turn answers nothing.
fn check_responses(path: &str, parts: &[Value], next: &[Value], violations: &mut Violations) {
    let calls = names_of(parts, "functionCall");
    let responses = names_of(next, "functionResponse");
    if calls != responses {
        let (calls, responses) = (calls.join(", "), responses.join(", "));
        violations.add(path, format!("the calls here are [{calls}], the responses in the next turn are [{responses}]"));
    }
}

/// The first turn cannot answer a call.
fn check_first(contents: &[Value], violations: &mut Violations) {
    let first = contents.first().map_or(&[][..], |first| list(first, "parts"));
    let answers = names_of(first, "functionResponse");
    violations.require(answers.is_empty(), "contents[0].parts", "a response answers a call of the turn before");
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
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "tools": [{"functionDeclarations": [{"name": "look"}, {"name": "ask"}]}],
            "contents": [
                {"role": "user", "parts": [{"text": "Look."}]},
                {"role": "model", "parts": [
                    {"text": "Looking."},
                    {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "seal"},
                    {"functionCall": {"name": "ask", "args": {}}},
                ]},
                {"role": "user", "parts": [
                    {"functionResponse": {"name": "look", "response": {"output": "seen"}}},
                    {"functionResponse": {"name": "ask", "response": {"error": "no"}}},
                    {"text": "Go on."},
                ]},
            ],
        })
    }

    #[test]
    fn every_broken_rule_of_order_is_refused_with_its_place() {
        let wrong: Vec<Wrong> = vec![
            ("contents", "no message", |body| body["contents"] = json!([])),
            ("contents[0].role", "first message", |body| drop(body["contents"].as_array_mut().unwrap().remove(0))),
            ("contents[0].role", "the role is", |body| body["contents"][0]["role"] = json!("assistant")),
            ("contents[1].role", "alternate", |body| body["contents"][1] = body["contents"][0].clone()),
            ("contents", "ends with a turn of `user`", |body| drop(body["contents"].as_array_mut().unwrap().pop())),
            ("contents[1].parts", "[look, ask], the responses in the next turn are [look]", |body| {
                body["contents"][2]["parts"].as_array_mut().unwrap().remove(1);
            }),
            ("contents[1].parts", "[ask, look]", |body| {
                body["contents"][2]["parts"].as_array_mut().unwrap().swap(0, 1);
            }),
            ("contents[1].parts", "the calls here are [look]", |body| {
                body["contents"][1]["parts"].as_array_mut().unwrap().pop();
            }),
            ("contents[0].parts", "answers a call", |body| body["contents"][0] = body["contents"][2].clone()),
        ];
        assert_each_is_refused(Provider::Gemini, &good(), &wrong);
    }

    #[test]
    fn every_broken_rule_of_a_part_is_refused_with_its_place() {
        let wrong: Vec<Wrong> = vec![
            ("contents[0].parts[0]", "exactly one kind", |body| body["contents"][0]["parts"][0] = json!({})),
            ("contents[0].parts[0]", "no part of kind `functionCall`", |body| {
                body["contents"][0]["parts"][0] = body["contents"][1]["parts"][1].clone();
            }),
            ("contents[1].parts[1]", "has a thoughtSignature", |body| {
                body["contents"][1]["parts"][1].as_object_mut().unwrap().remove("thoughtSignature");
            }),
            ("contents[1].parts[0]", "not sent back", |body| body["contents"][1]["parts"][0]["thought"] = json!(true)),
        ];
        let values = [
            ("contents[0].parts", "at least one part", json!([])),
            ("contents[0].parts[0].text", "blank", json!("")),
            ("contents[1].parts[1].functionCall.name", "name", json!("a b")),
            ("contents[1].parts[1].functionCall.name", "begins with a letter", json!("1st")),
            ("contents[1].parts[1].thoughtSignature", "only to its provider", json!("signature-of-bedrock")),
            ("contents[0].parts[0].thoughtSignature", "only the model's", json!("seal")),
            ("contents[1].parts[1].functionCall.args", "object", json!("{}")),
            ("contents[2].parts[0].functionResponse.response", "object", json!("seen")),
            ("systemInstruction.parts[0].text", "blank", json!(" ")),
            ("tools[0].functionDeclarations[1].name", "unique", json!("look")),
        ];
        assert_each_is_refused(Provider::Gemini, &good(), &wrong);
        assert_each_value_is_refused(Provider::Gemini, &good(), &values);
    }
}
